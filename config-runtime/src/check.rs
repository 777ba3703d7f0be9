//! Checks of a whole schema at compile time: what no single struct can see.

use crate::schema::{Class, LeafInfo, NamespaceInfo, Policy, Start};

/// FNV-1a, with `.` and `_` alike and letters in lower case if `as_env`: two paths with one variable name are equal.
const fn hash(text: &str, as_env: bool) -> u64 {
    // 0 marks an empty slot of the tables below.
    match fold(0xcbf2_9ce4_8422_2325, text, as_env) {
        0 => 1,
        hash => hash,
    }
}

/// The hash of what was hashed before and this.
const fn fold(mut hash: u64, text: &str, as_env: bool) -> u64 {
    let bytes = text.as_bytes();
    let mut index = 0;
    while index < bytes.len() {
        let byte = if as_env && bytes[index] == b'.' { b'_' } else { bytes[index].to_ascii_lowercase() };
        hash = (hash ^ byte as u64).wrapping_mul(0x0100_0000_01b3);
        index += 1;
    }
    hash
}

/// The hash of a leaf's environment variable. Without a prefix only those that leaves have of their own are read; the
/// others are told from these.
const fn variable(prefix: Option<&str>, leaf: &LeafInfo) -> u64 {
    match leaf.env {
        Some(variable) => hash(variable, true),
        None => under(prefix, leaf.path),
    }
}

/// The hash of the variable that belongs to a path.
const fn under(prefix: Option<&str>, path: &str) -> u64 {
    let prefix = match prefix {
        Some(prefix) => hash(prefix, true),
        None => hash("*", true),
    };
    match fold(fold(prefix, "_", true), path, true) {
        0 => 1,
        hash => hash,
    }
}

/// Text put together at compile time.
pub struct Message {
    bytes: [u8; 512],
    len: usize,
}

impl Message {
    const EMPTY: Self = Self { bytes: [0; 512], len: 0 };

    const fn push(mut self, text: &str) -> Self {
        let text = text.as_bytes();
        let mut index = 0;
        while index < text.len() && self.len < self.bytes.len() {
            self.bytes[self.len] = text[index];
            self.len += 1;
            index += 1;
        }
        self
    }

    /// The text, or nothing if there is no fault.
    #[must_use]
    pub const fn text(&self) -> Option<&str> {
        if self.len == 0 {
            return None;
        }
        match std::str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(text) => Some(text),
            Err(_) => Some("a fault whose names do not fit here"),
        }
    }
}

/// An open-addressed table of leaves by the hash of a name.
type Slots<const SLOTS: usize> = [(u64, Option<&'static LeafInfo>); SLOTS];

/// The flags and paths seen so far.
struct Seen<const SLOTS: usize> {
    flags: Slots<SLOTS>,
    paths: Slots<SLOTS>,
    variables: Slots<SLOTS>,
}

/// The leaf already in `table` under `hash`, or the free slot for it.
const fn slot<const SLOTS: usize>(table: &Slots<SLOTS>, hash: u64) -> (usize, Option<&'static LeafInfo>) {
    let mut index = (hash % SLOTS as u64) as usize;
    while table[index].0 != 0 {
        if table[index].0 == hash {
            return (index, table[index].1);
        }
        index = (index + 1) % SLOTS;
    }
    (index, None)
}

/// The first fault that spans structs: two leaves with one flag, one path or one environment variable; a value fixed
/// at launch from one that may change; a secret with a default; a value in the clear from a secret. `SLOTS` must exceed
/// the number of leaves.
#[must_use]
pub const fn whole_schema<const SLOTS: usize>(root: &NamespaceInfo, prefix: Option<&str>) -> Message {
    let empty = [(0, None); SLOTS];
    let (seen, message) = leaves(root, prefix, Seen { flags: empty, paths: empty, variables: empty });
    if message.len > 0 { message } else { computed(root, &seen) }
}

/// Faults of the leaves of a namespace and those below it.
const fn leaves<const SLOTS: usize>(
    namespace: &NamespaceInfo,
    prefix: Option<&str>,
    mut seen: Seen<SLOTS>,
) -> (Seen<SLOTS>, Message) {
    let mut index = 0;
    while index < namespace.leaves.len() {
        let leaf = &namespace.leaves[index];
        let path = hash(leaf.path, true);
        let (free, other) = slot(&seen.paths, path);
        if let Some(other) = other {
            let message = Message::EMPTY.push("leaves `").push(other.path).push("` and `").push(leaf.path);
            return (seen, message.push("` have the same path or environment variable; rename one"));
        }
        seen.paths[free] = (path, Some(leaf));
        if !matches!(leaf.class, Class::Derived) {
            let flag = hash(leaf.flag, false);
            let (free, other) = slot(&seen.flags, flag);
            if let Some(other) = other {
                let message = Message::EMPTY.push("leaves `").push(other.path).push("` and `").push(leaf.path);
                let message = message.push("` have the same flag `--").push(leaf.flag);
                return (seen, message.push("`; give one `#[config(flag = \"...\")]`"));
            }
            seen.flags[free] = (flag, Some(leaf));
            let name = variable(prefix, leaf);
            if name == under(prefix, "config") || name == under(prefix, "profile") {
                let message = Message::EMPTY.push("`").push(leaf.path).push("` has a variable that every program has");
                return (seen, message.push("; give it another one"));
            }
            let (free, other) = slot(&seen.variables, name);
            if let Some(other) = other {
                let message = Message::EMPTY.push("leaves `").push(other.path).push("` and `").push(leaf.path);
                return (seen, message.push("` have the same variable; give one `#[config(env = \"...\")]`"));
            }
            seen.variables[free] = (name, Some(leaf));
        }
        if leaf.is_secret() && matches!(leaf.start, Start::Default { .. }) {
            let message = Message::EMPTY.push("`").push(leaf.path).push("` is a secret, and a secret has no default: ");
            return (seen, message.push("it would stand in the program's text and help"));
        }
        index += 1;
    }
    let mut index = 0;
    while index < namespace.children.len() {
        let (next, message) = leaves(&namespace.children[index], prefix, seen);
        if message.len > 0 {
            return (next, message);
        }
        seen = next;
        index += 1;
    }
    (seen, Message::EMPTY)
}

/// Rules of a namespace and those below it. Within one struct the derive has found the same, at the token at fault.
const fn computed<const SLOTS: usize>(namespace: &NamespaceInfo, seen: &Seen<SLOTS>) -> Message {
    let mut index = 0;
    while index < namespace.leaves.len() {
        let message = inputs(&namespace.leaves[index], seen);
        if message.len > 0 {
            return message;
        }
        index += 1;
    }
    let mut index = 0;
    while index < namespace.children.len() {
        let message = computed(&namespace.children[index], seen);
        if message.len > 0 {
            return message;
        }
        index += 1;
    }
    Message::EMPTY
}

/// The inputs of one computed leaf.
const fn inputs<const SLOTS: usize>(leaf: &LeafInfo, seen: &Seen<SLOTS>) -> Message {
    let Start::Computed(computation) = &leaf.start else { return Message::EMPTY };
    let mut index = 0;
    while index < computation.inputs.len() {
        let input = computation.inputs[index];
        if matches!(leaf.class, Class::Launch | Class::LoadTime)
            && let Some(hot) = hot_source(input, seen)
        {
            let message = Message::EMPTY.push("`").push(leaf.path).push("` is fixed at launch, but its rule reads `");
            let message = message.push(input).push("`, which ");
            let message = if hash(input, true) == hash(hot.path, true) {
                message.push("is `hot`")
            } else {
                message.push("follows `").push(hot.path).push("`, a `hot` one")
            };
            let message = message.push("; declare `").push(leaf.path);
            return message.push("` as derived, or mark it `hot`");
        }
        if !leaf.is_secret()
            && let Some(source) = slot(&seen.paths, hash(input, true)).1
            && source.is_secret()
        {
            let message = Message::EMPTY.push("`").push(leaf.path).push("` is computed from the secret `");
            return message.push(input).push("`; give it a type `kitbag::Secret<..>`");
        }
        index += 1;
    }
    Message::EMPTY
}

/// The hot leaf that `path` is or follows, through derived values too. They cannot go round: a struct reads only itself
/// and what is nested in it, and within a struct the derive finds cycles.
const fn hot_source<const SLOTS: usize>(path: &str, seen: &Seen<SLOTS>) -> Option<&'static LeafInfo> {
    let Some(leaf) = slot(&seen.paths, hash(path, true)).1 else { return None };
    let Start::Computed(computation) = &leaf.start else {
        return if matches!(leaf.class, Class::Hot) { Some(leaf) } else { None };
    };
    match leaf.class {
        Class::Hot => Some(leaf),
        Class::Derived if !matches!(leaf.policy, Policy::AtLaunch) => {
            let mut index = 0;
            while index < computation.inputs.len() {
                if let Some(hot) = hot_source(computation.inputs[index], seen) {
                    return Some(hot);
                }
                index += 1;
            }
            None
        }
        _ => None,
    }
}

/// What is wrong if the namespace struct nested as field `name` of the namespace `parent` declares another path than
/// the one that follows.
#[must_use]
pub const fn misplaced(parent: &str, name: &str, declared: &str) -> Message {
    if nests(parent, name, declared) {
        return Message::EMPTY;
    }
    let message = Message::EMPTY.push("this struct is namespace `").push(declared).push("`, but nested as `");
    let message = push_path(message, parent, name).push("`; write `#[config(ns = \"");
    push_path(message, parent, name).push("\")]` on it, or declare another struct if it is nested elsewhere too")
}

const fn push_path(message: Message, parent: &str, name: &str) -> Message {
    if parent.is_empty() { message.push(name) } else { message.push(parent).push(".").push(name) }
}

/// Whether the namespace struct nested as field `name` of the namespace `parent` declares the path that follows.
const fn nests(parent: &str, name: &str, declared: &str) -> bool {
    let (parent, name, declared) = (parent.as_bytes(), name.as_bytes(), declared.as_bytes());
    let prefix = if parent.is_empty() { 0 } else { parent.len() + 1 };
    if declared.len() != prefix + name.len() {
        return false;
    }
    let mut index = 0;
    while index < declared.len() {
        let expected = if index < parent.len() {
            parent[index]
        } else if index < prefix {
            b'.'
        } else {
            name[index - prefix]
        };
        if declared[index] != expected {
            return false;
        }
        index += 1;
    }
    true
}
