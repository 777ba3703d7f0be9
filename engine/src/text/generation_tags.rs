//! The `generation` tags of chat templates, which mark what the model says.
//!
//! Training uses the marks; the text is the same without them. The template engine takes no tags of others, so they are
//! written as a `with` block, which has a scope of its own, as the marked block has in Python.

use std::borrow::Cow;

use super::template_tags::name_of;

/// The tag, as a `with` block when it is one of these.
pub(super) fn replaced(tag: &str) -> Cow<'_, str> {
    match name_of(tag) {
        Some("generation") => tag.replacen("generation", "with", 1).into(),
        Some("endgeneration") => tag.replacen("endgeneration", "endwith", 1).into(),
        _ => tag.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::template_tags::map;

    fn replaced(source: &str) -> String {
        map(source, super::replaced)
    }

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
