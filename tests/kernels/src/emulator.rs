//! Asking the emulator what it found.

use std::collections::BTreeMap;

use libloading::os::unix::{Library, RTLD_LAZY};

use crate::emulator_path;

/// The emulator behind the driver's interface. What is set stays so when this is dropped: the library is never unloaded.
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
        self.text("cuda_emu_last_report")
    }

    /// What each kernel has done since [`forget_kernels`](Self::forget_kernels), by its name.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    #[must_use]
    pub fn kernels(&self) -> BTreeMap<String, Counters> {
        let text = self.text("cuda_emu_kernels");
        let kernel = |line: &str| {
            let mut words = line.split(' ');
            let name = words.next()?.to_owned();
            let counters: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
            Some((name, Counters::from(<[u64; Counters::COUNT]>::try_from(counters).ok()?)))
        };
        text.lines()
            .map(|line| kernel(line).unwrap_or_else(|| panic!("the emulator counts otherwise: {line}")))
            .collect()
    }

    /// Forgets what each kernel has done.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    pub fn forget_kernels(&self) {
        type Forget = extern "C" fn();
        // SAFETY: that is the function's type.
        let forget = unsafe { self.0.get::<Forget>("cuda_emu_forget_kernels") };
        forget.expect("the emulator forgets")();
    }

    /// What one of the emulator's functions that give a text has to say; all callers are above.
    fn text(&self, function: &str) -> String {
        type Text = unsafe extern "C" fn(*mut u8, usize) -> usize;
        // SAFETY: every caller names a function of that type.
        let text = unsafe { self.0.get::<Text>(function) };
        let text = text.unwrap_or_else(|error| panic!("{function}: {error}"));
        // SAFETY: a null buffer is not written.
        let mut bytes = vec![0; unsafe { text(std::ptr::null_mut(), 0) }];
        // SAFETY: the buffer is as long as is said.
        let length = unsafe { text(bytes.as_mut_ptr(), bytes.len()) };
        bytes.truncate(length);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Lets blocks and warps take turns at random from now on, or by number where `seed` is 0.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    pub fn set_schedule(&self, seed: u64) {
        self.set("cuda_emu_set_schedule", seed);
    }

    /// Has work done only when something waits for it from now on, in a random order of those that events and streams
    /// allow, or at once where `seed` is 0.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    pub fn defer(&self, seed: u64) {
        self.set("cuda_emu_defer", seed);
    }

    /// Takes a kernel for an endless loop after that many instructions of its warps.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    pub fn set_budget(&self, instructions: u64) {
        self.set("cuda_emu_set_budget", instructions);
    }

    /// A number that is another one where the instructions of the modules loaded since
    /// [`forget`](Self::forget) are others.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    #[must_use]
    pub fn code(&self) -> u64 {
        self.count("cuda_emu_code")
    }

    /// Forgets which modules were loaded, and what kernels have done.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    pub fn forget(&self) {
        type Forget = extern "C" fn();
        // SAFETY: that is the function's type.
        let forget = unsafe { self.0.get::<Forget>("cuda_emu_forget") };
        forget.expect("the emulator forgets")();
    }

    /// Refuses launches as long as [`code`](Self::code) is this number, because what that does is known; 0 refuses none.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    pub fn refuse_code(&self, code: u64) {
        self.set("cuda_emu_refuse_code", code);
    }

    /// Has no memory for graphs that can be launched from now on, or has it again.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    pub fn refuse_graphs(&self, refuses: bool) {
        self.set("cuda_emu_refuse_graphs", i32::from(refuses));
    }

    /// Gives the device so much memory from now on, as if other programs took the rest, or as much as at first where `bytes` is 0.
    /// What is taken stays taken. Of large buffers only the parts that are used take memory of this machine.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    pub fn set_memory(&self, bytes: u64) {
        self.set("cuda_emu_set_memory", bytes);
    }

    /// Gives memory in multiples of so many bytes from now on, as devices map it, or to the byte again where `bytes` is 0. Accesses
    /// after the end of a buffer are found after the end of its last piece.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    pub fn set_piece(&self, bytes: u64) {
        self.set("cuda_emu_set_piece", bytes);
    }

    /// Lets so many allocations of device memory succeed from now on and none after them, whatever room there is, or again all that
    /// there is room for. The code of a kernel that is loaded counts as one.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    pub fn limit_allocations(&self, count: Option<u32>) {
        self.set("cuda_emu_limit_allocations", count.map_or(-1, i64::from));
    }

    /// Has calls answer with a result code of the driver from now on, and do nothing, or do their work again where `code` is 0.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    pub fn fail(&self, call: Call, code: i32) {
        type Fail = extern "C" fn(usize, i32);
        // SAFETY: that is the function's type.
        let fail = unsafe { self.0.get::<Fail>("cuda_emu_fail") };
        fail.expect("the emulator fails")(call as usize, code);
    }

    /// How many copies to the device programs have asked for so far.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    #[must_use]
    pub fn copies_in(&self) -> u64 {
        self.count("cuda_emu_copies_in")
    }

    /// Switches off, or on again, all checks that execution can do without.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    pub fn set_checks(&self, on: bool) {
        self.set("cuda_emu_set_checks", on);
    }

    /// Lets blocks race from now on, or no longer: for inputs that a kernel must bear but cannot serve.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    pub fn allow_block_races(&self, on: bool) {
        self.set("cuda_emu_allow_block_races", on);
    }

    /// Has kernels timed from now on, or no longer, and gives the processor time of the last one in seconds.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    pub fn time(&self, on: bool) -> f64 {
        type Time = extern "C" fn(bool) -> u64;
        // SAFETY: that is the function's type.
        let time = unsafe { self.0.get::<Time>("cuda_emu_time") };
        time.expect("the emulator times kernels")(on) as f64 * 1e-9
    }

    /// Passes over shared memory that bank conflicts cost the last kernel.
    #[must_use]
    pub fn bank_conflicts(&self) -> u64 {
        self.counters().bank_conflict_passes
    }

    /// Bytes that the last kernel read from global memory.
    #[must_use]
    pub fn global_load_bytes(&self) -> u64 {
        self.counters().global_load_bytes
    }

    /// What the last kernel did.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.read_counters("cuda_emu_counters")
    }

    /// What all kernels have done since [`forget`](Self::forget).
    ///
    /// # Panics
    ///
    /// If the library is another one.
    #[must_use]
    pub fn total_counters(&self) -> Counters {
        self.read_counters("cuda_emu_total_counters")
    }

    /// Calls one of the two functions above this.
    fn read_counters(&self, function: &str) -> Counters {
        type Copy = unsafe extern "C" fn(*mut u64, usize) -> usize;
        // SAFETY: both callers name a function of that type.
        let copy = unsafe { self.0.get::<Copy>(function) }.expect("the emulator counts");
        let mut values = [0; Counters::COUNT];
        // SAFETY: the buffer is as long as is said.
        let count = unsafe { copy(values.as_mut_ptr(), values.len()) };
        assert_eq!(count, values.len(), "the emulator has other counters");
        Counters::from(values)
    }

    fn count(&self, name: &str) -> u64 {
        type Count = extern "C" fn() -> u64;
        // SAFETY: that is the type of the emulator's counters.
        let count = unsafe { self.0.get::<Count>(name) };
        count.expect("the emulator counts")()
    }

    /// Calls one of the emulator's functions that take a value and give nothing; all callers are above.
    fn set<T>(&self, function: &str, value: T) {
        // SAFETY: every caller names a function that takes a `T`.
        let set = unsafe { self.0.get::<extern "C" fn(T)>(function) };
        set.unwrap_or_else(|error| panic!("{function}: {error}"))(value);
    }
}

/// Calls of the driver that [`Emulator::fail`] is about, in the order in which the emulator has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Recording an event.
    Record,
    /// Waiting for an event or a stream.
    Wait,
    /// Launching captured work.
    LaunchGraph,
    /// Launching a kernel.
    Launch,
}

/// What a kernel did, counted: the same numbers on every machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Instructions executed by warps.
    pub warp_instructions: u64,
    /// The same, times the lanes that were active.
    pub lane_instructions: u64,
    /// Branches that split a warp.
    pub divergent_branches: u64,
    /// Bytes read from global memory.
    pub global_load_bytes: u64,
    /// Bytes written to global memory.
    pub global_store_bytes: u64,
    /// Shared-memory instructions executed by warps.
    pub shared_accesses: u64,
    /// Passes over shared memory that bank conflicts cost.
    pub bank_conflict_passes: u64,
    /// Matrix instructions.
    pub matrix_instructions: u64,
    /// Block barriers passed by warps.
    pub barriers: u64,
}

impl Counters {
    /// How many there are.
    const COUNT: usize = 9;

    /// What moves more data, meets more banks or multiplies more than another run of the same work, if anything does.
    #[must_use]
    pub fn waste_beside(&self, other: &Self) -> Option<&'static str> {
        [
            ("bytes read", self.global_load_bytes, other.global_load_bytes),
            ("bytes written", self.global_store_bytes, other.global_store_bytes),
            ("accesses to shared memory", self.shared_accesses, other.shared_accesses),
            ("bank conflicts", self.bank_conflict_passes, other.bank_conflict_passes),
            ("matrix instructions", self.matrix_instructions, other.matrix_instructions),
            ("barriers", self.barriers, other.barriers),
        ]
        .into_iter()
        .find_map(|(what, own, of_other)| (own > of_other).then_some(what))
    }
}

impl From<[u64; Counters::COUNT]> for Counters {
    /// In the order in which the emulator has them, which is that of the fields.
    fn from(values: [u64; Self::COUNT]) -> Self {
        Self {
            warp_instructions: values[0],
            lane_instructions: values[1],
            divergent_branches: values[2],
            global_load_bytes: values[3],
            global_store_bytes: values[4],
            shared_accesses: values[5],
            bank_conflict_passes: values[6],
            matrix_instructions: values[7],
            barriers: values[8],
        }
    }
}
