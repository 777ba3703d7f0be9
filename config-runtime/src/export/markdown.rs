//! A reference of all settings.

use super::literal::toml;
use super::tree::{Entry, Node, Successor, Unless, call, deprecation, paragraphs};
use crate::schema::ConfigNamespaces;
use crate::value::Value;

/// A reference in Markdown: per namespace a table of its leaves, its derived values with their inputs, and its rules.
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
/// let reference = kitbag::export::markdown::<Args>();
/// assert!(reference.starts_with("# Thumbnail service\n"));
/// assert!(reference.contains("| `queue` | integer | `32` | `1..=4096` | hot | `--queue` | Jobs that may wait. |"));
/// ```
#[must_use]
pub fn markdown<S: ConfigNamespaces>() -> String {
    let root = Node::of::<S>();
    let has_variables = S::ENV_PREFIX.is_some();
    let mut blocks = introduction(&root, S::ENV_PREFIX);
    for node in root.walk().into_iter().filter(|node| !node.leaves.is_empty() || !node.validations.is_empty()) {
        if !node.path.is_empty() {
            blocks.push(format!("## `{}`", node.path));
            blocks.extend(paragraphs(node.doc));
        }
        blocks.extend(settings(node, has_variables));
        blocks.extend(derived(node));
        blocks.extend(rules(node));
    }
    blocks.extend(former(&root).map(|table| format!("## Former names\n\n{table}")));
    blocks.join("\n\n") + "\n"
}

fn introduction(root: &Node, env_prefix: Option<&str>) -> Vec<String> {
    let mut paragraphs = paragraphs(root.doc).into_iter();
    let title = paragraphs.next().unwrap_or_else(|| "Settings".to_owned());
    let (above, file, profile) = match env_prefix {
        Some(prefix) => (
            "Flags win over the environment, the environment over files",
            format!(", or by the variable `{prefix}_CONFIG`"),
            format!(" or the variable `{prefix}_PROFILE`"),
        ),
        None => ("Flags win over files", String::new(), String::new()),
    };
    let sources = format!(
        "{above}, and files over defaults. Files are named by `--config FILE`, given once or several times{file}; a \
         later one wins over an earlier one. Within a file, the profile chosen with `--profile NAME`{profile} (table \
         `profile.NAME`) wins over the top level, and that over the files listed as `include`."
    );
    let classes = "Defaults are written as in a TOML file. A `launch` setting is fixed when the program starts, a \
                   `load_time` setting once loading is done, and a `hot` setting may change while the program runs.";
    std::iter::once(format!("# {}", title.trim_end_matches('.')))
        .chain(paragraphs)
        .chain([sources, classes.to_owned()])
        .collect()
}

fn settings(node: &Node, has_variables: bool) -> Option<String> {
    let mut header = vec!["setting", "type", "default", "accepted", "class", "variable", "flag", "meaning"];
    let variable = header.iter().position(|name| *name == "variable").filter(|_| !has_variables);
    if let Some(column) = variable {
        header.remove(column);
    }
    let rows = node.settings().map(|entry| {
        let mut row = vec![
            code(entry.info.name),
            cell(&entry.shape().to_string()),
            default(entry),
            accepted(entry),
            entry.class(),
            entry.env.as_deref().map(code).unwrap_or_default(),
            code(&format!("--{}", entry.info.flag)),
            meaning(entry),
        ];
        if let Some(column) = variable {
            row.remove(column);
        }
        row
    });
    table(&header, rows)
}

fn derived(node: &Node) -> Option<String> {
    let rows = node.derived().map(|entry| {
        let rule = match entry.unless_set() {
            Unless::Rule(rule) => code(&call(rule.function, rule.inputs)),
            Unless::Required | Unless::Secret | Unless::Value(_) => String::new(),
        };
        let follows = entry.class().trim_start_matches("derived, ").to_owned();
        vec![code(entry.info.name), cell(&entry.shape().to_string()), rule, follows, meaning(entry)]
    });
    table(&["derived value", "type", "computed by", "follows", "meaning"], rows)
}

fn rules(node: &Node) -> Option<String> {
    let rules = node.validations.iter().map(|rule| format!("* {}", code(&call(rule.function, rule.inputs))));
    let rules: Vec<_> = rules.collect();
    (!rules.is_empty()).then(|| format!("Checked together:\n\n{}", rules.join("\n")))
}

fn former(root: &Node) -> Option<String> {
    let rows = root.walk().into_iter().flat_map(|node| &node.former).map(|former| {
        let (now, note) = match &former.now {
            Successor::Leaf { path, deprecated, .. } => (code(path), deprecated.map(deprecation).unwrap_or_default()),
            Successor::None { advice } => ("refused".to_owned(), cell(advice)),
        };
        vec![code(former.path), now, note]
    });
    table(&["former name", "now", "note"], rows)
}

fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Option<String> {
    let line = |cells: &[String]| format!("| {} |", cells.join(" | ")).replace("|  |", "| |");
    let rows: Vec<_> = rows.map(|row| line(&row)).collect();
    let header = format!("| {} |\n|{}", header.join(" | "), "---|".repeat(header.len()));
    (!rows.is_empty()).then(|| format!("{header}\n{}", rows.join("\n")))
}

fn default(entry: &Entry) -> String {
    match entry.unless_set() {
        Unless::Required => "required".to_owned(),
        Unless::Secret => "not shown".to_owned(),
        Unless::Value(Value::Unset) => "unset".to_owned(),
        Unless::Value(value) => code(&toml(&value)),
        Unless::Rule(rule) => format!("rule {}", code(&call(rule.function, rule.inputs))),
    }
}

fn accepted(entry: &Entry) -> String {
    let names = entry.choices().unwrap_or_default();
    let choices = names.iter().map(|name| code(name));
    choices.chain(entry.info.accepted_range().map(|range| code(&range))).collect::<Vec<_>>().join(", ")
}

fn meaning(entry: &Entry) -> String {
    let mut paragraphs = paragraphs(entry.info.doc);
    paragraphs.extend(entry.info.bootstrap.then(|| "Known before files are read: no file sets it.".to_owned()));
    paragraphs.extend(entry.is_secret().then(|| "Secret: no output shows it.".to_owned()));
    paragraphs.extend(entry.deprecation().map(|deprecation| format!("This setting is {deprecation}.")));
    cell(&paragraphs.join("<br>"))
}

/// Text that does not end its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Text as code, also if it holds the mark that ends code.
fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    let pad = if longest > 0 { " " } else { "" };
    cell(&format!("{fence}{pad}{text}{pad}{fence}"))
}
