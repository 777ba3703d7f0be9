//! A CUDA device: its memory, its one stream, and kernels loaded for it.

use std::path::PathBuf;
use std::sync::Arc;

use cudarc::driver::sys::{CUfunction_attribute_enum, CUresult};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, DevicePtr, DeviceRepr, DriverError, LaunchArgs,
    ValidAsZeroBits,
};

use super::error::{CudaError, During, require};
use super::library;
use super::nvrtc::{Compiled, Compiler, KernelSource, Program, Target};

/// How to find a device and what is needed to use it.
#[derive(Debug, Clone, Default)]
pub struct CudaOptions {
    /// The driver library; on the library path where it is not given.
    pub driver_path: Option<PathBuf>,
    /// The folder that holds NVRTC and its builtins; the library path where it is not given.
    pub nvrtc_path: Option<PathBuf>,
    /// The device's number.
    pub ordinal: usize,
}

/// A CUDA device.
///
/// All work goes to one stream, in the order of the calls; methods return before the device is done, except
/// [`download`](Self::download) and [`synchronize`](Self::synchronize).
#[derive(Debug)]
pub struct CudaDevice {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    compiler: Compiler,
    target: Target,
}

/// Does nothing; see [`choose_target`].
const PROBE: KernelSource = KernelSource::embedded("probe.cu", "extern \"C\" __global__ void probe() {}");

impl CudaDevice {
    /// Opens a device. Without a driver or a compiler this is an error that says which is missing.
    pub fn open(options: &CudaOptions) -> Result<Self, CudaError> {
        library::load_driver(options.driver_path.as_deref())?;
        let compiler = Compiler::find(options.nvrtc_path.as_deref())?;
        require_device(options.ordinal)?;
        let context = CudaContext::new(options.ordinal).during("opening the device")?;
        // SAFETY: everything this type hands out is made on and used by its one stream, which orders all accesses.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().during("creating a stream")?;
        let target = choose_target(&context, &compiler)?;
        Ok(Self { context, stream, compiler, target })
    }

    /// Says what is missing of what [`open`](Self::open) needs, without opening anything on the device.
    pub fn probe(options: &CudaOptions) -> Result<(), CudaError> {
        library::load_driver(options.driver_path.as_deref())?;
        Compiler::find(options.nvrtc_path.as_deref())?;
        require_device(options.ordinal)
    }

    /// The device's name.
    pub fn name(&self) -> Result<String, CudaError> {
        self.context.name().during("asking the device's name")
    }

    /// Bytes of its memory that nobody has taken.
    pub fn free_memory(&self) -> Result<u64, CudaError> {
        self.context.mem_get_info().during("asking for free device memory").map(|(free, _)| free as u64)
    }

    /// What kernels are compiled for on this device.
    #[must_use]
    pub fn target(&self) -> Target {
        self.target
    }

    /// Copies values to the device.
    pub fn upload<T: DeviceRepr + ValidAsZeroBits>(&self, values: &[T]) -> Result<CudaSlice<T>, CudaError> {
        let mut buffer = self.zeros(values.len())?;
        if !values.is_empty() {
            self.stream.memcpy_htod(values, &mut buffer).during("copying to the device")?;
        }
        Ok(buffer)
    }

    /// Copies values over the first ones of a buffer.
    pub fn overwrite<T: DeviceRepr>(&self, buffer: &mut CudaSlice<T>, values: &[T]) -> Result<(), CudaError> {
        require("values for a buffer", values.len(), values.len() <= buffer.len(), || {
            format!("at most {}", buffer.len())
        })?;
        if values.is_empty() {
            return Ok(());
        }
        self.stream.memcpy_htod(values, buffer).during("copying to the device")
    }

    /// Allocates values that are all zero bits. An empty buffer still has an address.
    pub fn zeros<T: DeviceRepr + ValidAsZeroBits>(&self, length: usize) -> Result<CudaSlice<T>, CudaError> {
        self.stream.alloc_zeros(length.max(1)).during("allocating device memory")
    }

    /// Copies values from the device, after all work so far.
    pub fn download<T: DeviceRepr + ValidAsZeroBits + Clone>(
        &self,
        buffer: &impl DevicePtr<T>,
    ) -> Result<Vec<T>, CudaError> {
        let values = self.stream.clone_dtoh(buffer).during("copying from the device")?;
        self.synchronize()?;
        Ok(values)
    }

    /// Waits for all work so far, and reports the first failure of it.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.stream.synchronize().during("running kernels")
    }

    /// Compiles a program for this device and loads it.
    pub(super) fn load(&self, program: &Program) -> Result<LoadedModule, CudaError> {
        let Compiled { image, log } = self.compiler.compile(program, self.target)?;
        let module = self.context.load_module(image).during("loading a compiled kernel")?;
        Ok(LoadedModule { module, log })
    }

    pub(super) fn context_and_stream(&self) -> (&CudaContext, &Arc<CudaStream>) {
        (&self.context, &self.stream)
    }

    pub(super) fn launch_builder<'a>(&'a self, function: &'a CudaFunction) -> LaunchArgs<'a> {
        self.stream.launch_builder(function)
    }

    /// Bytes by which a buffer's start misses the 16-byte boundary that vector loads need.
    pub(super) fn misalignment<T>(&self, buffer: &impl DevicePtr<T>) -> usize {
        let (address, _guard) = buffer.device_ptr(&self.stream);
        (address % 16) as usize
    }
}

fn require_device(ordinal: usize) -> Result<(), CudaError> {
    let devices = CudaContext::device_count().during("starting the driver")?;
    let devices = usize::try_from(devices).unwrap_or(0);
    if ordinal < devices { Ok(()) } else { Err(CudaError::NoDevice { ordinal, devices }) }
}

/// A compiled program on the device.
pub(super) struct LoadedModule {
    module: Arc<CudaModule>,
    /// The compiler's messages.
    pub(super) log: String,
}

impl LoadedModule {
    pub(super) fn function(&self, name: &str) -> Result<CudaFunction, CudaError> {
        self.module.load_function(name).during("finding a kernel in its module")
    }

    /// A kernel that is launched with `bytes` of dynamic shared memory, which may be more than kernels get unasked.
    pub(super) fn function_with_shared(&self, name: &str, bytes: u32) -> Result<CudaFunction, CudaError> {
        let function = self.function(name)?;
        function
            .set_attribute(
                CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                bytes.cast_signed(),
            )
            .during("asking for shared memory")?;
        Ok(function)
    }
}

/// Decides between machine code and PTX by offering the driver machine code.
///
/// Machine code is what a GPU should get: it cannot fail later in a driver's own compiler. A driver that runs PTX
/// itself, as an interpreter does, says that machine code is not for its device; and a GPU newer than the compiler is
/// served by PTX as well. Names and versions would be guesses at either.
fn choose_target(context: &Arc<CudaContext>, compiler: &Compiler) -> Result<Target, CudaError> {
    let (major, minor) = context.compute_capability().during("asking the compute capability")?;
    let (major, minor) = (major.cast_unsigned(), minor.cast_unsigned());
    if major < 8 {
        return Err(CudaError::Unsupported {
            what: "the device's compute capability (times ten)",
            value: (10 * major + minor) as usize,
            supported: "80 and above",
        });
    }
    if !compiler.supports(major, minor) {
        return Ok(Target::Ptx);
    }
    let target = Target::Cubin { major, minor };
    let program = Program { source: PROBE, defines: Vec::new() };
    let probe = compiler.compile(&program, target)?;
    match context.load_module(probe.image) {
        Ok(_) => Ok(target),
        Err(DriverError(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU)) => Ok(Target::Ptx),
        Err(source) => Err(CudaError::Driver { action: "loading a compiled kernel", source }),
    }
}
