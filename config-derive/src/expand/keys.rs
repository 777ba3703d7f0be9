//! Typed keys of a namespace.

use proc_macro2::TokenStream;
use quote::quote;

use super::{Expansion, child_offsets};
use crate::model::{Child, Leaf, Namespace};
use crate::names;

pub(super) fn expand(expansion: &Expansion<'_>, namespace: &Namespace) -> TokenStream {
    let vis = &expansion.schema.vis;
    let keys = names::keys(&namespace.path);
    let doc = format!("Typed keys of namespace `{}` within schema `S`.", namespace.path);
    let leaves: Vec<_> = namespace.leaves.iter().map(|leaf| &leaf.ident).collect();
    let types: Vec<_> = namespace.leaves.iter().map(key_types).collect();
    let docs = namespace.leaves.iter().map(|leaf| format!("Key of `{}`.", leaf.path));
    let indices = 0..leaves.len();
    let children: Vec<_> = namespace.children.iter().map(Child::ident).collect();
    let child_docs = children.iter().map(|child| format!("Keys of `{}.{}`.", namespace.path, names::plain(child)));
    let child_types: Vec<_> = namespace.children.iter().map(|child| child_type(child, &quote!(S))).collect();
    let child_values = namespace
        .children
        .iter()
        .zip(child_offsets(namespace))
        .map(|(child, offset)| child_value(child, &quote!(S), &quote!(offset + #offset)));
    quote! {
        #[doc = #doc]
        #[allow(dead_code)]
        #vis struct #keys<S> {
            #(#[doc = #docs] #vis #leaves: ::kitbag::Key<S, #types>,)*
            #(#[doc = #child_docs] #vis #children: #child_types,)*
        }

        #[automatically_derived]
        impl<S> #keys<S> {
            #[doc(hidden)]
            #[must_use]
            #vis fn at(offset: usize) -> Self {
                Self {
                    #(#leaves: ::kitbag::Key::new(offset + #indices),)*
                    #(#children: #child_values,)*
                }
            }
        }
    }
}

/// What the type of a leaf's key says beside the schema.
fn key_types(leaf: &Leaf) -> TokenStream {
    let ty = &leaf.ty;
    if leaf.bootstrap { quote!(#ty, ::kitbag::Bootstrap) } else { quote!(#ty) }
}

/// The keys type of a child within schema `schema`.
pub(super) fn child_type(child: &Child, schema: &TokenStream) -> TokenStream {
    match child {
        Child::Inline(namespace) => {
            let keys = names::keys(&namespace.path);
            quote!(#keys<#schema>)
        }
        Child::Nested { ty, .. } => quote!(<#ty as ::kitbag::Namespace>::Keys<#schema>),
    }
}

/// The keys of a child whose first leaf is at `offset`.
pub(super) fn child_value(child: &Child, schema: &TokenStream, offset: &TokenStream) -> TokenStream {
    match child {
        Child::Inline(namespace) => {
            let keys = names::keys(&namespace.path);
            quote!(#keys::at(#offset))
        }
        Child::Nested { ty, .. } => quote!(<#ty as ::kitbag::Namespace>::keys::<#schema>(#offset)),
    }
}
