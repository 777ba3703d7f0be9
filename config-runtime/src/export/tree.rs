//! The schema as the exporters walk it: namespaces by path segment, each leaf with what they say of it.

use super::range::Bounds;
use crate::leaf::Shape;
use crate::schema::{
    Class, Computation, ConfigNamespaces, Deprecated, LeafInfo, NamespaceInfo, Policy, Start, Validation,
};
use crate::table::{Now, Table};
use crate::value::Value;

/// A namespace; the root has an empty path.
pub(super) struct Node {
    pub(super) path: String,
    pub(super) doc: &'static str,
    pub(super) leaves: Vec<Entry>,
    /// Names that were leaves here once and that the loader still knows.
    pub(super) former: Vec<Former>,
    pub(super) validations: Vec<&'static Validation>,
    pub(super) children: Vec<Node>,
}

impl Node {
    /// The whole schema.
    pub(super) fn of<S: ConfigNamespaces>() -> Self {
        let mut root = Self::new(String::new());
        root.doc = S::schema().doc;
        let table = Table::of::<S>();
        let former: Vec<_> = table
            .former
            .iter()
            .map(|former| Former {
                path: former.path,
                now: match former.now {
                    Now::Alias(index) => {
                        let info = table.entries[index].info;
                        Successor::Leaf {
                            path: info.path,
                            shape: info.ops.ty.shape(),
                            deprecated: None,
                            in_files: !info.bootstrap,
                        }
                    }
                    Now::Replaced(replaced) => Successor::Leaf {
                        path: replaced.target,
                        shape: replaced.ops.ty.shape(),
                        deprecated: Some(replaced.deprecated),
                        in_files: table.index(replaced.target).is_none_or(|index| !table.entries[index].info.bootstrap),
                    },
                    Now::Retired(advice) => Successor::None { advice },
                },
            })
            .collect();
        root.add(S::schema(), &mut table.entries.into_iter().map(|entry| entry.env));
        // After the leaves, so that those come first.
        for former in former {
            let namespace = former.path.rsplit_once('.').map_or("", |(namespace, _)| namespace);
            root.descend(namespace).former.push(former);
        }
        root
    }

    fn new(path: String) -> Self {
        Self { path, doc: "", leaves: Vec::new(), former: Vec::new(), validations: Vec::new(), children: Vec::new() }
    }

    /// `variables`: one per leaf, in the order of the tree.
    fn add(&mut self, info: &NamespaceInfo, variables: &mut impl Iterator<Item = Option<String>>) {
        let node = self.descend(info.path);
        if node.doc.is_empty() {
            node.doc = info.doc;
        }
        node.leaves.extend(info.leaves.iter().map(|info| Entry { info, env: variables.next().flatten() }));
        node.validations.extend(info.validations);
        for child in info.children {
            self.add(child, variables);
        }
    }

    /// The namespace at `path`, made if it is not there: a struct may be `exec.moe` where nothing is `exec`.
    fn descend(&mut self, path: &str) -> &mut Self {
        let mut node = self;
        for (end, _) in path.match_indices('.').chain(std::iter::once((path.len(), ""))) {
            let path = &path[..end];
            if path.is_empty() {
                break;
            }
            let index = node.children.iter().position(|child| child.path == path).unwrap_or_else(|| {
                node.children.push(Self::new(path.to_owned()));
                node.children.len() - 1
            });
            node = &mut node.children[index];
        }
        node
    }

    /// Last segment of the path.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or_default()
    }

    /// This namespace and all below it, in order.
    pub(super) fn walk(&self) -> Vec<&Self> {
        std::iter::once(self).chain(self.children.iter().flat_map(Self::walk)).collect()
    }

    /// Leaves that can be set.
    pub(super) fn settings(&self) -> impl Iterator<Item = &Entry> {
        self.leaves.iter().filter(|entry| !entry.is_derived())
    }

    /// Leaves that a file can set.
    pub(super) fn in_files(&self) -> impl Iterator<Item = &Entry> {
        self.settings().filter(|entry| !entry.info.bootstrap)
    }

    /// Values that are computed from others.
    pub(super) fn derived(&self) -> impl Iterator<Item = &Entry> {
        self.leaves.iter().filter(|entry| entry.is_derived())
    }
}

/// One leaf.
pub(super) struct Entry {
    pub(super) info: &'static LeafInfo,
    /// Its environment variable.
    pub(super) env: Option<String>,
}

/// A name that is not a leaf any more.
pub(super) struct Former {
    pub(super) path: &'static str,
    pub(super) now: Successor,
}

/// What became of a former leaf.
pub(super) enum Successor {
    /// Its name is read for the leaf at `path`.
    Leaf {
        path: &'static str,
        shape: Shape,
        deprecated: Option<Deprecated>,
        /// Whether a file can set it.
        in_files: bool,
    },
    /// It is refused.
    None { advice: &'static str },
}

impl Former {
    /// Last segment of the path.
    pub(super) fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or_default()
    }
}

/// What a leaf is when nobody sets it.
pub(super) enum Unless {
    /// An error.
    Required,
    /// A value that no output shows.
    Secret,
    /// This value.
    Value(Value),
    /// The outcome of a rule.
    Rule(&'static Computation),
}

impl Entry {
    pub(super) fn is_derived(&self) -> bool {
        self.info.class == Class::Derived
    }

    pub(super) fn is_secret(&self) -> bool {
        self.info.is_secret()
    }

    /// `deprecated since 1.2, removed in 2.0`.
    pub(super) fn deprecation(&self) -> Option<String> {
        self.info.deprecated.map(deprecation)
    }

    pub(super) fn shape(&self) -> Shape {
        self.info.ops.ty.shape()
    }

    pub(super) fn unless_set(&self) -> Unless {
        match &self.info.start {
            Start::Computed(computation) => Unless::Rule(computation),
            // A default that its own type does not read is reported by the first load; here it is shown as written.
            // A secret has none.
            Start::Default { text, .. } => Unless::Value(
                self.info
                    .default_value()
                    .and_then(Result::ok)
                    .map_or_else(|| Value::Text((*text).to_owned()), |value| value.to_value()),
            ),
            Start::Required => match self.info.ops.ty.when_absent() {
                Some(value) => match value.to_value() {
                    shown if self.is_secret() && shown != Value::Unset => Unless::Secret,
                    shown => Unless::Value(shown),
                },
                None => Unless::Required,
            },
        }
    }

    /// The range, if it is written with plain numbers and the values are numbers.
    pub(super) fn bounds(&self) -> Option<Bounds> {
        let mut shape = self.shape();
        while let Shape::Optional(inner) = shape {
            shape = *inner;
        }
        match shape {
            Shape::Integer { min, max } => {
                Bounds::parse(&self.info.accepted_range()?).filter(|bounds| bounds.integers(min, max).is_some())
            }
            Shape::Number => Bounds::parse(&self.info.accepted_range()?),
            _ => None,
        }
    }

    /// The spellings of a choice, also one in a list or table.
    pub(super) fn choices(&self) -> Option<&'static [&'static str]> {
        let mut shape = self.shape();
        loop {
            shape = match shape {
                Shape::Choice(names) => return Some(names),
                Shape::Optional(inner) | Shape::List(inner) | Shape::Map(inner) => *inner,
                _ => return None,
            };
        }
    }

    pub(super) fn class(&self) -> String {
        match (self.info.class, self.info.policy) {
            (Class::Derived, Policy::Live) => "derived, live".to_owned(),
            (Class::Derived, Policy::AtPublish) => "derived, at_publish".to_owned(),
            (Class::Derived, Policy::AtLaunch) => "derived, at_launch".to_owned(),
            (class, _) => class.to_string(),
        }
    }
}

pub(super) fn deprecation(deprecated: Deprecated) -> String {
    let versions = deprecated.to_string();
    format!("deprecated {}", versions.trim_start_matches(", ")).trim_end().to_owned()
}

/// A rule and what it reads: `capacity(pool.workers, pool.queue)`.
pub(super) fn call(function: &str, inputs: &[&str]) -> String {
    if inputs.is_empty() { function.to_owned() } else { format!("{function}({})", inputs.join(", ")) }
}

/// Everything a doc comment says, each paragraph on one line.
pub(super) fn paragraphs(doc: &str) -> Vec<String> {
    let lines = |paragraph: &str| paragraph.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    doc.split("\n\n").map(lines).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect()
}
