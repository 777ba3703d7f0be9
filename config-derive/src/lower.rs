//! Attributes → model. Every fault is noted and the rest goes on, so that all are shown at once.

use darling::error::Accumulator;
use darling::util::SpannedValue;
use darling::{Error, FromDeriveInput, FromField};
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Expr, Fields, Ident, LitStr, Type};

use crate::attributes::{Derivation, FIELD, FieldAttributes, RetiredName, STRUCT, StructAttributes, doc_text};
use crate::model::{
    Cases, Child, Class, Deprecated, Function, Input, Leaf, Namespace, Policy, Replaced, Retired, Schema, Start,
};
use crate::recover::{listing, sound_attributes};
use crate::{names, secrecy};

/// Understands the struct, or says why nothing can be made of it.
pub(crate) fn lower(input: &DeriveInput, errors: &mut Accumulator) -> Option<Schema> {
    let fields = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => &fields.named,
            _ => {
                errors.push(Error::custom("a schema is a struct with named fields").with_span(&input.ident));
                return None;
            }
        },
        _ => {
            let text = "a schema is a struct; for an enum that is the type of a setting derive `ConfigChoice`";
            errors.push(Error::custom(text).with_span(&input.ident));
            return None;
        }
    };
    if !input.generics.params.is_empty() {
        let text = "a schema cannot be generic: its settings are read from text";
        errors.push(Error::custom(text).with_span(&input.generics));
        return None;
    }
    // Of the fields nothing is read here: they are parsed one by one below, so that an error in one hides no other.
    let attributes = match StructAttributes::from_derive_input(input) {
        Ok(attributes) => attributes,
        Err(error) => {
            errors.push(listing(error, "a schema", STRUCT));
            let with = |attrs| DeriveInput { attrs, ..input.clone() };
            let is_sound =
                |attribute: &Attribute| StructAttributes::from_derive_input(&with(vec![attribute.clone()])).is_ok();
            let sound = with(sound_attributes(&input.attrs, is_sound));
            // Sound parts may still be at odds, such as one that is given twice.
            let none = with(Vec::new());
            StructAttributes::from_derive_input(&sound).or_else(|_| StructAttributes::from_derive_input(&none)).ok()?
        }
    };
    let mut lowering = Lowering::new(&attributes, errors);
    for field in fields {
        lowering.field(field);
    }
    let StructAttributes { ident, vis, env, derived, validate, retired, .. } = attributes;
    for derivation in derived.into_iter().flat_map(|derivations| derivations.0) {
        lowering.derivation(derivation);
    }
    for validation in validate.into_iter().flat_map(|validations| validations.0) {
        lowering.validation(&validation);
    }
    for name in retired.into_iter().flat_map(|retired| retired.0) {
        lowering.retired(&name);
    }
    if let Some(env) = env.as_ref().filter(|_| !lowering.is_root()) {
        let text = "the environment prefix belongs on the root struct, not on a namespace";
        lowering.errors.push(Error::custom(text).with_span(&env.span()));
    }
    let env = env.map(|env| {
        let valid = env.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        if env.is_empty() || !valid || env.ends_with('_') {
            let text = "an environment prefix is upper case, without the last underscore: `env = \"THUMB\"`";
            lowering.errors.push(Error::custom(text).with_span(&env.span()));
        }
        env.to_string()
    });
    let fields = fields.iter().filter_map(|field| field.ident.clone()).collect();
    Some(Schema { ident, vis, env, fields, tree: lowering.tree })
}

struct Lowering<'a> {
    tree: Namespace,
    errors: &'a mut Accumulator,
}

impl<'a> Lowering<'a> {
    fn new(attributes: &StructAttributes, errors: &'a mut Accumulator) -> Self {
        let span = attributes.ns.as_ref().map_or_else(|| attributes.ident.span(), SpannedValue::span);
        let path = attributes.ns.as_ref().map(|ns| check_path(ns, span, errors)).unwrap_or_default();
        let doc = doc_text(&attributes.attrs);
        Self { tree: Namespace::new(path, span, doc), errors }
    }

    fn is_root(&self) -> bool {
        self.tree.path.is_empty()
    }

    fn fault(&mut self, span: Span, text: impl std::fmt::Display) {
        self.errors.push(Error::custom(text).with_span(&span));
    }

    fn field(&mut self, field: &syn::Field) {
        let raw = match FieldAttributes::from_field(field) {
            Ok(raw) => raw,
            Err(error) => {
                self.errors.push(listing(error, "a setting", FIELD));
                // The leaf itself stays, so that code that reads it does not fail as well.
                let mut sound = field.clone();
                sound.attrs = sound_attributes(&field.attrs, |attribute| {
                    let mut part = field.clone();
                    part.attrs = vec![attribute.clone()];
                    FieldAttributes::from_field(&part).is_ok()
                });
                let Ok(raw) = FieldAttributes::from_field(&sound) else { return };
                if raw.ns.is_none() && self.is_root() {
                    return;
                }
                raw
            }
        };
        let Some(ident) = raw.ident.clone() else { return };
        let doc = doc_text(&raw.attrs);
        if raw.nested.is_present() {
            return self.nested(ident, &raw, doc);
        }
        if doc.is_empty() {
            self.fault(ident.span(), format!("setting `{ident}` has no doc comment; say what it does: `/// ...`"));
        }
        let namespace = match (&raw.ns, self.is_root()) {
            (Some(ns), true) => check_path(ns, ns.span(), self.errors),
            (Some(ns), false) => {
                let text = format!("all fields of this struct are in namespace `{}`; remove `ns`", self.tree.path);
                self.fault(ns.span(), text);
                self.tree.path.clone()
            }
            (None, false) => self.tree.path.clone(),
            (None, true) => {
                let text = format!(
                    "setting `{ident}` has no namespace; write `#[config(ns = \"...\")]`, or `#[config(nested)]` if its \
                     type is a namespace struct"
                );
                return self.fault(ident.span(), text);
            }
        };
        if raw.deprecated.as_ref().is_some_and(|deprecated| deprecated.replacement.is_some()) {
            if let Some(replaced) = self.replaced(ident, raw, &namespace) {
                self.namespace(&namespace, replaced.ident.span()).replaced.push(replaced);
            }
            return;
        }
        let leaf = self.leaf(ident, raw, doc, &namespace);
        self.namespace(&namespace, leaf.ident.span()).leaves.push(leaf);
    }

    /// A former leaf: its name is still read, for another leaf.
    fn replaced(&mut self, ident: Ident, raw: FieldAttributes, namespace: &str) -> Option<Replaced> {
        let deprecation = raw.deprecated?;
        let target = deprecation.replacement?;
        let unused: [(bool, &str); 7] = [
            (raw.default.is_some(), "default"),
            (raw.auto.is_some(), "auto"),
            (raw.hot.is_present(), "hot"),
            (raw.load_time.is_present(), "load_time"),
            (raw.alias.is_some(), "alias"),
            (raw.env.is_some(), "env"),
            (raw.bootstrap.is_present(), "bootstrap"),
        ];
        for (_, name) in unused.into_iter().filter(|(given, _)| *given) {
            let text =
                format!("`{name}` belongs on `{}`, which has the value; this is only its former name", target.value());
            self.fault(ident.span(), text);
        }
        let segments: Option<Vec<Ident>> = target
            .value()
            .split('.')
            .map(|segment| {
                syn::parse_str::<Ident>(segment).ok().map(|segment| Ident::new(&segment.to_string(), target.span()))
            })
            .collect();
        let Some(segments) = segments else {
            self.fault(target.span(), "write the path of a setting: `use = \"namespace.name\"`");
            return None;
        };
        let path = if self.is_root() { target.value() } else { format!("{}.{}", self.tree.path, target.value()) };
        let name = names::plain(&ident);
        Some(Replaced {
            path: format!("{namespace}.{name}"),
            flag: raw.flag.map_or_else(|| names::flag(&name), |flag| flag.to_string()),
            ident,
            ty: raw.ty,
            deprecated: lower_deprecated(deprecation.since.as_ref(), deprecation.remove_in.as_ref()),
            target: Input::Leaf { segments, path },
            map: deprecation.map,
        })
    }

    fn retired(&mut self, name: &RetiredName) {
        let written: Vec<_> = name.path.iter().map(names::plain).collect();
        let written = written.join(".");
        let path = if self.is_root() { written } else { format!("{}.{written}", self.tree.path) };
        let span = name.path.last().map_or_else(Span::call_site, Ident::span);
        self.tree.retired.push(Retired { path, note: name.note.value(), span });
    }

    fn nested(&mut self, ident: Ident, raw: &FieldAttributes, doc: String) {
        let unused: [(bool, &str); 15] = [
            (raw.secret.is_present(), "secret"),
            (raw.env.is_some(), "env"),
            (raw.alias.is_some(), "alias"),
            (raw.deprecated.is_some(), "deprecated"),
            (raw.validate.is_some(), "validate"),
            (raw.cache_key.is_some(), "cache_key"),
            (raw.resolution_only.is_present(), "resolution_only"),
            (raw.bootstrap.is_present(), "bootstrap"),
            (raw.ns.is_some(), "ns"),
            (raw.default.is_some(), "default"),
            (raw.auto.is_some(), "auto"),
            (raw.range.is_some(), "range"),
            (raw.flag.is_some(), "flag"),
            (raw.hot.is_present(), "hot"),
            (raw.load_time.is_present(), "load_time"),
        ];
        for (_, name) in unused.into_iter().filter(|(given, _)| *given) {
            self.fault(ident.span(), format!("`{name}` belongs on a setting, not on a nested namespace"));
        }
        self.tree.children.push(Child::Nested { ident, ty: raw.ty.clone(), doc });
    }

    fn leaf(&mut self, ident: Ident, raw: FieldAttributes, doc: String, namespace: &str) -> Leaf {
        let name = names::plain(&ident);
        let class = match (raw.hot.is_present(), raw.load_time.is_present()) {
            (true, true) => {
                self.fault(raw.load_time.span(), "a setting is `hot` or `load_time`, not both");
                Class::Hot
            }
            (true, false) => Class::Hot,
            (false, true) => Class::LoadTime,
            (false, false) => Class::Launch,
        };
        let start = match (raw.default, raw.auto) {
            (Some(default), Some(auto)) => {
                let text = "a setting has a `default` or is `auto`, not both; `auto` computes the default by a rule";
                self.fault(auto.span(), text);
                Start::Default(default)
            }
            (Some(default), None) => Start::Default(default),
            (None, Some(auto)) => match auto {
                Expr::Path(path) => Start::Computed(Function {
                    path: path.path,
                    inputs: vec![Input::Facts],
                    cases: Vec::new(),
                    twin: None,
                }),
                call => self.function(&call).map_or(Start::Required, Start::Computed),
            },
            (None, None) => Start::Required,
        };
        if raw.bootstrap.is_present()
            && let Start::Computed(function) = &start
            && let Some((path, span)) = function.leaf_paths().next()
        {
            let text = format!("this setting is known before `{path}` is; its rule may read `facts` alone");
            self.fault(span, text);
        }
        let flag = match raw.flag {
            Some(flag) => {
                let valid = flag.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
                if flag.is_empty() || flag.starts_with('-') || !valid {
                    self.fault(
                        flag.span(),
                        "a flag is written without dashes before it, in kebab case: `flag = \"max-size\"`",
                    );
                }
                flag.to_string()
            }
            None => names::flag(&name),
        };
        let secret = raw.secret.is_present() || secrecy::is_secret(&raw.ty);
        if raw.secret.is_present() && secrecy::is_plain(&raw.ty) {
            self.fault(raw.ty.span(), secrecy::MARKED);
        }
        if secret && matches!(start, Start::Default(_)) {
            self.fault(ident.span(), "a secret has no default: it would stand in the program's text and help");
        }
        let env = raw.env.map(|env| {
            if env.is_empty() || !env.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_') {
                self.fault(env.span(), "an environment variable is upper case: `env = \"HTTP_PROXY\"`");
            }
            env.to_string()
        });
        let aliases = raw.alias.into_iter().flat_map(|aliases| aliases.0).map(|alias| {
            if !alias.value().contains('.') {
                self.fault(alias.span(), "an alias is a full former path: `alias = \"namespace.name\"`");
            }
            alias.value()
        });
        let aliases = aliases.collect();
        let deprecated = raw.deprecated.map(|deprecation| {
            if let Some(map) = &deprecation.map {
                self.fault(map.span(), "`map` converts to the setting named by `use`, which is missing");
            }
            lower_deprecated(deprecation.since.as_ref(), deprecation.remove_in.as_ref())
        });
        Leaf {
            path: format!("{namespace}.{name}"),
            ident,
            ty: raw.ty,
            doc,
            class,
            policy: Policy::Live,
            flag,
            start,
            range: raw.range,
            validate: raw.validate,
            env,
            aliases,
            deprecated,
            cache_key: raw.cache_key.is_none_or(|cache_key| *cache_key),
            resolution_only: raw.resolution_only.is_present(),
            bootstrap: raw.bootstrap.is_present(),
            secret,
        }
    }

    fn derivation(&mut self, derivation: Derivation) {
        let span = derivation.span();
        let Some(ident) = derivation.path.last().cloned() else { return };
        let before: Vec<_> = derivation.path[..derivation.path.len() - 1].iter().map(names::plain).collect();
        let namespace = match (self.is_root(), before.is_empty()) {
            (true, true) => {
                return self.fault(span, format!("a derived value is in a namespace: write `namespace.{ident}`"));
            }
            (true, false) => before.join("."),
            (false, true) => self.tree.path.clone(),
            (false, false) => {
                let text = format!("a derived value of namespace `{}` is named alone: `{ident}`", self.tree.path);
                return self.fault(span, text);
            }
        };
        let owner = self.tree.children.iter().find_map(|child| match child {
            Child::Nested { ident, ty, .. } if before.first() == Some(&names::plain(ident)) => Some(ty),
            _ => None,
        });
        if let Some(Type::Path(owner)) = owner {
            let owner = owner.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
            let text = format!("namespace `{}` is declared by `{owner}`; declare the value there", before.join("."));
            return self.fault(span, text);
        }
        let Some(mut function) = self.function(&derivation.function) else { return };
        if function.inputs.iter().any(|input| matches!(input, Input::Facts)) {
            return self.fault(
                span,
                "a derived value is computed from settings, not from facts; make a setting `auto` instead",
            );
        }
        for (leaf, values) in derivation.cases {
            match self.input(&leaf) {
                Some(leaf @ Input::Leaf { .. }) => function.cases.push(Cases { leaf, values }),
                _ => self.fault(leaf.span(), "cases are of a setting, such as `pool.workers = [1, 4]`"),
            }
        }
        function.twin = derivation.twin;
        let inputs: Vec<_> = function.leaf_paths().map(|(path, _)| path).collect();
        let mut doc = doc_text(&derivation.attrs);
        if doc.is_empty() {
            doc = format!("Derived: `{}({})`.", function.text(), inputs.join(", "));
        }
        let path = format!("{namespace}.{}", names::plain(&ident));
        let secret = secrecy::is_secret(&derivation.ty);
        let leaf = Leaf {
            ident,
            path,
            ty: derivation.ty,
            doc,
            class: Class::Derived,
            policy: derivation.policy,
            flag: String::new(),
            start: Start::Computed(function),
            range: None,
            validate: None,
            env: None,
            aliases: Vec::new(),
            deprecated: None,
            cache_key: true,
            resolution_only: false,
            bootstrap: false,
            secret,
        };
        self.namespace(&namespace, span).leaves.push(leaf);
    }

    fn validation(&mut self, call: &Expr) {
        if let Some(function) = self.function(call) {
            self.tree.validations.push(function);
        }
    }

    /// `function(namespace.input, …)`.
    fn function(&mut self, expression: &Expr) -> Option<Function> {
        let Expr::Call(call) = expression else {
            self.fault(expression.span(), "write a call of a function on settings: `function(namespace.input, ...)`");
            return None;
        };
        let Expr::Path(path) = &*call.func else {
            self.fault(call.func.span(), "the function is named by its path: `function` or `module::function`");
            return None;
        };
        let mut inputs = Vec::new();
        for argument in &call.args {
            match self.input(argument) {
                Some(input) => inputs.push(input),
                None => {
                    let text = "an input is the path of a setting, such as `pool.workers`";
                    self.fault(argument.span(), text);
                }
            }
        }
        Some(Function { path: path.path.clone(), inputs, cases: Vec::new(), twin: None })
    }

    fn input(&self, argument: &Expr) -> Option<Input> {
        let mut segments = Vec::new();
        collect_segments(argument, &mut segments)?;
        if matches!(segments.as_slice(), [only] if only == "facts") {
            return Some(Input::Facts);
        }
        let written: Vec<_> = segments.iter().map(names::plain).collect();
        let written = written.join(".");
        let path = if self.is_root() { written } else { format!("{}.{written}", self.tree.path) };
        Some(Input::Leaf { segments, path })
    }

    /// The namespace with this path, made if it is new.
    fn namespace(&mut self, path: &str, span: Span) -> &mut Namespace {
        let own = self.tree.path.len();
        let mut here = &mut self.tree;
        if path.len() == own {
            return here;
        }
        // Only a root has namespaces below its own path that it declares itself.
        let ends = path.match_indices('.').map(|(end, _)| end).chain([path.len()]);
        for end in ends {
            let prefix = &path[..end];
            let found = here
                .children
                .iter()
                .position(|child| matches!(child, Child::Inline(namespace) if namespace.path == prefix));
            let position = found.unwrap_or_else(|| {
                here.children.push(Child::Inline(Namespace::new(prefix.to_owned(), span, String::new())));
                here.children.len() - 1
            });
            let Child::Inline(namespace) = &mut here.children[position] else {
                unreachable!("the position was found or made as an inline namespace")
            };
            here = namespace;
        }
        here
    }
}

fn lower_deprecated(since: Option<&LitStr>, remove_in: Option<&LitStr>) -> Deprecated {
    Deprecated { since: since.map(LitStr::value).unwrap_or_default(), remove_in: remove_in.map(LitStr::value) }
}

/// `a.b.c` as its identifiers.
fn collect_segments(expression: &Expr, segments: &mut Vec<Ident>) -> Option<()> {
    match expression {
        Expr::Path(path) => segments.push(path.path.get_ident()?.clone()),
        Expr::Field(field) => {
            collect_segments(&field.base, segments)?;
            match &field.member {
                syn::Member::Named(name) => segments.push(name.clone()),
                syn::Member::Unnamed(_) => return None,
            }
        }
        _ => return None,
    }
    Some(())
}

/// A namespace path is dotted identifiers in lower case; anything else is reported and made into one.
fn check_path(path: &str, span: Span, errors: &mut Accumulator) -> String {
    let valid = |segment: &str| {
        segment.starts_with(|c: char| c.is_ascii_lowercase())
            && segment.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    if path.split('.').all(valid) {
        return path.to_owned();
    }
    let text = format!("`{path}` is not a namespace path; write lower-case names joined by dots: `exec.moe`");
    errors.push(Error::custom(text).with_span(&span));
    let tidy: String = path.chars().filter(char::is_ascii_alphabetic).collect();
    if tidy.is_empty() { "unnamed".to_owned() } else { tidy.to_ascii_lowercase() }
}
