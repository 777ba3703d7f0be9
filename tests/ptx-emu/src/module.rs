//! A loaded module: kernels by name and variables in device memory.

use std::collections::HashMap;

use crate::error::{LoadError, MemoryError};
use crate::lexer::error_at;
use crate::lower::lower;
use crate::memory::Memory;
use crate::parse::parse;
use crate::program::Kernel;
use crate::syntax::Variable;
use crate::ty::Space;

/// Constant memory of a module.
const MAX_CONST: u64 = 64 << 10;

/// A module ready to launch.
#[derive(Debug)]
pub struct Module {
    kernels: HashMap<String, Kernel>,
    globals: Vec<Global>,
}

/// A `.global` or `.const` variable in device memory.
#[derive(Debug, Clone)]
pub(crate) struct Global {
    pub(crate) name: String,
    pub(crate) space: Space,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

impl Module {
    /// Reads PTX and puts the module's variables into `memory`, where its kernels will look for them.
    ///
    /// Whatever this crate does not know, be it a directive, an instruction, a modifier or an operand of another type
    /// than the instruction takes, is an error here and never ignored.
    pub fn load(ptx: &str, memory: &mut Memory) -> Result<Self, LoadError> {
        let source = parse(ptx)?;
        let mut module = Self { kernels: HashMap::new(), globals: Vec::new() };
        let filled = module.fill(ptx, &source, memory);
        match filled {
            Ok(()) => Ok(module),
            Err(error) => {
                // The load has failed already; that its variables can be freed follows from their allocation above.
                let _ = module.unload(memory);
                Err(error)
            }
        }
    }

    fn fill(&mut self, ptx: &str, source: &crate::syntax::Source<'_>, memory: &mut Memory) -> Result<(), LoadError> {
        let mut constant = 0;
        for variable in &source.variables {
            if matches!(variable.space, Space::Global | Space::Const) {
                let global =
                    place(variable, memory).map_err(|error| error_at(ptx, variable.line, error.to_string()))?;
                if global.space == Space::Const {
                    constant += global.bytes;
                }
                self.globals.push(global);
                if constant > MAX_CONST {
                    return Err(error_at(ptx, variable.line, format!("more than {MAX_CONST} bytes of .const")));
                }
            }
        }
        for entry in &source.entries {
            let kernel = lower(ptx, source, entry, &self.globals)?;
            if self.kernels.insert(kernel.name.clone(), kernel).is_some() {
                return Err(error_at(ptx, entry.line, format!("a second kernel `{}`", entry.name)));
            }
        }
        Ok(())
    }

    /// Frees the module's variables.
    pub fn unload(self, memory: &mut Memory) -> Result<(), MemoryError> {
        self.globals.iter().try_for_each(|global| memory.free(global.address))
    }

    /// The kernel called `name`.
    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.get(name)
    }

    /// All kernels, in no particular order.
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.kernels.values()
    }

    /// Address and length of the variable called `name`.
    #[must_use]
    pub fn global(&self, name: &str) -> Option<(u64, usize)> {
        let global = self.globals.iter().find(|global| global.name == name)?;
        Some((global.address, global.bytes as usize))
    }
}

fn place(variable: &Variable<'_>, memory: &mut Memory) -> Result<Global, MemoryError> {
    let bytes = variable.bytes.unwrap_or(0) as usize;
    let mut initial = variable.initial.clone();
    initial.resize(bytes, 0);
    let address = memory.alloc(bytes)?;
    memory.write(address, &initial)?;
    Ok(Global { name: variable.name.to_owned(), space: variable.space, address, bytes: bytes as u64 })
}
