//! Programs that are compiled before they are loaded, kept for as long as somebody is going to load them.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::error::CudaError;
use super::nvrtc::{Compiled, Program};

/// Programs that [`CudaDevice::compile_ahead`](super::CudaDevice::compile_ahead) has compiled. While this is there, loading one
/// of them does not compile it again.
#[derive(Debug, Default)]
#[must_use = "the programs are compiled again when they are loaded later than this is dropped"]
pub struct CompiledAhead {
    programs: Vec<Arc<(Program, Compiled)>>,
    error: Option<CudaError>,
}

impl CompiledAhead {
    /// Adds a program, or why it could not be compiled; of several reasons the first is kept.
    pub(super) fn add(&mut self, program: Result<Arc<(Program, Compiled)>, CudaError>) {
        match program {
            Ok(program) => self.programs.push(program),
            Err(error) => {
                self.error.get_or_insert(error);
            }
        }
    }

    /// The same if all of the programs could be compiled, and else what was wrong with the first that could not.
    pub fn complete(self) -> Result<Self, CudaError> {
        match self.error {
            None => Ok(self),
            Some(error) => Err(error),
        }
    }

    /// Keeps the programs of both.
    pub fn extend(&mut self, other: Self) {
        self.programs.extend(other.programs);
        self.error = self.error.take().or(other.error);
    }
}

/// What of a device's programs is kept by a [`CompiledAhead`].
#[derive(Debug, Default)]
pub(super) struct AheadOfLoading(Mutex<Vec<Weak<(Program, Compiled)>>>);

impl AheadOfLoading {
    pub(super) fn find(&self, program: &Program) -> Option<Arc<(Program, Compiled)>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(Weak::upgrade).find(|kept| kept.0 == *program)
    }

    /// Has a program found until the last of those who have it drops it.
    pub(super) fn keep(&self, program: Program, compiled: Compiled) -> Arc<(Program, Compiled)> {
        let kept = Arc::new((program, compiled));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&kept));
        kept
    }
}
