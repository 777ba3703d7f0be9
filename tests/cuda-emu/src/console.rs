//! What tests set and read beside the driver's interface.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use ptx_emu::{Options, Schedule, Stats};

use crate::code::{Answer, Code};
use crate::order::Order;

/// Switches that tests set, and what they are told.
#[expect(clippy::struct_excessive_bools, reason = "independent switches, set by name")]
pub(crate) struct Console {
    /// The account of the last failure.
    pub(crate) report: String,
    /// Kernels that run from now on run their blocks and warps in an order that follows from this.
    pub(crate) schedule: Option<u64>,
    /// Instructions after which a kernel is taken for an endless loop, if that was set.
    pub(crate) budget: Option<u64>,
    /// What tells the code of the modules loaded so far from other code.
    pub(crate) code: u64,
    /// Code that has been seen to run, if any: launches of it are refused.
    pub(crate) known_code: Option<u64>,
    /// Kernels that run from now on are watched no more than execution needs.
    pub(crate) unchecked: bool,
    /// Blocks of kernels that run from now on may race.
    pub(crate) block_races_allowed: bool,
    /// Kernels that run from now on are timed.
    pub(crate) timed: bool,
    /// Nanoseconds of a processor that the last timed kernel took.
    pub(crate) nanoseconds: u64,
    /// What the last kernel that succeeded did.
    pub(crate) stats: Option<Stats>,
    /// What all launches of each kernel did, by its name.
    pub(crate) kernels: BTreeMap<String, Stats>,
    /// What all of them did since tests last asked for it to be forgotten.
    pub(crate) total: [u64; COUNTERS],
    /// In which order deferred work is done. Without one, work is done when it is submitted.
    pub(crate) order: Option<Order>,
    /// There is no memory for graphs that can be launched.
    pub(crate) refuses_graphs: bool,
    /// Bytes of the device's memory, if that was set.
    pub(crate) memory: Option<u64>,
    /// Bytes in multiples of which memory is given, if it is not to the byte.
    pub(crate) piece: Option<usize>,
    /// How many more allocations, and modules that are loaded, succeed, if not all that there is room for do.
    pub(crate) allocations: Option<u64>,
    /// Copies to the device that programs have asked for.
    pub(crate) copies_in: u64,
    /// What calls of each kind answer in place of doing anything, if that was set.
    failing: [Option<Code>; Call::COUNT],
}

/// Calls that a test may have fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// `cuEventRecord`
    Record,
    /// `cuEventSynchronize` and `cuStreamSynchronize`
    Wait,
    /// `cuGraphLaunch`
    LaunchGraph,
    /// `cuLaunchKernel`
    Launch,
}

impl Call {
    const COUNT: usize = 4;
}

/// Numbers that a kernel's counters are.
pub(crate) const COUNTERS: usize = 9;

impl Console {
    pub(crate) const fn new() -> Self {
        Self {
            report: String::new(),
            schedule: None,
            budget: None,
            code: 0,
            known_code: None,
            unchecked: false,
            block_races_allowed: false,
            timed: false,
            nanoseconds: 0,
            stats: None,
            kernels: BTreeMap::new(),
            total: [0; COUNTERS],
            order: None,
            refuses_graphs: false,
            memory: None,
            piece: None,
            allocations: None,
            copies_in: 0,
            failing: [None; Call::COUNT],
        }
    }

    /// Has calls of the kind of that number answer with a code from now on, or do their work again with success.
    pub(crate) fn fail(&mut self, call: usize, code: Code) {
        if let Some(answer) = self.failing.get_mut(call) {
            *answer = (code != Code::SUCCESS).then_some(code);
        }
    }

    /// The answer of a call that is to fail.
    pub(crate) fn allow(&self, call: Call) -> Answer {
        self.failing[call as usize].map_or(Ok(()), Err)
    }

    /// Counts an allocation, or the code of a module that is loaded, unless there is to be no memory for it.
    pub(crate) fn count_allocation(&mut self) -> Answer {
        if let Some(left) = &mut self.allocations {
            *left = left.checked_sub(1).ok_or(Code::OUT_OF_MEMORY)?;
        }
        Ok(())
    }

    /// What an allocation of so many bytes takes.
    pub(crate) fn in_pieces(&self, bytes: usize) -> usize {
        self.piece.and_then(|piece| bytes.checked_next_multiple_of(piece)).unwrap_or(bytes)
    }

    /// How kernels run from now on.
    pub(crate) fn options(&self) -> Options {
        let schedule = self.schedule.map_or(Schedule::InOrder, Schedule::Random);
        let checks = if self.unchecked { Options::unchecked() } else { Options::default() };
        let budget = self.budget.unwrap_or(checks.budget);
        let block_races = checks.block_races && !self.block_races_allowed;
        Options { schedule, budget, block_races, ..checks }
    }

    /// Counts what a launch of a kernel did.
    pub(crate) fn count(&mut self, kernel: &str, stats: Stats) {
        self.stats = Some(stats);
        *self.kernels.entry(kernel.to_owned()).or_default() += stats;
        for (total, counter) in self.total.iter_mut().zip(stats.counters()) {
            *total += counter;
        }
    }

    /// What each kernel did, a line each: its name and its counters.
    pub(crate) fn account_of_kernels(&self) -> String {
        let mut lines = String::new();
        for (name, stats) in &self.kernels {
            lines.push_str(name);
            for counter in stats.counters() {
                let _ = write!(lines, " {counter}");
            }
            lines.push('\n');
        }
        lines
    }

    /// Runs a kernel, timed if that is wanted.
    pub(crate) fn time<T>(&mut self, kernel: impl FnOnce() -> T) -> T {
        if !self.timed {
            return kernel();
        }
        let start = processor_nanoseconds();
        let done = kernel();
        self.nanoseconds = processor_nanoseconds() - start;
        done
    }

    /// Keeps the account of a failure, and shows it: a test's output then has it without asking.
    pub(crate) fn report(&mut self, account: String) {
        eprintln!("cuda-emu: {account}");
        self.report = account;
    }
}

/// What this thread has had of a processor, as Linux accounts for it; 0 on systems that do not say.
fn processor_nanoseconds() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0)
}
