//! The schema as understood: owned, spanned, ready to be expanded.

use proc_macro2::Span;
use syn::{Expr, Ident, Path, Type, Visibility};

/// A struct under `#[derive(ConfigNamespaces)]`.
pub(crate) struct Schema {
    pub(crate) ident: Ident,
    pub(crate) vis: Visibility,
    /// Prefix of environment variables; only a root has one.
    pub(crate) env: Option<String>,
    /// Every field, for the use that keeps `dead_code` quiet.
    pub(crate) fields: Vec<Ident>,
    /// The root (path "") or, for a namespace struct, that namespace.
    pub(crate) tree: Namespace,
}

impl Schema {
    /// Whether this is a root, which can be loaded, or one namespace to be nested in a root.
    pub(crate) fn is_root(&self) -> bool {
        self.tree.path.is_empty()
    }
}

/// A namespace whose leaves are declared by this struct.
pub(crate) struct Namespace {
    pub(crate) path: String,
    pub(crate) span: Span,
    pub(crate) doc: String,
    pub(crate) leaves: Vec<Leaf>,
    /// Names that are read, with a warning, for another leaf.
    pub(crate) replaced: Vec<Replaced>,
    /// Names that are refused, with what to do instead.
    pub(crate) retired: Vec<Retired>,
    pub(crate) validations: Vec<Function>,
    pub(crate) children: Vec<Child>,
}

impl Namespace {
    pub(crate) fn new(path: String, span: Span, doc: String) -> Self {
        let (leaves, replaced, retired) = (Vec::new(), Vec::new(), Vec::new());
        Self { path, span, doc, leaves, replaced, retired, validations: Vec::new(), children: Vec::new() }
    }
}

/// A sub-namespace.
pub(crate) enum Child {
    /// Declared by this struct through `ns` of its fields.
    Inline(Namespace),
    /// A struct of its own.
    Nested {
        /// The field, and the last segment of the path.
        ident: Ident,
        ty: Type,
        doc: String,
    },
}

impl Child {
    /// Where it is declared.
    pub(crate) fn span(&self) -> Span {
        match self {
            Self::Inline(namespace) => namespace.span,
            Self::Nested { ident, .. } => ident.span(),
        }
    }

    /// Name of the accessor.
    pub(crate) fn ident(&self) -> Ident {
        match self {
            Self::Inline(namespace) => {
                let name = namespace.path.rsplit('.').next().unwrap_or_default();
                syn::parse_str(name).unwrap_or_else(|_| Ident::new_raw(name, namespace.span))
            }
            Self::Nested { ident, .. } => ident.clone(),
        }
    }
}

/// When a leaf may change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Class {
    Launch,
    LoadTime,
    Hot,
    Derived,
}

/// When a derived value follows its inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Policy {
    Live,
    AtPublish,
    AtLaunch,
}

/// A leaf or a derived value.
#[allow(clippy::struct_excessive_bools)] // Each is an attribute that is given or not.
pub(crate) struct Leaf {
    pub(crate) ident: Ident,
    pub(crate) path: String,
    pub(crate) ty: Type,
    pub(crate) doc: String,
    pub(crate) class: Class,
    pub(crate) policy: Policy,
    pub(crate) flag: String,
    pub(crate) start: Start,
    pub(crate) range: Option<Expr>,
    pub(crate) validate: Option<Path>,
    /// The environment variable, if it is not computed from the path.
    pub(crate) env: Option<String>,
    pub(crate) aliases: Vec<String>,
    pub(crate) deprecated: Option<Deprecated>,
    pub(crate) cache_key: bool,
    /// Read by rules only: there is no accessor.
    pub(crate) resolution_only: bool,
    /// Known before files are read.
    pub(crate) bootstrap: bool,
    pub(crate) secret: bool,
}

/// Since when a name should not be used, and until when it may be.
#[derive(Clone, Default)]
pub(crate) struct Deprecated {
    pub(crate) since: String,
    pub(crate) remove_in: Option<String>,
}

/// A former leaf whose value goes to another.
pub(crate) struct Replaced {
    pub(crate) ident: Ident,
    pub(crate) path: String,
    pub(crate) ty: Type,
    pub(crate) flag: String,
    pub(crate) deprecated: Deprecated,
    pub(crate) target: Input,
    pub(crate) map: Option<Path>,
}

/// A name that must not come back.
pub(crate) struct Retired {
    pub(crate) path: String,
    pub(crate) note: String,
    pub(crate) span: Span,
}

impl Leaf {
    /// Whether the value may differ from epoch to epoch, so that the accessor must not give it away for good.
    pub(crate) fn may_change(&self) -> bool {
        match self.class {
            Class::Hot => true,
            Class::Derived => self.policy != Policy::AtLaunch,
            Class::Launch | Class::LoadTime => false,
        }
    }
}

/// Where the value comes from if nobody sets it.
pub(crate) enum Start {
    Required,
    Default(Expr),
    Computed(Function),
}

/// A function over leaves.
pub(crate) struct Function {
    pub(crate) path: Path,
    pub(crate) inputs: Vec<Input>,
    /// Of a derived value: what its emitted test tries.
    pub(crate) cases: Vec<Cases>,
    /// Of a derived value: a function that must agree.
    pub(crate) twin: Option<Path>,
}

/// Values of one leaf that the emitted test of a derived value tries.
pub(crate) struct Cases {
    pub(crate) leaf: Input,
    pub(crate) values: Vec<Expr>,
}

/// An argument of such a function.
pub(crate) enum Input {
    /// The machine's facts.
    Facts,
    /// A leaf: the segments as written, and the full dotted path.
    Leaf { segments: Vec<Ident>, path: String },
}

impl Function {
    /// As written, for messages and help.
    pub(crate) fn text(&self) -> String {
        let path: Vec<_> = self.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        path.join("::")
    }

    /// Full paths of the leaves it reads.
    pub(crate) fn leaf_paths(&self) -> impl Iterator<Item = (&str, Span)> {
        self.inputs.iter().filter_map(Input::leaf_path)
    }

    /// Full paths of the leaves that are named here: those it reads, and those of its cases.
    pub(crate) fn named_paths(&self) -> impl Iterator<Item = (&str, Span)> {
        self.leaf_paths().chain(self.cases.iter().filter_map(|cases| cases.leaf.leaf_path()))
    }
}

impl Input {
    /// The full path of the leaf, if it is one.
    fn leaf_path(&self) -> Option<(&str, Span)> {
        match self {
            Self::Facts => None,
            Self::Leaf { segments, path } => {
                Some((path.as_str(), segments.last().map_or_else(Span::call_site, Ident::span)))
            }
        }
    }
}
