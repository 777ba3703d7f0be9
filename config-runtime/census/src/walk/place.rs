//! Which leaf an assignment or a mutable borrow changes.

use proc_macro2::Span;
use syn::{Expr, Member};

use super::Walk;
use crate::index::plain;

/// Methods of values that lead into them, so that what is changed behind them is part of the leaf.
const INTO: &[&str] = &[
    "as_mut",
    "as_deref_mut",
    "as_mut_slice",
    "borrow_mut",
    "entry",
    "expect",
    "first_mut",
    "get_mut",
    "get_or_insert_with",
    "iter_mut",
    "last_mut",
    "or_default",
    "or_insert",
    "or_insert_with",
    "unwrap",
    "values_mut",
];

/// Methods of the standard library that change a value in its place.
const CHANGES: &[&str] = &[
    "append",
    "clear",
    "dedup",
    "drain",
    "entry",
    "extend",
    "extend_from_slice",
    "get_mut",
    "get_or_insert",
    "get_or_insert_with",
    "insert",
    "insert_str",
    "iter_mut",
    "pop",
    "push",
    "push_back",
    "push_front",
    "push_str",
    "remove",
    "replace",
    "resize",
    "retain",
    "reverse",
    "sort",
    "sort_by",
    "sort_by_key",
    "sort_unstable",
    "swap",
    "swap_remove",
    "take",
    "truncate",
    "as_mut",
    "as_deref_mut",
    "values_mut",
];

/// Whether a method with so many arguments changes the value it is called on. `text.replace(a, b)` makes a new text, and
/// `iterator.take(n)` a new iterator.
pub(super) fn changes(method: &str, arguments: usize) -> bool {
    match method {
        "replace" => arguments == 1,
        "take" => arguments == 0,
        _ => CHANGES.contains(&method),
    }
}

impl Walk<'_> {
    /// The leaf that a place is, or is part of, and where it is named.
    pub(super) fn leaf_place(&mut self, expr: &Expr) -> Option<(String, Span)> {
        match expr {
            Expr::Field(field) => {
                let base = self.quietly(&field.base);
                if let (Some(target), Member::Named(ident)) = (self.index.target_of(&base.ty), &field.member)
                    && let Some(leaf) = self.index.leaf(target, &plain(ident))
                {
                    return Some((leaf.to_owned(), ident.span()));
                }
                self.leaf_place(&field.base)
            }
            Expr::Index(index) => {
                let found = self.leaf_place(&index.expr)?;
                self.expr(&index.index);
                Some(found)
            }
            Expr::Paren(inner) => self.leaf_place(&inner.expr),
            Expr::Unary(inner) => self.leaf_place(&inner.expr),
            Expr::Try(inner) => self.leaf_place(&inner.expr),
            Expr::MethodCall(call) if INTO.contains(&plain(&call.method).as_str()) => self.leaf_place(&call.receiver),
            _ => None,
        }
    }
}
