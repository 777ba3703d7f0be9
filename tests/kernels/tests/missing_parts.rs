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
use kernels::cuda::{CudaDevice, CudaError, CudaOptions, Prebuilt, Program, SiluMul, SiluMulShape, Target};

const WIDTH: usize = 64;
/// One that is not among the prebuilt kernels.
const OTHER_WIDTH: usize = 72;
const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

fn program() -> Program {
    SiluMul::program(SiluMulShape { width: WIDTH }, SiluMul::SOURCE).unwrap()
}

/// What opening a device and running a kernel on it comes to in a process of its own.
fn outcome(options: &CudaOptions) -> String {
    outcome_of(&mut Command::new(std::env::current_exe().unwrap()), options, None)
}

/// The same with a model in the kernel's place.
fn outcome_with(options: &CudaOptions, model: &PathBuf) -> String {
    outcome_of(&mut Command::new(std::env::current_exe().unwrap()), options, Some(model))
}

/// The same as the first where the library path begins with these folders.
fn outcome_beside(folders: &[&Path], options: &CudaOptions) -> String {
    let path = std::env::join_paths(folders).unwrap();
    outcome_of(Command::new(std::env::current_exe().unwrap()).env("LD_LIBRARY_PATH", path), options, None)
}

fn outcome_of(program: &mut Command, options: &CudaOptions, model: Option<&PathBuf>) -> String {
    let mut child = program
        .args(["--exact", "in_a_process_of_its_own", "--ignored", "--nocapture"])
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

#[test]
#[ignore = "the other tests run it"]
fn in_a_process_of_its_own() {
    let mut lines = String::new();
    std::io::stdin().read_to_string(&mut lines).unwrap();
    let mut paths = lines.lines().map(|line| (!line.is_empty()).then(|| PathBuf::from(line)));
    let mut path = || paths.next().flatten();
    let options = CudaOptions { driver_path: path(), nvrtc_path: path(), prebuilt: path(), ..CudaOptions::default() };
    let model = path();
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

/// A driver of some version of CUDA with a device of some compute capability.
fn driver(folder: &Path, version: usize, (major, minor): (usize, usize)) -> PathBuf {
    let path = folder.join("libcuda.so");
    let code = format!(
        "int cuDriverGetVersion(int *version) {{ *version = {version}; return 0; }}\n\
         int cuInit(unsigned flags) {{ return 0; }}\n\
         int cuDeviceGetCount(int *count) {{ *count = 1; return 0; }}\n\
         int cuDeviceGet(int *device, int ordinal) {{ *device = ordinal; return 0; }}\n\
         int cuDeviceGetAttribute(int *value, int attribute, int device) {{\n\
           *value = attribute == 75 ? {major} : attribute == 76 ? {minor} : 0; return 0; }}\n"
    );
    library(&path, "libcuda.so", &code);
    path
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

#[test]
fn no_compiler() {
    let said = outcome(&CudaOptions { nvrtc_path: None, ..options() });
    // Some machines have one of their own.
    let missing = "probe: no CUDA compiler: NVRTC (libnvrtc.so) is not on the library path";
    assert!(said.contains(missing) || said.contains("opened"));
    let folder = tempfile::tempdir().unwrap();
    let said = outcome(&CudaOptions { nvrtc_path: Some(folder.path().to_owned()), ..options() });
    assert!(said.contains(&format!("is not in {}", folder.path().display())));
}

#[test]
fn a_compiler_of_another_generation() {
    let folder = tempfile::tempdir().unwrap();
    library(&folder.path().join("libnvrtc-builtins.so.12.4"), "libnvrtc-builtins.so.12.4", "int nothing;\n");
    let code = "int nvrtcVersion(int *major, int *minor) { *major = 12; *minor = 4; return 0; }\n";
    library(&folder.path().join("libnvrtc.so.12"), "libnvrtc.so.12", code);
    let said = outcome(&CudaOptions { nvrtc_path: Some(folder.path().to_owned()), ..options() });
    assert!(said.contains("is NVRTC 12.4, and this program works with NVRTC 13"), "{said}");
}

/// As on many machines: what the library path calls `libnvrtc.so` is of an older installation.
#[test]
fn a_compiler_of_another_generation_on_the_library_path() {
    let folder = tempfile::tempdir().unwrap();
    let code = "int nvrtcVersion(int *major, int *minor) { *major = 12; *minor = 4; return 0; }\n";
    library(&folder.path().join("libnvrtc.so"), "libnvrtc.so.12", code);
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
