//! One line per leaf, to be committed and compared.

use super::literal::toml;
use super::tree::{Entry, Former, Node, Successor, Unless, call, deprecation};
use crate::schema::ConfigNamespaces;
use crate::value::Value;

/// One line per leaf: path, type, default, class. Former names follow.
///
/// Lines depend on nothing but their leaf, so a change of the schema shows as exactly the lines that it changes.
///
/// ```
/// # use kitbag::ConfigNamespaces;
/// /// Thumbnail service.
/// #[derive(ConfigNamespaces)]
/// #[config(derived(pool.places: usize = places(pool.queue)))]
/// struct Args {
///     /// Jobs that may wait.
///     #[config(ns = "pool", default = 32, range = 1..=4096, hot)]
///     queue: usize,
///     /// Where results go.
///     #[config(ns = "store")]
///     folder: std::path::PathBuf,
/// }
/// fn places(queue: usize) -> usize { queue + 1 }
///
/// let listing = "\
/// pool.queue: usize = 32 in 1..=4096; hot
/// pool.places: usize = places(pool.queue); derived, live
/// store.folder: std::path::PathBuf, required; launch
/// ";
/// assert_eq!(kitbag::export::listing::<Args>(), listing);
/// ```
#[must_use]
pub fn listing<S: ConfigNamespaces>() -> String {
    let mut listing = String::new();
    let root = Node::of::<S>();
    for entry in root.walk().into_iter().flat_map(|node| &node.leaves) {
        listing.push_str(&line(entry));
    }
    for name in root.walk().into_iter().flat_map(|node| &node.former) {
        listing.push_str(&former(name));
    }
    listing
}

fn line(entry: &Entry) -> String {
    let info = entry.info;
    let start = match entry.unless_set() {
        Unless::Required => ", required".to_owned(),
        Unless::Secret => " = secret".to_owned(),
        Unless::Value(Value::Unset) => " = unset".to_owned(),
        Unless::Value(value) => format!(" = {}", toml(&value)),
        Unless::Rule(rule) => format!(" = {}", call(rule.function, rule.inputs)),
    };
    let range = info.accepted_range().map(|range| format!(" in {range}")).unwrap_or_default();
    let mut line = format!("{}: {}{start}{range}; {}", info.path, info.type_name, entry.class());
    let marks = [
        (entry.is_secret(), "; secret"),
        (info.resolution_only, "; resolution_only"),
        (info.bootstrap, "; bootstrap"),
        (!info.cache_key, "; not in the cache key"),
    ];
    line.extend(marks.into_iter().filter(|(has, _)| *has).map(|(_, mark)| mark));
    line.extend(entry.deprecation().map(|deprecation| format!("; {deprecation}")));
    line.push('\n');
    line
}

fn former(former: &Former) -> String {
    match &former.now {
        Successor::Leaf { path, deprecated, .. } => {
            let deprecated = deprecated.map(|deprecated| format!("; {}", deprecation(deprecated)));
            format!("{} -> {path}{}\n", former.path, deprecated.unwrap_or_default())
        }
        Successor::None { .. } => format!("{} -> none\n", former.path),
    }
}
