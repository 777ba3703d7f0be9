//! A configuration file to start from.

use super::literal::{toml, toml_key};
use super::tree::{Entry, Node, Unless, call, paragraphs};
use crate::schema::ConfigNamespaces;

/// A TOML file with every leaf that a file can set commented out at its default, under its documentation.
///
/// A line that has no space after its `#` is a setting; without the `#` it sets what holds anyway. Leaves whose default
/// is a rule and leaves that are required have no such value, so theirs are comments like the others.
///
/// ```
/// # use kitbag::ConfigNamespaces;
/// /// Thumbnail service.
/// #[derive(ConfigNamespaces)]
/// struct Args {
///     /// Jobs that may wait.
///     #[config(ns = "pool", default = 32, range = 1..=4096, hot)]
///     queue: usize,
/// }
/// let template = kitbag::export::toml_template::<Args>();
/// assert!(template.ends_with("[pool]\n\n# Jobs that may wait.\n# integer; range: 1..=4096; class: hot\n#queue = 32\n"));
/// ```
#[must_use]
pub fn toml_template<S: ConfigNamespaces>() -> String {
    let root = Node::of::<S>();
    let mut template = comment(root.doc);
    let hint = "Settings are commented out at their defaults: take the `#` off a line that has no space after it.";
    if !template.is_empty() {
        template.push_str("#\n");
    }
    template.push_str(&comment(hint));
    for node in root.walk() {
        if node.in_files().next().is_none() {
            continue;
        }
        if !node.path.is_empty() {
            let path: Vec<_> = node.path.split('.').map(toml_key).collect();
            template.extend(["\n[", &path.join("."), "]\n"]);
            template.push_str(&comment(node.doc));
        }
        for entry in node.in_files() {
            template.push('\n');
            template.push_str(&leaf(entry));
        }
    }
    template
}

fn comment(text: &str) -> String {
    let line = |line: &str| format!("# {}", line.trim_end()).trim_end().to_owned() + "\n";
    text.lines().map(line).collect()
}

fn leaf(entry: &Entry) -> String {
    let info = entry.info;
    let key = toml_key(info.name);
    let (start, assignment) = match entry.unless_set() {
        Unless::Required => (Some("required".to_owned()), format!("# {key} = ...")),
        Unless::Secret => (None, format!("# {key} = ...")),
        Unless::Rule(rule) => {
            let rule = call(rule.function, rule.inputs);
            (Some(format!("by rule {rule} unless set")), format!("# {key} = ..."))
        }
        Unless::Value(value) => (None, format!("#{key} = {}", toml(&value))),
    };
    let choices = entry.choices().map(|names| format!("one of: {}", names.join(", ")));
    let range = info.accepted_range().map(|range| format!("range: {range}"));
    let class = Some(format!("class: {}", entry.class()));
    let secret = entry.is_secret().then(|| "secret".to_owned());
    let facts = [Some(entry.shape().to_string()), choices, range, start, class, secret, entry.deprecation()];
    let facts = facts.into_iter().flatten().collect::<Vec<_>>().join("; ");
    format!("{}{}{assignment}\n", comment(&paragraphs(info.doc).join("\n\n")), comment(&facts))
}
