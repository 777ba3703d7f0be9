//! GGUF files: the same model as from a folder, and files that are damaged, cut off, lie about themselves or ask for what
//! is not there.

#[path = "../support/mod.rs"]
mod support;

mod header;
mod models;
mod tensors;

use std::path::PathBuf;

use support::gguf;
use tempfile::TempDir;

struct GgufFile {
    _folder: TempDir,
    path: PathBuf,
    bytes: Vec<u8>,
}

fn gguf_file() -> GgufFile {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let bytes = gguf::from_folder(&support::models().join("llama_tied"));
    GgufFile { _folder: folder, path, bytes }
}

/// The bytes of a metadata pair called `key`, with a value of a type of the format.
fn pair(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [&(key.len() as u64).to_le_bytes(), key.as_bytes(), &kind.to_le_bytes(), value].concat()
}
