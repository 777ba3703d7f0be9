//! Derive macros of the `kitbag` configuration framework. Use them through `kitbag`, which documents them.

#![forbid(unsafe_code)]

mod attributes;
mod check;
mod choice;
mod expand;
mod lower;
mod model;
mod names;
mod recover;
#[cfg(test)]
mod refusals;
mod role;
mod secrecy;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Declares a struct as a configuration schema, or as one namespace of it.
#[proc_macro_derive(ConfigNamespaces, attributes(config))]
pub fn config_namespaces(input: TokenStream) -> TokenStream {
    expand::config_namespaces(&parse_macro_input!(input as DeriveInput)).into()
}

/// Makes an enum without data the type of a setting.
#[proc_macro_derive(ConfigChoice, attributes(config))]
pub fn config_choice(input: TokenStream) -> TokenStream {
    choice::config_choice(&parse_macro_input!(input as DeriveInput)).into()
}

/// Declares a role: which namespaces a part of the program may read.
#[proc_macro_derive(ConfigRole, attributes(config))]
pub fn config_role(input: TokenStream) -> TokenStream {
    role::config_role(&parse_macro_input!(input as DeriveInput)).into()
}
