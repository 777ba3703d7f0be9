//! What tests set and read beside the driver's interface.

use ptx_emu::Stats;

use crate::order::Order;

/// Switches that tests set, and what they are told.
pub(crate) struct Console {
    /// The account of the last failure.
    pub(crate) report: String,
    /// Kernels that run from now on run their warps in an order that follows from this.
    pub(crate) schedule: Option<u64>,
    /// Instructions after which a kernel is taken for an endless loop, if that was set.
    pub(crate) budget: Option<u64>,
    /// What tells the code of the modules loaded so far from other code.
    pub(crate) code: u64,
    /// What the last kernel that succeeded did.
    pub(crate) stats: Option<Stats>,
    /// In which order deferred work is done. Without one, work is done when it is submitted.
    pub(crate) order: Option<Order>,
    /// There is no memory for graphs that can be launched.
    pub(crate) refuses_graphs: bool,
}

impl Console {
    pub(crate) const fn new() -> Self {
        Self {
            report: String::new(),
            schedule: None,
            budget: None,
            code: 0,
            stats: None,
            order: None,
            refuses_graphs: false,
        }
    }

    /// Keeps the account of a failure, and shows it: a test's output then has it without asking.
    pub(crate) fn report(&mut self, account: String) {
        eprintln!("cuda-emu: {account}");
        self.report = account;
    }
}
