//! A driver, a compiler or kernels that are missing, too old or broken: an error that says what, and what would help.
//!
//! A process keeps the libraries that it has opened, so each case is looked at in a process of its own.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::model::{CudaChoices, CudaDecoder, DecodeKernel, cuda};
use engine::runner::{Logits, Runner, RunnerLimits};
use kernel_tests::{compiler, compiler_folder, options};
use kernels::cpu::Workers;
use kernels::cuda::check::SiluMulProblem;
use kernels::cuda::{
    CudaDevice, CudaError, CudaOptions, Gemm, GemmTile, GemmTiles, Prebuilt, Program, Rows, RowsMut, SiluMul,
    SiluMulArgs, SiluMulShape, Target,
};

const WIDTH: usize = 64;
/// One that is not among the prebuilt kernels.
const OTHER_WIDTH: usize = 72;
const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

fn program() -> Program {
    SiluMul::program(SiluMulShape { width: WIDTH }, SiluMul::SOURCE).unwrap()
}

/// What opening a device and running a kernel on it comes to in a process of its own.
fn outcome(options: &CudaOptions) -> String {
    outcome_of(&mut this_program(), options, None)
}

/// The same with a model in the kernel's place.
fn outcome_with(options: &CudaOptions, model: &PathBuf) -> String {
    outcome_of(&mut this_program(), options, Some(model))
}

/// The same as the first where the library path begins with these folders.
fn outcome_beside(folders: &[&Path], options: &CudaOptions) -> String {
    let path = std::env::join_paths(folders).unwrap();
    outcome_of(this_program().env("LD_LIBRARY_PATH", path), options, None)
}

fn this_program() -> Command {
    Command::new(std::env::current_exe().unwrap())
}

fn outcome_of(program: &mut Command, options: &CudaOptions, model: Option<&PathBuf>) -> String {
    outcome_in("in_a_process_of_its_own", program, options, model)
}

/// What one of the tests below prints that the others run.
fn outcome_in(test: &str, program: &mut Command, options: &CudaOptions, model: Option<&PathBuf>) -> String {
    let mut child = program
        .args(["--exact", test, "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let paths = [&options.driver_path, &options.nvrtc_path, &options.prebuilt].map(Option::as_ref);
    let paths = paths.into_iter().chain([model]);
    let lines = paths.fold(String::new(), |mut lines, path| {
        let _ = writeln!(lines, "{}", path.map_or("", |path| path.to_str().unwrap()));
        lines
    });
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    println!("{said}");
    said
}

/// What the process that runs this was told, and the model if there is one.
fn told() -> (CudaOptions, Option<PathBuf>) {
    let mut lines = String::new();
    std::io::stdin().read_to_string(&mut lines).unwrap();
    let mut paths = lines.lines().map(|line| (!line.is_empty()).then(|| PathBuf::from(line)));
    let mut path = || paths.next().flatten();
    let options = CudaOptions { driver_path: path(), nvrtc_path: path(), prebuilt: path(), ..CudaOptions::default() };
    (options, path())
}

#[test]
#[ignore = "the other tests run it"]
fn in_a_process_of_its_own() {
    let (options, model) = told();
    if let Err(error) = CudaDevice::probe(&options) {
        println!("probe: {error}");
        return;
    }
    match CudaDevice::open(&options) {
        Err(error) => println!("open: {error}"),
        Ok(device) => {
            println!("opened for {}", device.target());
            if let Some(model) = model {
                return match run_model(device, &model) {
                    Ok(()) => println!("the model runs"),
                    Err(error) => println!("model: {error}"),
                };
            }
            for width in [WIDTH, OTHER_WIDTH] {
                match run(&device, width) {
                    Ok(is_right) => println!("width {width}: right {is_right}"),
                    Err(error) => println!("width {width}: {error}"),
                }
            }
        }
    }
}

fn run(device: &CudaDevice, width: usize) -> Result<bool, CudaError> {
    let shape = SiluMulShape { width };
    let problem = SiluMulProblem::random(shape, 5, 0, 1);
    let (found, guards_intact) = problem.run(device, &SiluMul::compile(device, shape)?)?;
    Ok(problem.compare(&found).holds() && guards_intact)
}

const CHOICES: CudaChoices =
    CudaChoices { page_size: 16, decode: DecodeKernel::SplitKv { tokens: 256 }, graphs: true, settings_key: 0 };

/// A prompt, and a token after it.
fn run_model(device: CudaDevice, model: &Path) -> engine::Result<()> {
    let checkpoint = Checkpoint::open(model, LoadFormat::Auto)?;
    let workers = Workers::new(NonZeroUsize::MIN).expect("threads start");
    let model = CudaDecoder::load(&checkpoint.plan()?, &workers, device, CHOICES)?;
    let limits = RunnerLimits { page_size: 16, pool_pages: 4, chunked_prefill_size: 20, context_length: Some(64) };
    let mut runner = Runner::on_cuda(model, limits)?;
    let mut sequence = runner.start();
    for tokens in [&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18][..], &[19]] {
        runner.extend(&mut sequence, tokens, Logits::All)?;
    }
    runner.release(sequence)
}

#[test]
fn a_model_runs_on_prebuilt_kernels_alone() {
    let targets = ["ptx".parse().unwrap()];
    for name in ["llama", "qwen3_moe"] {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models").join(name);
        let folder = tempfile::tempdir().unwrap();
        let checkpoint = Checkpoint::open(&model, LoadFormat::Dummy).unwrap();
        let programs = cuda::programs(&checkpoint.plan().unwrap(), CHOICES.page_size, CHOICES.decode).unwrap();
        Prebuilt::new(folder.path().to_owned()).build(&compiler(), &programs, &targets, TWO).unwrap();
        let without = CudaOptions { nvrtc_path: None, prebuilt: Some(folder.path().to_owned()), ..options() };
        assert!(outcome_with(&without, &model).contains("the model runs"), "{name}");
    }
}

/// A shared library of C functions.
fn library(path: &Path, name: &str, code: &str) {
    let mut compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-x", "c", "-", &format!("-Wl,-soname,{name}"), "-o"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    compiler.stdin.take().unwrap().write_all(code.as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success());
}

/// A driver of some version of CUDA with two devices of some compute capability.
fn driver(folder: &Path, version: usize, capability: (usize, usize)) -> PathBuf {
    let path = folder.join("libcuda.so");
    library(&path, "libcuda.so", &driver_code(version, capability));
    path
}

fn driver_code(version: usize, (major, minor): (usize, usize)) -> String {
    format!(
        "int cuDriverGetVersion(int *version) {{ *version = {version}; return 0; }}\n\
         int cuInit(unsigned flags) {{ return 0; }}\n\
         int cuDeviceGetCount(int *count) {{ *count = 2; return 0; }}\n\
         int cuDeviceGet(int *device, int ordinal) {{ *device = ordinal; return 0; }}\n\
         int cuDeviceGetAttribute(int *value, int attribute, int device) {{\n\
           *value = attribute == 75 ? {major} : attribute == 76 ? {minor} : 0; return 0; }}\n"
    )
}

/// What a driver needs besides for devices that load any code, or answer so to machine code and to PTX, and run nothing.
fn loading(machine_code: usize, ptx: usize) -> String {
    format!(
        "typedef unsigned long Handle;\n\
         static __thread Handle current;\n\
         int cuGetErrorString(int code, const char **text) {{ *text = \"some words\"; return 0; }}\n\
         int cuDevicePrimaryCtxRetain(Handle *context, int device) {{ *context = 100 + device; return 0; }}\n\
         int cuDevicePrimaryCtxRelease_v2(int device) {{ return 0; }}\n\
         int cuCtxGetCurrent(Handle *context) {{ *context = current; return 0; }}\n\
         int cuCtxSetCurrent(Handle context) {{ current = context; return 0; }}\n\
         int cuStreamCreate(Handle *stream, unsigned flags) {{ *stream = 1000 + current; return 0; }}\n\
         int cuStreamDestroy_v2(Handle stream) {{ return 0; }}\n\
         int cuStreamSynchronize(Handle stream) {{ return 0; }}\n\
         int cuModuleLoadData(Handle *module, const char *image) {{\n\
           *module = 1; return image[0] == 0x7f ? {machine_code} : {ptx}; }}\n\
         int cuModuleUnload(Handle module) {{ return 0; }}\n\
         int cuModuleGetFunction(Handle *function, Handle module, const char *name) {{ *function = 1; return 0; }}\n\
         int cuFuncSetAttribute(Handle function, int attribute, int value) {{ return 0; }}\n\
         int cuMemAlloc_v2(unsigned long *address, unsigned long bytes) {{ *address = 4096; return 0; }}\n\
         int cuMemFree_v2(unsigned long address) {{ return 0; }}\n\
         int cuMemsetD8Async(unsigned long to, unsigned char value, unsigned long count, Handle stream) {{ return 0; }}\n\
         int cuLaunchKernel(Handle function) {{ return 0; }}\n"
    )
}

/// What the CUDA toolkit has in the driver's place, for linking programs. It says that it is the driver.
fn stub(path: &Path) {
    library(path, "libcuda.so.1", "int cuDriverGetVersion(int *version) { return 34; }\n");
}

#[test]
fn no_driver() {
    let options = CudaOptions { nvrtc_path: Some(compiler_folder()), ..CudaOptions::default() };
    let said = outcome(&options);
    // A machine with a GPU has a driver.
    assert!(said.contains("probe: no CUDA driver: libcuda.so is not on the library path") || said.contains("opened"));
}

#[test]
fn a_driver_that_is_too_old() {
    let folder = tempfile::tempdir().unwrap();
    let options = CudaOptions { driver_path: Some(driver(folder.path(), 12_040, (9, 0))), ..options() };
    let said = outcome(&options);
    assert!(said.contains("probe: the CUDA driver is of version 12.4, and the kernels need one of 13.0 or later"));
}

#[test]
fn a_device_that_is_too_old() {
    let folder = tempfile::tempdir().unwrap();
    let options = CudaOptions { driver_path: Some(driver(folder.path(), 13_010, (7, 5))), ..options() };
    let said = outcome(&options);
    assert!(said.contains("probe: the device's compute capability is 7.5; the kernels need 8.0 or above"));
}

/// As where the driver is installed on a machine that has lost its GPU.
#[test]
fn a_driver_without_a_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libcuda.so");
    let code = "int cuDriverGetVersion(int *version) { *version = 13010; return 0; }\n\
                int cuInit(unsigned flags) { return 100; }\n";
    library(&path, "libcuda.so", code);
    let said = outcome(&CudaOptions { driver_path: Some(path), ..options() });
    assert!(said.contains("probe: no CUDA device 0: the driver reports none"), "{said}");
}

#[test]
fn a_driver_that_fails_is_told_in_its_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libcuda.so");
    library(&path, "libcuda.so", &(driver_code(13_000, (9, 0)) + &loading(200, 0)));
    let said = outcome(&CudaOptions { driver_path: Some(path), ..options() });
    assert!(said.contains("open: loading probe.cu: CUDA_ERROR_INVALID_IMAGE (some words)"), "{said}");
}

#[test]
fn a_stub_is_told_from_a_driver() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libcuda.so");
    stub(&path);
    let words = "is no CUDA driver: it is the stub of it that the CUDA toolkit has for linking programs";
    let said = outcome(&CudaOptions { driver_path: Some(path.clone()), ..options() });
    assert!(said.contains(&format!("probe: {} {words}", path.display())), "{said}");
    let said = outcome_beside(&[folder.path()], &CudaOptions { driver_path: None, ..options() });
    // A machine with a GPU has a driver.
    assert!(said.contains(&format!("probe: libcuda.so {words}")) || said.contains("opened"), "{said}");
}

/// As where somebody has put the toolkit's folder of stubs on the library path: what cudarc would open is none.
#[test]
fn a_driver_is_found_behind_a_stub() {
    let (stubs, drivers) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    stub(&stubs.path().join("libcuda.so"));
    let path = drivers.path().join("libcuda.so.1");
    library(&path, "libcuda.so.1", &driver_code(12_040, (9, 0)));
    let found = "probe: the CUDA driver is of version 12.4";
    let folders = [stubs.path(), drivers.path()];
    let said = outcome_beside(&folders, &CudaOptions { driver_path: None, ..options() });
    assert!(said.contains(found), "by name: {said}");
    let said = outcome_beside(&folders[..1], &CudaOptions { driver_path: Some(path.clone()), ..options() });
    assert!(said.contains(found), "by path: {said}");
    // Whatever its file and the library itself are called.
    let path = drivers.path().join("libother.so");
    library(&path, "libother.so", &driver_code(12_030, (9, 0)));
    let said = outcome_beside(&folders, &CudaOptions { driver_path: Some(path), ..options() });
    assert!(said.contains("probe: the CUDA driver is of version 12.3"), "by path, of another name: {said}");
}

#[test]
fn a_broken_driver_is_not_told_to_be_missing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("libcuda.so.1"), "not a library").unwrap();
    let said = outcome_beside(&[folder.path()], &CudaOptions { driver_path: None, ..options() });
    assert!(said.contains("probe: libcuda.so.1 does not load: ") && said.contains("file too short"), "{said}");
}

/// A GPU that is newer than the compiler, and drivers that do nothing with PTX.
#[test]
fn ptx_that_a_driver_does_not_take_is_explained() {
    let refusals = [
        (222, "one of version 13.0 does not know that of NVRTC 13.0: install a driver of CUDA 13.0 or later"),
        (221, "libnvidia-ptxjitcompiler.so.1, is not on the library path"),
        (223, "compiling it is switched off"),
    ];
    for (answer, why) in refusals {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libcuda.so");
        library(&path, "libcuda.so", &(driver_code(13_000, (19, 7)) + &loading(209, answer)));
        let said = outcome(&CudaOptions { driver_path: Some(path), ..options() });
        let device = "open: the device (compute capability 19.7) has to be given PTX";
        assert!(said.contains(device) && said.contains(why) && said.contains("--prebuilt"), "{answer}: {said}");
    }
}

#[test]
fn a_kernel_is_not_used_with_another_device_than_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libcuda.so");
    library(&path, "libcuda.so", &(driver_code(13_000, (9, 0)) + &loading(0, 0)));
    let options = CudaOptions { driver_path: Some(path), ..options() };
    let said = outcome_in("two_devices_in_a_process_of_their_own", &mut this_program(), &options, None);
    let refused = "a kernel that was loaded on device 0 is used with device 1: each needs its own";
    for expected in [
        "launched: nothing".to_owned(),
        "opened twice: nothing".to_owned(),
        format!("launched elsewhere: {refused}"),
        "prepared: nothing".to_owned(),
        format!("prepared elsewhere: {refused}"),
    ] {
        assert!(said.contains(&expected), "{expected}: {said}");
    }
}

#[test]
#[ignore = "another test runs it"]
fn two_devices_in_a_process_of_their_own() {
    let (options, _) = told();
    let open = |ordinal| CudaDevice::open(&CudaOptions { ordinal, ..options.clone() }).unwrap();
    let (own, again, other) = (open(0), open(0), open(1));
    let show = |what: &str, done: Result<(), CudaError>| {
        println!("{what}: {}", done.map_or_else(|error| error.to_string(), |()| "nothing".to_owned()));
    };
    let shape = SiluMulShape { width: WIDTH };
    let kernel = SiluMul::compile(&own, shape).unwrap();
    let launch = |device: &CudaDevice| {
        let gate_up = device.zeros::<u16>(2 * WIDTH)?;
        let mut output = device.zeros::<u16>(WIDTH)?;
        let gate_up = Rows { values: gate_up.as_view(), stride: 2 * WIDTH };
        let output = RowsMut { values: output.as_view_mut(), stride: WIDTH };
        device.silu_mul(&kernel, SiluMulArgs { gate_up, rows: 1, output })
    };
    show("launched", launch(&own));
    show("opened twice", launch(&again));
    show("launched elsewhere", launch(&other));
    let products = Gemm::new(GemmTiles::only(GemmTile::NARROW));
    show("prepared", products.prepare(&own, 1, 64, 64));
    show("prepared elsewhere", products.prepare(&other, 1, 64, 64));
}

#[test]
fn no_compiler() {
    let said = outcome(&CudaOptions { nvrtc_path: None, ..options() });
    // Some machines have one of their own.
    let missing = "probe: no CUDA compiler: libnvrtc.so.13, of NVRTC 13, is not on the library path";
    assert!(said.contains(missing) || said.contains("opened"));
    let folder = tempfile::tempdir().unwrap();
    let said = outcome(&CudaOptions { nvrtc_path: Some(folder.path().to_owned()), ..options() });
    assert!(said.contains(&format!("libnvrtc.so.13, of NVRTC 13, is not in {}", folder.path().display())));
}

/// A library that says to be NVRTC of some version.
fn other_compiler(folder: &Path, name: &str, (major, minor): (u32, u32)) {
    let code =
        format!("int nvrtcVersion(int *major, int *minor) {{ *major = {major}; *minor = {minor}; return 0; }}\n");
    library(&folder.join(name), &format!("libnvrtc.so.{major}"), &code);
}

#[test]
fn a_compiler_of_another_generation() {
    let folder = tempfile::tempdir().unwrap();
    let in_folder = || outcome(&CudaOptions { nvrtc_path: Some(folder.path().to_owned()), ..options() });
    other_compiler(folder.path(), "libnvrtc.so.12", (12, 4));
    let said = in_folder();
    let refused =
        format!("libnvrtc.so.13, of NVRTC 13, is not in {}, which has libnvrtc.so.12", folder.path().display());
    assert!(said.contains(&refused), "{said}");
    other_compiler(folder.path(), "libnvrtc.so", (12, 4));
    let said = in_folder();
    assert!(said.contains("is NVRTC 12.4, and this program works with NVRTC 13"), "{said}");
}

/// Whatever sorts before and after it.
#[test]
fn compilers_of_other_generations_beside_the_one_that_is_needed_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(compiler_folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.starts_with("libnvrtc") {
            std::os::unix::fs::symlink(path.canonicalize().unwrap(), folder.path().join(name)).unwrap();
        }
    }
    for (name, version) in [("libnvrtc.so", (12, 4)), ("libnvrtc.so.12", (12, 4)), ("libnvrtc.so.14", (14, 0))] {
        other_compiler(folder.path(), name, version);
    }
    for version in ["12.4", "13.9", "14.0"] {
        let name = format!("libnvrtc-builtins.so.{version}");
        library(&folder.path().join(&name), &name, "int nothing;\n");
    }
    let said = outcome(&CudaOptions { nvrtc_path: Some(folder.path().to_owned()), ..options() });
    assert!(said.contains("width 64: right true"), "{said}");
}

#[test]
fn a_compiler_without_its_builtins_is_not_told_to_be_missing() {
    let folder = tempfile::tempdir().unwrap();
    let compiler = compiler_folder().join("libnvrtc.so.13").canonicalize().unwrap();
    std::os::unix::fs::symlink(compiler, folder.path().join("libnvrtc.so.13")).unwrap();
    let in_folder = || outcome(&CudaOptions { nvrtc_path: Some(folder.path().to_owned()), ..options() });
    let missing = format!("libnvrtc-builtins.so.13.0, of NVRTC 13, is not in {}", folder.path().display());
    let said = in_folder();
    assert!(said.contains(&missing), "{said}");
    library(&folder.path().join("libnvrtc-builtins.so.12.4"), "libnvrtc-builtins.so.12.4", "int nothing;\n");
    let said = in_folder();
    assert!(said.contains(&format!("{missing}, which has libnvrtc-builtins.so.12.4")), "{said}");
    let said = outcome_beside(&[folder.path()], &CudaOptions { nvrtc_path: None, ..options() });
    assert!(said.contains("failed to open libnvrtc-builtins.so.13.0") || said.contains("opened"), "{said}");
}

#[test]
fn a_broken_compiler_is_not_told_to_be_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libnvrtc.so.13");
    let beside = || outcome_beside(&[folder.path()], &CudaOptions { nvrtc_path: None, ..options() });
    fs::write(&path, "not a library").unwrap();
    let said = beside();
    assert!(said.contains("probe: libnvrtc.so.13 does not load: ") && said.contains("file too short"), "{said}");
    let said = outcome(&CudaOptions { nvrtc_path: Some(folder.path().to_owned()), ..options() });
    assert!(said.contains(&format!("probe: {} does not load: ", path.display())), "{said}");
    // It is there, and what it needs is not.
    let needed = folder.path().join("libneeded.so");
    library(&needed, "libneeded.so", "int nothing;\n");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-Wl,--no-as-needed", "-Wl,-soname,libnvrtc.so.13", "-o"]).arg(&path).arg(&needed);
    assert!(compiler.status().unwrap().success());
    fs::remove_file(&needed).unwrap();
    let said = beside();
    assert!(said.contains("probe: libnvrtc.so.13 does not load: libneeded.so: cannot open"), "{said}");
}

/// As on many machines: what the library path calls `libnvrtc.so` is of an older installation.
#[test]
fn a_compiler_of_another_generation_on_the_library_path() {
    let folder = tempfile::tempdir().unwrap();
    other_compiler(folder.path(), "libnvrtc.so", (12, 4));
    let beside = |folders: &[&Path], nvrtc_path| outcome_beside(folders, &CudaOptions { nvrtc_path, ..options() });
    let (old, new) = (folder.path(), compiler_folder());
    assert!(beside(&[old], Some(new.clone())).contains("width 64: right true"), "the folder that is named");
    assert!(beside(&[old, &new], None).contains("width 64: right true"), "the version that is needed");
    let said = beside(&[old], None);
    let refused = "on the library path is NVRTC 12.4, and this program works with NVRTC 13";
    // Some machines have one of their own.
    assert!(said.contains(refused) || said.contains("opened"), "{said}");
}

#[test]
fn prebuilt_kernels_need_no_compiler() {
    let folder = tempfile::tempdir().unwrap();
    let targets = ["ptx", "sm_80", "sm_90"].map(|name| name.parse::<Target>().unwrap());
    let prebuilt = Prebuilt::new(folder.path().to_owned());
    prebuilt.build(&compiler(), &[program()], &targets, TWO).unwrap();
    let without = CudaOptions { nvrtc_path: None, prebuilt: Some(folder.path().to_owned()), ..options() };
    let said = outcome(&without);
    // The emulated device refuses the machine code, and takes the PTX.
    assert!(said.contains("opened for ptx") && said.contains("width 64: right true"));
    let lacking = "have none of silu_mul.cu WIDTH=72 VECTOR=8 for ptx, and nothing can compile it (no CUDA compiler";
    assert!(
        said.contains(lacking) && said.contains("cargo xtask kernels --prebuilt") || said.contains("width 72: right")
    );

    // With a compiler, what is not there is compiled.
    let said = outcome(&CudaOptions { nvrtc_path: Some(compiler_folder()), ..without.clone() });
    assert!(said.contains("width 64: right true") && said.contains("width 72: right true"));

    // A damaged file is not passed over: whoever asked for prebuilt kernels is to know.
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    let said = outcome(&without);
    assert!(said.contains("its hash is not that of its content: build it anew"));
}

#[test]
fn prebuilt_kernels_for_other_devices_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let without = CudaOptions { nvrtc_path: None, prebuilt: Some(folder.path().join("none")), ..options() };
    assert!(outcome(&without).contains("none: there is no such folder"));
    let prebuilt = Prebuilt::new(folder.path().to_owned());
    prebuilt.build(&compiler(), &[program()], &["sm_90".parse().unwrap()], TWO).unwrap();
    let without = CudaOptions { prebuilt: Some(folder.path().to_owned()), ..without };
    let said = outcome(&without);
    assert!(said.contains("have none of compute capability 8.0") || said.contains("opened"), "{said}");
}
