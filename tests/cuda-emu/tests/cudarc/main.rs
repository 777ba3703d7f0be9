//! cudarc runs on the emulated driver as on the real one, errors included.

mod deferred;
mod graphs;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{CUfunction_attribute_enum as Attribute, CUresult};
use cudarc::driver::{CudaContext, CudaFunction, CudaSlice, CudaStream, DriverError, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

/// `doubled(u32 *values, u32 count)` doubles its values; `shifted(u32 *values, u64 bytes)` writes beside them;
/// `shared(u32 *out)` uses dynamic shared memory.
const PTX: &str = "
.version 9.0
.target sm_80
.address_size 64

.extern .shared .align 16 .b8 dynamic[];

.visible .entry doubled(
    .param .u64 doubled_param_0,
    .param .u32 doubled_param_1
)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<5>;

    ld.param.u64 %rd1, [doubled_param_0];
    ld.param.u32 %r1, [doubled_param_1];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.s32 %p1, %r5, %r1;
    @%p1 bra $L_end;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.s32 %rd3, %r5, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.u32 %r6, [%rd4];
    shl.b32 %r7, %r6, 1;
    st.global.u32 [%rd4], %r7;
$L_end:
    ret;
}

.visible .entry shifted(
    .param .u64 shifted_param_0,
    .param .u64 shifted_param_1
)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<5>;

    ld.param.u64 %rd1, [shifted_param_0];
    ld.param.u64 %rd2, [shifted_param_1];
    cvta.to.global.u64 %rd3, %rd1;
    add.s64 %rd4, %rd3, %rd2;
    mov.u32 %r1, 1;
    st.global.u32 [%rd4], %r1;
    ret;
}

.visible .entry shared(
    .param .u64 shared_param_0
)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;

    ld.param.u64 %rd1, [shared_param_0];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, 7;
    st.shared.u32 [dynamic], %r1;
    ld.shared.u32 %r2, [dynamic];
    st.global.u32 [%rd2], %r2;
    ret;
}
";

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn library() -> Library {
    let mut path = std::env::current_exe().unwrap();
    path.set_file_name("libcuda_emu.so");
    // SAFETY: the library is this project's and runs nothing when it is opened.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) };
    library.expect("cargo builds the library beside its tests")
}

/// A context of its own for each test: a failed one stays failed until it is gone.
fn context() -> (MutexGuard<'static, ()>, Arc<CudaContext>) {
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    drop(library());
    (guard, CudaContext::new(0).unwrap())
}

fn function(context: &Arc<CudaContext>, name: &str) -> CudaFunction {
    let module = context.load_module(Ptx::from_src(PTX)).unwrap();
    module.load_function(name).unwrap()
}

fn one_thread(shared_mem_bytes: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes }
}

/// Launches `doubled` for the first `count` numbers.
fn double(stream: &Arc<CudaStream>, doubled: &CudaFunction, buffer: &mut CudaSlice<u32>, count: u32) -> CUresult {
    let mut launch = stream.launch_builder(doubled);
    launch.arg(buffer).arg(&count);
    // SAFETY: the arguments are those of the kernel.
    code(unsafe { launch.launch(LaunchConfig::for_num_elems(count)) })
}

fn code<T>(result: Result<T, DriverError>) -> CUresult {
    result.err().map_or(CUresult::CUDA_SUCCESS, |error| error.0)
}

#[test]
fn memory_streams_events_and_launches_work() {
    let (_guard, context) = context();
    use_memory_streams_events_and_launches(&context);
}

fn use_memory_streams_events_and_launches(context: &Arc<CudaContext>) {
    assert_eq!(context.name().unwrap(), "PTX interpreter");
    assert_eq!(context.compute_capability().unwrap(), (8, 0));
    let stream = context.new_stream().unwrap();
    let values: Vec<u32> = (0..1000).collect();
    let (free, _) = context.mem_get_info().unwrap();
    let mut buffer = stream.clone_htod(&values).unwrap();
    assert_eq!(context.mem_get_info().unwrap().0, free - 4000);
    let doubled = function(context, "doubled");
    let start = stream.record_event(None).unwrap();
    assert_eq!(double(&stream, &doubled, &mut buffer, 1000), CUresult::CUDA_SUCCESS);
    let end = stream.record_event(None).unwrap();
    stream.wait(&end).unwrap();
    stream.synchronize().unwrap();
    assert!(end.is_complete() && start.elapsed_ms(&end).unwrap() >= 0.0);
    let copy = stream.clone_dtod(&buffer).unwrap();
    stream.memset_zeros(&mut buffer).unwrap();
    assert!(stream.clone_dtoh(&buffer).unwrap().iter().all(|&value| value == 0));
    let found = stream.clone_dtoh(&copy).unwrap();
    assert!(found.iter().zip(&values).all(|(found, value)| *found == 2 * value));
    drop((buffer, copy));
    stream.synchronize().unwrap();
    assert_eq!(context.mem_get_info().unwrap().0, free);
}

#[test]
fn a_fault_comes_with_the_next_call_and_stays_until_the_context_is_gone() {
    let (guard, context) = context();
    // cudarc's events would be the next call.
    // SAFETY: there is one stream.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().unwrap();
    let mut buffer = stream.alloc_zeros::<u32>(4).unwrap();
    let shifted = function(&context, "shifted");
    let mut launch = stream.launch_builder(&shifted);
    launch.arg(&mut buffer).arg(&16_u64);
    // SAFETY: none; that is what is tested.
    unsafe { launch.launch(one_thread(0)) }.unwrap();
    for _ in 0..2 {
        assert_eq!(code(stream.synchronize()), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        assert_eq!(code(stream.alloc_zeros::<u32>(4)), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    }
    drop((buffer, shifted, stream, context));
    drop(guard);
    let (_guard, context) = self::context();
    context.new_stream().unwrap().synchronize().unwrap();
}

#[test]
fn a_misaligned_address_has_a_code_of_its_own() {
    let (_guard, context) = context();
    // cudarc's events would be the next call.
    // SAFETY: there is one stream.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().unwrap();
    let mut buffer = stream.alloc_zeros::<u32>(4).unwrap();
    let shifted = function(&context, "shifted");
    let mut launch = stream.launch_builder(&shifted);
    launch.arg(&mut buffer).arg(&2_u64);
    // SAFETY: none; that is what is tested.
    unsafe { launch.launch(one_thread(0)) }.unwrap();
    assert_eq!(code(stream.synchronize()), CUresult::CUDA_ERROR_MISALIGNED_ADDRESS);
}

#[test]
fn refused_calls_do_no_harm() {
    let (_guard, context) = context();
    let stream = context.new_stream().unwrap();
    let refused = |image: Ptx| code(context.load_module(image));
    let elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    assert_eq!(refused(Ptx::from_binary(elf)), CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
    let nonsense = PTX.replace("shl.b32", "shl.nonsense");
    assert_eq!(refused(Ptx::from_src(nonsense)), CUresult::CUDA_ERROR_INVALID_PTX);
    let module = context.load_module(Ptx::from_src(PTX)).unwrap();
    assert_eq!(code(module.load_function("tripled")), CUresult::CUDA_ERROR_NOT_FOUND);

    let mut buffer = stream.alloc_zeros::<u32>(1).unwrap();
    let doubled = module.load_function("doubled").unwrap();
    let too_large = LaunchConfig { block_dim: (1025, 1, 1), ..one_thread(0) };
    let mut launch = stream.launch_builder(&doubled);
    launch.arg(&mut buffer).arg(&1_u32);
    // SAFETY: the arguments are those of the kernel.
    let refused = unsafe { launch.launch(too_large) };
    assert_eq!(code(refused), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(code(CudaContext::new(1)), CUresult::CUDA_ERROR_INVALID_DEVICE);
    stream.synchronize().unwrap();
}

#[test]
fn more_than_48_kib_of_shared_memory_must_be_asked_for() {
    const SIZE: u32 = 64 << 10;
    let (_guard, context) = context();
    let stream = context.new_stream().unwrap();
    let mut buffer = stream.alloc_zeros::<u32>(1).unwrap();
    let shared = function(&context, "shared");
    let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    let mut launch = |size| {
        let mut launch = stream.launch_builder(&shared);
        launch.arg(&mut buffer);
        // SAFETY: the argument is that of the kernel.
        code(unsafe { launch.launch(one_thread(size)) })
    };
    assert_eq!(launch(SIZE), CUresult::CUDA_ERROR_INVALID_VALUE);
    shared.set_attribute(attribute, SIZE as i32).unwrap();
    assert_eq!(shared.get_attribute(attribute).unwrap(), SIZE as i32);
    assert_eq!(launch(SIZE), CUresult::CUDA_SUCCESS);
    assert_eq!(code(shared.set_attribute(attribute, 200 << 10)), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(stream.clone_dtoh(&buffer).unwrap(), [7]);
}

#[test]
fn pinned_memory_is_memory() {
    let (_guard, context) = context();
    // SAFETY: it is written before it is read.
    let mut pinned = unsafe { context.alloc_pinned::<u64>(100) }.unwrap();
    pinned.as_mut_slice().unwrap().fill(9);
    let stream = context.new_stream().unwrap();
    let buffer = stream.clone_htod(&pinned).unwrap();
    assert_eq!(stream.clone_dtoh(&buffer).unwrap(), vec![9; 100]);
}
