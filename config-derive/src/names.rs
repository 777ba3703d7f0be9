//! How names of emitted items follow from names in the schema.

use proc_macro2::Ident;
use quote::format_ident;

/// `exec.moe_runner` → `ExecMoeRunner`.
fn pascal(path: &str) -> String {
    let mut name = String::new();
    for word in path.split(['.', '_']) {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}

/// The bag of a namespace: `pool` → `PoolBag`.
pub(crate) fn bag(path: &str) -> Ident {
    format_ident!("{}Bag", pascal(path))
}

/// The keys of a namespace: `pool` → `PoolKeys`.
pub(crate) fn keys(path: &str) -> Ident {
    format_ident!("{}Keys", pascal(path))
}

/// The setters of a namespace: `pool` → `PoolSetters`.
pub(crate) fn setters(path: &str) -> Ident {
    format_ident!("{}Setters", pascal(path))
}

/// The recording twin of a namespace's bag: `pool` → `PoolRecording`.
pub(crate) fn recording(path: &str) -> Ident {
    format_ident!("{}Recording", pascal(path))
}

/// `max_new_tokens` → `max-new-tokens`.
pub(crate) fn flag(name: &str) -> String {
    name.replace('_', "-")
}

/// `CudaGraph` → `cuda-graph`, `FP8` → `fp8`.
pub(crate) fn kebab(variant: &str) -> String {
    let mut name = String::new();
    let letters: Vec<_> = variant.chars().collect();
    for (index, letter) in letters.iter().enumerate() {
        let after_lower = index > 0 && !letters[index - 1].is_uppercase();
        let ends_acronym = index > 0 && letters.get(index + 1).is_some_and(|next| next.is_lowercase());
        if letter.is_uppercase() && (after_lower || ends_acronym) {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

/// `EngineArgs` → `engine_args`.
pub(crate) fn snake(ident: &str) -> String {
    kebab(ident).replace('-', "_")
}

/// An identifier without `r#`.
pub(crate) fn plain(ident: &Ident) -> String {
    let text = ident.to_string();
    text.strip_prefix("r#").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::{kebab, pascal};

    #[test]
    fn emitted_names() {
        assert_eq!(pascal("exec.moe_runner"), "ExecMoeRunner");
        assert_eq!(kebab("CudaGraph"), "cuda-graph");
        assert_eq!(kebab("ModeX"), "mode-x");
        assert_eq!(kebab("FP8"), "fp8");
        assert_eq!(kebab("HTTPServer"), "http-server");
        assert_eq!(kebab("Auto"), "auto");
    }
}
