//! The accessor of one leaf.

use proc_macro2::TokenStream;
use quote::quote;

use super::{Expansion, PlainRead, plain_read};
use crate::model::Leaf;

pub(super) fn accessor(expansion: &Expansion<'_>, leaf: &Leaf) -> TokenStream {
    let vis = &expansion.schema.vis;
    let (ident, doc) = (&leaf.ident, &leaf.doc);
    let (returned, body) = read(leaf, &quote!('_));
    let census = census(leaf);
    quote! {
        #[doc = #doc]
        #[inline]
        #[must_use]
        #census
        #vis fn #ident(&self) -> #returned {
            #body
        }
    }
}

/// Under the cfg `kitbag_census` every read becomes a warning that names its leaf: `RUSTFLAGS="--cfg kitbag_census"
/// cargo check` is a census of all reads. Not a cargo feature, because `--all-features` would then warn of every read.
pub(super) fn census(leaf: &Leaf) -> Option<TokenStream> {
    cfg!(kitbag_census).then(|| {
        let note = format!("kitbag census: {}", leaf.path);
        quote!(#[deprecated(note = #note)])
    })
}

/// What the accessor returns, borrowed for `lifetime`, and how it gets it.
pub(super) fn read(leaf: &Leaf, lifetime: &TokenStream) -> (TokenStream, TokenStream) {
    let (ident, ty) = (&leaf.ident, &leaf.ty);
    match plain_read(ty) {
        _ if leaf.may_change() => (quote!(::kitbag::Hot<#lifetime, #ty>), quote!(::kitbag::Hot::new(&self.#ident))),
        Some(PlainRead::Copied) => (quote!(#ty), quote!(self.#ident)),
        Some(PlainRead::Text) => (quote!(&#lifetime str), quote!(&self.#ident)),
        None => (quote!(<#ty as ::kitbag::Leaf>::Read<#lifetime>), quote!(<#ty as ::kitbag::Leaf>::read(&self.#ident))),
    }
}
