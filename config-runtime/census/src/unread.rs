//! Leaves of a `kitbag` schema that no code reads, as the compiler sees it.
//!
//! With the cfg `kitbag_census` the derive marks every accessor as deprecated, with the leaf's path as the note. So
//! `cargo check` says of every read where it is, through aliases, macros and closures alike.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

pub use crate::roles::roles;

/// What begins the note of an accessor.
const NOTE: &str = "kitbag census: ";

/// Which packages to look at.
pub struct Program {
    /// The `Cargo.toml` of the workspace or package.
    pub manifest: PathBuf,
    /// Names of packages.
    pub packages: Vec<String>,
    /// Where to build; in a folder of its own below the workspace's target folder unless given.
    pub target: Option<PathBuf>,
}

/// One read of a leaf.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct LeafRead {
    /// From the workspace's folder.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1.
    pub column: usize,
    /// The leaf.
    pub leaf: String,
    /// The bag whose accessor it is: `ExecBag`.
    pub bag: String,
}

/// The reads of a program, and where its workspace is.
pub struct Reads {
    /// In order of place.
    pub reads: Vec<LeafRead>,
    /// The workspace's folder.
    pub root: PathBuf,
    /// The packages' folders.
    pub folders: Vec<PathBuf>,
}

/// Checks the packages under the cfg and collects the reads in their libraries and programs; tests, examples and benches
/// are not looked at.
///
/// # Errors
/// Cargo cannot be run, a package is not there, or the program does not compile.
pub fn reads(program: &Program) -> Result<Reads, String> {
    let metadata = metadata(&program.manifest)?;
    let root = PathBuf::from(metadata["workspace_root"].as_str().unwrap_or_default());
    let target = match &program.target {
        Some(target) => target.clone(),
        None => Path::new(metadata["target_directory"].as_str().unwrap_or("target")).join("kitbag-census"),
    };
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let (mut ids, mut folders) = (Vec::new(), Vec::new());
    for name in &program.packages {
        let package = packages.iter().find(|package| package["name"] == **name);
        let package = package.ok_or_else(|| format!("the workspace has no package `{name}`"))?;
        ids.push(&package["id"]);
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        folders.push(manifest.parent().unwrap_or(manifest).to_owned());
    }
    let mut command = Command::new("cargo");
    command.args(["check", "--message-format=json", "--quiet", "--manifest-path"]).arg(&program.manifest);
    for name in &program.packages {
        command.args(["-p", name]);
    }
    // Cargo prefers the encoded flags. Without the cap, a crate that denies warnings would not compile.
    command.env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", "--cfg kitbag_census --cap-lints warn");
    let output = command
        .arg("--target-dir")
        .arg(target)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    let messages = String::from_utf8_lossy(&output.stdout);
    let messages: Vec<Value> = messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if !output.status.success() {
        let errors = messages.iter().filter(|message| message["message"]["level"] == "error");
        let errors: String = errors.filter_map(|message| message["message"]["rendered"].as_str()).collect();
        return Err(format!("the program does not compile under the cfg `kitbag_census`:\n{errors}"));
    }
    let ours = messages.iter().filter(|message| ids.iter().any(|id| **id == message["package_id"]));
    let mut reads: Vec<_> = ours.filter_map(|message| read(&message["message"])).collect();
    reads.sort();
    reads.dedup();
    Ok(Reads { reads, root, folders })
}

fn metadata(manifest: &Path) -> Result<Value, String> {
    let mut command = Command::new("cargo");
    command.args(["metadata", "--format-version", "1", "--no-deps", "--manifest-path"]).arg(manifest);
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

/// The read that a message of the compiler tells of.
fn read(message: &Value) -> Option<LeafRead> {
    let text = message["message"].as_str()?;
    let (before, leaf) = text.split_once(NOTE)?;
    let spans = message["spans"].as_array()?;
    let mut span = spans.iter().find(|span| span["is_primary"] == true)?;
    while let Some(outer) = span["expansion"]["span"].as_object().map(|_| &span["expansion"]["span"]) {
        span = outer;
    }
    // "use of deprecated method `engine_config::exec::ExecBag::device`: "
    let method = before.split('`').nth(1).unwrap_or_default();
    let number = |key: &str| span[key].as_u64().and_then(|number| usize::try_from(number).ok());
    Some(LeafRead {
        file: span["file_name"].as_str()?.to_owned(),
        line: number("line_start")?,
        column: number("column_start")?,
        leaf: leaf.trim_end().to_owned(),
        bag: bag_of(method),
    })
}

/// The bag in the path of an accessor: `exec::ExecBag::device`, or `ExecRecording::<'a>::device` under a recorder.
fn bag_of(method: &str) -> String {
    let types = method.rsplit("::").skip(1).find(|segment| !segment.starts_with('<')).unwrap_or_default();
    let name = types.split('<').next().unwrap_or_default();
    match name.strip_suffix("Recording") {
        Some(namespace) => format!("{namespace}Bag"),
        None => name.to_owned(),
    }
}

/// A leaf of a listing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListedLeaf {
    /// `pool.queue`.
    pub path: String,
    /// Only rules may read it.
    pub resolution_only: bool,
}

/// The leaves of a listing as `kitbag::export::listing` makes it, derived values included, former names not.
///
/// # Errors
/// A line that is no leaf, or a listing without any.
pub fn leaves(listing: &str) -> Result<Vec<ListedLeaf>, String> {
    let mut leaves = Vec::new();
    for (index, line) in listing.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let first = line.split_whitespace().next().unwrap_or_default();
        if line[first.len()..].trim_start().starts_with("->") {
            continue;
        }
        let path = first.strip_suffix(':').filter(|path| path.contains('.'));
        let path = path.ok_or_else(|| format!("line {}: expected `path: type …`, found `{line}`", index + 1))?;
        leaves.push(ListedLeaf {
            path: path.to_owned(),
            resolution_only: marks(line).any(|mark| mark == "resolution_only"),
        });
    }
    if leaves.is_empty() { Err("there is no leaf in the listing".to_owned()) } else { Ok(leaves) }
}

/// Marks after the default, from the last. A text in the default may look like one: it ends in a quote.
fn marks(line: &str) -> impl Iterator<Item = &str> {
    line.rsplit("; ").take_while(|mark| !mark.contains(['"', '=']))
}

/// Leaves that nobody reads and that are not marked for it, and leaves of the reads that no listing has.
pub fn faults(leaves: &[ListedLeaf], reads: &[LeafRead]) -> Vec<String> {
    let by_leaf = by_leaf(reads);
    let unread = leaves.iter().filter(|leaf| !leaf.resolution_only && !by_leaf.contains_key(leaf.path.as_str()));
    let unread = unread.map(|leaf| {
        format!(
            "`{}`: no code reads it; remove it, or mark it `resolution_only` if rules are all that needs it",
            leaf.path
        )
    });
    let unlisted = by_leaf.iter().filter(|(path, _)| !leaves.iter().any(|leaf| leaf.path == **path));
    let unlisted = unlisted.map(|(path, reads)| {
        let first = reads.first().map(|read| format!("{}:{}", read.file, read.line)).unwrap_or_default();
        format!("`{path}`: read at {first} but not in the listing, which is out of date")
    });
    unread.chain(unlisted).collect()
}

/// The reads of each leaf.
pub fn by_leaf(reads: &[LeafRead]) -> BTreeMap<&str, Vec<&LeafRead>> {
    let mut found: BTreeMap<&str, Vec<&LeafRead>> = BTreeMap::new();
    for read in reads {
        found.entry(&read.leaf).or_default().push(read);
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_listing_gives_leaves_and_marks() {
        let listing = "a.b: usize = 1 in 1..; launch; resolution_only\n\
                       a.c: String = \"x; resolution_only\"; hot\n\
                       a.d: usize = f(a.b); derived, live\n\
                       old.b -> a.b; since 0.3\n";
        let leaves = leaves(listing).unwrap();
        let found: Vec<_> = leaves.iter().map(|leaf| (leaf.path.as_str(), leaf.resolution_only)).collect();
        assert_eq!(found, [("a.b", true), ("a.c", false), ("a.d", false)]);
        assert!(super::leaves("nonsense\n").unwrap_err().contains("line 1"));
        assert!(super::leaves("").is_err());
    }

    #[test]
    fn a_message_is_a_read_where_the_user_wrote_it() {
        let inner = json!({"file_name": "macros.rs", "line_start": 1, "column_start": 1, "is_primary": true,
            "expansion": {"span": {"file_name": "src/a.rs", "line_start": 7, "column_start": 9, "expansion": null}}});
        let text = "use of deprecated method `config::ExecMoeBag::rows`: kitbag census: exec.moe.rows";
        let found = read(&json!({"message": text, "spans": [inner]})).unwrap();
        assert_eq!((found.file.as_str(), found.line, found.column), ("src/a.rs", 7, 9));
        assert_eq!((found.leaf.as_str(), found.bag.as_str()), ("exec.moe.rows", "ExecMoeBag"));
        assert_eq!(read(&json!({"message": "unused", "spans": []})), None);
        for recorded in ["a::ExecMoeRecording::<'a>::rows", "a::ExecMoeRecording<'_>::rows", "ExecMoeRecording::rows"] {
            assert_eq!(bag_of(recorded), "ExecMoeBag");
        }
    }
}
