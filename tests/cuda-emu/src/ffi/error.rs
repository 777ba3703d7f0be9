//! Names of result codes.

use std::ffi::c_char;

use super::store;
use crate::code::Code;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(code: Code, text: *mut *const c_char) -> Code {
    let name = code.texts().map(|(name, _)| name.as_ptr());
    // SAFETY: this function's contract is `store`'s.
    unsafe { store(text, name.ok_or(Code::INVALID_VALUE)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(code: Code, text: *mut *const c_char) -> Code {
    let meaning = code.texts().map(|(_, meaning)| meaning.as_ptr());
    // SAFETY: as above.
    unsafe { store(text, meaning.ok_or(Code::INVALID_VALUE)) }
}
