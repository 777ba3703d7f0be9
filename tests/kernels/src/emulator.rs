//! Asking the emulator what it found.

use libloading::os::unix::{Library, RTLD_LAZY};

use crate::emulator_path;

/// The emulator behind the driver's interface.
pub struct Emulator(Library);

impl Emulator {
    /// The emulator that [`device`](crate::device) uses.
    ///
    /// # Panics
    ///
    /// If it cannot be opened.
    #[must_use]
    pub fn open() -> Self {
        // SAFETY: the library is the project's own and runs nothing when it is opened.
        let library = unsafe { Library::open(Some(emulator_path()), RTLD_LAZY) };
        Self(library.expect("the emulator opens"))
    }

    /// Its account of the last failure.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    #[must_use]
    pub fn report(&self) -> String {
        type Report = unsafe extern "C" fn(*mut u8, usize) -> usize;
        // SAFETY: that is the function's type.
        let report = unsafe { self.0.get::<Report>("cuda_emu_last_report") };
        let report = report.expect("the emulator tells its report");
        let mut bytes = vec![0; 8192];
        // SAFETY: the buffer is as long as is said.
        let length = unsafe { report(bytes.as_mut_ptr(), bytes.len()) };
        bytes.truncate(length);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Lets warps take turns at random from now on, or by number where `seed` is 0.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    pub fn set_schedule(&self, seed: u64) {
        type Set = extern "C" fn(u64);
        // SAFETY: that is the function's type.
        let set = unsafe { self.0.get::<Set>("cuda_emu_set_schedule") };
        set.expect("the emulator takes a schedule")(seed);
    }

    /// Has work done only when something waits for it from now on, in a random order of those that events and streams
    /// allow, or at once where `seed` is 0.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    pub fn defer(&self, seed: u64) {
        type Defer = extern "C" fn(u64);
        // SAFETY: that is the function's type.
        let defer = unsafe { self.0.get::<Defer>("cuda_emu_defer") };
        defer.expect("the emulator defers work")(seed);
    }

    /// Takes a kernel for an endless loop after that many instructions of its warps.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    pub fn set_budget(&self, instructions: u64) {
        type Set = extern "C" fn(u64);
        // SAFETY: that is the function's type.
        let set = unsafe { self.0.get::<Set>("cuda_emu_set_budget") };
        set.expect("the emulator takes a budget")(instructions);
    }

    /// A number that is another one where the instructions of the modules loaded since
    /// [`forget_code`](Self::forget_code) are others.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    #[must_use]
    pub fn code(&self) -> u64 {
        self.count("cuda_emu_code")
    }

    /// Forgets which modules were loaded.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    pub fn forget_code(&self) {
        type Forget = extern "C" fn();
        // SAFETY: that is the function's type.
        let forget = unsafe { self.0.get::<Forget>("cuda_emu_forget_code") };
        forget.expect("the emulator forgets")();
    }

    /// Has no memory for graphs that can be launched from now on, or has it again.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    pub fn refuse_graphs(&self, refuses: bool) {
        type Refuse = extern "C" fn(i32);
        // SAFETY: that is the function's type.
        let refuse = unsafe { self.0.get::<Refuse>("cuda_emu_refuse_graphs") };
        refuse.expect("the emulator refuses graphs")(i32::from(refuses));
    }

    /// Passes over shared memory that bank conflicts cost the last kernel.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    #[must_use]
    pub fn bank_conflicts(&self) -> u64 {
        self.count("cuda_emu_bank_conflicts")
    }

    /// Bytes that the last kernel read from global memory.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    #[must_use]
    pub fn global_load_bytes(&self) -> u64 {
        self.count("cuda_emu_global_load_bytes")
    }

    fn count(&self, name: &str) -> u64 {
        type Count = extern "C" fn() -> u64;
        // SAFETY: that is the type of the emulator's counters.
        let count = unsafe { self.0.get::<Count>(name) };
        count.expect("the emulator counts")()
    }
}
