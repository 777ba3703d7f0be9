//! Bounded reading of a GGUF file: every error names the offset, and no length is believed before the bytes are there.

use std::path::Path;

use crate::error::{Error, Result};

pub(super) struct Reader<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(path: &'a Path, bytes: &'a [u8]) -> Self {
        Self { path, bytes, offset: 0 }
    }

    pub(super) fn path(&self) -> &'a Path {
        self.path
    }

    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    pub(super) fn damaged(&self, at: usize, problem: impl std::fmt::Display) -> Error {
        Error::damaged(self.path, format!("offset {at}: {problem}"))
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.offset..];
        let Some(taken) = rest.get(..length) else {
            let problem = format!("needs {length} bytes, the file has {} more", rest.len());
            return Err(self.damaged(self.offset, problem));
        };
        self.offset += length;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = self.take(N)?;
        Ok(std::array::from_fn(|i| taken[i]))
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A number of things of at least `smallest` bytes each, refused when that many cannot follow.
    pub(super) fn count(&mut self, things: &str, smallest: usize) -> Result<usize> {
        let at = self.offset;
        let count = self.u64()?;
        let room = (self.bytes.len() - self.offset) / smallest;
        usize::try_from(count)
            .ok()
            .filter(|&count| count <= room)
            .ok_or_else(|| self.damaged(at, format!("claims {count} {things}, the file has room for {room}")))
    }

    pub(super) fn string(&mut self) -> Result<&'a str> {
        let length = self.count("bytes of text", 1)?;
        let at = self.offset;
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes).map_err(|e| self.damaged(at, e))
    }
}
