//! A CUDA driver library, `libcuda.so`, that runs kernels in a PTX interpreter.
//!
//! A program that uses the driver API through a run-time loaded library runs on this one unchanged. It has one device of
//! compute capability 8.0, takes PTX and refuses machine code, and checks every kernel as it runs: races on shared
//! memory, uninitialised reads, accesses outside allocations, divergent synchronisation.
//!
//! As with the real driver, a launch returns before its kernel's failure is known, the failure is reported by the calls
//! that follow, and it stays until the context is destroyed. Beyond the driver's interface, `cuda_emu_last_report`
//! gives the interpreter's account of the last failure, with file and line of the kernel's source, and
//! `cuda_emu_set_schedule` lets warps run in random order, and `cuda_emu_bank_conflicts` counts the last kernel's.
//!
//! Not here: graphs, managed and external memory, peer access, occupancy. Streams run everything at once, so a program
//! that forgets to wait for a stream is not found out.
//!
//! The crate is a library for C: its functions are those of CUDA's driver API, with the meaning given there, in `ffi`.
//! All state is in one place, `driver`.

mod code;
mod context;
mod driver;
mod ffi;
mod launch;
