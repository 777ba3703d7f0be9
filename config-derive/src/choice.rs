//! `#[derive(ConfigChoice)]`: an enum as the type of a setting.

use darling::{Error, FromVariant};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Fields};

use crate::names;

/// Attributes of a variant.
#[derive(FromVariant)]
#[darling(attributes(config))]
struct VariantAttributes {
    #[darling(default)]
    name: Option<String>,
}

pub(crate) fn config_choice(input: &DeriveInput) -> TokenStream {
    let Data::Enum(data) = &input.data else {
        return Error::custom("choices are the variants of an enum").with_span(&input.ident).write_errors();
    };
    let mut errors = Error::accumulator();
    let mut spellings: Vec<String> = Vec::new();
    let mut variants = Vec::new();
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            let text = "a choice has no data: it is read from its name alone";
            errors.push(Error::custom(text).with_span(variant));
        }
        let attributes = errors.handle(VariantAttributes::from_variant(variant));
        let name = attributes.and_then(|attributes| attributes.name);
        let spelling = name.unwrap_or_else(|| names::kebab(&names::plain(&variant.ident)));
        if spellings.contains(&spelling) {
            errors.push(Error::custom(format!("two choices are spelt `{spelling}`")).with_span(variant));
        }
        spellings.push(spelling);
        variants.push(&variant.ident);
    }
    if variants.is_empty() {
        errors.push(Error::custom("a choice needs at least one variant").with_span(&input.ident));
    }
    if let Err(errors) = errors.finish() {
        return errors.write_errors();
    }
    let ident = &input.ident;
    let positions = if data.variants.iter().any(|variant| variant.discriminant.is_some()) {
        let positions = 0..variants.len();
        quote!(match self { #(Self::#variants => #positions,)* })
    } else {
        quote!(self as usize)
    };
    quote! {
        #[automatically_derived]
        impl ::kitbag::Choice for #ident {
            const NAMES: &'static [&'static str] = &[#(#spellings),*];
            const VARIANTS: &'static [Self] = &[#(Self::#variants),*];
            const OPTIONAL_VARIANTS: &'static [::core::option::Option<Self>] = &[
                ::core::option::Option::None,
                #(::core::option::Option::Some(Self::#variants)),*
            ];

            #[inline]
            fn position(self) -> usize {
                #positions
            }
        }
    }
}
