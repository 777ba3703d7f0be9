//! Reading and writing safetensors files without the engine.

use std::path::Path;

use serde_json::Value;

/// The header of a file and the bytes of the tensors behind it.
pub(crate) fn read(path: &Path) -> (Value, Vec<u8>) {
    let mut bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    let data = bytes.split_off(8 + length);
    (serde_json::from_slice(&bytes[8..]).expect("a header"), data)
}

/// Writes a header and the bytes behind it.
pub(crate) fn write(path: &Path, header: &Value, data: &[u8]) {
    write_text(path, &header.to_string(), data);
}

/// The same with a header that need not be one.
pub(crate) fn write_text(path: &Path, header: &str, data: &[u8]) {
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat();
    std::fs::write(path, bytes).expect("written");
}

/// The names and entries of the tensors.
pub(crate) fn tensors(header: &Value) -> impl Iterator<Item = (&String, &Value)> {
    header.as_object().expect("an object").iter().filter(|(name, _)| *name != "__metadata__")
}

/// The bytes of the tensor that has this entry.
pub(crate) fn bytes<'a>(entry: &Value, data: &'a [u8]) -> &'a [u8] {
    let at = |i: usize| entry["data_offsets"][i].as_u64().expect("an offset") as usize;
    &data[at(0)..at(1)]
}

/// A float32 tensor.
pub(crate) fn floats(path: &Path, name: &str) -> Vec<f32> {
    let (header, data) = read(path);
    assert_eq!(header[name]["dtype"], "F32");
    let (numbers, _) = bytes(&header[name], &data).as_chunks::<4>();
    numbers.iter().map(|&number| f32::from_le_bytes(number)).collect()
}
