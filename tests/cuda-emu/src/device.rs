//! Doing work, and what its failure is called.

use std::collections::BTreeSet;

use ptx_emu::{FaultKind, LaunchConfig, LaunchError};

use crate::code::{Answer, Code};
use crate::console::Console;
use crate::context::Context;
use crate::order::{Order, Pace};
use crate::queue::Ticket;
use crate::work::{Source, Work};

impl Context {
    /// Does all work, unless it is to be deferred.
    pub(crate) fn unless_deferred(&mut self, console: &mut Console) {
        if console.order.is_none() {
            self.run_all(console);
        }
    }

    /// Waits for a stream's work, and tells its failure.
    pub(crate) fn finish_stream(&mut self, console: &mut Console, stream: usize) -> Answer {
        let tail = self.streams.tail(stream)?;
        self.finish(console, &tail)
    }

    /// Waits for all work, and tells its failure.
    pub(crate) fn finish_all(&mut self, console: &mut Console) -> Answer {
        self.run_all(console);
        self.check()
    }

    /// Waits for some work, and tells the failure of any.
    pub(crate) fn finish(&mut self, console: &mut Console, tickets: &[Ticket]) -> Answer {
        let needed = self.streams.queue.needed(tickets);
        self.run(console, needed);
        self.check()
    }

    /// Says whether some work is done. If not, some other is now: time passes for a program that asks again and again.
    pub(crate) fn ask(&mut self, console: &mut Console, tickets: &[Ticket]) -> Answer {
        if self.streams.queue.needed(tickets).is_empty() {
            return Ok(());
        }
        let pending = self.streams.queue.all();
        let order = console.order.as_mut().map(|order| (order, Pace::Any));
        let ticket = self.streams.queue.choose(&pending, order);
        self.run_one(console, ticket);
        Err(Code::NOT_READY)
    }

    fn run_all(&mut self, console: &mut Console) {
        let pending = self.streams.queue.all();
        self.run(console, pending);
    }

    fn run(&mut self, console: &mut Console, mut needed: BTreeSet<Ticket>) {
        let pace = console.order.as_mut().map(Order::pace);
        while !needed.is_empty() && self.check().is_ok() {
            let order = console.order.as_mut().zip(pace);
            let ticket = self.streams.queue.choose(&needed, order);
            needed.remove(&ticket);
            self.run_one(console, ticket);
        }
    }

    fn run_one(&mut self, console: &mut Console, ticket: Ticket) {
        let Some(work) = self.streams.queue.take(ticket) else { return };
        let done = match work {
            Work::Launch { function, config, parameters } => {
                return self.run_kernel(console, function, &config, &parameters);
            }
            Work::Write { to, from: Source::Bytes(bytes) } => self.memory.write(to, &bytes),
            Work::Write { from: Source::Host(range), .. } | Work::Read { to: range, .. }
                if range.is_pinned && !self.is_pinned(range.address(), range.len()) =>
            {
                console.report("a copy uses pinned memory that has been given back".to_owned());
                return self.fail(Code::ILLEGAL_ADDRESS);
            }
            Work::Write { to, from: Source::Host(range) } => self.memory.write(to, &range.to_vec()),
            Work::Read { to, from } => {
                let mut bytes = vec![0; to.len()];
                self.memory.read(from, &mut bytes).map(|()| to.fill_from(&bytes))
            }
            Work::Copy { to, from, bytes } => self.memory.copy(to, from, bytes),
            Work::Fill { to, pattern, count } => self.memory.fill(to, &pattern, count),
            Work::Free { address } => self.memory.free(address),
            Work::Mark { event } => {
                self.streams.mark(event, ticket);
                Ok(())
            }
        };
        // It was right when it was submitted.
        if let Err(error) = done {
            console.report(format!("a copy, a fill or a free that was submitted before: {error}"));
            self.fail(Code::ILLEGAL_ADDRESS);
        }
    }

    fn run_kernel(&mut self, console: &mut Console, function: usize, config: &LaunchConfig, parameters: &[u8]) {
        let options = console.options();
        let Ok((function, module, memory)) = self.function_and_memory(function) else {
            console.report("a kernel of a module that has been unloaded".to_owned());
            return self.fail(Code::LAUNCH_FAILED);
        };
        let launch = || ptx_emu::launch(module, &function.name, config, parameters, memory, &options);
        match console.time(launch) {
            Ok(stats) => console.count(&function.name, stats),
            Err(error) => {
                console.report(error.to_string());
                // As on a GPU, the launch itself has succeeded; the calls after it fail.
                self.fail(match error {
                    LaunchError::Fault(fault) => fault_code(fault.kind),
                    _ => Code::LAUNCH_FAILED,
                });
            }
        }
    }
}

/// What the driver reports where hardware would notice; what hardware would not notice is a failed launch.
fn fault_code(kind: FaultKind) -> Code {
    match kind {
        FaultKind::OutOfBounds | FaultKind::ReadOnly => Code::ILLEGAL_ADDRESS,
        FaultKind::Misaligned => Code::MISALIGNED_ADDRESS,
        FaultKind::Budget => Code::LAUNCH_TIMEOUT,
        _ => Code::LAUNCH_FAILED,
    }
}
