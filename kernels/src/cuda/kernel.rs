//! What all kernels have in common: a source, the sizes that it is compiled for, and its functions on a device.

use std::fmt;
use std::marker::PhantomData;
use std::sync::OnceLock;

use cudarc::driver::{CudaView, LaunchArgs, LaunchConfig, PushKernelArg};

use super::device::{CudaDevice, LoadedFunction};
use super::error::{CudaError, During};
use super::nvrtc::{KernelSource, Program};
use super::rows::vector;

/// A source file and what it has.
pub trait KernelCode {
    /// The file.
    const SOURCE: KernelSource;
    /// The names of its functions, in the order in which launchers count them.
    const FUNCTIONS: &'static [&'static str];
}

/// The sizes that a kernel is compiled for.
pub trait KernelShape: KernelCode + Copy + fmt::Debug {
    /// The macros that the source expects, or what is wrong with a shape that it does not support.
    fn macros(&self) -> Result<Vec<(&'static str, usize)>, CudaError>;

    /// Bytes of dynamic shared memory that a block needs.
    fn shared_bytes(&self) -> usize {
        0
    }
}

/// A kernel, compiled for a shape and loaded on a device.
#[derive(Debug)]
pub struct Kernel<S> {
    shape: S,
    functions: Vec<LoadedFunction>,
    /// The compiler's messages.
    pub log: String,
}

impl<S: KernelShape> Kernel<S> {
    /// The kernel's source.
    pub const SOURCE: KernelSource = S::SOURCE;

    /// Compiles the kernel for a shape.
    pub fn compile(device: &CudaDevice, shape: S) -> Result<Self, CudaError> {
        Self::compile_source(device, shape, Self::SOURCE)
    }

    /// Compiles another text of the kernel, such as a deliberately broken one in a test of the checks.
    pub fn compile_source(device: &CudaDevice, shape: S, source: KernelSource) -> Result<Self, CudaError> {
        let program = Self::program(shape, source)?;
        let (functions, log) = load(device, &program, S::FUNCTIONS, shape.shared_bytes())?;
        Ok(Self { shape, functions, log })
    }

    /// A source of this kernel with the sizes of a shape.
    pub fn program(shape: S, source: KernelSource) -> Result<Program, CudaError> {
        Ok(Program { source, defines: shape.macros()? })
    }

    /// The shape it was compiled for.
    #[must_use]
    pub fn shape(&self) -> &S {
        &self.shape
    }

    /// The function of this place in [`KernelCode::FUNCTIONS`].
    pub(super) fn function(&self, place: usize) -> &LoadedFunction {
        &self.functions[place]
    }
}

/// A kernel that is compiled and loaded when it is first wanted. It belongs to the device that it was first wanted on.
#[derive(Debug)]
pub struct LazyKernel<S> {
    shape: S,
    source: KernelSource,
    kernel: OnceLock<Kernel<S>>,
}

impl<S: KernelShape> LazyKernel<S> {
    /// The kernel for a shape; nothing is compiled yet.
    #[must_use]
    pub fn new(shape: S) -> Self {
        Self::of_source(shape, S::SOURCE)
    }

    /// Another text of the kernel.
    pub(super) fn of_source(shape: S, source: KernelSource) -> Self {
        Self { shape, source, kernel: OnceLock::new() }
    }

    /// What it is compiled from.
    pub fn program(&self) -> Result<Program, CudaError> {
        Kernel::program(self.shape, self.source.clone())
    }

    /// The kernel, which is compiled and loaded now if it has not been. One that was loaded on another device is refused.
    pub fn get(&self, device: &CudaDevice) -> Result<&Kernel<S>, CudaError> {
        let kernel = match self.kernel.get() {
            Some(kernel) => kernel,
            None => {
                let kernel = Kernel::compile_source(device, self.shape, self.source.clone())?;
                // Of two threads that have compiled it, one keeps the other's.
                self.kernel.get_or_init(|| kernel)
            }
        };
        kernel.functions.iter().try_for_each(|function| device.require_own(function))?;
        Ok(kernel)
    }
}

/// A kernel that is the same for all sizes, compiled and loaded on a device.
#[derive(Debug)]
pub struct SizelessKernel<C> {
    functions: Vec<LoadedFunction>,
    code: PhantomData<C>,
    /// The compiler's messages.
    pub log: String,
}

impl<C: KernelCode> SizelessKernel<C> {
    /// The kernel's source.
    pub const SOURCE: KernelSource = C::SOURCE;

    /// Compiles the kernel.
    pub fn compile(device: &CudaDevice) -> Result<Self, CudaError> {
        Self::compile_source(device, Self::SOURCE)
    }

    /// Compiles another text of the kernel, such as a deliberately broken one in a test of the checks.
    pub fn compile_source(device: &CudaDevice, source: KernelSource) -> Result<Self, CudaError> {
        let (functions, log) = load(device, &Self::program(source), C::FUNCTIONS, 0)?;
        Ok(Self { functions, code: PhantomData, log })
    }

    /// A source of this kernel; it has no sizes.
    #[must_use]
    pub fn program(source: KernelSource) -> Program {
        Program { source, defines: Vec::new() }
    }

    /// The function of this place in [`KernelCode::FUNCTIONS`].
    pub(super) fn function(&self, place: usize) -> &LoadedFunction {
        &self.functions[place]
    }
}

/// Compiles a program: its functions by name, and the compiler's messages.
fn load(
    device: &CudaDevice,
    program: &Program,
    names: &[&str],
    shared_bytes: usize,
) -> Result<(Vec<LoadedFunction>, String), CudaError> {
    let module = device.load(program)?;
    let function = |name: &&str| match shared_bytes {
        0 => module.function(name),
        bytes => module.function_with_shared(name, bytes as u32),
    };
    let functions = names.iter().map(function).collect::<Result<_, _>>()?;
    Ok((functions, module.log))
}

/// The blocks of a launch, and what each has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    pub(super) blocks: [usize; 3],
    pub(super) threads: usize,
    pub(super) shared_bytes: usize,
}

impl Grid {
    /// Blocks that need no dynamic shared memory.
    pub(super) fn new(blocks: [usize; 3], threads: usize) -> Self {
        Self { blocks, threads, shared_bytes: 0 }
    }

    /// For kernels whose threads take one piece of a row each: rows in the first dimension, blocks of a row in the
    /// second.
    pub(super) fn of_pieces(rows: usize, width: usize) -> Self {
        /// Fixed in the sources.
        const THREADS: usize = 128;
        Self::new([rows, (width / vector(width)).div_ceil(THREADS), 1], THREADS)
    }
}

/// Launches a kernel.
///
/// # Safety
///
/// The arguments are the kernel's, in order and type, and every size that it relies on has been checked.
pub(super) unsafe fn start(launch: &mut LaunchArgs<'_>, grid: Grid, action: &'static str) -> Result<(), CudaError> {
    let [x, y, z] = grid.blocks.map(|blocks| blocks as u32);
    let config = LaunchConfig {
        grid_dim: (x, y, z),
        block_dim: (grid.threads as u32, 1, 1),
        shared_mem_bytes: grid.shared_bytes as u32,
    };
    // SAFETY: the caller's.
    unsafe { launch.launch(config) }.during(action)?;
    Ok(())
}

/// Makes a buffer that need not be there the next argument: a null pointer where it is not.
pub(super) fn push_optional<'a, T>(launch: &mut LaunchArgs<'a>, buffer: Option<&'a CudaView<'a, T>>) {
    match buffer {
        Some(buffer) => launch.arg(buffer),
        None => launch.arg(&0_u64),
    };
}
