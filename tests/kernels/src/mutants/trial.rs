//! Trying a mutant out.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use kernels::cuda::{CudaDevice, CudaError, CudaOptions, KernelCache, KernelSource};
use tempfile::TempDir;

use super::{Kind, Mutant, Sources, uses};
use crate::subjects::{Problem, Subject};
use crate::{Counters, Emulator, options};

/// What became of a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The emulator reported it; the report's first line.
    Reported(String),
    /// A result was refused, or something beside the results was written.
    Wrong,
    /// The results are right, and more bytes are moved, more banks waited for or more numbers multiplied than are by the
    /// whole kernel.
    Waste(&'static str),
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
        matches!(self, Self::Reported(_) | Self::Wrong | Self::Waste(_))
    }

    /// Whether it does what a kernel must not: what is only wasteful may be listed as harmless.
    #[must_use]
    pub fn is_harm(&self) -> bool {
        matches!(self, Self::Reported(_) | Self::Wrong)
    }
}

/// Orders of warps that what nothing has noticed is tried in as well.
const SCHEDULES: [u64; 2] = [1, 2];
/// Instructions of warps that no problem needs.
const BUDGET: u64 = 30_000_000;

/// The emulated device, and what the kernels do on it when they are whole.
pub struct Trial<'a> {
    sources: &'a Sources,
    emulator: Emulator,
    options: CudaOptions,
    /// Nothing only while it is opened anew.
    device: Option<CudaDevice>,
    /// What the kernels that have been tried do when they are whole.
    whole: HashMap<&'static str, Vec<Whole>>,
    /// The kernel and the number of the problem that noticed the last mutant of a function, by file and function.
    latest: HashMap<(String, String), (&'static str, usize)>,
    /// Holds compiled mutants, of which the tests that keep compiled kernels have no use.
    _folder: TempDir,
}

/// What a whole kernel does with a problem.
#[derive(Debug, Clone, Copy)]
struct Whole {
    /// The number of its code.
    code: u64,
    counters: Counters,
    /// Mutants that the problem has noticed so far.
    noticed: usize,
}

/// What became of a source with one problem.
#[derive(Debug)]
enum Outcome {
    /// The compiler has made the whole kernel's instructions of it, and they were not run.
    SameCode,
    NoProgram,
    Right,
    Found(Verdict),
}

/// What the emulator looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Checks {
    /// What execution cannot do without: bounds, alignment, divergence at barriers.
    Few,
    /// Races within blocks, what nobody has written, and what is counted as well.
    All,
    /// All but what is counted, with warps in an order that follows from a number.
    Scheduled(u64),
}

impl<'a> Trial<'a> {
    /// Opens the device.
    ///
    /// # Panics
    ///
    /// If that fails.
    #[must_use]
    pub fn new(sources: &'a Sources) -> Self {
        /// Enough for one mutant's problems, which are compiled for the first checks and looked up for the next.
        const CACHE_LIMIT: u64 = 32 << 20;
        let emulator = Emulator::open();
        emulator.set_budget(BUDGET);
        // Some problems have blocks write the same rows, which a kernel must bear.
        emulator.allow_block_races(true);
        let folder = tempfile::tempdir().expect("a folder for compiled mutants");
        let kernel_cache = Some(Arc::new(KernelCache::new(folder.path().to_owned(), CACHE_LIMIT)));
        let options = CudaOptions { kernel_cache, ..options() };
        let device = Some(open(&options));
        Self { sources, emulator, options, device, whole: HashMap::new(), latest: HashMap::new(), _folder: folder }
    }

    /// Tries a mutant of a kernel on the kernel's problems, and one of a header on those of every kernel that uses its
    /// function, until one notices it.
    ///
    /// # Panics
    ///
    /// If a kernel is not right when it is whole.
    pub fn run(&mut self, subjects: &[Subject], mutant: &Mutant) -> Verdict {
        let mut tasks = Vec::new();
        for subject in subjects {
            if uses(self.sources, subject.file, &mutant.file, &mutant.function) {
                self.check_whole(subject);
                let text = self.sources.whole(subject.file, (&mutant.file, &mutant.text));
                let source = KernelSource { name: subject.file, text: text.into() };
                tasks.extend((0..subject.problems.len()).map(|index| (subject, index, source.clone())));
            }
        }
        // The problem that noticed the mutant before, and then those that have noticed most, are likeliest to notice this.
        let place = (mutant.file.clone(), mutant.function.clone());
        let latest = self.latest.get(&place).copied();
        tasks.sort_by_key(|&(subject, index, _)| {
            Reverse((latest == Some((subject.file, index)), self.whole[subject.file][index].noticed))
        });
        // Most of what is wrong makes wrong results, and running without checks is several times as fast.
        let is_ordering = matches!(mutant.kind, Kind::Barrier | Kind::Wait);
        let fast = (!is_ordering).then_some(Checks::Few);
        let rounds = fast.into_iter().chain([Checks::All]).chain(SCHEDULES.map(Checks::Scheduled));
        let mut nothing = Verdict::SameCode;
        for checks in rounds {
            let mut unnoticed = Vec::new();
            for (subject, index, source) in tasks {
                let whole = self.whole[subject.file][index];
                match self.solve(&subject.problems[index], &source, whole, checks) {
                    Outcome::SameCode => {}
                    Outcome::NoProgram => nothing = Verdict::NoProgram,
                    Outcome::Right => unnoticed.push((subject, index, source)),
                    Outcome::Found(verdict) => {
                        if let Some(whole) = self.whole.get_mut(subject.file) {
                            whole[index].noticed += 1;
                        }
                        self.latest.insert(place, (subject.file, index));
                        return verdict;
                    }
                }
            }
            if unnoticed.is_empty() {
                return nothing;
            }
            tasks = unnoticed;
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
            let unknown = Whole { code: 0, counters: Counters::default(), noticed: 0 };
            let outcome = self.solve(problem, &source, unknown, Checks::All);
            let is_right = matches!(outcome, Outcome::Right | Outcome::Found(Verdict::Waste(_)));
            assert!(is_right, "{} is not right for {}: {outcome:?}", subject.file, problem.name);
            let (code, counters) = (self.emulator.code(), self.emulator.total_counters());
            whole.push(Whole { code, counters, noticed: 0 });
        }
        self.whole.insert(subject.file, whole);
    }

    /// What shows that a source is broken, if anything does.
    fn solve(&mut self, problem: &Problem, source: &KernelSource, whole: Whole, checks: Checks) -> Outcome {
        self.emulator.set_checks(checks != Checks::Few);
        self.emulator.set_schedule(if let Checks::Scheduled(seed) = checks { seed } else { 0 });
        self.emulator.forget();
        self.emulator.refuse_code(whole.code);
        let device = self.device.as_ref().expect("a device is opened when one is closed");
        let solved = (problem.solve)(device, source.clone());
        let is_same = self.emulator.code() == whole.code;
        self.emulator.refuse_code(0);
        match solved {
            Ok(true) if checks == Checks::All => {
                let waste = self.emulator.total_counters().waste_beside(&whole.counters);
                waste.map_or(Outcome::Right, |what| Outcome::Found(Verdict::Waste(what)))
            }
            Ok(true) => Outcome::Right,
            Ok(false) => Outcome::Found(Verdict::Wrong),
            Err(CudaError::Compile { .. } | CudaError::Load { .. }) => Outcome::NoProgram,
            // The launch was refused.
            Err(_) if is_same => Outcome::SameCode,
            Err(error) => {
                // A failed kernel fails its device for good, and the old one has to be gone before there is another.
                self.device = None;
                self.device = Some(open(&self.options));
                let account =
                    if let CudaError::Driver { .. } = error { self.emulator.report() } else { error.to_string() };
                Outcome::Found(Verdict::Reported(account.lines().next().unwrap_or_default().to_owned()))
            }
        }
    }
}

impl Drop for Trial<'_> {
    /// Leaves the emulator as other tests expect it.
    fn drop(&mut self) {
        self.emulator.set_budget(0);
        self.emulator.allow_block_races(false);
        self.emulator.set_checks(true);
        self.emulator.set_schedule(0);
    }
}

fn open(options: &CudaOptions) -> CudaDevice {
    CudaDevice::open(options).expect("the emulated device opens")
}
