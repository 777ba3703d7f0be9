//! What is known about the machine before any setting is resolved.

/// Facts about the machine that rules may use.
///
/// Resolution takes them as a value and never probes: the same record and facts give the same settings everywhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    cpus: usize,
}

impl Facts {
    /// The facts of this machine.
    #[must_use]
    pub fn of_this_machine() -> Self {
        Self { cpus: std::thread::available_parallelism().map_or(1, usize::from) }
    }

    /// Fixed facts for tests: 2 CPUs.
    #[must_use]
    pub fn for_test() -> Self {
        Self { cpus: 2 }
    }

    /// The same facts with another number of CPUs.
    #[must_use]
    pub fn with_cpus(mut self, cpus: usize) -> Self {
        self.cpus = cpus;
        self
    }

    /// CPUs this process may use, at least 1.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.cpus
    }
}
