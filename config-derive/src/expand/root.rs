//! What a root gets: bags of all namespaces, pin, setters, keys, the schema trait, checks and tests.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};

use super::{Expansion, child_bag, child_offsets, info, keys, recording, setters};
use crate::model::{Child, Class, Namespace};
use crate::names;

pub(super) fn expand(expansion: &Expansion<'_>) -> TokenStream {
    let parts = [
        bags(expansion),
        pin(expansion),
        root_setters(expansion),
        root_keys(expansion),
        recording::root(expansion),
        schema_trait(expansion),
        nesting_checks(expansion),
        whole_schema_check(expansion),
        tests(expansion),
    ];
    quote!(#(#parts)*)
}

fn named(expansion: &Expansion<'_>, suffix: &str) -> syn::Ident {
    format_ident!("{}{suffix}", expansion.schema.ident)
}

fn children(expansion: &Expansion<'_>) -> (Vec<syn::Ident>, Vec<TokenStream>, Vec<TokenStream>) {
    let tree = &expansion.schema.tree;
    let idents = tree.children.iter().map(Child::ident).collect();
    (idents, tree.children.iter().map(child_bag).collect(), child_offsets(tree))
}

fn bags(expansion: &Expansion<'_>) -> TokenStream {
    let vis = &expansion.schema.vis;
    let name = named(expansion, "Bags");
    let (idents, bags, offsets) = children(expansion);
    quote! {
        #[doc(hidden)]
        #vis struct #name {
            #(#idents: ::std::sync::Arc<#bags>,)*
        }

        #[automatically_derived]
        impl ::kitbag::__private::Bags for #name {
            fn build(
                values: &[::kitbag::__private::Erased],
                previous: ::core::option::Option<(&Self, &[::kitbag::__private::Erased])>,
            ) -> Self {
                Self {
                    #(#idents: ::kitbag::__private::rebuild::<#bags>(
                        values,
                        #offsets,
                        previous.map(|(bags, old)| (&bags.#idents, old)),
                    ),)*
                }
            }

            fn read(&self, index: usize) -> ::core::option::Option<::kitbag::__private::Erased> {
                #(
                    let offset = #offsets;
                    if (offset..offset + <#bags as ::kitbag::Bag>::LEN).contains(&index) {
                        return ::kitbag::Bag::read(&*self.#idents, index - offset);
                    }
                )*
                ::core::option::Option::None
            }
        }
    }
}

fn pin(expansion: &Expansion<'_>) -> TokenStream {
    let schema = &expansion.schema.ident;
    let vis = &expansion.schema.vis;
    let name = named(expansion, "Pin");
    let doc = format!("One pinned epoch of a `Context<{schema}>`, as role `R` sees it.");
    let (idents, bags, _) = children(expansion);
    let docs = expansion.schema.tree.children.iter().map(|child| super::child_doc(child, ""));
    quote! {
        #[doc = #doc]
        #[allow(dead_code)]
        #vis struct #name<R = ::kitbag::Everything> {
            pinned: ::kitbag::Pinned<#schema>,
            role: ::core::marker::PhantomData<fn() -> R>,
        }

        #[automatically_derived]
        #[allow(dead_code)]
        impl<R: ::kitbag::Role> #name<R> {
            #(
                #[doc = #docs]
                #[inline]
                #[must_use]
                #vis fn #idents(&self) -> &#bags
                where
                    R: ::kitbag::MayRead<#bags>,
                {
                    &self.pinned.bags().#idents
                }
            )*
        }

        #[automatically_derived]
        impl<R> ::core::convert::From<::kitbag::Pinned<#schema>> for #name<R> {
            fn from(pinned: ::kitbag::Pinned<#schema>) -> Self {
                Self { pinned, role: ::core::marker::PhantomData }
            }
        }

        // What does not depend on the schema, such as the number of the epoch. A namespace of the same name comes first.
        #[automatically_derived]
        impl<R> ::core::ops::Deref for #name<R> {
            type Target = ::kitbag::Pinned<#schema>;

            fn deref(&self) -> &::kitbag::Pinned<#schema> {
                &self.pinned
            }
        }

        #[automatically_derived]
        impl<R> ::core::clone::Clone for #name<R> {
            fn clone(&self) -> Self {
                Self { pinned: ::core::clone::Clone::clone(&self.pinned), role: ::core::marker::PhantomData }
            }
        }
    }
}

fn root_setters(expansion: &Expansion<'_>) -> TokenStream {
    let schema = &expansion.schema.ident;
    let vis = &expansion.schema.vis;
    let name = named(expansion, "Setters");
    let doc = format!("Setters of schema `{schema}` in a change of form `F`.");
    let tree = &expansion.schema.tree;
    let methods = tree
        .children
        .iter()
        .zip(child_offsets(tree))
        .map(|(child, offset)| setters::child_method(expansion, child, "", &quote!((&mut self.edit)), &offset));
    quote! {
        #[doc = #doc]
        #[allow(dead_code)]
        #vis struct #name<F> {
            edit: ::kitbag::__private::Edit,
            form: ::core::marker::PhantomData<F>,
        }

        #[automatically_derived]
        #[allow(dead_code)]
        impl<F> #name<F> {
            #(#methods)*
        }

        #[automatically_derived]
        impl<F> ::core::convert::From<::kitbag::__private::Edit> for #name<F> {
            fn from(edit: ::kitbag::__private::Edit) -> Self {
                Self { edit, form: ::core::marker::PhantomData }
            }
        }

        #[automatically_derived]
        impl<F> ::core::convert::From<#name<F>> for ::kitbag::__private::Edit {
            fn from(setters: #name<F>) -> Self {
                setters.edit
            }
        }
    }
}

fn root_keys(expansion: &Expansion<'_>) -> TokenStream {
    let schema = &expansion.schema.ident;
    let vis = &expansion.schema.vis;
    let name = named(expansion, "Keys");
    let doc = format!("Typed keys of schema `{schema}`.");
    let tree = &expansion.schema.tree;
    let idents = tree.children.iter().map(Child::ident);
    let docs = tree.children.iter().map(|child| format!("Keys of `{}`.", names::plain(&child.ident())));
    let types = tree.children.iter().map(|child| keys::child_type(child, &quote!(#schema)));
    quote! {
        #[doc = #doc]
        #[allow(dead_code)]
        #vis struct #name {
            #(#[doc = #docs] #vis #idents: #types,)*
        }
    }
}

fn schema_trait(expansion: &Expansion<'_>) -> TokenStream {
    let schema = expansion.schema;
    let ident = &schema.ident;
    let info = info::namespace(expansion, &schema.tree);
    let env = match &schema.env {
        Some(prefix) => quote!(::core::option::Option::Some(#prefix)),
        None => quote!(::core::option::Option::None),
    };
    let [bags, pin, setters, keys_name, recording] =
        ["Bags", "Pin", "Setters", "Keys", "Recording"].map(|suffix| named(expansion, suffix));
    let idents = schema.tree.children.iter().map(Child::ident);
    let values = schema
        .tree
        .children
        .iter()
        .zip(child_offsets(&schema.tree))
        .map(|(child, offset)| keys::child_value(child, &quote!(#ident), &offset));
    let fields = &schema.fields;
    quote! {
        #[automatically_derived]
        impl ::kitbag::ConfigNamespaces for #ident {
            const SCHEMA: ::kitbag::NamespaceInfo = #info;
            const ENV_PREFIX: ::core::option::Option<&'static str> = #env;

            type Bags = #bags;
            type Pin<R: ::kitbag::Role> = #pin<R>;
            type Setters<F> = #setters<F>;
            type Keys = #keys_name;
            type Recording = #recording;

            #[inline(never)]
            fn schema() -> &'static ::kitbag::NamespaceInfo {
                &<Self as ::kitbag::ConfigNamespaces>::SCHEMA
            }

            fn keys() -> #keys_name {
                #keys_name { #(#idents: #values,)* }
            }

            fn touch(&self) {
                #(let _ = &self.#fields;)*
            }
        }
    }
}

/// The path that a nested struct declares must be where it is nested.
pub(super) fn nesting_checks(expansion: &Expansion<'_>) -> TokenStream {
    // A struct that is nested twice is reported already.
    if expansion.faulty {
        return TokenStream::new();
    }
    let parent = &expansion.schema.tree.path;
    let checks = expansion.schema.tree.children.iter().filter_map(|child| match child {
        Child::Nested { ident, ty, .. } => {
            let name = names::plain(ident);
            // The span is the field's: there the message stands.
            Some(quote_spanned! {ident.span()=>
                const _: () = {
                    const FOUND: ::kitbag::__private::Message = ::kitbag::__private::misplaced(
                        #parent,
                        #name,
                        <<#ty as ::kitbag::Namespace>::Bag as ::kitbag::Bag>::INFO.path,
                    );
                    if let ::core::option::Option::Some(text) = FOUND.text() {
                        ::core::panic!("{}", text);
                    }
                };
            })
        }
        Child::Inline(_) => None,
    });
    quote!(#(#checks)*)
}

/// What the words of a single struct do not tell: names that two structs give, rules over leaves of another struct, and
/// types that say they are secrets.
fn whole_schema_check(expansion: &Expansion<'_>) -> TokenStream {
    if expansion.faulty {
        return TokenStream::new();
    }
    let schema = &expansion.schema.ident;
    quote! {
        const _: () = {
            const INFO: ::kitbag::NamespaceInfo = <#schema as ::kitbag::ConfigNamespaces>::SCHEMA;
            const FOUND: ::kitbag::__private::Message =
                ::kitbag::__private::whole_schema::<{ 2 * INFO.len() + 1 }>(
                    &INFO,
                    <#schema as ::kitbag::ConfigNamespaces>::ENV_PREFIX,
                );
            if let ::core::option::Option::Some(text) = FOUND.text() {
                ::core::panic!("{}", text);
            }
        };
    }
}

/// A test of every derived value in the tree, nested structs included.
fn tests(expansion: &Expansion<'_>) -> TokenStream {
    fn any_derived(namespace: &Namespace) -> bool {
        namespace.leaves.iter().any(|leaf| leaf.class == Class::Derived)
            || namespace.children.iter().any(|child| match child {
                Child::Inline(inline) => any_derived(inline),
                // It may have some: only the test itself can tell.
                Child::Nested { .. } => true,
            })
    }
    if !any_derived(&expansion.schema.tree) || expansion.faulty {
        return TokenStream::new();
    }
    let schema = &expansion.schema.ident;
    // Beside the struct, not in a module of its own: a schema may be declared inside a function, which has no path.
    let name = format_ident!("derived_values_of_{}_equal_their_functions", names::snake(&schema.to_string()));
    quote! {
        #[cfg(test)]
        #[automatically_derived]
        #[allow(non_snake_case)]
        #[test]
        fn #name() {
            ::kitbag::__private::check_derived_values::<#schema>();
        }
    }
}
