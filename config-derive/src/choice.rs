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
    let mut errors = Error::accumulator();
    let Data::Enum(data) = &input.data else {
        return Error::custom("choices are the variants of an enum").with_span(&input.ident).write_errors();
    };
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
    let list = spellings.iter().map(|spelling| format!("`{spelling}`")).collect::<Vec<_>>().join(", ");
    let expected = if spellings.len() == 1 { list } else { format!("one of {list}") };
    quote! {
        #[automatically_derived]
        impl ::kitbag::Choice for #ident {
            const NAMES: &'static [&'static str] = &[#(#spellings),*];
            const VARIANTS: &'static [Self] = &[#(Self::#variants),*];

            #[inline]
            fn name(self) -> &'static str {
                match self {
                    #(Self::#variants => #spellings,)*
                }
            }
        }

        #[automatically_derived]
        impl ::kitbag::Leaf for #ident {
            type Read<'a> = Self;

            #[inline]
            fn read(&self) -> Self {
                *self
            }

            #[inline]
            fn expected() -> ::std::string::String {
                ::std::string::String::from(#expected)
            }

            #[inline]
            fn from_text(text: &str) -> ::core::option::Option<Self> {
                match ::kitbag::__private::choice(<Self as ::kitbag::Choice>::NAMES, text) {
                    ::core::option::Option::Some(index) => {
                        ::core::option::Option::Some(<Self as ::kitbag::Choice>::VARIANTS[index])
                    }
                    ::core::option::Option::None => ::core::option::Option::None,
                }
            }

            #[inline]
            fn from_value(value: &::kitbag::Value) -> ::core::option::Option<Self> {
                match ::kitbag::__private::choice_of_value(<Self as ::kitbag::Choice>::NAMES, value) {
                    ::core::option::Option::Some(index) => {
                        ::core::option::Option::Some(<Self as ::kitbag::Choice>::VARIANTS[index])
                    }
                    ::core::option::Option::None => ::core::option::Option::None,
                }
            }

            #[inline]
            fn to_value(&self) -> ::kitbag::Value {
                ::kitbag::__private::choice_value(::kitbag::Choice::name(*self))
            }

            #[inline]
            fn choices() -> ::core::option::Option<&'static [&'static str]> {
                ::core::option::Option::Some(<Self as ::kitbag::Choice>::NAMES)
            }
        }
    }
}
