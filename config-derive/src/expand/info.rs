//! The schema as a constant: what the runtime knows of namespaces and leaves.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Lit, Path, Type, UnOp};

use super::{Expansion, child_bag, hidden};
use crate::model::{Cases, Class, Deprecated, Function, Input, Leaf, Namespace, Policy, Replaced, Retired, Start};
use crate::secrecy;

pub(super) fn namespace(expansion: &Expansion<'_>, namespace: &Namespace) -> TokenStream {
    let (path, doc) = (&namespace.path, &namespace.doc);
    // Keys count from the first leaf of the struct that declares them.
    let own_struct = namespace.path == expansion.schema.tree.path;
    let leaves = namespace.leaves.iter().map(|leaf| self::leaf(expansion, leaf));
    let replaced = namespace.replaced.iter().map(|name| self::replaced(expansion, name));
    let retired = namespace.retired.iter().map(|Retired { path, note, .. }| quote!((#path, #note)));
    let validations = namespace.validations.iter().map(|function| validation(expansion, function));
    let children = namespace.children.iter().map(child_bag);
    quote! {
        ::kitbag::NamespaceInfo {
            path: #path,
            doc: #doc,
            own_struct: #own_struct,
            leaves: &[#(#leaves),*],
            replaced: &[#(#replaced),*],
            retired: &[#(#retired),*],
            validations: &[#(#validations),*],
            children: &[#(<#children as ::kitbag::Bag>::INFO),*],
        }
    }
}

fn leaf(expansion: &Expansion<'_>, leaf: &Leaf) -> TokenStream {
    let ty = &leaf.ty;
    let (path, doc, flag) = (&leaf.path, &leaf.doc, &leaf.flag);
    let name = leaf.path.rsplit('.').next().unwrap_or_default();
    let type_name = text_of(ty);
    let class = match leaf.class {
        Class::Launch => quote!(Launch),
        Class::LoadTime => quote!(LoadTime),
        Class::Hot => quote!(Hot),
        Class::Derived => quote!(Derived),
    };
    let policy = match leaf.policy {
        Policy::Live => quote!(Live),
        Policy::AtPublish => quote!(AtPublish),
        Policy::AtLaunch => quote!(AtLaunch),
    };
    let start = match &leaf.start {
        Start::Required => quote!(Required),
        Start::Default(default) => {
            let (text, make) = default_value(ty, default);
            quote!(Default { text: #text, make: #make })
        }
        Start::Computed(function) => {
            let computation = computation(expansion, leaf, function);
            quote!(Computed(#computation))
        }
    };
    let range = leaf.range.as_ref().map(text_of);
    let range_text = option(range.as_ref());
    let ranging = leaf.range.as_ref().map(|range| {
        let (name, value) = (hidden("range"), quote!(::core::option::Option<&::kitbag::__private::Erased>));
        let given = hidden("value");
        // What is wrong with the range, or with having one, is shown at the range.
        let here = range.span().resolved_at(Span::call_site());
        let range = quote_spanned!(here=> ::kitbag::__private::range::<#ty>(#given, #range));
        quote! {
            .ranging({
                fn #name(#given: #value) -> ::core::option::Option<::std::string::String> {
                    #range
                }
                #name
            })
        }
    });
    let validate = leaf.validate.as_ref().map(|path| {
        let result = quote!(::core::result::Result<(), ::std::string::String>);
        let check = function(&result, &quote!(::kitbag::__private::validate::<#ty>(value, #path)));
        quote!(.validated(#check))
    });
    let env = option(leaf.env.as_ref());
    let aliases = &leaf.aliases;
    let deprecated = match &leaf.deprecated {
        Some(deprecated) => {
            let deprecated = self::deprecated(deprecated);
            quote!(::core::option::Option::Some(#deprecated))
        }
        None => quote!(::core::option::Option::None),
    };
    let (cache_key, resolution_only) = (leaf.cache_key, leaf.resolution_only);
    let bootstrap = leaf.bootstrap;
    quote! {
        ::kitbag::LeafInfo {
            name: #name,
            path: #path,
            doc: #doc,
            type_name: #type_name,
            class: ::kitbag::Class::#class,
            policy: ::kitbag::Policy::#policy,
            flag: #flag,
            start: ::kitbag::Start::#start,
            range: #range_text,
            env: #env,
            aliases: &[#(#aliases),*],
            deprecated: #deprecated,
            cache_key: #cache_key,
            resolution_only: #resolution_only,
            bootstrap: #bootstrap,
            ops: ::kitbag::__private::LeafOps::of::<#ty>()#ranging #validate,
        }
    }
}

/// A function of a leaf's value. Not a closure: a closure behind a pointer is compiled twice.
fn function(returned: &TokenStream, body: &TokenStream) -> TokenStream {
    let name = hidden("function");
    quote! {{
        fn #name(value: &::kitbag::__private::Erased) -> #returned {
            #body
        }
        #name
    }}
}

fn deprecated(deprecated: &Deprecated) -> TokenStream {
    let since = &deprecated.since;
    let remove_in = option(deprecated.remove_in.as_ref());
    quote!(::kitbag::Deprecated { since: #since, remove_in: #remove_in })
}

/// A former leaf: how its value is read, and what it becomes.
fn replaced(expansion: &Expansion<'_>, name: &Replaced) -> TokenStream {
    let Replaced { ident, path, ty, flag, .. } = name;
    let deprecated = deprecated(&name.deprecated);
    let Input::Leaf { segments, path: target } = &name.target else { return TokenStream::new() };
    let (keys, value) = (hidden("keys"), hidden("value"));
    let convert = if expansion.faulty {
        quote!(|value| ::core::clone::Clone::clone(value))
    } else {
        let schema = &expansion.schema.ident;
        let make_keys = keys_of(schema, expansion.schema.is_root());
        // A type that is not the target's is shown at the former name's field.
        let here = ident.span().resolved_at(Span::call_site());
        let old =
            quote_spanned!(here=> <#ty as ::core::clone::Clone>::clone(::kitbag::__private::reveal::<#ty>(#value)));
        let new = match &name.map {
            Some(map) => call(map, std::iter::once(old)),
            None => old,
        };
        // The key gives the type that the value must have.
        quote! {
            |#value| {
                #make_keys
                ::kitbag::__private::erase_for(#keys #(.#segments)*, #new)
            }
        }
    };
    quote! {
        ::kitbag::Replaced {
            path: #path,
            flag: #flag,
            target: #target,
            deprecated: #deprecated,
            ops: ::kitbag::__private::LeafOps::of::<#ty>(),
            convert: #convert,
        }
    }
}

/// The default as help shows it, and the function that makes it. A literal needs none: its text is read as from a
/// flag, so that every type can have its default written as a user would write the value, and so that no function is
/// compiled for each leaf.
fn default_value(ty: &Type, default: &Expr) -> (String, TokenStream) {
    if let Some(text) = literal_text(default) {
        return (text, quote!(::core::option::Option::None));
    }
    let make = hidden("make");
    // A function, not a closure: a closure behind a pointer is compiled twice.
    let function = quote! {{
        fn #make() -> ::kitbag::__private::Erased {
            ::kitbag::__private::erase::<#ty>(#default)
        }
        #make
    }};
    (text_of(default), quote!(::core::option::Option::Some(#function)))
}

/// A literal as it is written in a flag.
fn literal_text(default: &Expr) -> Option<String> {
    match default {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text.value()),
            Lit::Bool(value) => Some(value.value.to_string()),
            Lit::Int(value) if value.suffix().is_empty() => Some(value.base10_digits().to_owned()),
            Lit::Float(value) if value.suffix().is_empty() => Some(value.base10_digits().to_owned()),
            _ => None,
        },
        Expr::Unary(negated) if matches!(negated.op, UnOp::Neg(_)) => match &*negated.expr {
            Expr::Lit(_) => literal_text(&negated.expr).map(|text| format!("-{text}")),
            _ => None,
        },
        _ => None,
    }
}

/// Holds defaults that are literals of numbers and booleans against the types of their leaves; never run.
pub(super) fn default_types(namespace: &Namespace) -> TokenStream {
    let checks = namespace.leaves.iter().filter_map(|leaf| match &leaf.start {
        Start::Default(default) => {
            let is_text = matches!(default, Expr::Lit(literal) if matches!(literal.lit, Lit::Str(_)));
            let ty = &leaf.ty;
            let check = || {
                if is_non_zero(ty) {
                    // A literal has the plain type; that it is not zero is known at once.
                    let text = format!("`{}` is never zero, so its default is not zero either", leaf.path);
                    quote_spanned!(default.span()=> const _: #ty = <#ty>::new(#default).expect(#text);)
                } else {
                    quote!(let _: #ty = #default;)
                }
            };
            (!is_text && literal_text(default).is_some()).then(check)
        }
        _ => None,
    });
    let name = hidden("defaults");
    quote! {
        const _: () = {
            #[allow(dead_code)]
            fn #name() {
                #(#checks)*
            }
        };
    }
}

/// Holds leaves that are marked as secrets against what their types say, where the derive cannot tell.
pub(super) fn secret_types(namespace: &Namespace) -> TokenStream {
    let unclear = namespace.leaves.iter().filter(|leaf| leaf.secret && !secrecy::is_secret(&leaf.ty));
    let checks = unclear.filter(|leaf| !secrecy::is_plain(&leaf.ty)).map(|leaf| {
        let (ty, text) = (&leaf.ty, secrecy::MARKED);
        quote_spanned!(ty.span()=> const _: () = ::core::assert!(<#ty as ::kitbag::Leaf>::SECRET, #text);)
    });
    quote!(#(#checks)*)
}

/// `NonZeroU32`, `NonZero<u32>`, as far as can be told from the words.
fn is_non_zero(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    path.path.segments.last().is_some_and(|last| last.ident.to_string().starts_with("NonZero"))
}

fn computation(expansion: &Expansion<'_>, leaf: &Leaf, function: &Function) -> TokenStream {
    let ty = &leaf.ty;
    let text = function.text();
    let paths: Vec<_> = function.leaf_paths().map(|(path, _)| path).collect();
    if expansion.faulty {
        return quote! {
            ::kitbag::Computation {
                function: #text,
                inputs: &[#(#paths),*],
                run: |_| ::core::unreachable!(),
                oracle: ::core::option::Option::None,
                cases: &[],
                twin: ::core::option::Option::None,
            }
        };
    }
    let path = &function.path;
    let inputs = hidden("inputs");
    let call = call(path, run_arguments(function));
    let make_keys = make_keys(expansion, function);
    let name = hidden("run");
    let run = quote! {{
        fn #name(#inputs: &::kitbag::__private::Inputs<'_>) -> ::kitbag::__private::Erased {
            #make_keys
            ::kitbag::__private::erase::<#ty>(#call)
        }
        #name
    }};
    let (oracle, twin) = if leaf.class == Class::Derived {
        let none = quote!(::core::option::Option::None);
        let twin = function.twin.as_ref().map_or(none, |twin| by_position(expansion, leaf, function, twin));
        (by_position(expansion, leaf, function, path), twin)
    } else {
        (quote!(::core::option::Option::None), quote!(::core::option::Option::None))
    };
    let cases = function.cases.iter().map(|cases| self::cases(expansion, cases));
    quote! {
        ::kitbag::Computation {
            function: #text,
            inputs: &[#(#paths),*],
            run: #run,
            oracle: #oracle,
            cases: &[#(#cases),*],
            twin: #twin,
        }
    }
}

/// A call with the values handed in by position: no wiring through keys, whose type alone is used.
fn by_position(expansion: &Expansion<'_>, leaf: &Leaf, function: &Function, path: &Path) -> TokenStream {
    let ty = &leaf.ty;
    let (keys, inputs) = (hidden("keys"), hidden("inputs"));
    let make_keys = make_keys(expansion, function);
    let positions = function.inputs.iter().enumerate().map(|(position, input)| match input {
        Input::Leaf { segments, .. } => {
            quote!(::kitbag::__private::argument(#inputs, #position, #keys #(.#segments)*))
        }
        Input::Facts => quote!(::core::unreachable!()),
    });
    let name = hidden("run");
    let call = call(path, positions);
    quote! {
        ::core::option::Option::Some({
            fn #name(#inputs: &[::kitbag::__private::Erased]) -> ::kitbag::__private::Erased {
                #make_keys
                ::kitbag::__private::erase::<#ty>(#call)
            }
            #name
        })
    }
}

/// Declared cases of one leaf. A literal is read as from a flag; the key gives its type to anything else.
fn cases(expansion: &Expansion<'_>, cases: &Cases) -> TokenStream {
    let Input::Leaf { segments, path } = &cases.leaf else { return TokenStream::new() };
    let keys = hidden("keys");
    let make_keys = keys_of(&expansion.schema.ident, expansion.schema.is_root());
    let values = cases.values.iter().map(|value| match literal_text(value) {
        Some(text) => quote!(::kitbag::__private::Case::Text(#text)),
        None => quote! {
            ::kitbag::__private::Case::Made(|| {
                #make_keys
                ::kitbag::__private::erase_for(#keys #(.#segments)*, #value)
            })
        },
    });
    quote!((#path, &[#(#values),*]))
}

fn validation(expansion: &Expansion<'_>, function: &Function) -> TokenStream {
    let text = function.text();
    let paths: Vec<_> = function.leaf_paths().map(|(path, _)| path).collect();
    let path = &function.path;
    let inputs = hidden("inputs");
    let body = if expansion.faulty {
        quote!(::core::result::Result::Ok(()))
    } else {
        let call = call(path, run_arguments(function));
        let make_keys = make_keys(expansion, function);
        quote! {{
            #make_keys
            #call
        }}
    };
    quote! {
        ::kitbag::Validation { function: #text, inputs: &[#(#paths),*], run: |#inputs| #body }
    }
}

/// A call of a function that the schema names. Its place is the name, so that the compiler shows which of all rules returns
/// the wrong type.
fn call(path: &Path, arguments: impl Iterator<Item = TokenStream>) -> TokenStream {
    quote_spanned!(path.span().resolved_at(Span::call_site())=> #path(#(#arguments),*))
}

fn run_arguments(function: &Function) -> impl Iterator<Item = TokenStream> {
    let (keys, inputs) = (hidden("keys"), hidden("inputs"));
    function.inputs.iter().map(move |input| match input {
        Input::Facts => quote!(#inputs.facts()),
        Input::Leaf { segments, .. } => {
            let segments = segments.iter().map(|segment| {
                let mut segment = segment.clone();
                segment.set_span(segment.span().resolved_at(Span::call_site()));
                segment
            });
            quote!(#inputs.get(#keys #(.#segments)*))
        }
    })
}

fn make_keys(expansion: &Expansion<'_>, function: &Function) -> Option<TokenStream> {
    // A rule on facts alone needs none.
    function.leaf_paths().next()?;
    Some(keys_of(&expansion.schema.ident, expansion.schema.is_root()))
}

/// A local with the keys of the struct that is expanded.
fn keys_of(schema: &syn::Ident, is_root: bool) -> TokenStream {
    let keys = hidden("keys");
    if is_root {
        quote!(let #keys = <#schema as ::kitbag::ConfigNamespaces>::keys();)
    } else {
        quote!(let #keys = <#schema as ::kitbag::Namespace>::keys::<#schema>(0);)
    }
}

fn option(text: Option<&String>) -> TokenStream {
    match text {
        Some(text) => quote!(::core::option::Option::Some(#text)),
        None => quote!(::core::option::Option::None),
    }
}

/// Source text without the spaces that token printing puts around punctuation.
fn text_of(tokens: &impl ToTokens) -> String {
    let text = tokens.to_token_stream().to_string();
    let mut tidy = String::with_capacity(text.len());
    let characters: Vec<_> = text.chars().collect();
    for (index, &character) in characters.iter().enumerate() {
        let neighbour = |offset: isize| index.checked_add_signed(offset).and_then(|at| characters.get(at).copied());
        let joins = |c: Option<char>| c.is_some_and(|c| "<>:.,;()[]=&-'".contains(c));
        let keeps = matches!(neighbour(-1), Some(',' | ';'));
        if character == ' ' && !keeps && (joins(neighbour(-1)) || joins(neighbour(1))) {
            continue;
        }
        tidy.push(character);
    }
    tidy
}
