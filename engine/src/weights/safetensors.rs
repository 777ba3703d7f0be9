//! The safetensors format: eight bytes of header length, a JSON header, then the tensors.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{ElementType, MappedFile, Weights};
use crate::error::{Error, Result};

/// Headers beyond this size are refused, as the format's own library does.
const HEADER_LIMIT: usize = 100_000_000;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Opens the weights of a model folder: `model.safetensors`, or the parts that `model.safetensors.index.json` lists.
pub fn open_folder(folder: &Path) -> Result<Weights> {
    let (single, index) = (folder.join(SINGLE), folder.join(INDEX));
    let mut weights = Weights::empty(folder);
    if single.exists() {
        add(&mut weights, &single)?;
    } else if index.exists() {
        for part in parts(&index)? {
            add(&mut weights, &folder.join(part))?;
        }
    } else {
        return Err(Error::damaged(folder, format!("holds neither {SINGLE} nor {INDEX}")));
    }
    Ok(weights)
}

#[derive(Deserialize)]
struct PartIndex {
    weight_map: BTreeMap<String, String>,
}

/// The distinct file names of an index.
fn parts(index: &Path) -> Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(index).map_err(Error::io(index))?;
    let parsed: PartIndex =
        serde_json::from_str(&text).map_err(|e| Error::damaged(index, format!("weight index: {e}")))?;
    let names: BTreeSet<String> = parsed.weight_map.into_values().collect();
    match names.iter().find(|name| Path::new(name).file_name() != Some(name.as_ref())) {
        Some(name) => Err(Error::damaged(index, format!("`{name}` is not a plain file name"))),
        None => Ok(names),
    }
}

/// The pairs of a header in their order; a map would keep one of two with the same name and say nothing.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with an entry for each tensor")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Entries(pairs))
            }
        }

        deserializer.deserialize_map(Pairs)
    }
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

/// Reads the header of one file and adds its tensors.
fn add(weights: &mut Weights, path: &Path) -> Result<()> {
    let file = MappedFile::open(path)?;
    let bytes = file.bytes();
    let damaged = |problem: String| Error::damaged(path, problem);
    let (&length, rest) = bytes
        .split_first_chunk::<8>()
        .ok_or_else(|| damaged(format!("only {} bytes, not a safetensors file", bytes.len())))?;
    let length = u64::from_le_bytes(length);
    let header = usize::try_from(length)
        .ok()
        .filter(|&length| length <= HEADER_LIMIT)
        .and_then(|length| rest.get(..length))
        .ok_or_else(|| damaged(format!("offset 0 claims a header of {length} bytes in a file of {}", bytes.len())))?;
    let data_start = 8 + header.len();
    let Entries(entries) = serde_json::from_slice(header).map_err(|e| damaged(format!("header at offset 8: {e}")))?;

    let mut names = BTreeSet::new();
    let mut tensors = Vec::new();
    for (name, raw) in entries {
        if !names.insert(name.clone()) {
            return Err(damaged(format!("the header at offset 8 has `{name}` twice")));
        }
        if name == "__metadata__" {
            continue;
        }
        let problem = |problem: String| damaged(format!("tensor `{name}` {problem}"));
        let entry: Entry =
            serde_json::from_str(raw.get()).map_err(|e| problem(format!("has a header entry that is wrong: {e}")))?;
        let element = match entry.dtype.as_str() {
            "F32" => ElementType::F32,
            "F16" => ElementType::F16,
            "BF16" => ElementType::Bf16,
            other => {
                let what = format!("element type {other} of tensor `{name}` (known: F32, F16, BF16)");
                return Err(Error::unsupported(path, what));
            }
        };
        let (start, end) = entry.data_offsets;
        let wanted = super::stored_bytes(&entry.shape, element);
        if end.checked_sub(start).is_none_or(|length| Some(length) != wanted) {
            return Err(problem(format!(
                "of shape {:?} and type {} cannot lie at data offsets {start}..{end}",
                entry.shape, entry.dtype
            )));
        }
        let start = data_start
            .checked_add(start)
            .ok_or_else(|| problem(format!("starts at data offset {start}, beyond any file")))?;
        tensors.push((name, entry.shape, element, start));
    }
    weights.add_file(file, tensors)
}
