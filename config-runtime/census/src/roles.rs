//! Which namespaces each role really reads, so that its list can be made shorter.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{ImplItemFn, ItemFn, ItemImpl, ItemStruct, Meta, Token};

use crate::sources::Sources;
use crate::unread::{LeafRead, Reads};

struct Role {
    name: String,
    place: String,
    bags: Vec<String>,
}

/// A function: where it is, and every name in its signature and in what it is implemented for.
struct Function {
    lines: (usize, usize),
    names: BTreeSet<String>,
}

#[derive(Default)]
struct Declared {
    roles: Vec<(String, usize, Vec<String>)>,
    functions: Vec<Function>,
    around: BTreeSet<String>,
}

impl<'a> Visit<'a> for Declared {
    fn visit_item_struct(&mut self, item: &'a ItemStruct) {
        let is_role = item.attrs.iter().any(|attribute| {
            attribute.path().is_ident("derive") && words(&attribute.to_token_stream()).contains("ConfigRole")
        });
        if is_role {
            let bags = item.attrs.iter().filter(|attribute| attribute.path().is_ident("config")).flat_map(bags);
            self.roles.push((item.ident.to_string(), item.ident.span().start().line, bags.collect()));
        }
    }

    fn visit_item_impl(&mut self, item: &'a ItemImpl) {
        let before = std::mem::replace(&mut self.around, words(&item.self_ty.to_token_stream()));
        visit::visit_item_impl(self, item);
        self.around = before;
    }

    fn visit_item_fn(&mut self, item: &'a ItemFn) {
        self.function(item.span(), &item.sig);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a ImplItemFn) {
        self.function(item.span(), &item.sig);
        visit::visit_impl_item_fn(self, item);
    }
}

impl Declared {
    fn function(&mut self, span: proc_macro2::Span, signature: &syn::Signature) {
        let mut names = words(&signature.to_token_stream());
        names.extend(self.around.iter().cloned());
        self.functions.push(Function { lines: (span.start().line, span.end().line), names });
    }

    /// The innermost function around a line.
    fn function_at(&self, line: usize) -> Option<&Function> {
        let around = self.functions.iter().filter(|function| (function.lines.0..=function.lines.1).contains(&line));
        around.min_by_key(|function| function.lines.1 - function.lines.0)
    }
}

/// `#[config(reads(PoolBag, http::HttpBag))]`.
fn bags(attribute: &syn::Attribute) -> Vec<String> {
    let Meta::List(list) = &attribute.meta else { return Vec::new() };
    let parsed = list.parse_args_with(syn::punctuated::Punctuated::<Meta, Token![,]>::parse_terminated);
    let lists = parsed.into_iter().flatten().filter_map(|meta| match meta {
        Meta::List(list) if list.path.is_ident("reads") => Some(list),
        _ => None,
    });
    let paths = lists.flat_map(|list| {
        list.parse_args_with(syn::punctuated::Punctuated::<syn::Path, Token![,]>::parse_terminated).unwrap_or_default()
    });
    paths.filter_map(|path| path.segments.last().map(|last| last.ident.to_string())).collect()
}

fn words(tokens: &TokenStream) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for token in tokens.clone() {
        match token {
            TokenTree::Ident(ident) => {
                found.insert(ident.to_string());
            }
            TokenTree::Group(group) => found.extend(words(&group.stream())),
            _ => {}
        }
    }
    found
}

/// Whether a role with this bag in its list may read that bag: it is the same, or below it.
fn covers(listed: &str, read: &str) -> bool {
    read.starts_with(listed.strip_suffix("Bag").unwrap_or(listed))
}

/// For each role of the program what it reads. A read counts for the role that its function names in its signature; if
/// there is none, for each role of the file that may read the bag.
///
/// # Errors
/// A file that cannot be read or parsed.
pub fn roles(reads: &Reads) -> Result<String, String> {
    let mut roles = Vec::new();
    let mut files = BTreeMap::new();
    for folder in &reads.folders {
        let sources = Sources::read(folder)?;
        let prefix = folder.strip_prefix(&reads.root).unwrap_or(folder);
        for file in &sources.files {
            let path = prefix.join(&file.path).to_string_lossy().replace('\\', "/");
            let mut declared = Declared::default();
            declared.visit_file(&file.syntax);
            for (name, line, bags) in declared.roles.drain(..) {
                roles.push(Role { name, place: format!("{path}:{line}"), bags });
            }
            files.insert(path, (declared, words(&file.syntax.to_token_stream())));
        }
    }
    let mut text = String::new();
    for role in &roles {
        let _ = writeln!(text, "{} ({}) may read {}", role.name, role.place, role.bags.join(", "));
        let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for read in &reads.reads {
            let Some((declared, all)) = files.get(&read.file) else { continue };
            let count = counts.entry(&read.bag).or_default();
            match by_signature(declared, read, &roles) {
                Some(names) if names.contains(&role.name) => count.0 += 1,
                None if all.contains(&role.name) && role.bags.iter().any(|bag| covers(bag, &read.bag)) => count.1 += 1,
                _ => {}
            }
        }
        counts.retain(|_, count| count.0 + count.1 > 0);
        for (bag, (sure, by_file)) in &counts {
            let _ = writeln!(text, "  {bag}: {sure} reads by signature, {by_file} by file");
        }
        let idle = role.bags.iter().filter(|bag| !counts.keys().any(|read| covers(bag, read))).cloned();
        let idle: Vec<_> = idle.collect();
        if !idle.is_empty() {
            let _ = writeln!(text, "  never read: {}", idle.join(", "));
        }
    }
    if text.is_empty() {
        text.push_str("there are no roles\n");
    }
    Ok(text)
}

/// The roles that the function around a read names.
fn by_signature<'a>(declared: &Declared, read: &LeafRead, roles: &'a [Role]) -> Option<BTreeSet<&'a String>> {
    let function = declared.function_at(read.line)?;
    let named: BTreeSet<_> =
        roles.iter().map(|role| &role.name).filter(|name| function.names.contains(*name)).collect();
    if named.is_empty() { None } else { Some(named) }
}
