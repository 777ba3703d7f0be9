//! What a namespace struct gets beside its bag, keys and setters: the trait through which a root nests it.

use proc_macro2::TokenStream;
use quote::quote;

use super::{Expansion, hidden};
use crate::names;

pub(super) fn expand(expansion: &Expansion<'_>) -> TokenStream {
    let schema = expansion.schema;
    let ident = &schema.ident;
    let path = &schema.tree.path;
    let (bag, keys, setters) = (names::bag(path), names::keys(path), names::setters(path));
    let recording = names::recording(path);
    let checks = super::root::nesting_checks(expansion);
    let fields = &schema.fields;
    let touch = hidden("touch");
    quote! {
        #[automatically_derived]
        impl ::kitbag::Namespace for #ident {
            type Bag = #bag;
            type Keys<S> = #keys<S>;
            type Setters<'a, F> = #setters<'a, F>;
            type Recording<'a> = #recording<'a>;

            fn keys<S>(offset: usize) -> #keys<S> {
                #keys::at(offset)
            }

            fn setters<F>(edit: &mut ::kitbag::__private::Edit, offset: usize) -> #setters<'_, F> {
                #setters::at(edit, offset)
            }

            fn recording<'a>(
                bag: &'a #bag,
                reads: &'a ::kitbag::__private::Reads,
                offset: usize,
            ) -> #recording<'a> {
                #recording::at(bag, reads, offset)
            }
        }

        // The struct is only a declaration; this use keeps `dead_code` quiet about its fields.
        const _: () = {
            #[allow(dead_code)]
            fn #touch(schema: &#ident) {
                #(let _ = &schema.#fields;)*
            }
        };

        #checks
    }
}
