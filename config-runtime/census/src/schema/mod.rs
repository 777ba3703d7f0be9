//! Proposes the namespaces of a `kitbag` schema for a hand-written struct.

mod attributes;
mod grouping;
mod leaf_type;
mod start;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use quote::ToTokens;
use syn::{Attribute, Expr, Item, ItemStruct, Lit, Meta};

use crate::census::{Census, Field};
use crate::sources::Sources;
use attributes::Options;
use grouping::Group;
use leaf_type::LeafType;

/// The declarations that a proposal may refer to.
struct Declarations<'a> {
    enums: BTreeMap<String, &'a syn::ItemEnum>,
    /// Functions without arguments, by name: those that defaults name.
    functions: BTreeMap<String, &'a syn::Block>,
    /// Values of fields in `impl Default`, by struct and field.
    defaults: BTreeMap<(String, String), &'a Expr>,
    structs: BTreeMap<String, &'a ItemStruct>,
}

impl<'a> Declarations<'a> {
    fn of(sources: &'a Sources) -> Self {
        let mut found = Self {
            enums: BTreeMap::new(),
            functions: BTreeMap::new(),
            defaults: BTreeMap::new(),
            structs: BTreeMap::new(),
        };
        for file in &sources.files {
            found.items(&file.syntax.items);
        }
        found
    }

    fn items(&mut self, items: &'a [Item]) {
        for item in items {
            match item {
                Item::Enum(item) => {
                    self.enums.insert(item.ident.to_string(), item);
                }
                Item::Struct(item) => {
                    self.structs.insert(item.ident.to_string(), item);
                }
                Item::Fn(item) if item.sig.inputs.is_empty() => {
                    self.functions.insert(item.sig.ident.to_string(), &item.block);
                }
                Item::Mod(item) => {
                    self.items(item.content.as_ref().map(|(_, items)| items.as_slice()).unwrap_or_default());
                }
                Item::Impl(item) => self.implementation(item),
                _ => {}
            }
        }
    }

    fn implementation(&mut self, item: &'a syn::ItemImpl) {
        let owner = item.self_ty.to_token_stream().to_string();
        let is_default = item
            .trait_
            .as_ref()
            .is_some_and(|(path, _)| path.segments.last().is_some_and(|last| last.ident == "Default"));
        for part in &item.items {
            let syn::ImplItem::Fn(method) = part else { continue };
            if method.sig.inputs.is_empty() {
                self.functions.entry(method.sig.ident.to_string()).or_insert(&method.block);
            }
            if !is_default {
                continue;
            }
            if let Some(syn::Stmt::Expr(Expr::Struct(literal), None)) = method.block.stmts.last() {
                for field in &literal.fields {
                    self.defaults.insert((owner.clone(), field.member.to_token_stream().to_string()), &field.expr);
                }
            }
        }
    }
}

/// A proposal in kitbag's attribute language. It compiles as it is; comments say where a person has to decide.
pub fn propose(sources: &Sources, census: &Census) -> String {
    let declarations = Declarations::of(sources);
    let of_struct = declarations.structs.get(&census.name).copied();
    let clap = of_struct.is_some_and(is_command_line);
    let mut skipped = Vec::new();
    let mut fields = Vec::new();
    for field in &census.fields {
        match Options::of(&field.syntax) {
            options if options.outside => skipped.push(field.path.as_str()),
            options => fields.push((field, options)),
        }
    }
    let groups = grouping::groups(census, &fields.iter().map(|(field, _)| *field).collect::<Vec<_>>());
    let mut choices = BTreeSet::new();
    let mut namespaces = String::new();
    for group in &groups {
        let _ = write!(namespaces, "\n{}", namespace(census, group, &fields, &declarations, clap, &mut choices));
    }
    let mut text = String::from("//! Proposed by `kitbag-census schema`.\n\n");
    text.push_str(if choices.is_empty() {
        "use kitbag::ConfigNamespaces;\n"
    } else {
        "use kitbag::{ConfigChoice, ConfigNamespaces};\n"
    });
    text.push('\n');
    let doc = of_struct.map(|item| doc_lines(&item.attrs)).unwrap_or_default();
    push_doc(&mut text, "", if doc.is_empty() { vec![format!("Settings, from `{}`.", census.name)] } else { doc });
    let _ = write!(text, "#[derive(ConfigNamespaces)]\npub struct {} {{\n", census.name);
    for group in groups.iter().filter(|group| !group.path.contains('.')) {
        push_doc(&mut text, "    ", vec![format!("Namespace `{}`.", group.path)]);
        let _ = writeln!(text, "    #[config(nested)]\n    pub {}: {},", group.path, pascal(&group.path));
    }
    for path in skipped {
        let _ = writeln!(text, "    // `{path}` is no setting: it stays with the command line.");
    }
    text.push_str("}\n");
    text.push_str(&namespaces);
    for name in choices {
        if let Some(item) = declarations.enums.get(&name) {
            let _ = write!(text, "\n{}", leaf_type::choice(item));
        }
    }
    text
}

fn namespace(
    census: &Census,
    group: &Group,
    fields: &[(&Field, Options)],
    declarations: &Declarations<'_>,
    clap: bool,
    choices: &mut BTreeSet<String>,
) -> String {
    let mut text = String::new();
    push_doc(&mut text, "", vec![format!("Namespace `{}`: {}.", group.path, group.why)]);
    let _ = write!(
        text,
        "#[derive(ConfigNamespaces)]\n#[config(ns = \"{}\")]\npub struct {} {{\n",
        group.path,
        pascal(&group.path)
    );
    for (path, name) in &group.leaves {
        let Some((field, options)) = fields.iter().find(|(field, _)| field.path == *path) else { continue };
        let leaf = LeafType::of(&field.syntax.ty, declarations);
        choices.extend(leaf.choice.clone());
        let doc = doc_lines(&field.syntax.attrs);
        push_doc(&mut text, "    ", if doc.is_empty() { vec![format!("Setting `{path}`.")] } else { doc });
        for note in leaf.note.iter().cloned().chain([reads(census, path)]) {
            let _ = writeln!(text, "    // {note}");
        }
        let owner = owner(census, declarations, path);
        let start = start::of(&field.syntax, options, &leaf, declarations, &owner, clap);
        if let Some(note) = start.note {
            let _ = writeln!(text, "    // {note}");
        }
        let last = path.rsplit('.').next().unwrap_or(path);
        let flag = options.long.clone().or_else(|| (name != last).then(|| last.replace('_', "-")));
        let parts = [
            start.default.map(|default| format!("default = {default}")),
            options.range.as_ref().map(|range| format!("range = {range}")),
            flag.map(|flag| format!("flag = \"{flag}\"")),
            options.env.as_ref().map(|env| format!("env = \"{env}\"")),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        if !parts.is_empty() {
            let _ = writeln!(text, "    #[config({})]", parts.join(", "));
        }
        let _ = writeln!(text, "    pub {}: {},", grouping::identifier(name), leaf.text);
    }
    text.push_str("}\n");
    text
}

/// The struct that declares a leaf: the one with a field of this name, if it is flattened.
fn owner(census: &Census, declarations: &Declarations<'_>, path: &str) -> String {
    let mut owner = census.name.clone();
    let mut parts: Vec<_> = path.split('.').collect();
    parts.pop();
    for part in parts {
        let Some(item) = declarations.structs.get(&owner) else { break };
        let field = item.fields.iter().find(|field| field.ident.as_ref().is_some_and(|ident| ident == part));
        if let Some(field) = field {
            owner = field.ty.to_token_stream().to_string();
        }
    }
    owner
}

fn reads(census: &Census, path: &str) -> String {
    let mut files: BTreeMap<&str, usize> = BTreeMap::new();
    for read in census.reads.iter().filter(|read| read.what.field() == path) {
        *files.entry(&read.place.file).or_default() += 1;
    }
    if files.is_empty() {
        return "Nothing seems to read it.".to_owned();
    }
    let files: Vec<_> = files.into_iter().map(|(file, count)| format!("{file} ({count})")).collect();
    format!("Read in {}.", files.join(", "))
}

fn is_command_line(item: &ItemStruct) -> bool {
    let text: String = item.attrs.iter().map(|attribute| attribute.to_token_stream().to_string()).collect();
    ["Parser", "Args", "StructOpt"].iter().any(|name| text.contains(name))
}

fn doc_lines(attributes: &[Attribute]) -> Vec<String> {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    text.lines().map(|line| line.trim().trim_start_matches("* ").to_owned()).collect()
}

fn push_doc(text: &mut String, indent: &str, lines: Vec<String>) {
    for line in lines {
        let _ = writeln!(text, "{}", format!("{indent}/// {line}").trim_end());
    }
}

/// `exec.moe` → `ExecMoe`.
fn pascal(path: &str) -> String {
    let words = path.split(['.', '_']).filter(|word| !word.is_empty());
    let upper = words.map(|word| {
        let (first, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        first.to_uppercase() + rest
    });
    upper.collect()
}
