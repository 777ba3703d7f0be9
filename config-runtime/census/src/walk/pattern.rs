//! Patterns: names for what is matched, and reads of the fields they name.

use syn::{Member, Pat, PatIdent, PatStruct, PatTupleStruct};

use super::{Val, Via, Walk, local_via};
use crate::census::What;
use crate::index::{plain, segments};
use crate::types::Ty;

impl Walk<'_> {
    /// Gives names to the parts of a value; a name leads to the struct through `via`.
    pub(super) fn bind(&mut self, pattern: &Pat, value: &Val, via: Via) {
        match pattern {
            Pat::Ident(ident) => self.bind_ident(ident, value, via),
            Pat::Type(typed) => {
                let ty = self.index.ty(&typed.ty, &self.context);
                let ty = if ty.leads_on() { ty } else { value.ty.clone() };
                self.bind(&typed.pat, &value.clone().with_type(ty), via);
            }
            Pat::Reference(inner) => self.bind(&inner.pat, value, via),
            Pat::Paren(inner) => self.bind(&inner.pat, value, via),
            Pat::Guard(guarded) => {
                self.bind(&guarded.pat, value, via);
                self.expr(&guarded.guard);
            }
            Pat::Or(or) => or.cases.iter().for_each(|case| self.bind(case, value, via)),
            Pat::Tuple(tuple) => {
                for (position, part) in tuple.elems.iter().enumerate() {
                    let part_of_wrapped = || match &value.ty {
                        Ty::Wrapped(_) => value.ty.clone(),
                        _ => Ty::Unknown,
                    };
                    let ty = self.index.field(&value.ty, &position.to_string()).unwrap_or_else(part_of_wrapped);
                    self.bind(part, &value.clone().with_type(ty), via);
                }
            }
            Pat::Slice(slice) => slice.elems.iter().for_each(|part| self.bind(part, value, via)),
            Pat::Struct(pattern) => self.bind_struct(pattern, value, via),
            Pat::TupleStruct(pattern) => self.bind_tuple_struct(pattern, value, via),
            Pat::Macro(call) => {
                self.macro_call(&call.mac);
            }
            Pat::Verbatim(tokens) => self.scan(tokens.clone()),
            _ => {}
        }
    }

    fn bind_ident(&mut self, pattern: &PatIdent, value: &Val, via: Via) {
        let mutable = pattern.by_ref.is_some() && pattern.mutability.is_some();
        if mutable && self.target(value).is_some() {
            self.note_write(pattern.ident.span(), "(whole)", "borrowed mutably");
        }
        self.name(&plain(&pattern.ident), Val::new(value.ty.clone(), via));
        if let Some((_, inner)) = &pattern.subpat {
            self.bind(inner, value, via);
        }
    }

    fn bind_struct(&mut self, pattern: &PatStruct, value: &Val, via: Via) {
        let named = self.index.constructor(&pattern.path, &self.context);
        let is_self = self.index.target_of(&value.ty).filter(|_| segments(&pattern.path) == ["Self"]);
        let id = is_self.map(str::to_owned).or(named);
        let of = match (&id, value.ty.bare()) {
            // The value knows its type arguments.
            (Some(id), Ty::Named(name, _)) if id == name => value.ty.bare().clone(),
            (Some(id), Ty::Named(_, arguments)) => Ty::Named(id.clone(), arguments.clone()),
            (Some(id), _) => Ty::Named(id.clone(), Vec::new()),
            (None, _) => Ty::Unknown,
        };
        let target = of.name().filter(|name| self.index.targets.contains_key(*name)).map(str::to_owned);
        for field in &pattern.fields {
            let (name, span) = match &field.member {
                Member::Named(ident) => (plain(ident), ident.span()),
                Member::Unnamed(index) => (index.index.to_string(), index.span),
            };
            let ty = self.index.field(&of, &name).unwrap_or(Ty::Unknown);
            let leaf = target.as_ref().and_then(|target| self.index.leaf(target, &name)).map(str::to_owned);
            // A struct that is flattened into the settings is reached as they are.
            let mut inner = Val::new(ty, if target.is_some() { pattern_via(value.via) } else { Via::Parked });
            if let Some(leaf) = leaf {
                inner.via = Via::Fresh;
                if is_mutable(&field.pat) {
                    self.note_write(span, &leaf, "borrowed mutably");
                } else if !matches!(*field.pat, Pat::Wild(_)) {
                    // The pattern reads it by the way the struct got here.
                    self.note_read(span, What::Leaf(leaf), pattern_via(value.via));
                }
            } else if target.is_none() && of == Ty::Unknown && value.ty != Ty::Plain {
                let matches_leaf = self.index.leaf_names.contains(&name) && value.ty == Ty::Unknown;
                if matches_leaf && segments(&pattern.path).last().is_some_and(|last| self.is_target_name(last)) {
                    self.note_unfollowed(span, &name, "the type of what is matched is not known");
                }
            }
            let local = if via == Via::Parameter { via } else { local_via(inner.via) };
            self.bind(&field.pat, &inner, local);
        }
    }

    fn is_target_name(&self, name: &str) -> bool {
        self.index.target.rsplit("::").next() == Some(name)
    }

    fn bind_tuple_struct(&mut self, pattern: &PatTupleStruct, value: &Val, via: Via) {
        let names = segments(&pattern.path);
        let constructor = self.index.constructor(&pattern.path, &self.context);
        for (position, part) in pattern.elems.iter().enumerate() {
            let ty = match (&constructor, names.last().map(String::as_str)) {
                (Some(id), _) => {
                    let arguments = match value.ty.bare() {
                        Ty::Named(_, arguments) => arguments.clone(),
                        _ => Vec::new(),
                    };
                    let of = Ty::Named(id.clone(), arguments);
                    self.index.field(&of, &position.to_string()).unwrap_or(Ty::Unknown)
                }
                // Which of two types a `Result` stands for here is not known.
                (None, Some("Err")) => Ty::Unknown,
                (None, Some("Some" | "Ok")) => value.ty.clone(),
                _ => value.ty.bare().clone().wrapped(),
            };
            self.bind(part, &value.clone().with_type(ty), via);
        }
    }
}

/// How a pattern reads a field of a value.
fn pattern_via(via: Via) -> Via {
    match via {
        Via::Fresh | Via::Borrowed => Via::Direct,
        other => other,
    }
}

fn is_mutable(pattern: &Pat) -> bool {
    matches!(pattern, Pat::Ident(ident) if ident.by_ref.is_some() && ident.mutability.is_some())
}
