//! Rules across fields of one struct. What spans structs is checked by a const at the root.

use std::collections::{HashMap, HashSet};

use darling::Error;
use darling::error::Accumulator;
use proc_macro2::Span;
use syn::Type;

use crate::model::{Child, Class, Function, Leaf, Namespace, Schema, Start};
use crate::{names, secrecy};

/// Flags that every program has.
const TAKEN_FLAGS: [&str; 4] = ["config", "help", "profile", "version"];
/// Top-level keys of files that are no settings.
const TAKEN_NAMESPACES: [&str; 2] = ["include", "profile"];

/// Notes every broken rule.
///
/// Of things that cannot stand side by side one is taken out, so that the rest can still be expanded.
pub(crate) fn check(schema: &mut Schema, errors: &mut Accumulator) {
    name_clashes(&mut schema.tree, errors);
    nested_twice(&schema.tree, errors);
    let mut leaves = Vec::new();
    collect(&schema.tree, &mut leaves);
    taken_flags(&leaves, errors);
    taken_namespaces(&leaves, errors);
    duplicate_flags(&leaves, errors);
    switched_off(&leaves, errors);
    duplicate_variables(schema, &leaves, errors);
    former_names(&schema.tree, &leaves, errors);
    unknown_inputs(schema, &leaves, errors);
    derived_cases(&leaves, errors);
    cycles(&leaves, errors);
    hotter_inputs(&leaves, errors);
    bared_secrets(&leaves, errors);
}

fn collect<'a>(namespace: &'a Namespace, leaves: &mut Vec<&'a Leaf>) {
    leaves.extend(&namespace.leaves);
    for child in &namespace.children {
        if let Child::Inline(namespace) = child {
            collect(namespace, leaves);
        }
    }
}

fn fault(errors: &mut Accumulator, span: Span, text: String) {
    errors.push(Error::custom(text).with_span(&span));
}

/// A leaf called `config` would shadow the flag that names the file.
fn taken_flags(leaves: &[&Leaf], errors: &mut Accumulator) {
    for leaf in leaves.iter().filter(|leaf| TAKEN_FLAGS.contains(&leaf.flag.as_str())) {
        let text = format!("every program has a flag `--{}`; give this one `flag = \"...\"`", leaf.flag);
        fault(errors, leaf.ident.span(), text);
    }
}

/// A namespace called `profile` could not be told from the profiles of a file.
fn taken_namespaces(leaves: &[&Leaf], errors: &mut Accumulator) {
    for leaf in leaves {
        let top = leaf.path.split('.').next().unwrap_or_default();
        if TAKEN_NAMESPACES.contains(&top) {
            let text = format!("`{top}` has a meaning of its own in files; give the namespace another name");
            fault(errors, leaf.ident.span(), text);
        }
    }
}

/// Flags have no namespace, so leaves of one name in two namespaces meet.
fn duplicate_flags(leaves: &[&Leaf], errors: &mut Accumulator) {
    let mut seen: HashMap<&str, &str> = HashMap::new();
    for leaf in leaves.iter().filter(|leaf| leaf.class != Class::Derived) {
        if let Some(other) = seen.insert(&leaf.flag, &leaf.path) {
            let text = format!(
                "`{}` and `{other}` have the same flag `--{}`; give one `flag = \"...\"`",
                leaf.path, leaf.flag
            );
            fault(errors, leaf.ident.span(), text);
        }
    }
}

/// `--no-cache` switches `--cache` off, so it cannot be the flag of another leaf.
fn switched_off(leaves: &[&Leaf], errors: &mut Accumulator) {
    let is_switch = |leaf: &&&Leaf| matches!(&leaf.ty, Type::Path(path) if path.path.is_ident("bool"));
    for leaf in leaves {
        let Some(switch) = leaf.flag.strip_prefix("no-") else { continue };
        if let Some(other) = leaves.iter().filter(is_switch).find(|other| other.flag == switch) {
            let text = format!(
                "`--{}`, the flag of `{}`, switches `{}` off; give one `flag = \"...\"`",
                leaf.flag, leaf.path, other.path
            );
            fault(errors, leaf.ident.span(), text);
        }
    }
}

/// Names of variables do not tell `.` from `_`, and a leaf may have one of its own.
fn duplicate_variables(schema: &Schema, leaves: &[&Leaf], errors: &mut Accumulator) {
    // Without the prefix, which a namespace struct does not know, those of its own are told from the computed ones.
    let prefix = schema.env.as_deref().unwrap_or("*");
    let computed = |leaf: &Leaf| format!("{prefix}_{}", leaf.path.replace('.', "_").to_uppercase());
    let mut seen: HashMap<String, &str> = HashMap::new();
    for leaf in leaves.iter().filter(|leaf| leaf.class != Class::Derived) {
        let variable = leaf.env.clone().unwrap_or_else(|| computed(leaf));
        if ["CONFIG", "PROFILE"].iter().any(|taken| variable == format!("{prefix}_{taken}")) {
            let text = format!("every program has a variable `{variable}`; give this setting another one");
            fault(errors, leaf.ident.span(), text);
        }
        let shown = variable.trim_start_matches("*_").to_owned();
        if let Some(other) = seen.insert(variable, &leaf.path) {
            let text =
                format!("`{}` and `{other}` have the same variable `{shown}`; give one `env = \"...\"`", leaf.path);
            fault(errors, leaf.ident.span(), text);
        }
    }
}

/// A former name must not be a present one: what was written for the old meaning would get the new one.
fn former_names(tree: &Namespace, leaves: &[&Leaf], errors: &mut Accumulator) {
    let mut former: Vec<(&str, Span, &str)> = Vec::new();
    for leaf in leaves {
        former.extend(leaf.aliases.iter().map(|alias| (alias.as_str(), leaf.ident.span(), "an alias")));
    }
    collect_former(tree, &mut former);
    let mut seen = HashSet::new();
    for (path, span, what) in former {
        if leaves.iter().any(|leaf| leaf.path == path) {
            fault(errors, span, format!("`{path}` is {what} and a setting; a former name is not used again"));
        }
        if !seen.insert(path) {
            fault(errors, span, format!("`{path}` is a former name twice"));
        }
    }
}

fn collect_former<'a>(namespace: &'a Namespace, former: &mut Vec<(&'a str, Span, &'static str)>) {
    former.extend(namespace.replaced.iter().map(|name| (name.path.as_str(), name.ident.span(), "deprecated")));
    former.extend(namespace.retired.iter().map(|name| (name.path.as_str(), name.span, "retired")));
    for child in &namespace.children {
        if let Child::Inline(inline) = child {
            collect_former(inline, former);
        }
    }
}

/// One namespace cannot have two things of one name: leaf, derived value or sub-namespace.
fn name_clashes(namespace: &mut Namespace, errors: &mut Accumulator) {
    let mut seen = HashSet::new();
    for child in &namespace.children {
        let name = names::plain(&child.ident());
        if !seen.insert(name.clone()) {
            let path = [namespace.path.as_str(), &name].join(".");
            let text = format!("`{}` is declared as a namespace twice", path.trim_start_matches('.'));
            fault(errors, child.span(), text);
        }
    }
    let namespaces = seen.clone();
    namespace.leaves.retain(|leaf| {
        let name = names::plain(&leaf.ident);
        if seen.insert(name.clone()) {
            return true;
        }
        let text = if namespaces.contains(&name) {
            format!("`{}` is a setting and a namespace; rename one", leaf.path)
        } else {
            format!("`{}` is declared twice", leaf.path)
        };
        fault(errors, leaf.ident.span(), text);
        false
    });
    let mut kept = HashSet::new();
    namespace.children.retain(|child| kept.insert(names::plain(&child.ident())));
    for child in &mut namespace.children {
        if let Child::Inline(inline) = child {
            name_clashes(inline, errors);
        }
    }
}

/// A namespace struct says its path itself, so it cannot be two namespaces.
fn nested_twice(tree: &Namespace, errors: &mut Accumulator) {
    let nested = tree.children.iter().filter_map(|child| match child {
        Child::Nested { ident, ty, .. } => Some((ident, ty)),
        Child::Inline(_) => None,
    });
    let nested: Vec<_> = nested.collect();
    for (position, (ident, ty)) in nested.iter().enumerate() {
        let Some((first, _)) = nested[..position].iter().find(|(_, other)| other == ty) else { continue };
        let text = format!(
            "this struct is namespace `{first}` already, and a struct is one namespace; declare a struct of its own \
             for `{ident}`, or make a second instance of all settings with `Context::child`"
        );
        fault(errors, ident.span(), text);
    }
}

/// Inputs among this struct's own leaves; those below a nested namespace are left to the compiler, which knows them.
fn unknown_inputs(schema: &Schema, leaves: &[&Leaf], errors: &mut Accumulator) {
    let nested: Vec<String> = schema
        .tree
        .children
        .iter()
        .filter_map(|child| match child {
            Child::Nested { ident, .. } => {
                Some([schema.tree.path.as_str(), &names::plain(ident), ""].join(".").trim_start_matches('.').to_owned())
            }
            Child::Inline(_) => None,
        })
        .collect();
    let functions = leaves.iter().filter_map(|leaf| match &leaf.start {
        Start::Computed(function) => Some(function),
        _ => None,
    });
    for (path, span) in functions.chain(&schema.tree.validations).flat_map(Function::named_paths) {
        let known = leaves.iter().any(|leaf| leaf.path == path);
        if known || nested.iter().any(|prefix| path.starts_with(prefix.as_str())) {
            continue;
        }
        let hint = meant(schema, path, leaves).map(|hint| format!("; {hint}")).unwrap_or_default();
        fault(errors, span, format!("no setting is called `{path}`{hint}"));
    }
}

/// What was probably meant by a path that no leaf has, as it is to be written.
fn meant(schema: &Schema, path: &str, leaves: &[&Leaf]) -> Option<String> {
    let own = &schema.tree.path;
    let written = |path: &str| path.strip_prefix(own.as_str()).unwrap_or(path).trim_start_matches('.').to_owned();
    let name = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    // The name is right and its namespace is missing or wrong.
    let same_name: Vec<_> = leaves
        .iter()
        .filter(|leaf| name(&leaf.path) == name(path))
        .map(|leaf| format!("`{}`", written(&leaf.path)))
        .collect();
    if !same_name.is_empty() {
        return Some(format!("did you mean {}?", same_name.join(" or ")));
    }
    let nearest = leaves
        .iter()
        .map(|leaf| (strsim::jaro_winkler(path, &leaf.path), leaf))
        .filter(|(similarity, _)| *similarity >= 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((_, leaf)) = nearest {
        return Some(format!("did you mean `{}`?", written(&leaf.path)));
    }
    // It may be a leaf of a nested struct, which only the compiler knows.
    let is_bare = !path.contains('.');
    is_bare.then(|| format!("a setting is named with its namespace: `namespace.{path}`"))
}

/// A value that follows from others cannot be given.
fn derived_cases(leaves: &[&Leaf], errors: &mut Accumulator) {
    for leaf in leaves {
        let Start::Computed(function) = &leaf.start else { continue };
        let read: Vec<_> = function.leaf_paths().collect();
        for (path, span) in function.named_paths().skip(read.len()) {
            if leaves.iter().any(|case| case.path == path && case.class == Class::Derived) {
                fault(errors, span, format!("`{path}` is derived, so it has no cases; name what it is computed from"));
            }
        }
    }
}

/// A value fixed at launch from one that may change would be stale after the first change, and a reload would have to
/// refuse that change.
fn hotter_inputs(leaves: &[&Leaf], errors: &mut Accumulator) {
    for leaf in leaves.iter().filter(|leaf| matches!(leaf.class, Class::Launch | Class::LoadTime)) {
        let Start::Computed(function) = &leaf.start else { continue };
        for (path, span) in function.leaf_paths() {
            let Some(hot) = hot_source(leaves, path, &mut Vec::new()) else { continue };
            let what =
                if hot == path { "which is `hot`".to_owned() } else { format!("which follows `{hot}`, a `hot` one") };
            let text = format!(
                "`{}` is fixed at launch, but its rule reads `{path}`, {what}; declare `{}` as derived, or mark it `hot`",
                leaf.path, leaf.path
            );
            fault(errors, span, text);
        }
    }
}

/// The hot leaf that `path` is or follows, through derived values too.
fn hot_source<'a>(leaves: &[&'a Leaf], path: &str, trail: &mut Vec<&'a str>) -> Option<&'a str> {
    let leaf = leaves.iter().find(|leaf| leaf.path == path)?;
    match (&leaf.start, leaf.class) {
        (_, Class::Hot) => Some(&leaf.path),
        // A cycle is reported as such.
        (Start::Computed(function), Class::Derived) if leaf.may_change() && !trail.contains(&leaf.path.as_str()) => {
            trail.push(&leaf.path);
            function.leaf_paths().find_map(|(input, _)| hot_source(leaves, input, trail))
        }
        _ => None,
    }
}

/// What follows from a secret is shown like any other value, unless its type says that it is secret too. Types that
/// the derive cannot see through are left to the check of the whole schema.
fn bared_secrets(leaves: &[&Leaf], errors: &mut Accumulator) {
    for leaf in leaves.iter().filter(|leaf| secrecy::is_plain(&leaf.ty)) {
        let Start::Computed(function) = &leaf.start else { continue };
        for (path, span) in function.leaf_paths() {
            if leaves.iter().any(|input| input.path == path && input.secret) {
                let text = format!(
                    "`{}` is computed from the secret `{path}`; give it a type `kitbag::Secret<..>`",
                    leaf.path
                );
                fault(errors, span, text);
            }
        }
    }
}

/// `Pool` with a namespace `pool` would emit two types called `PoolSetters`, `a.b` beside `a_b` two called `ABBag`.
/// Nothing can be emitted then.
pub(crate) fn type_names_clash(schema: &Schema, errors: &mut Accumulator) -> bool {
    fn collect<'a>(namespace: &'a Namespace, namespaces: &mut Vec<&'a Namespace>) {
        for child in &namespace.children {
            if let Child::Inline(inline) = child {
                namespaces.push(inline);
                collect(inline, namespaces);
            }
        }
    }
    let mut namespaces = Vec::new();
    collect(&schema.tree, &mut namespaces);
    let mut clash = false;
    let mut seen = HashMap::new();
    for namespace in namespaces {
        let bag = names::bag(&namespace.path);
        if schema.is_root() && bag == format!("{}Bag", schema.ident) {
            let text = format!("a schema and its namespace cannot both be called `{}`; rename one", schema.ident);
            fault(errors, schema.ident.span(), text);
            clash = true;
        }
        if let Some(other) = seen.insert(bag.clone(), &namespace.path) {
            let text = format!(
                "namespaces `{other}` and `{}` would both have a type `{bag}`, since names of types have neither dots \
                 nor underscores; rename one",
                namespace.path
            );
            fault(errors, namespace.span, text);
            clash = true;
        }
    }
    clash
}

/// A value that depends on itself has no value.
fn cycles(leaves: &[&Leaf], errors: &mut Accumulator) {
    for leaf in leaves {
        let mut trail = vec![leaf.path.as_str()];
        if leads_back(leaves, leaf, &mut trail) {
            let text = format!("`{}` depends on itself: {}", leaf.path, trail.join(" -> "));
            fault(errors, leaf.ident.span(), text);
        }
    }
}

/// Whether the first leaf of `trail` is among the inputs of `leaf`, directly or through others.
fn leads_back<'a>(leaves: &[&'a Leaf], leaf: &'a Leaf, trail: &mut Vec<&'a str>) -> bool {
    let Start::Computed(function) = &leaf.start else { return false };
    for (input, _) in function.leaf_paths() {
        if input == trail[0] {
            trail.push(input);
            return true;
        }
        let Some(next) = leaves.iter().find(|leaf| leaf.path == input) else { continue };
        // A cycle that does not pass the first leaf is reported for its own members.
        if trail.contains(&input) {
            continue;
        }
        trail.push(input);
        if leads_back(leaves, next, trail) {
            return true;
        }
        trail.pop();
    }
    false
}
