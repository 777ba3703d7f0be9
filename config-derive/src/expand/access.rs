//! The accessor of one leaf.

use proc_macro2::TokenStream;
use quote::quote;

use super::{Expansion, PlainRead, plain_read};
use crate::model::Leaf;

pub(super) fn accessor(expansion: &Expansion<'_>, leaf: &Leaf) -> TokenStream {
    let vis = &expansion.schema.vis;
    let (ident, ty, doc) = (&leaf.ident, &leaf.ty, &leaf.doc);
    let (returned, body) = match plain_read(ty) {
        _ if leaf.may_change() => (quote!(::kitbag::Hot<'_, #ty>), quote!(::kitbag::Hot::new(&self.#ident))),
        Some(PlainRead::Copied) => (quote!(#ty), quote!(self.#ident)),
        Some(PlainRead::Text) => (quote!(&str), quote!(&self.#ident)),
        None => (quote!(<#ty as ::kitbag::Leaf>::Read<'_>), quote!(<#ty as ::kitbag::Leaf>::read(&self.#ident))),
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
