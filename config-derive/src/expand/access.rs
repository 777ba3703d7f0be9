//! The accessor of one leaf.

use proc_macro2::TokenStream;
use quote::quote;

use super::{Expansion, PlainRead, plain_read};
use crate::model::{Class, Leaf};

pub(super) fn accessor(expansion: &Expansion<'_>, leaf: &Leaf) -> TokenStream {
    let vis = &expansion.schema.vis;
    let (ident, ty, doc) = (&leaf.ident, &leaf.ty, &leaf.doc);
    let (returned, body) = match (leaf.class, plain_read(ty)) {
        (Class::Hot | Class::Derived, _) => (quote!(::kitbag::Hot<'_, #ty>), quote!(::kitbag::Hot::new(&self.#ident))),
        (_, Some(PlainRead::Copied)) => (quote!(#ty), quote!(self.#ident)),
        (_, Some(PlainRead::Text)) => (quote!(&str), quote!(&self.#ident)),
        (_, None) => (quote!(<#ty as ::kitbag::Leaf>::Read<'_>), quote!(<#ty as ::kitbag::Leaf>::read(&self.#ident))),
    };
    quote! {
        #[doc = #doc]
        #[inline]
        #[must_use]
        #vis fn #ident(&self) -> #returned {
            #body
        }
    }
}
