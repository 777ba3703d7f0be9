//! The GGUF format, version 3: key-value metadata, tensor descriptions, then the aligned tensors.

use std::path::Path;

use super::{ElementType, MappedFile, Weights};
use crate::error::{Error, Result};

mod metadata;
mod reader;

pub use metadata::{Metadata, Value};
use reader::Reader;

const DEFAULT_ALIGNMENT: usize = 32;

/// Opens a GGUF file: its metadata and an index of its tensors.
pub fn open(path: &Path) -> Result<(Metadata, Weights)> {
    let file = MappedFile::open(path)?;
    let mut reader = Reader::new(path, file.bytes());
    if reader.take(4)? != b"GGUF" {
        return Err(Error::damaged(path, "offset 0 does not say GGUF"));
    }
    let version = reader.u32()?;
    if version != 3 {
        return Err(Error::unsupported(path, format!("GGUF version {version} (known: 3)")));
    }
    let tensor_count = reader.count("tensors", MIN_DESCRIPTION_BYTES)?;
    let pair_count = reader.count("metadata pairs", metadata::MIN_PAIR_BYTES)?;
    let metadata = Metadata::read(&mut reader, pair_count)?;

    let mut descriptions = Vec::with_capacity(tensor_count);
    for _ in 0..tensor_count {
        descriptions.push(Description::read(&mut reader)?);
    }
    let alignment = metadata.optional_usize("general.alignment")?.unwrap_or(DEFAULT_ALIGNMENT);
    if !alignment.is_power_of_two() {
        return Err(Error::damaged(path, format!("general.alignment is {alignment}, not a power of two")));
    }
    let data_start = reader.offset().next_multiple_of(alignment);

    let mut tensors = Vec::with_capacity(descriptions.len());
    for Description { name, shape, element, offset } in descriptions {
        let problem = |problem: String| Error::damaged(path, format!("tensor `{name}` {problem}"));
        let start = usize::try_from(offset)
            .ok()
            .filter(|offset| offset.is_multiple_of(alignment))
            .and_then(|offset| data_start.checked_add(offset))
            .ok_or_else(|| problem(format!("has data offset {offset}, which is not aligned to {alignment}")))?;
        tensors.push((name, shape, element, start));
    }
    let mut weights = Weights::empty(path);
    weights.add_file(file, tensors)?;
    Ok((metadata, weights))
}

/// A name of no bytes, no dimensions, a type and an offset.
const MIN_DESCRIPTION_BYTES: usize = 8 + 4 + 4 + 8;

struct Description {
    name: String,
    /// Slowest dimension first; the file has the fastest first.
    shape: Vec<usize>,
    element: ElementType,
    offset: u64,
}

impl Description {
    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let name = reader.string()?.to_owned();
        let at = reader.offset();
        let dimensions = reader.u32()?;
        if !(1..=4).contains(&dimensions) {
            return Err(reader.damaged(at, format!("tensor `{name}` has {dimensions} dimensions")));
        }
        let mut shape = Vec::with_capacity(4);
        for _ in 0..dimensions {
            let at = reader.offset();
            let size = reader.u64()?;
            let size = usize::try_from(size)
                .map_err(|_| reader.damaged(at, format!("tensor `{name}` has a dimension of {size}")))?;
            shape.push(size);
        }
        shape.reverse();
        let number = reader.u32()?;
        let element = element_type(number).ok_or_else(|| {
            let known = ElementType::ALL.map(ElementType::name).join(", ");
            let what = format!("element type {} of tensor `{name}` (known: {known})", type_name(number));
            Error::unsupported(reader.path(), what)
        })?;
        Ok(Self { name, shape, element, offset: reader.u64()? })
    }
}

/// The element type with a number of the format, if this engine reads it.
fn element_type(number: u32) -> Option<ElementType> {
    Some(match number {
        0 => ElementType::F32,
        1 => ElementType::F16,
        2 => ElementType::Q4_0,
        3 => ElementType::Q4_1,
        6 => ElementType::Q5_0,
        7 => ElementType::Q5_1,
        8 => ElementType::Q8_0,
        12 => ElementType::Q4K,
        13 => ElementType::Q5K,
        14 => ElementType::Q6K,
        30 => ElementType::Bf16,
        _ => return None,
    })
}

/// What the format calls an element type this engine does not read.
fn type_name(number: u32) -> String {
    let name = match number {
        9 => "Q8_1",
        10 => "Q2_K",
        11 => "Q3_K",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        29 => "IQ1_M",
        34 => "TQ1_0",
        35 => "TQ2_0",
        39 => "MXFP4",
        _ => return format!("number {number}"),
    };
    name.to_owned()
}
