//! Setters of a namespace. Each has the leaf's class as a bound on the form of change.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Type;

use super::{Expansion, child_offsets};
use crate::model::{Child, Class, Leaf, Namespace};
use crate::names;

pub(super) fn expand(expansion: &Expansion<'_>, namespace: &Namespace) -> TokenStream {
    let vis = &expansion.schema.vis;
    let setters = names::setters(&namespace.path);
    let doc = format!("Setters of namespace `{}` in a change of form `F`.", namespace.path);
    let methods = namespace.leaves.iter().enumerate().filter_map(|(index, leaf)| setter(expansion, index, leaf));
    let children = namespace.children.iter().zip(child_offsets(namespace)).map(|(child, offset)| {
        child_method(expansion, child, &namespace.path, &quote!(self.edit), &quote!(self.offset + #offset))
    });
    quote! {
        #[doc = #doc]
        #[allow(dead_code)]
        #vis struct #setters<'a, F> {
            edit: &'a mut ::kitbag::__private::Edit,
            offset: usize,
            form: ::core::marker::PhantomData<F>,
        }

        #[automatically_derived]
        #[allow(dead_code)]
        impl<'a, F> #setters<'a, F> {
            #[doc(hidden)]
            #vis fn at(edit: &'a mut ::kitbag::__private::Edit, offset: usize) -> Self {
                Self { edit, offset, form: ::core::marker::PhantomData }
            }

            #(#methods)*
            #(#children)*
        }
    }
}

fn setter(expansion: &Expansion<'_>, index: usize, leaf: &Leaf) -> Option<TokenStream> {
    let bound = match leaf.class {
        Class::Launch => quote!(::kitbag::MaySetLaunch),
        Class::LoadTime => quote!(::kitbag::MaySetLoadTime),
        Class::Hot => quote!(::kitbag::MaySetHot),
        Class::Derived => return None,
    };
    let vis = &expansion.schema.vis;
    let (ident, ty) = (&leaf.ident, &leaf.ty);
    let doc = format!("Sets `{}`.", leaf.path);
    // Only owned text, paths and what is wrapped: a numeric literal would not know its type behind `impl Into`.
    let (argument, value) = if takes_into(ty) {
        (quote!(impl ::core::convert::Into<#ty>), quote!(::core::convert::Into::<#ty>::into(value)))
    } else {
        (quote!(#ty), quote!(value))
    };
    Some(quote! {
        #[doc = #doc]
        #vis fn #ident(&mut self, value: #argument)
        where
            F: #bound,
        {
            self.edit.set::<#ty>(self.offset + #index, #value);
        }
    })
}

fn takes_into(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    path.path.segments.last().is_some_and(|last| ["String", "PathBuf", "Serde"].iter().any(|name| last.ident == name))
}

/// The method that leads to the setters of a child.
pub(super) fn child_method(
    expansion: &Expansion<'_>,
    child: &Child,
    parent: &str,
    edit: &TokenStream,
    offset: &TokenStream,
) -> TokenStream {
    let vis = &expansion.schema.vis;
    let ident = child.ident();
    let path = [parent, &names::plain(&ident)].join(".");
    let doc = format!("Setters of namespace `{}`.", path.trim_start_matches('.'));
    let (returned, value) = match child {
        Child::Inline(namespace) => {
            let setters = names::setters(&namespace.path);
            (quote!(#setters<'_, F>), quote!(#setters::at(&mut *#edit, #offset)))
        }
        Child::Nested { ty, .. } => (
            quote!(<#ty as ::kitbag::Namespace>::Setters<'_, F>),
            quote!(<#ty as ::kitbag::Namespace>::setters::<F>(&mut *#edit, #offset)),
        ),
    };
    quote! {
        #[doc = #doc]
        #vis fn #ident(&mut self) -> #returned {
            #value
        }
    }
}
