//! Modules, functions and launches.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};

use ptx_emu::LaunchConfig;

use super::{Handle, store};
use crate::code::{Answer, Code};
use crate::console::Call;
use crate::driver::{driver, in_context};
use crate::work::Work;

/// How machine code begins: an ELF file, or a container of several.
const ELF: [u8; 4] = *b"\x7fELF";
const FAT_BINARY: [u8; 4] = [0x50, 0xed, 0x55, 0xba];

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadData(module: *mut Handle, image: *const c_void) -> Code {
    // SAFETY: this function's contract covers both.
    unsafe { store(module, load(image)) }
}

/// # Safety
///
/// `image` is null, or points to machine code or to a NUL-terminated text.
unsafe fn load(image: *const c_void) -> Answer<Handle> {
    if image.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: either kind of image has a NUL somewhere, after these four bytes if it is machine code. A text shorter
    // than that is read up to its NUL.
    let text = unsafe { CStr::from_ptr(image.cast()) };
    if [ELF, FAT_BINARY].iter().any(|magic| text.to_bytes().starts_with(magic)) {
        return Err(Code::NO_BINARY_FOR_GPU);
    }
    let mut driver = driver();
    let (context, console) = driver.current()?;
    context.check()?;
    context.streams.refuse_unseen()?;
    console.count_allocation()?;
    let text = text.to_string_lossy();
    match context.load_module(&text) {
        Ok(module) => {
            console.code = with_code(console.code, &text);
            Ok(module)
        }
        Err(error) => {
            console.report(error.to_string());
            Err(Code::INVALID_PTX)
        }
    }
}

/// A number for the instructions of some PTX and for what was before, `so_far`.
fn with_code(so_far: u64, ptx: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    so_far.hash(&mut hasher);
    // Where a line comes from, and labels for debuggers, which stand where lines begin.
    let is_code = |line: &&str| !["//", ".loc", ".file", "$L__tmp"].iter().any(|other| line.starts_with(other));
    let code = ptx.lines().map(str::trim).take_while(|line| !line.starts_with(".section"));
    code.filter(is_code).for_each(|line| line.hash(&mut hasher));
    hasher.finish()
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(module: Handle) -> Code {
    in_context(|context, console| {
        context.streams.refuse_unseen()?;
        context.finish_all(console)?;
        context.unload_module(module)
    })
    .into()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) -> Code {
    if name.is_null() {
        return Code::INVALID_VALUE;
    }
    // SAFETY: not null, hence a C string by this function's contract.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    let answer = in_context(|context, _| context.find_function(module, name));
    // SAFETY: as above.
    unsafe { store(function, answer) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: Handle) -> Code {
    let answer = in_context(|context, _| {
        let (function, kernel) = context.kernel(function)?;
        let value = match attribute {
            // CU_FUNC_ATTRIBUTE_…: MAX_THREADS_PER_BLOCK, SHARED_SIZE_BYTES, CONST_SIZE_BYTES, LOCAL_SIZE_BYTES,
            // PTX_VERSION, MAX_DYNAMIC_SHARED_SIZE_BYTES. An interpreter has no registers to count (4).
            0 => kernel.max_threads(),
            1 => kernel.static_shared_bytes(),
            2 => 0,
            3 => kernel.local_bytes(),
            5 => 80,
            8 => function.dynamic_shared_limit(kernel),
            _ => return Err(Code::INVALID_VALUE),
        };
        Ok(value as c_int)
    });
    // SAFETY: as above.
    unsafe { store(value, answer) }
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int) -> Code {
    /// What a block of an `sm_80` device can opt in to.
    const MOST_SHARED: u32 = 163 << 10;
    in_context(|context, _| {
        let (_, kernel) = context.kernel(function)?;
        let fixed = kernel.static_shared_bytes();
        let value = u32::try_from(value).map_err(|_| Code::INVALID_VALUE)?;
        match attribute {
            8 if value.saturating_add(fixed) <= MOST_SHARED => {
                context.function_mut(function)?.max_dynamic_shared = Some(value);
                Ok(())
            }
            // The share of the L1 cache that is shared memory: a hint.
            9 => Ok(()),
            _ => Err(Code::INVALID_VALUE),
        }
    })
    .into()
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncSetCacheConfig(function: Handle, _config: c_int) -> Code {
    in_context(|context, _| context.kernel(function).map(drop)).into()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernel(
    function: Handle,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: Handle,
    parameters: *const *const c_void,
    extra: *const *const c_void,
) -> Code {
    // The other way to pass parameters, as one buffer, is not offered.
    if !extra.is_null() {
        return Code::INVALID_VALUE;
    }
    let config = LaunchConfig::new([grid_x, grid_y, grid_z], [block_x, block_y, block_z]).dynamic_shared(shared_bytes);
    in_context(|context, console| {
        console.allow(Call::Launch)?;
        if console.known_code == Some(console.code) {
            return Err(Code::NOT_PERMITTED);
        }
        let (attributes, kernel) = context.kernel(function)?;
        let config = LaunchConfig { max_dynamic_shared: attributes.max_dynamic_shared, ..config };
        let mut buffer = vec![0; kernel.param_bytes()];
        for (index, parameter) in kernel.params().iter().enumerate() {
            // SAFETY: the API has the caller pass, for each parameter of the kernel, a pointer to a value of its size.
            let value = unsafe {
                let from = parameters.add(index).read().cast::<u8>();
                std::slice::from_raw_parts(from, parameter.bytes)
            };
            buffer[parameter.offset..][..parameter.bytes].copy_from_slice(value);
        }
        context.submit(console, stream, Work::Launch { function, config, parameters: buffer }).map(drop)
    })
    .into()
}
