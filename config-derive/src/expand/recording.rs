//! The recording twin of a bag: the same accessors, and a note of what was read.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Ident;

use super::{Expansion, access, child_offsets};
use crate::model::{Child, Namespace};
use crate::names;

pub(super) fn namespace(expansion: &Expansion<'_>, namespace: &Namespace) -> TokenStream {
    let vis = &expansion.schema.vis;
    let bag = names::bag(&namespace.path);
    let recording = names::recording(&namespace.path);
    let doc = format!("Namespace `{}` under a recorder: every read is noted.", namespace.path);
    let accessors =
        namespace.leaves.iter().enumerate().filter(|(_, leaf)| !leaf.resolution_only).map(|(index, leaf)| {
            let (ident, doc) = (&leaf.ident, &leaf.doc);
            let (returned, _) = access::read(leaf, &quote!('a));
            let census = access::census(leaf);
            quote! {
                #[doc = #doc]
                #[inline]
                #[must_use]
                #census
                #vis fn #ident(&self) -> #returned {
                    self.reads.note(self.offset + #index);
                    self.bag.#ident()
                }
            }
        });
    let children = namespace.children.iter().zip(child_offsets(namespace)).map(|(child, offset)| {
        let ident = child.ident();
        child_method(
            expansion,
            child,
            &namespace.path,
            &quote!('a),
            &quote!(self.bag.#ident()),
            &quote!(self.reads),
            &quote!(self.offset + #offset),
        )
    });
    quote! {
        #[doc = #doc]
        #[allow(dead_code)]
        #vis struct #recording<'a> {
            bag: &'a #bag,
            reads: &'a ::kitbag::__private::Reads,
            offset: usize,
        }

        #[automatically_derived]
        #[allow(dead_code, deprecated)]
        impl<'a> #recording<'a> {
            #[doc(hidden)]
            #[must_use]
            #vis fn at(bag: &'a #bag, reads: &'a ::kitbag::__private::Reads, offset: usize) -> Self {
                Self { bag, reads, offset }
            }

            #(#accessors)*
            #(#children)*
        }
    }
}

/// The method that leads to the recording of a child.
fn child_method(
    expansion: &Expansion<'_>,
    child: &Child,
    parent: &str,
    lifetime: &TokenStream,
    bag: &TokenStream,
    reads: &TokenStream,
    offset: &TokenStream,
) -> TokenStream {
    let vis = &expansion.schema.vis;
    let ident = child.ident();
    let doc = super::child_doc(child, parent);
    let (returned, value) = match child {
        Child::Inline(namespace) => {
            let recording = names::recording(&namespace.path);
            (quote!(#recording<#lifetime>), quote!(#recording::at(#bag, #reads, #offset)))
        }
        Child::Nested { ty, .. } => (
            quote!(<#ty as ::kitbag::Namespace>::Recording<#lifetime>),
            quote!(<#ty as ::kitbag::Namespace>::recording(#bag, #reads, #offset)),
        ),
    };
    quote! {
        #[doc = #doc]
        #[must_use]
        #vis fn #ident(&self) -> #returned {
            #value
        }
    }
}

/// The recording of a whole schema.
pub(super) fn root(expansion: &Expansion<'_>) -> TokenStream {
    let schema = &expansion.schema.ident;
    let vis = &expansion.schema.vis;
    let name: Ident = format_ident!("{schema}Recording");
    let doc = format!("One pinned epoch of a `Context<{schema}>` under a recorder.");
    let tree = &expansion.schema.tree;
    let methods = tree.children.iter().zip(child_offsets(tree)).map(|(child, offset)| {
        let ident = child.ident();
        let bag = quote!(&*self.pinned.bags().#ident);
        child_method(expansion, child, "", &quote!('_), &bag, &quote!(&self.reads), &offset)
    });
    quote! {
        #[doc = #doc]
        #[allow(dead_code)]
        #vis struct #name {
            pinned: ::kitbag::Pinned<#schema>,
            reads: ::kitbag::__private::Reads,
        }

        #[automatically_derived]
        #[allow(dead_code)]
        impl #name {
            #(#methods)*
        }

        #[automatically_derived]
        impl ::core::convert::From<::kitbag::Pinned<#schema>> for #name {
            fn from(pinned: ::kitbag::Pinned<#schema>) -> Self {
                Self { pinned, reads: ::core::default::Default::default() }
            }
        }

        #[automatically_derived]
        impl ::kitbag::Recording<#schema> for #name {
            fn parts(&self) -> (&::kitbag::Pinned<#schema>, &::kitbag::__private::Reads) {
                (&self.pinned, &self.reads)
            }
        }
    }
}
