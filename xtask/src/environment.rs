//! Where code reads the environment: in the loader of settings, and at a few other places, each with its reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, File, Item, Meta};

use crate::workspace::{Outcome, root};

/// Folders whose code is looked at; what is compiled for tests alone is not.
const FOLDERS: &[&str] = &["config-derive/src", "config-runtime/src", "engine/src", "engine/config/src", "kernels/src"];

/// Functions of `std::env` that read or write the environment.
const FUNCTIONS: &[&str] =
    &["var", "var_os", "vars", "vars_os", "set_var", "remove_var", "temp_dir", "home_dir", "split_paths"];

/// Every place, by file and function, and how often. A place that is missing here is a fault, and so is one that has
/// gone.
const PLACES: &[(&str, &str, usize)] = &[
    // The loader itself.
    ("config-runtime/src/loader.rs", "vars_os", 1),
    // Handed to the loader: in the launch of the command, and where settings are asked about with some replaced.
    ("engine/src/cli.rs", "vars_os", 1),
    ("engine/src/config_command.rs", "vars_os", 1),
    // The user's cache folder, where no setting names another.
    ("engine/src/launch/source.rs", "home_dir", 1),
    // `NO_COLOR` and `TERM`, which belong to the terminal and not to the engine.
    ("engine/src/terminal.rs", "vars_os", 1),
];

/// Places that are not in the list, and entries of the list that are no places.
pub(crate) fn faults(files: &[PathBuf]) -> Outcome<Vec<String>> {
    let mut faults = Vec::new();
    let mut found: BTreeMap<(String, String), usize> = BTreeMap::new();
    for path in files.iter().filter(|path| FOLDERS.iter().any(|folder| path.starts_with(folder))) {
        match reads(&fs::read_to_string(root().join(path))?) {
            Ok(reads) => reads.into_iter().for_each(|function| *found.entry((name(path), function)).or_default() += 1),
            Err(error) => faults.push(format!("{}: cannot be parsed: {error}", path.display())),
        }
    }
    for (file, function, listed) in PLACES {
        match found.remove(&((*file).to_owned(), (*function).to_owned())).unwrap_or(0) {
            count if count == *listed => {}
            count => faults.push(format!("{file}: `env::{function}` is listed {listed} times and found {count} times")),
        }
    }
    let unlisted = found.into_iter().map(|((file, function), count)| {
        format!("{file}: `env::{function}`, {count} times: the environment is read by the loader; hand in values")
    });
    faults.extend(unlisted);
    Ok(faults)
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

/// The functions that a file's code names, in order; macros' arguments are code too.
fn reads(text: &str) -> syn::Result<Vec<String>> {
    let mut file = syn::parse_file(text)?;
    drop_tests(&mut file);
    let mut reads = Vec::new();
    walk(file.into_token_stream(), &mut reads);
    Ok(reads)
}

fn drop_tests(file: &mut File) {
    let for_tests = |attribute: &Attribute| matches!(&attribute.meta, Meta::List(list) if list.path.is_ident("cfg") && list.tokens.to_string() == "test");
    file.items.retain(|item| !matches!(item, Item::Mod(module) if module.attrs.iter().any(for_tests)));
}

fn walk(tokens: TokenStream, reads: &mut Vec<String>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = token {
            walk(group.stream(), reads);
        }
        let is_punct =
            |at: usize, mark| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == mark);
        let is_env = matches!(token, TokenTree::Ident(ident) if *ident == "env");
        if is_env && matches!(tokens.get(index + 1), Some(TokenTree::Ident(next)) if *next == "as") {
            reads.push("as".to_owned());
        }
        if !(is_env && is_punct(index + 1, ':') && is_punct(index + 2, ':')) {
            continue;
        }
        match tokens.get(index + 3) {
            Some(TokenTree::Ident(function)) => reads.extend(listed(&function.to_string())),
            Some(TokenTree::Punct(mark)) if mark.as_char() == '*' => reads.push("*".to_owned()),
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let names = group.stream().into_iter().filter_map(|token| match token {
                    TokenTree::Ident(name) => listed(&name.to_string()),
                    _ => None,
                });
                reads.extend(names);
            }
            _ => {}
        }
    }
}

fn listed(function: &str) -> Option<String> {
    FUNCTIONS.contains(&function).then(|| function.to_owned())
}

#[cfg(test)]
mod tests {
    use super::reads;

    #[test]
    fn reads_are_found_wherever_they_hide() {
        let found = |text: &str| reads(text).expect("valid code");
        assert_eq!(found("fn f() { std::env::var(\"HOME\").ok(); }"), ["var"]);
        assert_eq!(found("use std::env::{args, vars_os};"), ["vars_os"]);
        assert_eq!(found("use std::env::*;"), ["*"]);
        assert_eq!(found("use std::env as e;"), ["as"]);
        assert_eq!(found("fn f() { println!(\"{:?}\", env::var_os(\"A\")); }"), ["var_os"]);
    }

    #[test]
    fn talk_tests_and_what_the_compiler_knows_are_no_reads() {
        let text = "/// Not `env::var`.\nfn f() -> &'static str { env!(\"CARGO_PKG_VERSION\") }\n\
                    #[cfg(test)]\nmod tests { fn g() { std::env::temp_dir(); } }";
        assert!(reads(text).expect("valid code").is_empty());
        assert!(reads("fn f( {").is_err());
    }
}
