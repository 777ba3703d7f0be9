//! `#[derive(ConfigRole)]`: which namespaces a part of the program may read.

use darling::util::PathList;
use darling::{Error, FromDeriveInput};
use proc_macro2::TokenStream;
use quote::quote;
use syn::DeriveInput;

/// Attributes of the role type.
#[derive(FromDeriveInput)]
#[darling(attributes(config))]
struct RoleAttributes {
    ident: syn::Ident,
    #[darling(default)]
    reads: Option<PathList>,
}

pub(crate) fn config_role(input: &DeriveInput) -> TokenStream {
    if !input.generics.params.is_empty() {
        return Error::custom("a role cannot be generic").with_span(&input.generics).write_errors();
    }
    let RoleAttributes { ident, reads } = match RoleAttributes::from_derive_input(input) {
        Ok(attributes) => attributes,
        Err(error) => return error.write_errors(),
    };
    let Some(reads) = reads else {
        let text = format!(
            "role `{ident}` does not say what it reads; write `#[config(reads(PoolBag, ...))]` with the bags of its namespaces"
        );
        return Error::custom(text).with_span(&ident).write_errors();
    };
    let name = ident.to_string();
    let bags = reads.iter();
    quote! {
        #[automatically_derived]
        impl ::kitbag::Role for #ident {
            const NAME: &'static str = #name;
        }

        #(
            #[automatically_derived]
            impl ::kitbag::MayRead<#bags> for #ident {}
        )*
    }
}
