//! A device with one module, for tests.
#![allow(dead_code, unused_imports, unused_macros, reason = "every test file uses its own part")]

pub(crate) mod single;

use std::cell::RefCell;
use std::collections::HashSet;

use ptx_emu::{Fault, LaunchConfig, LaunchError, LoadError, Memory, Module, Options, Params, Stats, launch};

thread_local! {
    /// The first words of all statements in modules that this thread has loaded.
    static MNEMONICS: RefCell<HashSet<String>> = RefCell::default();
}

/// The instructions in all modules that this thread has loaded, among other words.
pub(crate) fn mnemonics() -> HashSet<String> {
    MNEMONICS.take()
}

fn note_mnemonics(ptx: &str) {
    // A label ends in one colon; two are part of a name.
    let ptx = ptx.replace("::", "\u{1}");
    let statements = ptx.split([';', '\n', ':', '{']).map(str::trim);
    // A guard stands before its instruction.
    let words = statements.filter_map(|statement| statement.split_whitespace().find(|word| !word.starts_with('@')));
    MNEMONICS.with_borrow_mut(|all| all.extend(words.map(|word| word.replace('\u{1}', "::"))));
}

/// Memory and a module loaded into it.
pub(crate) struct Device {
    pub(crate) memory: Memory,
    pub(crate) module: Module,
    pub(crate) options: Options,
}

impl Device {
    pub(crate) fn new(ptx: &str) -> Self {
        note_mnemonics(ptx);
        let mut memory = Memory::default();
        let module = Module::load(ptx, &mut memory).unwrap_or_else(|error| panic!("{error}"));
        Self { memory, module, options: Options::default() }
    }

    /// A device buffer that holds `values`.
    pub(crate) fn upload(&mut self, values: &[u32]) -> u64 {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let address = self.memory.alloc(bytes.len()).unwrap();
        self.memory.write(address, &bytes).unwrap();
        address
    }

    /// A device buffer of `words` words of uninitialised memory.
    pub(crate) fn buffer(&mut self, words: usize) -> u64 {
        self.memory.alloc(words * 4).unwrap()
    }

    pub(crate) fn download(&self, address: u64, words: usize) -> Vec<u32> {
        let mut bytes = vec![0; words * 4];
        self.memory.read(address, &mut bytes).unwrap();
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    }

    pub(crate) fn launch(&mut self, kernel: &str, config: LaunchConfig, params: &Params) -> Result<Stats, LaunchError> {
        launch(&self.module, kernel, &config, params.as_bytes(), &mut self.memory, &self.options)
    }

    /// Launches one block of `threads` threads.
    pub(crate) fn run(&mut self, kernel: &str, threads: u32, params: &Params) -> Result<Stats, LaunchError> {
        self.launch(kernel, LaunchConfig::new([1, 1, 1], [threads, 1, 1]), params)
    }

    /// The fault that `run` ends with.
    pub(crate) fn fault(&mut self, kernel: &str, threads: u32, params: &Params) -> Fault {
        match self.run(kernel, threads, params) {
            Err(LaunchError::Fault(fault)) => *fault,
            other => panic!("{kernel}: expected a fault, got {other:?}"),
        }
    }
}

/// A module with one kernel `k` that takes `.param .u64 in` and `.param .u64 out`.
pub(crate) fn kernel(declarations: &str, body: &str) -> String {
    format!(
        ".version 9.0\n.target sm_80\n.address_size 64\n\
         .visible .entry k(.param .u64 in, .param .u64 out)\n{{\n{declarations}\n{body}\nret;\n}}\n"
    )
}

/// Why a module is refused.
pub(crate) fn refusal(ptx: &str) -> LoadError {
    Module::load(ptx, &mut Memory::default()).expect_err(ptx)
}

/// Numbers that look random and are the same everywhere.
pub(crate) fn noise(count: usize, seed: u32) -> Vec<u32> {
    (0..count as u32)
        .map(|i| {
            let x = (i ^ seed.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b);
            let x = (x ^ x >> 13).wrapping_mul(0xc2b2_ae35);
            x ^ x >> 16
        })
        .collect()
}

/// `values` as f32 in [-1, 1).
pub(crate) fn unit(values: &[u32]) -> Vec<f32> {
    values.iter().map(|&value| (value >> 8) as f32 / (1 << 23) as f32 - 1.0).collect()
}
