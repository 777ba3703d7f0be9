//! Trying a mutant out.

use std::collections::HashMap;

use kernels::cuda::{CudaDevice, CudaError, KernelSource};

use super::{Mutant, Sources, uses};
use crate::subjects::{Problem, Subject};
use crate::{Emulator, device};

/// What became of a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The emulator reported it; the report's first line.
    Reported(String),
    /// A result was refused, or something beside the results was written.
    Wrong,
    /// Threads wait for banks of shared memory where they did not before.
    Conflicts,
    /// It does not compile: there is nothing to catch.
    NoProgram,
    /// The compiler makes the same instructions of it, for every problem: there is nothing to catch.
    SameCode,
    /// Nothing noticed it.
    Unnoticed,
}

impl Verdict {
    /// Whether it was found out.
    #[must_use]
    pub fn is_caught(&self) -> bool {
        matches!(self, Self::Reported(_) | Self::Wrong | Self::Conflicts)
    }
}

/// Orders of warps that what nothing has noticed is tried in as well.
const SCHEDULES: [u64; 2] = [1, 2];
/// What is being done when the emulator reads a program and refuses it.
const LOADING: &str = "loading a compiled kernel";
/// Instructions of warps that no problem needs.
const BUDGET: u64 = 30_000_000;

/// The emulated device, and what the kernels do on it when they are whole.
pub struct Trial<'a> {
    sources: &'a Sources,
    emulator: Emulator,
    /// Nothing only while it is opened anew.
    device: Option<CudaDevice>,
    /// Of each kernel and each of its problems: the code, and conflicts over banks.
    whole: HashMap<&'static str, Vec<(u64, u64)>>,
}

impl<'a> Trial<'a> {
    /// Opens the device.
    ///
    /// # Panics
    ///
    /// If that fails.
    #[must_use]
    pub fn new(sources: &'a Sources) -> Self {
        let emulator = Emulator::open();
        emulator.set_budget(BUDGET);
        // Some problems have blocks write the same rows, which a kernel must bear.
        emulator.allow_block_races(true);
        Self { sources, emulator, device: Some(device()), whole: HashMap::new() }
    }

    /// Tries a mutant of a kernel on the kernel's problems, and one of a header on those of every kernel that uses its
    /// function, until one notices it.
    ///
    /// # Panics
    ///
    /// If a kernel is not right when it is whole.
    pub fn run(&mut self, subjects: &[Subject], mutant: &Mutant) -> Verdict {
        let mut last = Verdict::SameCode;
        for subject in subjects {
            if uses(self.sources, subject.file, &mutant.file, &mutant.function) {
                let verdict = self.run_on(subject, mutant);
                if verdict.is_caught() {
                    return verdict;
                }
                if verdict != Verdict::SameCode {
                    last = verdict;
                }
            }
        }
        last
    }

    fn run_on(&mut self, subject: &Subject, mutant: &Mutant) -> Verdict {
        self.check_whole(subject);
        let text = self.sources.whole(subject.file, (&mutant.file, &mutant.text));
        let source = KernelSource { name: subject.file, text: text.into() };
        let whole = self.whole[subject.file].clone();
        let mut differs = Vec::new();
        for (problem, &(code, conflicts)) in subject.problems.iter().zip(&whole) {
            self.emulator.forget_code();
            if let Some(verdict) = self.solve(problem, &source) {
                return verdict;
            }
            if self.emulator.bank_conflicts() > conflicts {
                return Verdict::Conflicts;
            }
            if self.emulator.code() != code {
                differs.push(problem);
            }
        }
        if differs.is_empty() {
            return Verdict::SameCode;
        }
        for seed in SCHEDULES {
            self.emulator.set_schedule(seed);
            let verdict = differs.iter().find_map(|problem| self.solve(problem, &source));
            self.emulator.set_schedule(0);
            if let Some(verdict) = verdict {
                return verdict;
            }
        }
        Verdict::Unnoticed
    }

    /// The kernel itself must be right.
    fn check_whole(&mut self, subject: &Subject) {
        if self.whole.contains_key(subject.file) {
            return;
        }
        let text = self.sources.whole(subject.file, (subject.file, self.sources.text(subject.file)));
        let source = KernelSource { name: subject.file, text: text.into() };
        let mut whole = Vec::new();
        for problem in &subject.problems {
            self.emulator.forget_code();
            if let Some(verdict) = self.solve(problem, &source) {
                panic!("{} is not right for {}: {verdict:?}", subject.file, problem.name);
            }
            whole.push((self.emulator.code(), self.emulator.bank_conflicts()));
        }
        self.whole.insert(subject.file, whole);
    }

    /// What shows that a source is broken, if anything does.
    fn solve(&mut self, problem: &Problem, source: &KernelSource) -> Option<Verdict> {
        match (problem.solve)(self.device.as_ref()?, source.clone()) {
            Ok(true) => None,
            Ok(false) => Some(Verdict::Wrong),
            Err(CudaError::Compile { .. } | CudaError::Driver { action: LOADING, .. }) => Some(Verdict::NoProgram),
            Err(error) => {
                // A failed kernel fails its device for good, and the old one has to be gone before there is another.
                self.device = None;
                self.device = Some(device());
                let account =
                    if let CudaError::Driver { .. } = error { self.emulator.report() } else { error.to_string() };
                Some(Verdict::Reported(account.lines().next().unwrap_or_default().to_owned()))
            }
        }
    }
}
