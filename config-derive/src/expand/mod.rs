//! Model → tokens, one file per thing emitted. Logic lives in `kitbag`; what is written here is data and thin glue.

mod access;
mod bag;
mod info;
mod keys;
mod namespace_struct;
#[cfg(test)]
mod parts;
mod recording;
mod root;
mod setters;
#[cfg(test)]
mod snapshots;

use darling::Error;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{DeriveInput, Type};

use crate::model::{Child, Namespace, Schema};
use crate::{check, lower, names};

/// Expands `#[derive(ConfigNamespaces)]`.
pub(crate) fn config_namespaces(input: &DeriveInput) -> TokenStream {
    let mut errors = Error::accumulator();
    let mut schema = lower::lower(input, &mut errors);
    if let Some(schema) = &mut schema {
        check::check(schema, &mut errors);
    }
    schema = schema.filter(|schema| !check::type_names_clash(schema, &mut errors));
    let errors = errors.finish().err().map(Error::write_errors);
    // Items are emitted in spite of errors, so that code that uses them does not fail as well.
    let items = schema.map(|schema| items(&schema, errors.is_some()));
    quote!(#errors #items)
}

fn items(schema: &Schema, faulty: bool) -> TokenStream {
    let context = Expansion { schema, faulty };
    let mut namespaces = TokenStream::new();
    context.each_namespace(&schema.tree, &mut namespaces);
    let own = if schema.is_root() { root::expand(&context) } else { namespace_struct::expand(&context) };
    quote!(#namespaces #own)
}

/// What every part of an expansion needs to know.
struct Expansion<'a> {
    schema: &'a Schema,
    /// There are errors: functions over settings are not expanded, since their inputs may not exist.
    faulty: bool,
}

impl Expansion<'_> {
    fn each_namespace(&self, namespace: &Namespace, tokens: &mut TokenStream) {
        if !namespace.path.is_empty() {
            tokens.extend(once_in_a_module(namespace));
            tokens.extend(bag::expand(self, namespace));
            tokens.extend(keys::expand(self, namespace));
            tokens.extend(setters::expand(self, namespace));
        }
        for child in &namespace.children {
            if let Child::Inline(inline) = child {
                self.each_namespace(inline, tokens);
            }
        }
    }
}

/// Two structs of one module with one namespace emit types of the same names, and neither derive sees the other. What
/// the compiler says first of it has this name in it.
fn once_in_a_module(namespace: &Namespace) -> TokenStream {
    let name = format_ident!("{}_of_two_schemas__put_each_into_a_module_of_its_own", names::bag(&namespace.path));
    quote! {
        #[doc(hidden)]
        #[allow(dead_code, non_upper_case_globals)]
        const #name: () = ();
    }
}

/// The bag type of a child.
fn child_bag(child: &Child) -> TokenStream {
    match child {
        Child::Inline(namespace) => {
            let bag = names::bag(&namespace.path);
            quote!(#bag)
        }
        Child::Nested { ty, .. } => quote!(<#ty as ::kitbag::Namespace>::Bag),
    }
}

/// Index of the first leaf of each child, counted from the first leaf of the parent.
fn child_offsets(namespace: &Namespace) -> Vec<TokenStream> {
    let mut before = Vec::new();
    let own = namespace.leaves.len();
    let mut offsets = Vec::new();
    for child in &namespace.children {
        offsets.push(quote!(#own #(+ <#before as ::kitbag::Bag>::LEN)*));
        before.push(child_bag(child));
    }
    offsets
}

/// The doc comment of a child's accessor: the field's own, if it has one.
fn child_doc(child: &Child, parent: &str) -> String {
    match child {
        Child::Nested { doc, .. } if !doc.is_empty() => doc.clone(),
        _ => {
            let path = [parent, &names::plain(&child.ident())].join(".");
            format!("Namespace `{}`.", path.trim_start_matches('.'))
        }
    }
}

/// Types whose accessor's return type is written out, so that rustdoc shows it plainly.
fn plain_read(ty: &Type) -> Option<PlainRead> {
    const COPIED: [&str; 16] = [
        "bool", "char", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32",
        "f64",
    ];
    let Type::Path(path) = ty else { return None };
    let name = path.path.get_ident()?.to_string();
    match name.as_str() {
        copied if COPIED.contains(&copied) => Some(PlainRead::Copied),
        "String" => Some(PlainRead::Text),
        _ => None,
    }
}

/// How such a type is read.
enum PlainRead {
    Copied,
    Text,
}

/// A local name that cannot meet one of the user's.
fn hidden(name: &str) -> syn::Ident {
    format_ident!("__kitbag_{name}")
}
