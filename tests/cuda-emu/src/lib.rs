//! A CUDA driver library, `libcuda.so`, that runs kernels in a PTX interpreter.
//!
//! A program that uses the driver API through a run-time loaded library runs on this one unchanged. It has one device of
//! compute capability 8.0, takes PTX and refuses machine code, and checks every kernel as it runs: races on shared
//! memory, uninitialised reads, accesses outside allocations, divergent synchronisation.
//!
//! As with the real driver, a launch returns before its kernel's failure is known, the failure is reported by the calls
//! that follow, and it stays until the context is destroyed. Streams, events and graphs have the driver's rules: which
//! work waits for which, and what a capture does not allow. Where NVIDIA's documentation leaves open whether a capture
//! allows a call that waits, this driver does not.
//!
//! Work is done when it is submitted, or, as a test may choose with `cuda_emu_defer`, only when something waits for it, and
//! then in a random order of those that the program allows: a program that forgets to wait is found out.
//!
//! Beyond the driver's interface, `cuda_emu_last_report` gives the account of the last failure, with file and line of
//! the kernel's source; `cuda_emu_set_schedule` lets blocks and warps run in random order; `cuda_emu_counters` says what
//! the last kernel did, `cuda_emu_kernels` what each has done, and `cuda_emu_time` how long the last one took;
//! `cuda_emu_set_checks` and `cuda_emu_allow_block_races` switch checks; with `cuda_emu_refuse_graphs` there is no memory for graphs, and with
//! `cuda_emu_fail` some calls fail.
//!
//! Not here: allocations as nodes of a graph, changes of a graph, managed and external memory, peer access, occupancy.
//!
//! The crate is a library for C: its functions are those of CUDA's driver API, with the meaning given there, in `ffi`.
//! All state is in one place, `driver`, and the library stays loaded once it has been. `streams` knows what waits for what, with `queue` for what is to be done and
//! `capture` for what is written down; `context` has what work is done with, and `device` does it.

mod capture;
mod code;
mod console;
mod context;
mod device;
mod driver;
mod ffi;
mod host;
mod order;
mod queue;
mod streams;
mod work;
