//! The schema with one rule dropped: a rule whose absence no shape notices is not tested.

use std::marker::PhantomData;

use engine_config::Settings;
use kitbag::__private::{Edit, Reads};
use kitbag::{ConfigNamespaces, LeafInfo, NamespaceInfo, Pinned, Recording, Role, Start, Validation};

use super::document::{Document, document};
use super::shapes::Shape;

const SCHEMA: NamespaceInfo = Settings::SCHEMA;
const LEAVES: usize = SCHEMA.len();
const NAMESPACES: usize = namespaces(&SCHEMA);
const VALIDATIONS: usize = validations(&SCHEMA);

/// The rules of the schema: ranges, computed leaves, checks over several leaves.
pub(super) const RULES: usize = {
    let mut rules = VALIDATIONS;
    let leaves = flat_leaves();
    let mut index = 0;
    while index < LEAVES {
        rules += leaves[index].ops.range.is_some() as usize;
        rules += matches!(leaves[index].start, Start::Computed(_)) as usize;
        index += 1;
    }
    rules
};

/// What resolves a shape without rule `R`, for each `R`; numbers from [`RULES`] on drop nothing.
pub(super) const RESOLVERS: &[fn(&Shape) -> Document] = {
    macro_rules! without {
        ($($rule:literal)*) => { &[$(document::<Without<$rule>>),*] };
    }
    without!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23
        24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47)
};

/// What rule `rule` is, in words.
pub(super) fn name_of(rule: usize) -> String {
    let mut names = Vec::new();
    for leaf in flat_leaves() {
        if let Some(range) = leaf.range {
            names.push(format!("{}: range {range}", leaf.path));
        }
        if let Start::Computed(computation) = leaf.start {
            names.push(format!("{}: computed by {}", leaf.path, computation.function));
        }
    }
    names.extend(flat_validations().iter().map(|validation| format!("check {}", validation.function)));
    names.swap_remove(rule)
}

/// The engine's settings without rule `R`. A computed leaf has the constant 1 instead; ranges and checks accept all.
struct Without<const R: usize>;

impl<const R: usize> Without<R> {
    const ALL_LEAVES: [LeafInfo; LEAVES] = {
        let mut leaves = flat_leaves();
        let (mut rule, mut index) = (0, 0);
        while index < LEAVES {
            if leaves[index].ops.range.is_some() {
                if rule == R {
                    leaves[index].ops.range = None;
                    leaves[index].range = None;
                }
                rule += 1;
            }
            if matches!(leaves[index].start, Start::Computed(_)) {
                if rule == R {
                    leaves[index].start = Start::Default { text: "1", make: None };
                }
                rule += 1;
            }
            index += 1;
        }
        leaves
    };
    const ALL_VALIDATIONS: [Validation; VALIDATIONS] = {
        let mut validations = flat_validations();
        let first = RULES - VALIDATIONS;
        if R >= first && R < RULES {
            validations[R - first] = ACCEPTS;
        }
        validations
    };
    /// One after the other instead of nested: to a schema whose namespaces are structs of their own that is the same.
    const ALL_NAMESPACES: [NamespaceInfo; NAMESPACES] = {
        let mut flat = [SCHEMA; NAMESPACES];
        add_namespace(&SCHEMA, &mut flat, 0);
        let (mut index, mut leaf, mut validation) = (0, 0, 0);
        while index < NAMESPACES {
            assert!(flat[index].own_struct, "keys of rules count from the struct that declares them");
            let (leaves, validations) = (flat[index].leaves.len(), flat[index].validations.len());
            flat[index].leaves = Self::ALL_LEAVES.split_at(leaf).1.split_at(leaves).0;
            flat[index].validations = Self::ALL_VALIDATIONS.split_at(validation).1.split_at(validations).0;
            flat[index].children = &[];
            (index, leaf, validation) = (index + 1, leaf + leaves, validation + validations);
        }
        flat
    };
}

const ACCEPTS: Validation = Validation { function: "nothing", inputs: &[], run: |_| Ok(()) };

const fn namespaces(of: &NamespaceInfo) -> usize {
    let (mut sum, mut index) = (1, 0);
    while index < of.children.len() {
        sum += namespaces(&of.children[index]);
        index += 1;
    }
    sum
}

const fn validations(of: &NamespaceInfo) -> usize {
    let (mut sum, mut index) = (of.validations.len(), 0);
    while index < of.children.len() {
        sum += validations(&of.children[index]);
        index += 1;
    }
    sum
}

const fn first_leaf(of: &NamespaceInfo) -> LeafInfo {
    if of.leaves.is_empty() { first_leaf(&of.children[0]) } else { of.leaves[0] }
}

const fn flat_leaves() -> [LeafInfo; LEAVES] {
    let mut leaves = [first_leaf(&SCHEMA); LEAVES];
    add_leaves(&SCHEMA, &mut leaves, 0);
    leaves
}

const fn add_leaves(of: &NamespaceInfo, to: &mut [LeafInfo; LEAVES], mut at: usize) -> usize {
    let mut index = 0;
    while index < of.leaves.len() {
        to[at] = of.leaves[index];
        (at, index) = (at + 1, index + 1);
    }
    index = 0;
    while index < of.children.len() {
        at = add_leaves(&of.children[index], to, at);
        index += 1;
    }
    at
}

const fn flat_validations() -> [Validation; VALIDATIONS] {
    let mut validations = [ACCEPTS; VALIDATIONS];
    add_validations(&SCHEMA, &mut validations, 0);
    validations
}

const fn add_validations(of: &NamespaceInfo, to: &mut [Validation; VALIDATIONS], mut at: usize) -> usize {
    let mut index = 0;
    while index < of.validations.len() {
        to[at] = of.validations[index];
        (at, index) = (at + 1, index + 1);
    }
    index = 0;
    while index < of.children.len() {
        at = add_validations(&of.children[index], to, at);
        index += 1;
    }
    at
}

const fn add_namespace(of: &NamespaceInfo, to: &mut [NamespaceInfo; NAMESPACES], mut at: usize) -> usize {
    to[at] = *of;
    at += 1;
    let mut index = 0;
    while index < of.children.len() {
        at = add_namespace(&of.children[index], to, at);
        index += 1;
    }
    at
}

impl<const R: usize> ConfigNamespaces for Without<R> {
    const SCHEMA: NamespaceInfo =
        NamespaceInfo { leaves: &[], validations: &[], children: &Self::ALL_NAMESPACES, ..SCHEMA };
    const ENV_PREFIX: Option<&'static str> = Settings::ENV_PREFIX;

    type Bags = <Settings as ConfigNamespaces>::Bags;
    type Pin<Reader: Role> = Unread<Reader>;
    type Setters<F> = Setters<F>;
    type Keys = ();
    type Recording = Recorded<R>;

    fn keys() {}

    fn touch(&self) {}
}

// Nothing is published under these schemas, so what would read or set their values is empty.

struct Unread<R>(PhantomData<R>);

impl<R, const N: usize> From<Pinned<Without<N>>> for Unread<R> {
    fn from(_: Pinned<Without<N>>) -> Self {
        Self(PhantomData)
    }
}

struct Setters<F>(Edit, PhantomData<F>);

impl<F> From<Edit> for Setters<F> {
    fn from(edit: Edit) -> Self {
        Self(edit, PhantomData)
    }
}

impl<F> From<Setters<F>> for Edit {
    fn from(setters: Setters<F>) -> Self {
        setters.0
    }
}

struct Recorded<const R: usize>(Pinned<Without<R>>, Reads);

impl<const R: usize> From<Pinned<Without<R>>> for Recorded<R> {
    fn from(pinned: Pinned<Without<R>>) -> Self {
        Self(pinned, Reads::default())
    }
}

impl<const R: usize> Recording<Without<R>> for Recorded<R> {
    fn parts(&self) -> (&Pinned<Without<R>>, &Reads) {
        (&self.0, &self.1)
    }
}
