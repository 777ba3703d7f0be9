//! What tests ask of the interpreter and no driver answers.

use std::ffi::{c_char, c_int};

use crate::code::Code;
use crate::console::COUNTERS;
use crate::driver::driver;

/// Copies the account of the last failure, or of the last refused module or launch, to a buffer of `capacity` bytes, cut
/// to fit and without a final NUL, and returns its whole length. It is empty if nothing has failed.
///
/// # Safety
///
/// `buffer` is valid for `capacity` bytes, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuda_emu_last_report(buffer: *mut c_char, capacity: usize) -> usize {
    // SAFETY: the caller's.
    unsafe { copy_text(&driver().console.report, buffer, capacity) }
}

/// Copies what each kernel has done since [`cuda_emu_forget_kernels`], in all its launches that succeeded, a line each: its
/// name and the counters of [`cuda_emu_counters`], with spaces between them. Length and cut are those of
/// [`cuda_emu_last_report`].
///
/// # Safety
///
/// `buffer` is valid for `capacity` bytes, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuda_emu_kernels(buffer: *mut c_char, capacity: usize) -> usize {
    let account = driver().console.account_of_kernels();
    // SAFETY: the caller's.
    unsafe { copy_text(&account, buffer, capacity) }
}

/// Forgets what each kernel has done.
#[unsafe(no_mangle)]
extern "C" fn cuda_emu_forget_kernels() {
    driver().console.kernels.clear();
}

/// Copies a text, cut to `capacity` bytes, and returns its whole length.
///
/// # Safety
///
/// `buffer` is valid for `capacity` bytes, or null.
unsafe fn copy_text(text: &str, buffer: *mut c_char, capacity: usize) -> usize {
    if !buffer.is_null() {
        let length = text.len().min(capacity);
        // SAFETY: `length` is at most the buffer's, and at most the text's.
        unsafe {
            buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), length);
        };
    }
    text.len()
}

/// Lets the blocks and warps of kernels launched from now on run in a random order that follows from `seed`; 0 is the order of
/// their numbers, as at first.
#[unsafe(no_mangle)]
extern "C" fn cuda_emu_set_schedule(seed: u64) {
    if seed != 0 {
        eprintln!("cuda-emu: blocks and warps run in random order, seed {seed}");
    }
    driver().console.schedule = (seed != 0).then_some(seed);
}

/// Defers work from now on until something waits for it, and does it in a random order that follows from `seed`; 0 is no
/// deferring, as at first.
#[unsafe(no_mangle)]
extern "C" fn cuda_emu_defer(seed: u64) {
    if seed != 0 {
        eprintln!("cuda-emu: work is deferred, seed {seed}");
    }
    driver().defer((seed != 0).then_some(seed));
}

/// Takes kernels launched from now on for endless loops after that many instructions of warps; 0 is the interpreter's
/// own idea of many.
#[unsafe(no_mangle)]
extern "C" fn cuda_emu_set_budget(instructions: u64) {
    driver().console.budget = (instructions != 0).then_some(instructions);
}

/// A number that depends on the instructions of all modules loaded since `cuda_emu_forget`, and not on the lines
/// of source that they come from.
#[unsafe(no_mangle)]
extern "C" fn cuda_emu_code() -> u64 {
    driver().console.code
}

/// Forgets which modules were loaded, and what kernels have done.
#[unsafe(no_mangle)]
extern "C" fn cuda_emu_forget() {
    let console = &mut driver().console;
    console.code = 0;
    console.total = [0; COUNTERS];
}

/// Refuses launches as long as the modules loaded since `cuda_emu_forget` are those of this number: what they do is
/// known. With 0 none are refused, as at first.
#[unsafe(no_mangle)]
extern "C" fn cuda_emu_refuse_code(code: u64) {
    driver().console.known_code = (code != 0).then_some(code);
}

/// Has no memory for graphs that can be launched from now on, or has it again where `refuses` is 0, as at first.
#[unsafe(no_mangle)]
extern "C" fn cuda_emu_refuse_graphs(refuses: c_int) {
    driver().console.refuses_graphs = refuses != 0;
}

/// Gives the device so much memory from now on, as if others took the rest or gave it back; 0 is as much as at first. What is taken
/// stays taken.
#[unsafe(no_mangle)]
extern "C" fn cuda_emu_set_memory(bytes: u64) {
    driver().set_memory((bytes != 0).then_some(bytes));
}

/// Memory is given in multiples of so many bytes from now on, as devices map it; 0 is to the byte, as at first.
#[unsafe(no_mangle)]
extern "C" fn cuda_emu_set_piece(bytes: u64) {
    driver().console.piece = usize::try_from(bytes).ok().filter(|&bytes| bytes != 0);
}

/// Lets so many allocations succeed from now on and none after them, whatever room there is: another program has taken it; −1 is no
/// limit, as at first. The code of a module counts as one.
#[unsafe(no_mangle)]
extern "C" fn cuda_emu_limit_allocations(count: i64) {
    driver().console.allocations = u64::try_from(count).ok();
}

/// Has calls answer with a result code from now on, and do nothing, or do their work again where `code` is 0: 0 is `cuEventRecord`,
/// 1 `cuEventSynchronize` and `cuStreamSynchronize`, 2 `cuGraphLaunch`, 3 `cuLaunchKernel`.
#[unsafe(no_mangle)]
extern "C" fn cuda_emu_fail(call: usize, code: c_int) {
    driver().console.fail(call, Code::of(code));
}

/// How many copies to the device programs have asked for; those of graphs that are launched do not count.
#[unsafe(no_mangle)]
extern "C" fn cuda_emu_copies_in() -> u64 {
    driver().console.copies_in
}

/// Copies the counters of the last kernel that succeeded, in the order of `ptx_emu::Stats`, to a buffer of `capacity`
/// numbers, cut to fit, and returns how many there are. They are zero before the first kernel.
///
/// # Safety
///
/// `buffer` is valid for `capacity` numbers, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuda_emu_counters(buffer: *mut u64, capacity: usize) -> usize {
    let counters = driver().console.stats.unwrap_or_default().counters();
    // SAFETY: this function's contract is `copy`'s.
    unsafe { copy(&counters, buffer, capacity) }
}

/// The same of all kernels that have succeeded since `cuda_emu_forget`, added up.
///
/// # Safety
///
/// As above.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuda_emu_total_counters(buffer: *mut u64, capacity: usize) -> usize {
    let counters = driver().console.total;
    // SAFETY: this function's contract is `copy`'s.
    unsafe { copy(&counters, buffer, capacity) }
}

/// # Safety
///
/// `buffer` is valid for `capacity` numbers, or null.
unsafe fn copy(counters: &[u64; COUNTERS], buffer: *mut u64, capacity: usize) -> usize {
    if !buffer.is_null() {
        let length = counters.len().min(capacity);
        // SAFETY: `length` is at most the buffer's, and at most that of the counters.
        unsafe {
            buffer.copy_from_nonoverlapping(counters.as_ptr(), length);
        }
    }
    counters.len()
}

/// Switches off, or on again, all checks of kernels that run from now on without which execution still has a meaning.
#[unsafe(no_mangle)]
extern "C" fn cuda_emu_set_checks(on: bool) {
    driver().console.unchecked = !on;
}

/// Lets blocks of kernels that run from now on race, or no longer: for inputs that a kernel must bear but cannot serve.
#[unsafe(no_mangle)]
extern "C" fn cuda_emu_allow_block_races(on: bool) {
    driver().console.block_races_allowed = on;
}

/// Has kernels timed from now on, or no longer, and returns the nanoseconds of a processor that the last one took.
#[unsafe(no_mangle)]
extern "C" fn cuda_emu_time(on: bool) -> u64 {
    let mut driver = driver();
    driver.console.timed = on;
    driver.console.nanoseconds
}
