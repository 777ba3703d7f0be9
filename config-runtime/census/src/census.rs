//! The census: what a scan finds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Value, json};

use crate::index::Index;
use crate::sources::Sources;
use crate::walk::Walk;

/// File, line and column, both from 1.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Place {
    /// From the package's folder.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// How a read gets to the struct.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Route {
    /// The first owner, a static, or the result of a call.
    Direct,
    /// A local name for a struct that something else holds.
    Alias,
    /// The field of another struct.
    Parked,
    /// A parameter of a function or closure, or `self`.
    Parameter,
    /// Inside the arguments of a macro, whatever the way there.
    Macro,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::Alias => "alias",
            Self::Parked => "parked",
            Self::Parameter => "parameter",
            Self::Macro => "macro",
        })
    }
}

/// What is read at a place: one leaf, or the struct as a whole.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum What {
    /// One field, by its path in the struct.
    Leaf(String),
    /// The whole struct goes somewhere else.
    Whole(String),
}

impl What {
    /// The field, or `(whole)`.
    pub fn field(&self) -> &str {
        match self {
            Self::Leaf(field) => field,
            Self::Whole(_) => "(whole)",
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaf(field) => f.write_str(field),
            Self::Whole(how) => write!(f, "(whole) {how}"),
        }
    }
}

/// A read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Read {
    /// Where: of a leaf, its name; of the whole, the expression.
    pub place: Place,
    /// Which.
    pub what: What,
    /// Through what.
    pub route: Route,
}

/// A write, a mutable borrow, or a construction.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Write {
    /// Where.
    pub place: Place,
    /// The field, or `(whole)`.
    pub field: String,
    /// `assigned`, `borrowed mutably`, `changed by push`, `constructed`.
    pub how: String,
}

/// A use that may be a read, or after which reads are out of sight.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unfollowed {
    /// Where.
    pub place: Place,
    /// The field, or `(whole)`.
    pub field: String,
    /// Why not.
    pub why: String,
}

/// A field of the struct, or of a struct that is flattened into it.
#[derive(Clone, Debug)]
pub struct Field {
    /// `port`, or `pool.workers` behind a flattened field `pool`.
    pub path: String,
    pub(crate) syntax: syn::Field,
}

/// Everything found, in order of place.
#[derive(Clone, Debug)]
pub struct Census {
    /// The struct.
    pub name: String,
    /// Its leaves, in order of declaration.
    pub fields: Vec<Field>,
    /// All reads.
    pub reads: Vec<Read>,
    /// All writes, mutable borrows and constructions.
    pub writes: Vec<Write>,
    /// What could not be followed.
    pub unfollowed: Vec<Unfollowed>,
}

/// Finds every read of the struct with this name, or path (`cli::Args`), in the sources.
///
/// # Errors
/// There is no such struct, or more than one.
pub fn scan(sources: &Sources, name: &str) -> Result<Census, String> {
    let index = Index::of(sources, name)?;
    let found = Walk::over(sources, &index);
    let fields = index.leaves.iter().map(|(path, syntax)| Field { path: path.clone(), syntax: syntax.clone() });
    Ok(Census {
        name: index.target.rsplit("::").next().unwrap_or_default().to_owned(),
        fields: fields.collect(),
        reads: found.reads,
        writes: found.writes,
        unfollowed: found.unfollowed,
    })
}

impl Census {
    /// Reads of one leaf.
    pub fn leaf_reads(&self) -> impl Iterator<Item = &Read> {
        self.reads.iter().filter(|read| matches!(read.what, What::Leaf(_)))
    }

    /// Fields that nothing seems to read.
    pub fn never_read(&self) -> Vec<&str> {
        let read: BTreeSet<_> = self.reads.iter().map(|read| read.what.field()).collect();
        let paths = self.fields.iter().map(|field| field.path.as_str());
        paths.filter(|path| !read.contains(path)).collect()
    }

    /// The census as data.
    pub fn to_json(&self) -> Value {
        let place = |place: &Place| json!({"file": place.file, "line": place.line, "column": place.column});
        let with = |at: &Place, rest: Value| {
            let mut object = place(at);
            if let (Some(object), Value::Object(rest)) = (object.as_object_mut(), rest) {
                object.extend(rest);
            }
            object
        };
        let reads = self.reads.iter().map(|read| {
            let (leaf, how) = match &read.what {
                What::Leaf(_) => (true, None),
                What::Whole(how) => (false, Some(how)),
            };
            let rest = json!({
                "field": read.what.field(), "route": read.route.to_string(), "leaf": leaf, "how": how,
            });
            with(&read.place, rest)
        });
        let writes =
            self.writes.iter().map(|write| with(&write.place, json!({"field": write.field, "how": write.how})));
        let unfollowed =
            self.unfollowed.iter().map(|use_| with(&use_.place, json!({"field": use_.field, "why": use_.why})));
        json!({
            "struct": self.name,
            "fields": self.fields.iter().map(|field| &field.path).collect::<Vec<_>>(),
            "reads": reads.collect::<Vec<_>>(),
            "writes": writes.collect::<Vec<_>>(),
            "could_not_be_followed": unfollowed.collect::<Vec<_>>(),
            "never_read": self.never_read(),
        })
    }
}

/// One line per finding, then what it comes to.
impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for read in &self.reads {
            writeln!(f, "{}: {} by {}", read.place, read.what, read.route)?;
        }
        for write in &self.writes {
            writeln!(f, "{}: {} {}", write.place, write.field, write.how)?;
        }
        for use_ in &self.unfollowed {
            writeln!(f, "{}: {} could not be followed: {}", use_.place, use_.field, use_.why)?;
        }
        let files: BTreeSet<_> = self.reads.iter().map(|read| &read.place.file).collect();
        let leaves = self.leaf_reads().count();
        writeln!(
            f,
            "{}: {} reads in {} files, {leaves} of leaves; {} writes; {} could not be followed",
            self.name,
            self.reads.len(),
            files.len(),
            self.writes.len(),
            self.unfollowed.len()
        )?;
        let mut routes: BTreeMap<String, usize> = BTreeMap::new();
        for read in &self.reads {
            *routes.entry(read.route.to_string()).or_default() += 1;
        }
        let routes: Vec<_> = routes.into_iter().map(|(route, count)| format!("{route} {count}")).collect();
        writeln!(f, "routes: {}", routes.join(", "))?;
        match self.never_read().as_slice() {
            [] => Ok(()),
            unread => writeln!(f, "never read: {}", unread.join(", ")),
        }
    }
}
