//! The bag of a namespace: private fields behind accessors.

use proc_macro2::TokenStream;
use quote::quote;

use super::{Expansion, access, child_bag, child_offsets, info, recording};
use crate::model::{Child, Class, Namespace};
use crate::names;

pub(super) fn expand(expansion: &Expansion<'_>, namespace: &Namespace) -> TokenStream {
    let vis = &expansion.schema.vis;
    let bag = names::bag(&namespace.path);
    let doc = format!("Resolved values of namespace `{}`.", namespace.path);
    let leaves: Vec<_> = namespace.leaves.iter().map(|leaf| &leaf.ident).collect();
    let types: Vec<_> = namespace.leaves.iter().map(|leaf| &leaf.ty).collect();
    let indices: Vec<_> = (0..leaves.len()).collect();
    let children: Vec<_> = namespace.children.iter().map(Child::ident).collect();
    let child_bags: Vec<_> = namespace.children.iter().map(child_bag).collect();
    let offsets = child_offsets(namespace);
    let accessors =
        namespace.leaves.iter().filter(|leaf| !leaf.resolution_only).map(|leaf| access::accessor(expansion, leaf));
    let child_docs = namespace.children.iter().map(|child| super::child_doc(child, &namespace.path));
    // Only derived values, through the accessor: it is what the emitted tests cover.
    let (derived, reads): (Vec<_>, Vec<_>) = namespace
        .leaves
        .iter()
        .enumerate()
        .filter(|(_, leaf)| leaf.class == Class::Derived)
        .map(|(index, leaf)| {
            let (ident, ty) = (&leaf.ident, &leaf.ty);
            let value = if leaf.may_change() { quote!(self.#ident().into_ref()) } else { quote!(&self.#ident) };
            (index, quote!(::kitbag::__private::erase_copy::<#ty>(#value)))
        })
        .unzip();
    let default_types = info::default_types(namespace);
    let secret_types = info::secret_types(namespace);
    let info = info::namespace(expansion, namespace);
    let recording = recording::namespace(expansion, namespace);
    quote! {
        #recording
        #default_types
        #secret_types

        #[doc = #doc]
        #[allow(dead_code)]
        #[derive(::core::fmt::Debug)]
        #vis struct #bag {
            #(#leaves: #types,)*
            #(#children: #child_bags,)*
        }

        #[automatically_derived]
        #[allow(dead_code)]
        impl #bag {
            #(#accessors)*

            #(
                #[doc = #child_docs]
                #[inline]
                #[must_use]
                #vis fn #children(&self) -> &#child_bags {
                    &self.#children
                }
            )*
        }

        #[automatically_derived]
        // The list of leaves is a constant, however long; nothing of it is on the stack.
        #[allow(deprecated, clippy::large_stack_arrays)]
        impl ::kitbag::Bag for #bag {
            const INFO: ::kitbag::NamespaceInfo = #info;

            fn build(values: &[::kitbag::__private::Erased]) -> Self {
                Self {
                    #(#leaves: <#types as ::kitbag::Leaf>::take(values, #indices),)*
                    #(#children: <#child_bags as ::kitbag::Bag>::build(&values[#offsets..]),)*
                }
            }

            fn read(&self, index: usize) -> ::core::option::Option<::kitbag::__private::Erased> {
                match index {
                    #(#derived => ::core::option::Option::Some(#reads),)*
                    _ => {
                        #(
                            let offset = #offsets;
                            if (offset..offset + <#child_bags as ::kitbag::Bag>::LEN).contains(&index) {
                                return ::kitbag::Bag::read(&self.#children, index - offset);
                            }
                        )*
                        ::core::option::Option::None
                    }
                }
            }
        }
    }
}
