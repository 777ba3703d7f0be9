//! The tags and expressions of a template.

use std::borrow::Cow;

/// The template with each tag and expression written as `rewrite` has it; comments, raw blocks and text stay.
pub(super) fn map(source: &str, rewrite: impl Fn(&str) -> Cow<'_, str>) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find('{') {
        let (before, at) = rest.split_at(start);
        out.push_str(before);
        let is_tag = at.starts_with("{{") || at.starts_with("{%");
        let length = if at.starts_with("{#") {
            at.find("#}").map_or(at.len(), |end| end + 2)
        } else if is_tag {
            tag_length(at)
        } else {
            1
        };
        let (tag, after) = at.split_at(length);
        out.push_str(&if is_tag { rewrite(tag) } else { tag.into() });
        rest = after;
        if name_of(tag) == Some("raw") {
            // Nothing up to the end of a raw block is a tag.
            let end = raw_length(rest);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
        }
    }
    out.push_str(rest);
    out
}

/// The bytes of the tag or expression that `text` begins with; text in quotes does not end it.
fn tag_length(text: &str) -> usize {
    let end = if text.starts_with("{{") { "}}" } else { "%}" };
    let mut quote = None;
    let mut is_escaped = false;
    // A map may end in front of the tag's end.
    let mut depth = 0_usize;
    for (index, c) in text.char_indices().skip(2) {
        match quote {
            Some(_) if is_escaped => is_escaped = false,
            Some(_) if c == '\\' => is_escaped = true,
            Some(open) if c == open => quote = None,
            None if depth == 0 && text[index..].starts_with(end) => return index + 2,
            None if c == '{' => depth += 1,
            None if c == '}' => depth = depth.saturating_sub(1),
            None if c == '"' || c == '\'' => quote = Some(c),
            _ => {}
        }
    }
    text.len()
}

/// The first word of a block tag when it is the only one.
pub(super) fn name_of(tag: &str) -> Option<&str> {
    let inner = tag.strip_prefix("{%")?.strip_suffix("%}")?;
    Some(inner.trim_start_matches(['-', '+']).trim_end_matches(['-', '+']).trim())
}

/// The bytes before the tag that ends a raw block.
fn raw_length(text: &str) -> usize {
    text.match_indices("{%")
        .find(|(start, _)| {
            let tag = &text[*start..];
            tag.find("%}").is_some_and(|end| name_of(&tag[..end + 2]) == Some("endraw"))
        })
        .map_or(text.len(), |(start, _)| start)
}

#[cfg(test)]
mod tests {
    use super::map;

    #[test]
    fn tags_end_where_they_end() {
        let source =
            "a{{ {'k': {'l': '}}'}} }}b{% set x = {'m': {}} %}{# {{ c }} #}{% raw %}{{ d }}{% endraw %}{{ '%}' }}e";
        let shown = map(source, |tag| format!("<{tag}>").into());
        let want = "a<{{ {'k': {'l': '}}'}} }}>b<{% set x = {'m': {}} %}>{# {{ c }} #}<{% raw %}>{{ d }}<{% endraw %}><{{ '%}' }}>e";
        assert_eq!(shown, want);
    }

    #[test]
    fn quotes_within_texts_end_nothing_and_a_bracket_alone_begins_nothing() {
        let source = r#"x{y{{ 'a\'}}' }}{{ "'}}'" }}z"#;
        let shown = map(source, |tag| format!("<{tag}>").into());
        assert_eq!(shown, r#"x{y<{{ 'a\'}}' }}><{{ "'}}'" }}>z"#);
    }
}
