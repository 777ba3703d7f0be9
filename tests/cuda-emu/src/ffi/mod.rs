//! The functions that the library exports.
//!
//! Safety of all of them is that of CUDA's driver API: a pointer argument is valid for what the function reads or writes
//! through it, and null only where the API says so. Handles and device addresses are checked and need not be valid.

// Names and argument lists are those of the API.
#![allow(non_snake_case, clippy::missing_safety_doc)]

mod device;
mod error;
mod graph;
mod memory;
mod module;
mod report;
mod stream;

use crate::code::{Answer, Code};

/// An opaque handle: a number, never an address, so a wrong one is refused and not followed.
type Handle = usize;

/// Writes a function's result where the caller wants it.
///
/// # Safety
///
/// `to` is null or valid for a write.
unsafe fn store<T>(to: *mut T, answer: Answer<T>) -> Code {
    Code::from(answer.and_then(|value| {
        if to.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, hence valid by this function's contract.
        unsafe { to.write(value) };
        Ok(())
    }))
}
