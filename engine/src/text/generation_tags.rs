//! The `generation` tags of chat templates, which mark what the model says.
//!
//! Training uses the marks; the text is the same without them. The template engine takes no tags of others, so they are
//! written as a `with` block, which has a scope of its own, as the marked block has in Python.

/// The template with each `generation` block as a `with` block.
pub(super) fn replaced(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find('{') {
        let (before, at) = rest.split_at(start);
        out.push_str(before);
        let length = if at.starts_with("{#") {
            at.find("#}").map_or(at.len(), |end| end + 2)
        } else if at.starts_with("{{") || at.starts_with("{%") {
            tag_length(at)
        } else {
            1
        };
        let (tag, after) = at.split_at(length);
        match name_of(tag) {
            Some("generation") => out.push_str(&tag.replacen("generation", "with", 1)),
            Some("endgeneration") => out.push_str(&tag.replacen("endgeneration", "endwith", 1)),
            _ => out.push_str(tag),
        }
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
    for (index, c) in text.char_indices().skip(2) {
        match quote {
            Some(_) if is_escaped => is_escaped = false,
            Some(_) if c == '\\' => is_escaped = true,
            Some(open) if c == open => quote = None,
            None if text[index..].starts_with(end) => return index + 2,
            None if c == '"' || c == '\'' => quote = Some(c),
            _ => {}
        }
    }
    text.len()
}

/// The first word of a block tag when it is the only one.
fn name_of(tag: &str) -> Option<&str> {
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
    use super::replaced;

    #[test]
    fn only_tags_of_that_name_are_written_otherwise() {
        let cases = [
            ("{% generation %}a{% endgeneration %}", "{% with %}a{% endwith %}"),
            ("x{%- generation -%}{{ y }}{%+ endgeneration +%}z", "x{%- with -%}{{ y }}{%+ endwith +%}z"),
            ("{%generation%}{%endgeneration%}", "{%with%}{%endwith%}"),
        ];
        for (source, want) in cases {
            assert_eq!(replaced(source), want);
        }
    }

    #[test]
    fn everything_else_stays() {
        let sources = [
            "generation endgeneration { % generation % }",
            "{% if generation %}{{ generation }}{% endif %}",
            "{% set generation = 1 %}",
            "{# {% generation %} #}",
            "{{ '{% generation %}' }}{{ \"}} {% endgeneration %}\" }}{{ '\\'{% generation %}' }}",
            "{% if x == '{% generation %}' %}{% endif %}",
            "{%- raw -%}{% generation %}{{ ' }}{% endraw %}",
            "{% raw %}{% generation %}",
            "{% generation",
            "{{ 'open {% generation %}",
            "{# open {% generation %}",
            "é{",
        ];
        for source in sources {
            assert_eq!(replaced(source), source);
        }
    }
}
