//! A context: device memory, and the objects that live with it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use ptx_emu::{Kernel, LoadError, Memory, MemoryError, Module};

use crate::code::{Answer, Code};

/// What a context holds. Objects are known by number; a number that is not one of theirs is refused.
pub(crate) struct Context {
    pub(crate) memory: Memory,
    streams: BTreeSet<usize>,
    events: BTreeMap<usize, Event>,
    modules: BTreeMap<usize, Module>,
    functions: BTreeMap<usize, Function>,
    /// Host memory by address. Words of 16 bytes, for their alignment.
    pinned: BTreeMap<usize, Vec<u128>>,
    next: usize,
    /// The failure of a kernel. It stays: what the kernel did to memory is not known.
    failure: Option<Code>,
}

/// A kernel of a module, with what was set for it.
pub(crate) struct Function {
    module: usize,
    pub(crate) name: String,
    /// The attribute that lets a launch ask for more dynamic shared memory, if it was set.
    pub(crate) max_dynamic_shared: Option<u32>,
}

impl Function {
    /// Dynamic shared memory that a launch may ask for.
    pub(crate) fn dynamic_shared_limit(&self, kernel: &Kernel) -> u32 {
        let free = SHARED_WITHOUT_OPT_IN.saturating_sub(kernel.static_shared_bytes());
        self.max_dynamic_shared.unwrap_or(free)
    }
}

/// Static and dynamic shared memory of a block whose kernel has not opted in to more.
const SHARED_WITHOUT_OPT_IN: u32 = 48 << 10;

/// A point in the work of a stream.
#[derive(Default)]
pub(crate) struct Event(Option<Instant>);

impl Event {
    pub(crate) fn record(&mut self) {
        self.0 = Some(Instant::now());
    }

    pub(crate) fn recorded(&self) -> Answer<Instant> {
        self.0.ok_or(Code::INVALID_HANDLE)
    }
}

impl Context {
    pub(crate) fn new() -> Self {
        Self {
            memory: Memory::default(),
            streams: BTreeSet::new(),
            events: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            pinned: BTreeMap::new(),
            // 0 to 2 mean the default streams.
            next: 16,
            failure: None,
        }
    }

    /// The failure that stuck, if any.
    pub(crate) fn check(&self) -> Answer {
        self.failure.map_or(Ok(()), Err)
    }

    pub(crate) fn fail(&mut self, code: Code) {
        self.failure = Some(code);
    }

    fn number(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    pub(crate) fn create_stream(&mut self) -> usize {
        let number = self.number();
        self.streams.insert(number);
        number
    }

    pub(crate) fn destroy_stream(&mut self, stream: usize) -> Answer {
        let known = self.streams.remove(&stream);
        known.then_some(()).ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn check_stream(&self, stream: usize) -> Answer {
        let known = stream <= 2 || self.streams.contains(&stream);
        known.then_some(()).ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn create_event(&mut self) -> usize {
        let number = self.number();
        self.events.insert(number, Event::default());
        number
    }

    pub(crate) fn destroy_event(&mut self, event: usize) -> Answer {
        let known = self.events.remove(&event);
        known.map(drop).ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn event(&mut self, event: usize) -> Answer<&mut Event> {
        self.events.get_mut(&event).ok_or(Code::INVALID_HANDLE)
    }

    /// Loads PTX and gives the module's number.
    pub(crate) fn load_module(&mut self, ptx: &str) -> Result<usize, LoadError> {
        let module = Module::load(ptx, &mut self.memory)?;
        let number = self.number();
        self.modules.insert(number, module);
        Ok(number)
    }

    pub(crate) fn unload_module(&mut self, module: usize) -> Answer {
        let unloaded = self.modules.remove(&module).ok_or(Code::INVALID_HANDLE)?;
        self.functions.retain(|_, function| function.module != module);
        let freed = unloaded.unload(&mut self.memory);
        freed.map_err(|error| memory_code(&error))
    }

    pub(crate) fn find_function(&mut self, module: usize, name: String) -> Answer<usize> {
        let kernels = self.modules.get(&module).ok_or(Code::INVALID_HANDLE)?;
        kernels.kernel(&name).ok_or(Code::NOT_FOUND)?;
        let function = Function { module, name, max_dynamic_shared: None };
        let number = self.number();
        self.functions.insert(number, function);
        Ok(number)
    }

    /// A function, its module, and the memory that it works on.
    pub(crate) fn function(&mut self, function: usize) -> Answer<(&mut Function, &Module, &mut Memory)> {
        let found = self.functions.get_mut(&function).ok_or(Code::INVALID_HANDLE)?;
        let module = self.modules.get(&found.module).ok_or(Code::INVALID_HANDLE)?;
        Ok((found, module, &mut self.memory))
    }

    /// Bytes that are free, and bytes in all.
    pub(crate) fn memory_info(&self) -> (usize, usize) {
        let total = self.memory.capacity();
        ((total - self.memory.used()) as usize, total as usize)
    }

    pub(crate) fn alloc(&mut self, bytes: usize) -> Answer<u64> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        self.memory.alloc(bytes).map_err(|error| memory_code(&error))
    }

    pub(crate) fn free(&mut self, address: u64) -> Answer {
        if address == 0 {
            return Ok(());
        }
        self.memory.free(address).map_err(|error| memory_code(&error))
    }

    pub(crate) fn alloc_host(&mut self, bytes: usize) -> Answer<*mut u8> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let mut words = vec![0_u128; bytes.div_ceil(size_of::<u128>())];
        let pointer: *mut u8 = words.as_mut_ptr().cast();
        self.pinned.insert(pointer.addr(), words);
        Ok(pointer)
    }

    pub(crate) fn free_host(&mut self, pointer: *mut u8) -> Answer {
        let known = self.pinned.remove(&pointer.addr());
        known.map(drop).ok_or(Code::INVALID_VALUE)
    }
}

/// The result code for a refused access from the host.
pub(crate) fn memory_code(error: &MemoryError) -> Code {
    match error {
        MemoryError::OutOfMemory { .. } => Code::OUT_OF_MEMORY,
        _ => Code::INVALID_VALUE,
    }
}
