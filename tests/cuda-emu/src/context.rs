//! A context: device memory, and the objects that live with it.

use std::collections::BTreeMap;

use ptx_emu::{Kernel, LoadError, Memory, MemoryError, Module};

use crate::capture::Graph;
use crate::code::{Answer, Code};
use crate::console::Console;
use crate::queue::Ticket;
use crate::streams::{Streams, Submitted};
use crate::work::Work;

/// What a context holds. Objects are known by number; a number that is not one of theirs is refused.
pub(crate) struct Context {
    pub(crate) memory: Memory,
    pub(crate) streams: Streams,
    modules: BTreeMap<usize, Module>,
    functions: BTreeMap<usize, Function>,
    graphs: BTreeMap<usize, Graph>,
    runnable_graphs: BTreeMap<usize, RunnableGraph>,
    /// Host memory by address. Words of 16 bytes, for their alignment.
    pinned: BTreeMap<usize, Vec<u128>>,
    next: usize,
    /// The failure of work. It stays: what was done to memory is not known.
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

/// A graph that can be launched.
struct RunnableGraph {
    graph: Graph,
    /// The work of its latest launch, which the next waits for.
    latest: Vec<Ticket>,
}

impl Context {
    pub(crate) fn new(memory: Memory) -> Self {
        Self {
            memory,
            streams: Streams::default(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            graphs: BTreeMap::new(),
            runnable_graphs: BTreeMap::new(),
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

    /// Work that is left will not be done.
    pub(crate) fn fail(&mut self, code: Code) {
        self.failure = Some(code);
        self.streams.queue.clear();
    }

    fn number(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    pub(crate) fn create_stream(&mut self, is_blocking: bool) -> usize {
        let number = self.number();
        self.streams.create(number, is_blocking);
        number
    }

    pub(crate) fn create_event(&mut self) -> usize {
        let number = self.number();
        self.streams.create_event(number);
        number
    }

    /// Adds work to a stream, and does it unless work is deferred. A refusal spoils the capture that the stream takes part in.
    pub(crate) fn submit(&mut self, console: &mut Console, stream: usize, work: Work) -> Answer<Submitted> {
        self.streams.check(stream)?;
        let submitted = self.check_work(&work, console).and_then(|()| self.streams.submit(stream, work));
        if submitted.is_err() {
            self.streams.spoil(stream);
        }
        self.unless_deferred(console);
        submitted
    }

    /// Makes an event stand for all work of a stream so far.
    pub(crate) fn record(&mut self, console: &mut Console, event: usize, stream: usize) -> Answer {
        self.streams.record(event, stream)?;
        self.unless_deferred(console);
        Ok(())
    }

    /// Says what is wrong with work that the driver refuses at once.
    fn check_work(&self, work: &Work, console: &mut Console) -> Answer {
        match work {
            Work::Launch { function, config, parameters } => {
                let (function, module) = self.function(*function)?;
                let checked = ptx_emu::check_launch(module, &function.name, config, parameters);
                checked.map_err(|refused| {
                    console.report(refused.to_string());
                    Code::INVALID_VALUE
                })
            }
            Work::Write { to, from } => self.check_range(*to, from.len()),
            Work::Read { to, from } => self.check_range(*from, to.len()),
            Work::Copy { to, from, bytes } => {
                self.check_range(*to, *bytes)?;
                self.check_range(*from, *bytes)
            }
            Work::Fill { to, pattern, count } => {
                let bytes = pattern.len().checked_mul(*count).ok_or(Code::INVALID_VALUE)?;
                self.check_range(*to, bytes)
            }
            Work::Free { address } => {
                let found = self.memory.allocation_of(*address);
                if found.is_some_and(|(base, _)| base == *address) { Ok(()) } else { Err(Code::INVALID_VALUE) }
            }
            Work::Mark { .. } => Ok(()),
        }
    }

    fn check_range(&self, address: u64, bytes: usize) -> Answer {
        let found = self.memory.allocation_of(address);
        let fits = found.is_some_and(|(base, length)| bytes as u64 <= base + length as u64 - address);
        if bytes == 0 || fits { Ok(()) } else { Err(Code::INVALID_VALUE) }
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

    /// A function and its kernel.
    pub(crate) fn kernel(&self, function: usize) -> Answer<(&Function, &Kernel)> {
        let (function, module) = self.function(function)?;
        module.kernel(&function.name).map(|kernel| (function, kernel)).ok_or(Code::NOT_FOUND)
    }

    fn function(&self, function: usize) -> Answer<(&Function, &Module)> {
        let found = self.functions.get(&function).ok_or(Code::INVALID_HANDLE)?;
        let module = self.modules.get(&found.module).ok_or(Code::INVALID_HANDLE)?;
        Ok((found, module))
    }

    pub(crate) fn function_mut(&mut self, function: usize) -> Answer<&mut Function> {
        self.functions.get_mut(&function).ok_or(Code::INVALID_HANDLE)
    }

    /// A function, its module, and the memory that it works on.
    pub(crate) fn function_and_memory(&mut self, function: usize) -> Answer<(&Function, &Module, &mut Memory)> {
        let found = self.functions.get(&function).ok_or(Code::INVALID_HANDLE)?;
        let module = self.modules.get(&found.module).ok_or(Code::INVALID_HANDLE)?;
        Ok((found, module, &mut self.memory))
    }

    pub(crate) fn keep_graph(&mut self, graph: Graph) -> usize {
        let number = self.number();
        self.graphs.insert(number, graph);
        number
    }

    pub(crate) fn destroy_graph(&mut self, graph: usize) -> Answer {
        self.graphs.remove(&graph).map(drop).ok_or(Code::INVALID_HANDLE)
    }

    /// Makes a graph that can be launched.
    pub(crate) fn instantiate(&mut self, graph: usize) -> Answer<usize> {
        let graph = self.graphs.get(&graph).ok_or(Code::INVALID_HANDLE)?.clone();
        let number = self.number();
        self.runnable_graphs.insert(number, RunnableGraph { graph, latest: Vec::new() });
        Ok(number)
    }

    pub(crate) fn check_runnable_graph(&self, graph: usize) -> Answer {
        self.runnable_graphs.get(&graph).map(drop).ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn destroy_runnable_graph(&mut self, graph: usize) -> Answer {
        self.runnable_graphs.remove(&graph).map(drop).ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn launch_graph(&mut self, console: &mut Console, graph: usize, stream: usize) -> Answer {
        let launched = self.runnable_graphs.get_mut(&graph).ok_or(Code::INVALID_HANDLE)?;
        launched.latest = self.streams.submit_graph(stream, &launched.graph, &launched.latest)?;
        self.unless_deferred(console);
        Ok(())
    }

    /// Bytes that are free, and bytes in all.
    pub(crate) fn memory_info(&self) -> (usize, usize) {
        (self.memory.available() as usize, self.memory.capacity() as usize)
    }

    /// Memory, which may have to wait for work that gives some back.
    pub(crate) fn alloc(&mut self, console: &mut Console, bytes: usize) -> Answer<u64> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        console.count_allocation()?;
        let bytes = console.in_pieces(bytes);
        if self.memory.available() < bytes as u64 {
            self.finish_all(console)?;
        }
        self.memory.alloc(bytes).map_err(|error| memory_code(&error))
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

    /// Whether a range of host memory was pinned by the driver.
    pub(crate) fn is_pinned(&self, address: usize, bytes: usize) -> bool {
        let before = self.pinned.range(..=address).next_back();
        before.is_some_and(|(start, words)| address - start + bytes <= size_of_val(words.as_slice()))
    }
}

/// The result code for a refused access from the host.
pub(crate) fn memory_code(error: &MemoryError) -> Code {
    match error {
        MemoryError::OutOfMemory { .. } => Code::OUT_OF_MEMORY,
        _ => Code::INVALID_VALUE,
    }
}
