//! Defaults, where they are literal.

use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{Expr, Field, Lit, Stmt, Token};

use super::Declarations;
use super::attributes::{Given, Options};
use super::leaf_type::LeafType;

/// Where the value of a leaf comes from if nobody sets it.
#[derive(Default)]
pub(super) struct Start {
    /// As written after `default =`; none for an `Option`, and for what is required.
    pub(super) default: Option<String>,
    pub(super) note: Option<String>,
}

impl Start {
    fn value(text: impl Into<String>) -> Self {
        Self { default: Some(text.into()), note: None }
    }
}

pub(super) fn of(
    field: &Field,
    options: &Options,
    leaf: &LeafType,
    declarations: &Declarations<'_>,
    owner: &str,
    clap: bool,
) -> Start {
    let name = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
    let of_struct = declarations.defaults.get(&(owner.to_owned(), name)).copied();
    match &options.default {
        Some(Given::Text(text)) => Start::value(format!("{text:?}")),
        Some(Given::Value(value)) => of_value(value, leaf, declarations),
        Some(Given::Function(function)) => {
            let function = function.rsplit("::").next().unwrap_or_default();
            match declarations.functions.get(function).map(|block| block.stmts.as_slice()) {
                Some([Stmt::Expr(value, None)]) => of_value(value, leaf, declarations),
                _ => computed(&format!("{function}()")),
            }
        }
        Some(Given::OfType) => of_type(leaf, declarations),
        None => match of_struct {
            Some(value) => of_value(value, leaf, declarations),
            None if (clap || options.is_flag) && (leaf.text == "bool" || leaf.text.starts_with("Vec<")) => {
                of_type(leaf, declarations)
            }
            None => Start::default(),
        },
    }
}

fn computed(value: &str) -> Start {
    Start { default: None, note: Some(format!("Its default is `{value}`: write a rule, `auto = function`.")) }
}

fn of_value(value: &Expr, leaf: &LeafType, declarations: &Declarations<'_>) -> Start {
    if is_name(value, "None") {
        return Start::default();
    }
    if let Expr::Call(call) = value
        && call.args.is_empty()
        && let Expr::Path(path) = &*call.func
        && path.path.segments.len() == 1
        && let Some([Stmt::Expr(inner, None)]) = path
            .path
            .get_ident()
            .and_then(|name| declarations.functions.get(&name.to_string()))
            .map(|block| block.stmts.as_slice())
    {
        return of_value(inner, leaf, declarations);
    }
    match literal(value, leaf) {
        Some(text) if leaf.note.is_none() || text.starts_with('"') || text.ends_with("::new()") => Start::value(text),
        _ => computed(&value.to_token_stream().to_string().replace(" :: ", "::").replace(" (", "(")),
    }
}

/// The expression as a default, if it has no part that is computed.
fn literal(value: &Expr, leaf: &LeafType) -> Option<String> {
    let kind = leaf.text.as_str();
    let optional = kind.starts_with("Option<");
    match value {
        Expr::Paren(inner) => literal(&inner.expr, leaf),
        Expr::Lit(inner) => match &inner.lit {
            Lit::Str(text) => Some(format!("{:?}", text.value())),
            Lit::Int(_) | Lit::Float(_) | Lit::Bool(_) if optional => Some(format!("\"{}\"", inner.to_token_stream())),
            Lit::Int(number) => Some(number.base10_digits().to_owned())
                .filter(|_| number.suffix().is_empty())
                .or_else(|| Some(number.to_string())),
            Lit::Float(_) | Lit::Bool(_) => Some(inner.to_token_stream().to_string()),
            _ => None,
        },
        Expr::Unary(_) | Expr::Binary(_) if is_number(value) && !optional => {
            Some(value.to_token_stream().to_string().replace("- ", "-"))
        }
        Expr::MethodCall(call) if call.args.is_empty() => {
            let method = call.method.to_string();
            let converts = ["into", "to_string", "to_owned", "to_path_buf"].contains(&method.as_str());
            if converts { literal(&call.receiver, leaf) } else { None }
        }
        Expr::Call(call) => of_call(call, leaf),
        Expr::Macro(call) if call.mac.path.is_ident("vec") => {
            let parts = call.mac.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated).ok()?;
            let inner = LeafType {
                text: kind.strip_prefix("Vec<")?.strip_suffix('>')?.to_owned(),
                choice: leaf.choice.clone(),
                note: None,
            };
            let parts: Option<Vec<_>> = parts.iter().map(|part| literal(part, &inner)).collect();
            let into = |part: String| if part.starts_with('"') { format!("{part}.into()") } else { part };
            Some(format!("vec![{}]", parts?.into_iter().map(into).collect::<Vec<_>>().join(", ")))
        }
        Expr::Path(path) => {
            let segments: Vec<_> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            let [.., owner, variant] = segments.as_slice() else { return None };
            let is_choice = leaf.choice.as_ref() == Some(owner) && !optional;
            is_choice.then(|| format!("{owner}::{variant}"))
        }
        _ => None,
    }
}

fn of_call(call: &syn::ExprCall, leaf: &LeafType) -> Option<String> {
    let function = call.func.to_token_stream().to_string().replace(' ', "");
    let arguments: Vec<_> = call.args.iter().collect();
    let last: Vec<_> = function.rsplit("::").take(2).collect();
    match (last.as_slice(), arguments.as_slice()) {
        (["Some"], [inner]) => match literal(inner, leaf)? {
            text if text.starts_with('"') => Some(text),
            value => Some(format!("\"{value}\"")),
        },
        (["from", "String" | "PathBuf"], [inner]) => literal(inner, leaf),
        (["new", "String"], []) => Some("\"\"".to_owned()),
        (["new", "BTreeSet" | "HashSet" | "Vec" | "VecDeque"], []) => Some("Vec::new()".to_owned()),
        (["new", "BTreeMap" | "HashMap"], []) => Some("std::collections::BTreeMap::new()".to_owned()),
        ([unit, "Duration"], [inner]) if unit.starts_with("from_") && is_number(inner) => {
            Some(format!("std::time::Duration::{unit}({})", inner.to_token_stream()))
        }
        _ => None,
    }
}

fn is_number(value: &Expr) -> bool {
    match value {
        Expr::Lit(inner) => matches!(inner.lit, Lit::Int(_) | Lit::Float(_)),
        Expr::Unary(inner) => matches!(inner.op, syn::UnOp::Neg(_)) && is_number(&inner.expr),
        Expr::Binary(inner) => is_number(&inner.left) && is_number(&inner.right),
        Expr::Paren(inner) => is_number(&inner.expr),
        _ => false,
    }
}

fn is_name(value: &Expr, name: &str) -> bool {
    matches!(value, Expr::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == name))
}

fn of_type(leaf: &LeafType, declarations: &Declarations<'_>) -> Start {
    match leaf.text.as_str() {
        "bool" => Start::value("false"),
        "String" if leaf.note.is_none() => Start::value("\"\""),
        "f32" | "f64" => Start::value("0.0"),
        "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" | "isize" if leaf.note.is_none() => {
            Start::value("0")
        }
        "std::time::Duration" => Start::value("std::time::Duration::ZERO"),
        text if text.starts_with("Option<") => Start::default(),
        text if text.starts_with("Vec<") => Start::value("Vec::new()"),
        text if text.starts_with("std::collections::BTreeMap<") => Start::value("std::collections::BTreeMap::new()"),
        text => {
            let item = declarations.enums.get(text);
            let marked = |variant: &&syn::Variant| variant.attrs.iter().any(|a| a.path().is_ident("default"));
            match item.and_then(|item| item.variants.iter().find(marked)) {
                Some(variant) => Start::value(format!("{text}::{}", variant.ident)),
                None => computed("Default::default()"),
            }
        }
    }
}
