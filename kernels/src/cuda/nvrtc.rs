//! Compiling kernel sources at run time.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::path::Path;

use cudarc::nvrtc::result::NvrtcError;
use cudarc::nvrtc::sys::{nvrtcProgram, nvrtcResult};

use super::error::{CudaError, During};
use super::nvrtc_library::Nvrtc;
use super::target::{Architecture, Target};

/// A kernel's source file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelSource {
    /// The file's name, as compiler messages and run-time checks give it.
    pub name: &'static str,
    /// CUDA C++.
    pub text: Cow<'static, str>,
}

impl KernelSource {
    /// A file of `kernels/cu`, embedded in this crate.
    pub(super) const fn embedded(name: &'static str, text: &'static str) -> Self {
        Self { name, text: Cow::Borrowed(text) }
    }
}

/// The headers that sources may include, by the name that they include them by.
const HEADERS: [(&str, &str); 5] = [
    ("common.cuh", include_str!("../../cu/common.cuh")),
    ("merging.cuh", include_str!("../../cu/merging.cuh")),
    ("attention.cuh", include_str!("../../cu/attention.cuh")),
    ("gemm.cuh", include_str!("../../cu/gemm.cuh")),
    ("product.cuh", include_str!("../../cu/product.cuh")),
];

/// A source together with the sizes it is compiled for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The source file.
    pub source: KernelSource,
    /// Macros that the source expects, with their values.
    pub defines: Vec<(&'static str, usize)>,
}

impl Program {
    /// What it is, for a human reader.
    pub(super) fn about(&self, target: Target, compiler: &Compiler) -> String {
        format!("{self} for {target}, by NVRTC {}", compiler.version())
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.source.name)?;
        self.defines.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// The texts that a source is compiled from, itself the first, by the names that messages and includes have for them.
pub(super) fn texts(source: &KernelSource) -> impl Iterator<Item = (&str, &str)> {
    std::iter::once((source.name, &*source.text)).chain(HEADERS)
}

/// What the compiler is asked for.
pub(super) fn options(program: &Program, target: Target) -> Vec<String> {
    let mut options = vec![
        target.option(),
        "--std=c++17".to_owned(),
        // Lets profilers, and checks of the PTX, name source lines. The code is the same.
        "-lineinfo".to_owned(),
        "--ptxas-options=-v".to_owned(),
        // Leaves out what no kernel here uses: textures, and types of the CUDA runtime.
        "--minimal".to_owned(),
    ];
    options.extend(program.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
    options
}

/// A compiled program.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// Machine code, or the text of PTX.
    pub code: Vec<u8>,
    /// The compiler's messages: registers and spills of each kernel, for machine code.
    pub log: String,
}

/// The run-time compiler.
#[derive(Debug)]
pub struct Compiler {
    nvrtc: Nvrtc,
    /// Compute capabilities it makes machine code for, as 10 * major + minor.
    architectures: Vec<u32>,
    /// What it writes above PTX: its version, build and parts.
    identity: String,
}

/// Compiled for what the compiler writes above it.
const NOTHING: KernelSource = KernelSource::embedded("nothing.cu", "");

impl Compiler {
    /// Finds NVRTC in `folder`, or on the library path where none is given.
    pub fn find(folder: Option<&Path>) -> Result<Self, CudaError> {
        let nvrtc = Nvrtc::open(folder)?;
        let mut compiler = Self { nvrtc, architectures: supported_architectures(&nvrtc)?, identity: String::new() };
        let nothing = compiler.compile(&Program { source: NOTHING, defines: Vec::new() }, Target::Ptx)?;
        let nothing = String::from_utf8_lossy(&nothing.code);
        compiler.identity = nothing.lines().take_while(|line| line.starts_with("//")).collect::<Vec<_>>().join("\n");
        Ok(compiler)
    }

    /// Which of all compilers it is: the same words mean the same code.
    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    /// Its version to the build, such as `13.0.88`.
    #[must_use]
    pub fn version(&self) -> &str {
        let version = self.identity.split_once(", V").map(|(_, rest)| rest);
        version.and_then(|rest| rest.split_whitespace().next()).unwrap_or("of unknown version")
    }

    /// Whether machine code can be made for a compute capability.
    #[must_use]
    pub fn supports(&self, major: u32, minor: u32) -> bool {
        self.architectures.contains(&Architecture::of(major, minor).number())
    }

    /// Compiles a program.
    pub fn compile(&self, program: &Program, target: Target) -> Result<Compiled, CudaError> {
        let source = &program.source;
        let handle = Handle::create(self.nvrtc, source)?;
        let options =
            options(program, target).iter().map(|option| text(source.name, option)).collect::<Result<Vec<_>, _>>()?;
        let option_pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the handle is a live program, and there are as many options as are announced.
        let outcome =
            unsafe { (self.nvrtc.compile)(handle.program, options.len() as i32, option_pointers.as_ptr()) }.result();
        if let Err(failure) = outcome {
            let (kernel, log) = (source.name.to_owned(), handle.log().unwrap_or_default());
            return Err(match failure {
                NvrtcError(nvrtcResult::NVRTC_ERROR_COMPILATION) => CudaError::Compile { kernel, log },
                source => CudaError::CompilerFailed { kernel, source, log },
            });
        }
        let log = handle.log()?;
        let code = match target {
            Target::Cubin(_) => handle.cubin()?,
            Target::Ptx => handle.ptx()?.into_bytes(),
        };
        Ok(Compiled { code, log })
    }
}

/// A program of the compiler, destroyed on drop.
struct Handle {
    nvrtc: Nvrtc,
    program: nvrtcProgram,
    // The program may refer to its text until it is destroyed.
    _texts: Vec<CString>,
}

impl Handle {
    fn create(nvrtc: Nvrtc, source: &KernelSource) -> Result<Self, CudaError> {
        // A rooted name: the compiler puts the working directory before any other, and messages would vary with it.
        let name = format!("/kernels/cu/{}", source.name);
        let source_text = text(source.name, &source.text)?;
        let source_name = text(source.name, &name)?;
        let mut headers = Vec::with_capacity(HEADERS.len());
        let mut header_names = Vec::with_capacity(HEADERS.len());
        for (name, content) in HEADERS {
            headers.push(text(name, content)?);
            header_names.push(text(name, name)?);
        }
        let header_pointers: Vec<_> = headers.iter().map(|header| header.as_ptr()).collect();
        let name_pointers: Vec<_> = header_names.iter().map(|name| name.as_ptr()).collect();
        let mut program = std::ptr::null_mut();
        // SAFETY: all strings outlive the program, and both arrays hold as many as are announced.
        unsafe {
            (nvrtc.create)(
                &raw mut program,
                source_text.as_ptr(),
                source_name.as_ptr(),
                HEADERS.len() as i32,
                header_pointers.as_ptr(),
                name_pointers.as_ptr(),
            )
        }
        .result()
        .during("creating a program")?;
        let texts = [source_text, source_name].into_iter().chain(headers).chain(header_names).collect();
        Ok(Self { nvrtc, program, _texts: texts })
    }

    fn log(&self) -> Result<String, CudaError> {
        let log = self.output((self.nvrtc.log_size, self.nvrtc.log), "reading the compiler's messages")?;
        // How long it took is all that is not the same each time.
        Ok(until_nul(&log).lines().filter(|line| !line.contains("Compile time")).collect::<Vec<_>>().join("\n"))
    }

    fn ptx(&self) -> Result<String, CudaError> {
        self.output((self.nvrtc.ptx_size, self.nvrtc.ptx), "reading PTX").map(|ptx| until_nul(&ptx))
    }

    fn cubin(&self) -> Result<Vec<u8>, CudaError> {
        self.output((self.nvrtc.cubin_size, self.nvrtc.cubin), "reading machine code")
    }

    /// What a function of the compiler writes, whose size another gives.
    fn output(&self, (size_of, write): (SizeOf, Write), action: &'static str) -> Result<Vec<u8>, CudaError> {
        let mut size = 0;
        // SAFETY: the handle is a live program, and the size is written to a local.
        unsafe { size_of(self.program, &raw mut size) }.result().during(action)?;
        let mut bytes = vec![0_u8; size];
        // SAFETY: the buffer has the size that the compiler asked for.
        unsafe { write(self.program, bytes.as_mut_ptr().cast()) }.result().during(action)?;
        Ok(bytes)
    }
}

type SizeOf = unsafe extern "C" fn(nvrtcProgram, *mut usize) -> nvrtcResult;
type Write = unsafe extern "C" fn(nvrtcProgram, *mut c_char) -> nvrtcResult;

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: created in `create`, destroyed once. A failure leaves a leak, which is nothing to act on.
        let _ = unsafe { (self.nvrtc.destroy)(&raw mut self.program) };
    }
}

fn text(kernel: &str, text: &str) -> Result<CString, CudaError> {
    CString::new(text)
        .map_err(|_| CudaError::Compile { kernel: kernel.to_owned(), log: "the text holds a NUL byte".to_owned() })
}

fn until_nul(bytes: &[u8]) -> String {
    CStr::from_bytes_until_nul(bytes)
        .map_or_else(|_| String::from_utf8_lossy(bytes).into_owned(), |text| text.to_string_lossy().into_owned())
}

fn supported_architectures(nvrtc: &Nvrtc) -> Result<Vec<u32>, CudaError> {
    let mut count = 0;
    // SAFETY: the count is written to a local.
    unsafe { (nvrtc.architecture_count)(&raw mut count) }.result().during("listing architectures")?;
    let mut architectures = vec![0_i32; usize::try_from(count).unwrap_or(0)];
    // SAFETY: the buffer has the length that the compiler asked for.
    unsafe { (nvrtc.architectures)(architectures.as_mut_ptr()) }.result().during("listing architectures")?;
    Ok(architectures.into_iter().map(i32::cast_unsigned).collect())
}
