//! A folder of compiled kernels, so that a program compiles each of them once and not at every start.
//!
//! Entries are named by what they were compiled from and with, so none is ever out of date. Any number of processes may
//! use a folder at the same time, without waiting for each other: they may both compile a kernel that is missing, and
//! both write it. Whatever is wrong with the folder, kernels are compiled all the same, and what was wrong is told.

use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::error::CudaError;
use super::kernel_file::{self, EXTENSION, KernelKey, SCRATCH_EXTENSION};
use super::nvrtc::{Compiled, Compiler, Program};
use super::target::Target;

/// How long an unfinished file may be one that somebody is writing.
const MOST_WRITING_TIME: Duration = Duration::from_hours(1);
/// An entry that is used is marked as such no more often than this.
const MARK_INTERVAL: Duration = Duration::from_hours(1);

/// A folder of compiled kernels.
#[derive(Debug)]
pub struct KernelCache {
    folder: PathBuf,
    limit: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    counts: CacheCounts,
    notices: Vec<CacheNotice>,
    /// Nothing is written any more, which has been told.
    is_unwritable: bool,
}

/// What a cache has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Kernels that were there.
    pub found: usize,
    /// Kernels that had to be compiled.
    pub compiled: usize,
}

/// Something about a cache that its owner should know. Kernels are there nevertheless.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheNotice {
    /// An entry was not what had been written.
    Damaged {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Nothing can be kept.
    Unwritable {
        /// The cache's folder.
        folder: PathBuf,
        /// The system's words.
        why: String,
    },
}

impl fmt::Display for CacheNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { path, why } => {
                write!(f, "{} is damaged ({why}): the kernel was compiled anew", path.display())
            }
            Self::Unwritable { folder, why } => {
                let folder = folder.display();
                write!(f, "compiled kernels cannot be kept in {folder} ({why}): they are compiled at every start")
            }
        }
    }
}

impl KernelCache {
    /// A cache in `folder`, which is made when there is something to keep, of at most `limit` bytes: what has not been
    /// used for longest goes first.
    #[must_use]
    pub fn new(folder: PathBuf, limit: u64) -> Self {
        Self { folder, limit, state: Mutex::default() }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How many kernels were there, and how many were not.
    #[must_use]
    pub fn counts(&self) -> CacheCounts {
        self.state().counts
    }

    /// What its owner should know, and has not been told: by path, whichever thread came first.
    #[must_use]
    pub fn take_notices(&self) -> Vec<CacheNotice> {
        let mut notices = std::mem::take(&mut self.state().notices);
        notices.sort();
        notices
    }

    /// A program as it lies here, or else as the compiler compiles it, which is then kept.
    pub fn compile(&self, compiler: &Compiler, program: &Program, target: Target) -> Result<Compiled, CudaError> {
        let key = KernelKey::of(program, target).by(compiler.identity());
        match kernel_file::read(&self.folder, &key) {
            Ok(Some(compiled)) => {
                self.mark_used(&key);
                self.state().counts.found += 1;
                return Ok(compiled);
            }
            Ok(None) => {}
            Err(why) => {
                let path = self.folder.join(key.file_name());
                self.state().notices.push(CacheNotice::Damaged { path, why });
            }
        }
        let compiled = compiler.compile(program, target)?;
        self.state().counts.compiled += 1;
        if !self.state().is_unwritable
            && let Err(error) = self.keep(&key, &program.about(target, compiler), &compiled)
        {
            let mut state = self.state();
            // Another thread may have found out meanwhile.
            if !std::mem::replace(&mut state.is_unwritable, true) {
                state.notices.push(CacheNotice::Unwritable { folder: self.folder.clone(), why: error.to_string() });
            }
        }
        Ok(compiled)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // It is consistent between any two of its changes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, key: &KernelKey, about: &str, compiled: &Compiled) -> io::Result<()> {
        if !self.folder.is_dir() {
            // Others must not put code there that this user's GPU will run.
            DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        }
        kernel_file::write(&self.folder, key, about, compiled)?;
        self.shrink(&key.file_name())
    }

    /// Removes what is beyond the limit, but not the entry called `newest`.
    ///
    /// A file that another process removes first is as good as removed; a process that wants to read one that is gone
    /// compiles it.
    fn shrink(&self, newest: &str) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let (path, Ok(metadata)) = (entry.path(), entry.metadata()) else { continue };
            let used = metadata.modified()?;
            match path.extension().and_then(|extension| extension.to_str()) {
                Some(EXTENSION) => entries.push((used, metadata.len(), path)),
                Some(SCRATCH_EXTENSION) if age(used) > MOST_WRITING_TIME => {
                    let _ = fs::remove_file(path);
                }
                _ => {}
            }
        }
        entries.sort();
        let mut total: u64 = entries.iter().map(|(_, length, _)| length).sum();
        for (_, length, path) in entries {
            if total <= self.limit {
                break;
            }
            if !path.ends_with(newest) {
                let _ = fs::remove_file(path);
                total -= length;
            }
        }
        Ok(())
    }

    /// Has an entry outlive those that nobody uses. In a folder that cannot be written it need not.
    fn mark_used(&self, key: &KernelKey) {
        let path = self.folder.join(key.file_name());
        let is_recent = fs::metadata(&path).and_then(|metadata| metadata.modified());
        if is_recent.is_ok_and(|used| age(used) > MARK_INTERVAL) {
            let _ = File::options().write(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        }
    }
}

/// How long ago a moment is; nothing if a clock was set back since.
fn age(moment: SystemTime) -> Duration {
    moment.elapsed().unwrap_or_default()
}
