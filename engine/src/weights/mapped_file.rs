//! Read-only files mapped into memory.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The bytes of a file, read by the operating system as they are touched.
#[derive(Debug)]
pub struct MappedFile {
    path: PathBuf,
    map: memmap2::Mmap,
}

impl MappedFile {
    /// Maps the file at `path`.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io(path))?;
        let is_file = file.metadata().map_err(Error::io(path))?.is_file();
        if !is_file {
            return Err(Error::damaged(path, "not a file"));
        }
        // SAFETY: the map is read-only and private to this value. Weight files are not rewritten in place while an engine
        // reads them: the engine itself replaces files only by renaming a finished one over the old name, which leaves the
        // mapped contents as they are.
        #[allow(unsafe_code)]
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(Error::io(path))?;
        Ok(Self { path: path.to_owned(), map })
    }

    /// Where the file lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }
}
