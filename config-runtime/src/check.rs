//! Checks of a whole schema at compile time: what no single struct can see.

use crate::schema::{Class, NamespaceInfo};

/// FNV-1a, with `.` and `_` alike and letters in lower case if `as_env`: two paths with one variable name are equal.
const fn hash(text: &str, as_env: bool) -> u64 {
    let bytes = text.as_bytes();
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut index = 0;
    while index < bytes.len() {
        let byte = if as_env && bytes[index] == b'.' { b'_' } else { bytes[index].to_ascii_lowercase() };
        hash = (hash ^ byte as u64).wrapping_mul(0x0100_0000_01b3);
        index += 1;
    }
    // 0 marks an empty slot of the tables below.
    if hash == 0 { 1 } else { hash }
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
            Err(_) => Some("two leaves share a name"),
        }
    }
}

/// Open-addressed tables of the flags and variables seen so far.
struct Seen<const SLOTS: usize> {
    flags: [(u64, &'static str); SLOTS],
    paths: [(u64, &'static str); SLOTS],
}

/// The leaf already in `table` under `hash`, or the free slot for it.
const fn slot<const SLOTS: usize>(table: &[(u64, &'static str); SLOTS], hash: u64) -> (usize, Option<&'static str>) {
    let mut index = (hash % SLOTS as u64) as usize;
    while table[index].0 != 0 {
        if table[index].0 == hash {
            return (index, Some(table[index].1));
        }
        index = (index + 1) % SLOTS;
    }
    (index, None)
}

/// Two leaves with one flag, one path or one environment variable. `SLOTS` must exceed the number of leaves.
#[must_use]
pub const fn duplicate<const SLOTS: usize>(root: &NamespaceInfo) -> Message {
    let seen = Seen { flags: [(0, ""); SLOTS], paths: [(0, ""); SLOTS] };
    walk(root, seen).1
}

const fn walk<const SLOTS: usize>(namespace: &NamespaceInfo, mut seen: Seen<SLOTS>) -> (Seen<SLOTS>, Message) {
    let mut index = 0;
    while index < namespace.leaves.len() {
        let leaf = &namespace.leaves[index];
        let path = hash(leaf.path, true);
        let (free, other) = slot(&seen.paths, path);
        if let Some(other) = other {
            let message = Message::EMPTY.push("leaves `").push(other).push("` and `").push(leaf.path);
            return (seen, message.push("` have the same path or environment variable; rename one"));
        }
        seen.paths[free] = (path, leaf.path);
        if !matches!(leaf.class, Class::Derived) {
            let flag = hash(leaf.flag, false);
            let (free, other) = slot(&seen.flags, flag);
            if let Some(other) = other {
                let message = Message::EMPTY.push("leaves `").push(other).push("` and `").push(leaf.path);
                let message = message.push("` have the same flag `--").push(leaf.flag);
                return (seen, message.push("`; give one `#[config(flag = \"...\")]`"));
            }
            seen.flags[free] = (flag, leaf.path);
        }
        index += 1;
    }
    let mut index = 0;
    while index < namespace.children.len() {
        let (next, message) = walk(&namespace.children[index], seen);
        if message.len > 0 {
            return (next, message);
        }
        seen = next;
        index += 1;
    }
    (seen, Message::EMPTY)
}

/// Whether the namespace struct nested as field `name` of the namespace `parent` declares the path that follows.
#[must_use]
pub const fn nests(parent: &str, name: &str, declared: &str) -> bool {
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
