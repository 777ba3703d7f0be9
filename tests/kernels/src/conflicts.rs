//! Bank conflicts of the kernels: the emulator counts them while they solve the problems of
//! [`subjects`](crate::subjects).

use std::collections::BTreeMap;

use kernels::cuda::{CudaDevice, KernelSource};

use crate::Emulator;
use crate::mutants::Sources;
use crate::subjects::subjects;

/// Passes over shared memory that bank conflicts cost a kernel, in all problems of its source together; by source file
/// and kernel.
#[derive(Debug)]
pub struct BankConflicts(BTreeMap<(&'static str, String), u64>);

impl BankConflicts {
    /// Has every kernel solve its problems.
    ///
    /// # Panics
    ///
    /// If one does not.
    #[must_use]
    pub fn count(device: &CudaDevice, emulator: &Emulator) -> Self {
        // Some problems have blocks write the same rows, which a kernel must bear.
        emulator.allow_block_races(true);
        let sources = Sources::read();
        let mut counted = BTreeMap::new();
        for subject in subjects() {
            let source = KernelSource { name: subject.file, text: sources.text(subject.file).to_owned().into() };
            emulator.forget_kernels();
            for problem in &subject.problems {
                let solved = (problem.solve)(device, source.clone());
                assert!(solved.is_ok_and(|right| right), "{} is not right for {}", subject.file, problem.name);
            }
            for (kernel, counters) in emulator.kernels() {
                counted.insert((subject.file, kernel), counters.bank_conflict_passes);
            }
        }
        emulator.allow_block_races(false);
        Self(counted)
    }

    /// Those of a kernel; none if no problem of its source runs it.
    #[must_use]
    pub fn of(&self, file: &'static str, kernel: &str) -> Option<u64> {
        self.0.get(&(file, kernel.to_owned())).copied()
    }
}
