//! Executes and checks CUDA kernels without a GPU.
//!
//! The input is PTX, the text that NVRTC makes of a `.cu` file (`--gpu-architecture=compute_80 -lineinfo`). A warp runs
//! in lock step, 32 lanes at a time; shared memory, barriers, shuffles, `cp.async`, `ldmatrix` and `mma` do what the PTX
//! manual says, in the least favourable order it allows where that is easy: an asynchronous copy happens only when it is
//! waited for.
//!
//! While a kernel runs, it is watched. Races in shared memory and between blocks, accesses out of bounds, misaligned or to memory that
//! nobody wrote, `.sync` instructions in divergent code, shuffles from absent lanes and barriers that are never complete
//! end the launch with a [`Fault`] that names the source line. [`Options`] switches the checks; [`Stats`] counts what
//! was done, deterministically.
//!
//! # Use
//!
//! [`Memory`] is the device's memory, [`Module::load`] reads PTX, [`launch`] runs a kernel. Nothing is global: two
//! devices are two `Memory` values.
//!
//! ```
//! use ptx_emu::{launch, LaunchConfig, LaunchError, FaultKind, Memory, Module, Options, Params};
//!
//! let ptx = "
//!     .version 9.0
//!     .target sm_80
//!     .address_size 64
//!     .visible .entry twice(.param .u64 twice_param_0)
//!     {
//!         .reg .b32 %r<4>;
//!         .reg .b64 %rd<4>;
//!         ld.param.u64 %rd1, [twice_param_0];
//!         mov.u32 %r1, %tid.x;
//!         mul.wide.u32 %rd2, %r1, 4;
//!         add.s64 %rd3, %rd1, %rd2;
//!         ld.global.u32 %r2, [%rd3];
//!         add.s32 %r3, %r2, %r2;
//!         st.global.u32 [%rd3], %r3;
//!         ret;
//!     }";
//! let mut memory = Memory::default();
//! let module = Module::load(ptx, &mut memory)?;
//! let data = memory.alloc(3 * 4)?;
//! memory.write(data, &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])?;
//!
//! let params = Params::new().u64(data);
//! let config = LaunchConfig::new([1, 1, 1], [3, 1, 1]);
//! let stats = launch(&module, "twice", &config, params.as_bytes(), &mut memory, &Options::default())?;
//! assert_eq!(stats.global_load_bytes, 12);
//!
//! let mut out = [0; 12];
//! memory.read(data, &mut out)?;
//! assert_eq!(out, [2, 0, 0, 0, 4, 0, 0, 0, 6, 0, 0, 0]);
//!
//! // One thread too many reads past the end.
//! let config = LaunchConfig::new([1, 1, 1], [4, 1, 1]);
//! let result = launch(&module, "twice", &config, params.as_bytes(), &mut memory, &Options::default());
//! let Err(LaunchError::Fault(fault)) = result else { panic!("{result:?}") };
//! assert_eq!((fault.kind, fault.lane, fault.ptx_line), (FaultKind::OutOfBounds, Some(3), 13));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A driver on top maps `cuModuleLoadData` to [`Module::load`], `cuModuleGetFunction` to [`Module::kernel`],
//! `cuModuleGetGlobal` to [`Module::global`], and packs kernel arguments as [`Kernel::params`] tells.
//!
//! # Fidelity
//!
//! Blocks run one after another, so a kernel in which one block waits for another runs into [`Options::budget`]. Sums inside one `mma` are rounded step by step, which
//! hardware does otherwise; `ex2`, `rcp`, `lg2` and their like are within the documented error, not bit-equal.
//!
//! # Structure
//!
//! `lexer` → `parse` (to `syntax`) → `lower` (to `program`; `opcode` is the table of instructions, `operand` the rules for
//! what each takes; `allocate` gives registers their rows) → `launch` (blocks) → `warp` (lanes and divergence). `regs` is the register file, `block` and
//! `memory` are what instructions may touch, `check` watches them.
#![deny(unsafe_code)]
#![allow(clippy::float_cmp, reason = "an interpreter of float instructions compares floats exactly")]
#![allow(clippy::unnecessary_box_returns, reason = "errors are made in the box in which they travel")]
#![allow(clippy::inline_always, reason = "lane loops turn into vector code only where the lane function is inlined")]

mod access;
mod allocate;
mod block;
mod check;
mod error;
mod half;
mod launch;
mod lexer;
mod lower;
mod memory;
mod module;
mod opcode;
mod operand;
mod options;
mod params;
mod parse;
mod program;
mod random;
mod regs;
mod stats;
mod syntax;
mod ty;
mod vector;
mod warp;

pub use error::{Fault, FaultKind, LaunchError, LoadError, MemoryError};
pub use launch::{LaunchConfig, check_launch, launch};
pub use memory::Memory;
pub use module::Module;
pub use options::{Options, Schedule};
pub use params::Params;
pub use program::{Kernel, Param};
pub use stats::Stats;

/// Every accepted mnemonic, sorted.
#[must_use]
pub fn instructions() -> Vec<&'static str> {
    opcode::table().names()
}
