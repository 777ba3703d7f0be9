//! A folder of kernels that were compiled on another machine, so that a device needs its driver and nothing else.
//!
//! An entry is found by what it was compiled from: one that was built for other shapes, or from the sources of another
//! version, is not there. Folders may be added to, and one may serve several models and devices.

use std::fmt::Display;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use super::error::CudaError;
use super::in_order::in_order;
use super::kernel_file::{self, KernelKey};
use super::nvrtc::{Compiled, Compiler, KernelSource, Program};
use super::target::{Architecture, Target};

/// Does nothing. Every folder has it for each of its targets, to be tried on a device before anything else.
pub(super) const PROBE: KernelSource = KernelSource::embedded("probe.cu", "extern \"C\" __global__ void probe() {}");

pub(super) fn probe() -> Program {
    Program { source: PROBE, defines: Vec::new() }
}

/// A folder of compiled kernels.
#[derive(Debug, Clone)]
pub struct Prebuilt {
    folder: PathBuf,
}

impl Prebuilt {
    /// The kernels in a folder.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Compiles programs for targets, on so many threads, and adds them to the folder, which is made if it is not there; a
    /// program that is there is compiled again.
    pub fn build(
        &self,
        compiler: &Compiler,
        programs: &[Program],
        targets: &[Target],
        threads: NonZeroUsize,
    ) -> Result<(), CudaError> {
        std::fs::create_dir_all(&self.folder).map_err(|error| wrong(&self.folder, &error))?;
        let probe = probe();
        let all: Vec<_> = programs.iter().chain([&probe]).collect();
        let all: Vec<_> =
            targets.iter().flat_map(|&target| all.iter().map(move |&program| (program, target))).collect();
        in_order(&all, threads, |&(program, target)| {
            let compiled = compiler.compile(program, target)?;
            let key = KernelKey::of(program, target);
            kernel_file::write(&self.folder, &key, &program.about(target, compiler), &compiled)
                .map_err(|error| wrong(&self.folder, &error))
        })
        .map(drop)
    }

    /// A program for a target, if the folder has it.
    pub(super) fn get(&self, program: &Program, target: Target) -> Result<Option<Compiled>, CudaError> {
        let key = KernelKey::of(program, target);
        let damaged = |why: String| {
            let path = self.folder.join(key.file_name());
            wrong(&path, &format!("{why}: build it anew (cargo xtask kernels --prebuilt)"))
        };
        kernel_file::read(&self.folder, &key).map_err(damaged)
    }

    /// The targets of the folder that a device of a compute capability may run, the nearest first and PTX last.
    pub(super) fn targets(&self, major: u32, minor: u32) -> Result<Vec<Target>, CudaError> {
        if !self.folder.is_dir() {
            return Err(wrong(&self.folder, &"there is no such folder"));
        }
        let minors = (0..=minor).rev();
        let candidates = minors.flat_map(|minor| [true, false].map(|specific| Architecture { major, minor, specific }));
        let runnable = candidates.filter(|architecture| architecture.runs_on(major, minor)).map(Target::Cubin);
        let mut found = Vec::new();
        for target in runnable.chain([Target::Ptx]) {
            if self.get(&probe(), target)?.is_some() {
                found.push(target);
            }
        }
        Ok(found)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

fn wrong(path: &Path, why: &dyn Display) -> CudaError {
    CudaError::Prebuilt { path: path.to_owned(), why: why.to_string() }
}
