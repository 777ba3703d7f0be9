//! A CUDA device: its memory, its one stream, and kernels loaded for it.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cudarc::driver::result;
use cudarc::driver::sys::{CUdevice_attribute_enum, CUevent_flags, CUfunction_attribute_enum, CUresult};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, DriverError,
    LaunchArgs, ValidAsZeroBits,
};
use cudarc::nvrtc::Ptx;

use super::compiled_ahead::{AheadOfLoading, CompiledAhead};
use super::error::{CudaError, During, require};
use super::in_order::in_order;
use super::kernel_cache::KernelCache;
use super::library;
use super::nvrtc::{Compiled, Compiler, Program};
use super::prebuilt::{Prebuilt, probe};
use super::ptx;
use super::target::{Architecture, Target};

/// How to find a device and what is needed to use it.
#[derive(Debug, Clone, Default)]
pub struct CudaOptions {
    /// The driver library; on the library path where it is not given.
    pub driver_path: Option<PathBuf>,
    /// The folder that holds NVRTC and its builtins; the library path where it is not given.
    pub nvrtc_path: Option<PathBuf>,
    /// A folder of kernels that were compiled before. With it NVRTC need not be there, unless for what the folder lacks.
    pub prebuilt: Option<PathBuf>,
    /// Where compiled kernels are kept; none are where it is not given.
    pub kernel_cache: Option<Arc<KernelCache>>,
    /// The device's number.
    pub ordinal: usize,
}

/// What a device is and what its kernels are made by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The device's name.
    pub name: String,
    /// Major and minor number.
    pub compute_capability: (u32, u32),
    /// The version of CUDA that the driver is made for.
    pub driver: (u32, u32),
    /// The version of the compiler; none where all kernels have been compiled elsewhere.
    pub compiler: Option<String>,
}

/// A CUDA device.
///
/// All work goes to one stream, in the order of the calls; methods return before the device is done, except
/// [`download`](Self::download) and [`synchronize`](Self::synchronize).
#[derive(Debug)]
pub struct CudaDevice {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    images: Images,
    target: Target,
    ahead: AheadOfLoading,
    loaded: Mutex<Vec<Program>>,
}

/// Where the code of kernels comes from.
#[derive(Debug)]
struct Images {
    prebuilt: Option<Prebuilt>,
    /// Or why there is none.
    compiler: Result<Compiler, String>,
    cache: Option<Arc<KernelCache>>,
}

impl Images {
    fn find(options: &CudaOptions) -> Result<Self, CudaError> {
        let compiler = Compiler::find(options.nvrtc_path.as_deref());
        let prebuilt = options.prebuilt.clone().map(Prebuilt::new);
        let compiler = match (compiler, &prebuilt) {
            (Ok(compiler), _) => Ok(compiler),
            (Err(missing), None) => return Err(missing),
            (Err(missing), Some(_)) => Err(missing.to_string()),
        };
        Ok(Self { prebuilt, compiler, cache: options.kernel_cache.clone() })
    }

    /// What a device of a compute capability could be given, the best first.
    fn targets(&self, major: u32, minor: u32) -> Result<Vec<Target>, CudaError> {
        if major < 8 {
            return Err(CudaError::OldDevice { major, minor });
        }
        let mut targets = match &self.prebuilt {
            Some(prebuilt) => prebuilt.targets(major, minor)?,
            None => Vec::new(),
        };
        if let Ok(compiler) = &self.compiler {
            let own = compiler.supports(major, minor).then(|| Target::Cubin(Architecture::of(major, minor)));
            targets.extend(own.into_iter().chain([Target::Ptx]));
        }
        // Machine code before text that the driver would have to compile, wherever they come from.
        targets.sort_by_key(|&target| target == Target::Ptx);
        targets.dedup();
        if targets.is_empty() {
            return Err(self.lacks(format!("compute capability {major}.{minor}")));
        }
        Ok(targets)
    }

    fn get(&self, program: &Program, target: Target) -> Result<Compiled, CudaError> {
        if let Some(prebuilt) = &self.prebuilt
            && let Some(compiled) = prebuilt.get(program, target)?
        {
            return Ok(compiled);
        }
        match (&self.compiler, &self.cache) {
            (Ok(compiler), Some(cache)) => cache.compile(compiler, program, target),
            (Ok(compiler), None) => compiler.compile(program, target),
            (Err(_), _) => Err(self.lacks(format!("{program} for {target}"))),
        }
    }

    fn lacks(&self, what: String) -> CudaError {
        let folder = self.prebuilt.as_ref().map_or_else(PathBuf::new, |prebuilt| prebuilt.folder().to_owned());
        CudaError::NotPrebuilt { folder, what, compiler: self.compiler.as_ref().err().cloned().unwrap_or_default() }
    }
}

impl CudaDevice {
    /// Opens a device. Without a driver or a compiler this is an error that says which is missing.
    pub fn open(options: &CudaOptions) -> Result<Self, CudaError> {
        library::load_driver(options.driver_path.as_deref())?;
        let images = Images::find(options)?;
        let (major, minor) = capability(options.ordinal)?;
        let targets = images.targets(major, minor)?;
        let context = CudaContext::new(options.ordinal).during("opening the device")?;
        // SAFETY: everything this type hands out is made on and used by its one stream, which orders all accesses.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().during("creating a stream")?;
        let target = choose_target(&context, &images, &targets)?;
        Ok(Self { context, stream, images, target, ahead: AheadOfLoading::default(), loaded: Mutex::default() })
    }

    /// Says what is missing of what [`open`](Self::open) needs, without opening anything on the device.
    pub fn probe(options: &CudaOptions) -> Result<(), CudaError> {
        library::load_driver(options.driver_path.as_deref())?;
        let images = Images::find(options)?;
        let (major, minor) = capability(options.ordinal)?;
        images.targets(major, minor).map(drop)
    }

    /// The device's name.
    pub fn name(&self) -> Result<String, CudaError> {
        self.context.name().during("asking the device's name")
    }

    /// What decides how fast a kernel is, besides the kernel.
    pub fn facts(&self) -> Result<DeviceFacts, CudaError> {
        let (major, minor) = self.context.compute_capability().during("asking the compute capability")?;
        Ok(DeviceFacts {
            name: self.name()?,
            compute_capability: (major.cast_unsigned(), minor.cast_unsigned()),
            driver: library::driver_version()?,
            compiler: self.images.compiler.as_ref().ok().map(|compiler| compiler.version().to_owned()),
        })
    }

    /// Bytes of its memory that nobody has taken once all work so far is done, some of which gives back what was dropped.
    pub fn free_memory(&self) -> Result<u64, CudaError> {
        self.synchronize()?;
        self.context.mem_get_info().during("asking for free device memory").map(|(free, _)| free as u64)
    }

    /// What kernels are compiled for on this device.
    #[must_use]
    pub fn target(&self) -> Target {
        self.target
    }

    /// Compiles programs on so many threads, but for those that have been and are kept. Nothing is loaded here.
    ///
    /// One that does not compile keeps no other from it. Of several failures, that of the first of the programs is told.
    pub fn compile_ahead(&self, programs: &[Program], threads: NonZeroUsize) -> CompiledAhead {
        let mut ahead = CompiledAhead::default();
        let mut missing: Vec<&Program> = Vec::new();
        for program in programs {
            match self.ahead.find(program) {
                Some(kept) => ahead.add(Ok(kept)),
                None if !missing.contains(&program) => missing.push(program),
                None => {}
            }
        }
        let compile = |program: &&Program| Ok::<_, Infallible>(self.images.get(program, self.target));
        let Ok(compiled) = in_order(&missing, threads, compile);
        for (program, compiled) in missing.into_iter().zip(compiled) {
            ahead.add(compiled.map(|compiled| self.ahead.keep(program.clone(), compiled)));
        }
        ahead
    }

    /// The programs that were loaded on it so far, each once: what [`Prebuilt`] kernels have to have.
    #[must_use]
    pub fn loaded_programs(&self) -> Vec<Program> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How long the device takes for the work that a function submits.
    pub fn time(&self, submit: impl FnOnce() -> Result<(), CudaError>) -> Result<Duration, CudaError> {
        let event = || {
            let timed = Some(CUevent_flags::CU_EVENT_DEFAULT);
            self.stream.record_event(timed).during("recording an event")
        };
        let start = event()?;
        submit()?;
        let end = event()?;
        let milliseconds = start.elapsed_ms(&end).during("measuring time")?;
        Ok(Duration::from_secs_f32(milliseconds.max(0.0) / 1e3))
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
    pub fn overwrite<T: DeviceRepr>(&self, buffer: &mut impl DevicePtrMut<T>, values: &[T]) -> Result<(), CudaError> {
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

    /// Allocates values that are about to be written.
    pub(super) fn unwritten<T: DeviceRepr + ValidAsZeroBits>(&self, length: usize) -> Result<CudaSlice<T>, CudaError> {
        // SAFETY: there is no value of `T` that a driver's memory could not hold, and nothing here gives one out before it was
        // written.
        unsafe { self.stream.alloc(length.max(1)) }.during("allocating device memory")
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
        let Compiled { code, log } = match self.ahead.find(program) {
            Some(kept) => kept.1.clone(),
            None => self.images.get(program, self.target)?,
        };
        let module = load_code(&self.context, program, self.target, code)?;
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if !loaded.contains(program) {
            loaded.push(program.clone());
        }
        Ok(LoadedModule { module, context: self.context.clone(), log })
    }

    pub(super) fn context_and_stream(&self) -> (&CudaContext, &Arc<CudaStream>) {
        (&self.context, &self.stream)
    }

    /// The launch of a function, which has to have been loaded on this device.
    pub(super) fn launch_builder<'a>(&'a self, function: &'a LoadedFunction) -> Result<LaunchArgs<'a>, CudaError> {
        self.require_own(function)?;
        Ok(self.stream.launch_builder(&function.function))
    }

    /// Refuses a function that was loaded on another device.
    pub(super) fn require_own(&self, function: &LoadedFunction) -> Result<(), CudaError> {
        // All openings of a device share a context.
        if function.context == self.context {
            return Ok(());
        }
        Err(CudaError::OtherDevice { of: function.context.ordinal(), with: self.context.ordinal() })
    }

    /// Bytes by which a buffer's start misses the 16-byte boundary that vector loads need.
    pub(super) fn misalignment<T>(&self, buffer: &impl DevicePtr<T>) -> usize {
        let (address, _guard) = buffer.device_ptr(&self.stream);
        (address % 16) as usize
    }
}

/// The compute capability of a device, which is there if this succeeds.
fn capability(ordinal: usize) -> Result<(u32, u32), CudaError> {
    let devices = match CudaContext::device_count() {
        // Without any, the driver does not even start.
        Err(DriverError(CUresult::CUDA_ERROR_NO_DEVICE)) => 0,
        devices => usize::try_from(devices.during("starting the driver")?).unwrap_or(0),
    };
    if ordinal >= devices {
        return Err(CudaError::NoDevice { ordinal, devices });
    }
    let device = result::device::get(ordinal as i32).during("opening the device")?;
    let number = |attribute| {
        // SAFETY: the device is one that the driver has just named.
        let number = unsafe { result::device::get_attribute(device, attribute) };
        number.during("asking the compute capability").map(i32::cast_unsigned)
    };
    Ok((
        number(CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        number(CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    ))
}

/// A compiled program on the device.
pub(super) struct LoadedModule {
    module: Arc<CudaModule>,
    context: Arc<CudaContext>,
    /// The compiler's messages.
    pub(super) log: String,
}

/// A function of a compiled program on the device.
#[derive(Debug)]
pub(super) struct LoadedFunction {
    function: CudaFunction,
    context: Arc<CudaContext>,
}

impl LoadedModule {
    pub(super) fn function(&self, name: &str) -> Result<LoadedFunction, CudaError> {
        let function = self.module.load_function(name).during("finding a kernel in its module")?;
        Ok(LoadedFunction { function, context: self.context.clone() })
    }

    /// A kernel that is launched with `bytes` of dynamic shared memory, which may be more than kernels get unasked.
    pub(super) fn function_with_shared(&self, name: &str, bytes: u32) -> Result<LoadedFunction, CudaError> {
        let function = self.function(name)?;
        function
            .function
            .set_attribute(
                CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                bytes.cast_signed(),
            )
            .during("asking for shared memory")?;
        Ok(function)
    }
}

/// Decides what the device gets by offering it a kernel of each target.
///
/// Machine code is what a GPU should get: it cannot fail later in a driver's own compiler. A driver that runs PTX
/// itself, as an interpreter does, says that machine code is not for its device; and a GPU newer than the compiler is
/// served by PTX as well. Names and versions would be guesses at either.
fn choose_target(context: &Arc<CudaContext>, images: &Images, targets: &[Target]) -> Result<Target, CudaError> {
    let probe = probe();
    let mut refusal = None;
    for &target in targets {
        match load_code(context, &probe, target, images.get(&probe, target)?.code) {
            Ok(_) => return Ok(target),
            Err(refused) => {
                let is_for_others = matches!(
                    refused,
                    CudaError::Load { source: DriverError(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU), .. }
                );
                refusal = Some(refused);
                if !is_for_others {
                    break;
                }
            }
        }
    }
    let none = DriverError(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
    Err(refusal.unwrap_or(CudaError::Load { kernel: probe.to_string(), source: none }))
}

fn load_code(
    context: &Arc<CudaContext>,
    program: &Program,
    target: Target,
    code: Vec<u8>,
) -> Result<Arc<CudaModule>, CudaError> {
    let (image, made_by) = match target {
        Target::Cubin(_) => (Ptx::from_binary(code), None),
        Target::Ptx => {
            // Text of the compiler, which is UTF-8 or comes out as something that the driver refuses.
            let text = String::from_utf8_lossy(&code);
            if text.contains('\0') {
                let source = DriverError(CUresult::CUDA_ERROR_INVALID_PTX);
                return Err(CudaError::Load { kernel: program.to_string(), source });
            }
            (Ptx::from_src(&*text), ptx::release(&text).map(str::to_owned))
        }
    };
    context.load_module(image).map_err(|source| {
        let refused = (target == Target::Ptx).then(|| ptx::refusal(source.0, made_by.as_deref())).flatten();
        let capability = || context.compute_capability().ok();
        match refused.and_then(|why| Some((why, capability()?))) {
            Some((why, (major, minor))) => {
                CudaError::PtxRefused { capability: (major.cast_unsigned(), minor.cast_unsigned()), why }
            }
            None => CudaError::Load { kernel: program.to_string(), source },
        }
    })
}
