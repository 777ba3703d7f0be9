//! What names mean where: modules, imports, and which types have which name.

use std::collections::{HashMap, HashSet};

use syn::{Item, UseTree};

use super::{join, plain, split};
use crate::sources::Sources;

/// Which names there are, before any type is understood.
#[derive(Default)]
pub(super) struct Names {
    pub(super) package: Option<String>,
    pub(super) modules: HashSet<String>,
    /// Last segment → full paths.
    pub(super) types: HashMap<String, Vec<String>>,
    pub(super) aliases: HashMap<String, Vec<(Vec<String>, syn::ItemType)>>,
    /// Module → name → path.
    pub(super) uses: HashMap<Vec<String>, HashMap<String, Vec<String>>>,
    pub(super) globs: HashSet<Vec<String>>,
}

const PRELUDE: &[&str] = &["Option", "Result", "Vec", "Box", "String"];

impl Names {
    /// A path with what its first segment was imported as.
    pub(super) fn full(&self, segments: &[String], module: &[String]) -> Vec<String> {
        let imported = segments.first().and_then(|first| self.uses.get(module)?.get(first));
        match imported {
            Some(path) => path.iter().chain(&segments[1..]).cloned().collect(),
            None => segments.to_vec(),
        }
    }

    /// Whether what stands before the last segment is of this package.
    pub(super) fn is_ours(&self, qualifiers: &[String]) -> bool {
        qualifiers.first().is_none_or(|first| {
            matches!(first.as_str(), "crate" | "self" | "super" | "Self")
                || self.modules.contains(first)
                || self.types.contains_key(first)
                || self.package.as_ref() == Some(first)
        })
    }

    /// The full path of the type of this package that a path names.
    pub(super) fn resolve(&self, segments: &[String], module: &[String]) -> Option<String> {
        let full = self.full(segments, module);
        let (name, qualifiers) = full.split_last()?;
        let candidates = self.types.get(name)?;
        let owner = |id: &String| id.rsplit_once("::").map_or(Vec::new(), |(module, _)| split(module));
        if qualifiers.is_empty() {
            let here = candidates.iter().find(|id| owner(id) == module);
            if here.is_some() {
                return here.cloned();
            }
            if PRELUDE.contains(&name.as_str()) && !self.globs.contains(module) {
                return None;
            }
            return candidates.first().cloned();
        }
        if !self.is_ours(qualifiers) {
            return None;
        }
        let first = qualifiers.first()?;
        let suffix: Vec<_> = qualifiers
            .iter()
            .filter(|part| !matches!(part.as_str(), "crate" | "self" | "super"))
            .filter(|part| self.package.as_ref() != Some(*part))
            .cloned()
            .collect();
        let matching = candidates.iter().filter(|id| owner(id).ends_with(&suffix));
        let mut matching: Vec<_> = matching.collect();
        if first == "crate" && matching.len() > 1 {
            matching.sort_by_key(|id| owner(id) != suffix);
        }
        if matches!(first.as_str(), "self" | "super") && matching.len() > 1 {
            matching.sort_by_key(|id| !module.starts_with(&owner(id)));
        }
        // A type that is exported from elsewhere: its name says it.
        matching.first().copied().or(candidates.first()).cloned()
    }
}

pub(super) fn names(sources: &Sources, items: &[(Vec<String>, &Item)]) -> Names {
    let mut names = Names { package: sources.package.clone(), ..Names::default() };
    for file in &sources.files {
        names.modules.extend(file.module.iter().cloned());
    }
    for (module, item) in items {
        let ident = match item {
            Item::Struct(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Union(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::Mod(item) => {
                names.modules.insert(plain(&item.ident));
                continue;
            }
            Item::Type(item) => {
                names.aliases.entry(plain(&item.ident)).or_default().push((module.clone(), item.clone()));
                continue;
            }
            Item::Use(item) => {
                add_uses(&item.tree, &mut Vec::new(), module, &mut names);
                continue;
            }
            _ => continue,
        };
        names.types.entry(plain(ident)).or_default().push(join(module, &plain(ident)));
    }
    names
}

fn add_uses(tree: &UseTree, before: &mut Vec<String>, module: &[String], names: &mut Names) {
    let mut add = |name: String, path: Vec<String>| {
        names.uses.entry(module.to_vec()).or_default().insert(name, path);
    };
    let with = |last: &syn::Ident| before.iter().cloned().chain([plain(last)]).collect::<Vec<_>>();
    match tree {
        UseTree::Name(name) if name.ident == "self" => {
            if let Some(last) = before.last() {
                add(last.clone(), before.clone());
            }
        }
        UseTree::Name(name) => add(plain(&name.ident), with(&name.ident)),
        UseTree::Rename(rename) if rename.ident == "self" => add(plain(&rename.rename), before.clone()),
        UseTree::Rename(rename) => add(plain(&rename.rename), with(&rename.ident)),
        UseTree::Path(path) => {
            before.push(plain(&path.ident));
            add_uses(&path.tree, before, module, names);
            before.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                add_uses(tree, before, module, names);
            }
        }
        UseTree::Glob(_) => {
            names.globs.insert(module.to_vec());
        }
    }
}
