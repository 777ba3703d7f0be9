//! The folder of compiled kernels: with the real compiler, several processes, and everything that befalls files.

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kernel_tests::{compiler, options};
use kernels::cuda::{
    Architecture, CacheCounts, CacheNotice, Compiled, CudaDevice, CudaOptions, KernelCache, KernelSource, Program,
    SiluMul, SiluMulShape, Target,
};

const SM_80: Target = Target::Cubin(Architecture { major: 8, minor: 0, specific: false });
const LARGE: u64 = 1 << 30;

fn program(width: usize) -> Program {
    SiluMul::program(SiluMulShape { width }, SiluMul::SOURCE).unwrap()
}

/// What a new cache in `folder` gives for a program, what that took, and what it tells.
fn compile(folder: &Path, program: &Program) -> (Compiled, CacheCounts, Vec<CacheNotice>) {
    let cache = KernelCache::new(folder.to_owned(), LARGE);
    let compiled = cache.compile(&compiler(), program, SM_80).unwrap();
    (compiled, cache.counts(), cache.take_notices())
}

fn counts(found: usize, compiled: usize) -> CacheCounts {
    CacheCounts { found, compiled }
}

/// The files of a folder, in order of their names.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn a_kernel_is_compiled_once_and_is_the_same_afterwards() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("made/when/needed");
    let direct = compiler().compile(&program(64), SM_80).unwrap();
    for expected in [counts(0, 1), counts(1, 0)] {
        let (compiled, counts, notices) = compile(&folder, &program(64));
        assert_eq!(compiled.log, direct.log);
        assert!(compiled.code == direct.code);
        assert_eq!((counts, notices), (expected, vec![]));
    }
    let cache = KernelCache::new(folder.clone(), LARGE);
    cache.compile(&compiler(), &program(72), SM_80).unwrap();
    let ptx = cache.compile(&compiler(), &program(64), Target::Ptx).unwrap();
    assert!(ptx.code.starts_with(b"//"), "PTX and not the machine code of the same program");
    assert_eq!(cache.counts(), counts(0, 2));
    assert_eq!(files(&folder).len(), 3);
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_damaged_file_is_told_of_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, ..) = compile(folder.path(), &program(64));
    let [path] = &files(folder.path())[..] else { panic!("one file") };
    let content = fs::read(path).unwrap();
    let mut flipped = content.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for damaged in [&flipped[..], &content[..content.len() / 2], b"", b"something else"] {
        fs::write(path, damaged).unwrap();
        let (compiled, counts_then, notices) = compile(folder.path(), &program(64));
        assert!(compiled.code == whole.code);
        assert_eq!(counts_then, counts(0, 1));
        let [notice @ CacheNotice::Damaged { path: named, .. }] = &notices[..] else { panic!("{notices:?}") };
        assert_eq!(named, path);
        println!("{notice}");
        assert!(notice.to_string().contains("was compiled anew"), "{notice}");
        assert!(fs::read(path).unwrap() == content, "replaced");
        assert_eq!(compile(folder.path(), &program(64)).1, counts(1, 0));
    }
}

#[test]
fn where_nothing_can_be_kept_kernels_are_compiled_and_that_is_said_once() {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("file"), "").unwrap();
    for folder in [scratch.path().join("file"), scratch.path().join("file/below"), PathBuf::from("/proc/no/cache")] {
        let cache = KernelCache::new(folder.clone(), LARGE);
        for width in [64, 72, 64] {
            cache.compile(&compiler(), &program(width), SM_80).unwrap();
        }
        assert_eq!(cache.counts(), counts(0, 3));
        let notices = cache.take_notices();
        let unwritable: Vec<_> =
            notices.iter().filter(|notice| matches!(notice, CacheNotice::Unwritable { .. })).collect();
        let [notice] = unwritable[..] else { panic!("{notices:?}") };
        println!("{notice}");
        assert!(notice.to_string().contains(&folder.display().to_string()), "{notice}");
        assert_eq!(notices.len(), 1, "{notices:?}");
    }
}

fn device_with(cache: &Arc<KernelCache>) -> CudaDevice {
    CudaDevice::open(&CudaOptions { kernel_cache: Some(Arc::clone(cache)), ..options() }).unwrap()
}

#[test]
fn programs_that_are_compiled_at_once_are_not_compiled_again_when_they_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Arc::new(KernelCache::new(folder.path().to_owned(), LARGE));
    let device = device_with(&cache);
    let opened = cache.counts();
    // One of them twice, and more threads than programs.
    let programs = [64, 72, 64, 80].map(program);
    let once = counts(opened.found, opened.compiled + 3);
    let ahead = [1, 2, 9].map(|threads| {
        let ahead = device.compile_ahead(&programs, NonZeroUsize::new(threads).unwrap()).complete().unwrap();
        assert_eq!(cache.counts(), once, "{threads} threads");
        ahead
    });
    assert_eq!(device.loaded_programs(), []);
    for width in [64, 80, 64] {
        SiluMul::compile(&device, SiluMulShape { width }).unwrap();
    }
    assert_eq!(cache.counts(), once);
    assert_eq!(device.loaded_programs(), [64, 80].map(program));
    assert_eq!(files(folder.path()).len(), opened.compiled + 3, "no unfinished file is left");
    // It is kept by the last who has it, and by nobody else.
    let [first, second, third] = ahead;
    drop((first, third));
    SiluMul::compile(&device, SiluMulShape { width: 72 }).unwrap();
    assert_eq!(cache.counts(), once);
    drop(second);
    SiluMul::compile(&device, SiluMulShape { width: 72 }).unwrap();
    assert_eq!(cache.counts(), counts(once.found + 1, once.compiled));
}

#[test]
fn of_programs_that_are_compiled_at_once_the_first_that_fails_is_told_and_all_others_are_there() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("cache");
    let cache = Arc::new(KernelCache::new(folder.clone(), LARGE));
    let device = device_with(&cache);
    // From now on nothing can be kept.
    fs::remove_dir_all(&folder).unwrap();
    fs::write(&folder, "").unwrap();
    let broken = |name| Program { source: KernelSource { name, text: "no kernel".into() }, defines: Vec::new() };
    // The second fails sooner: the first is a whole kernel up to its last line.
    let long = KernelSource { name: "first.cu", text: format!("{}\nno kernel", SiluMul::SOURCE.text).into() };
    let long = Program { source: long, ..program(64) };
    let programs = [program(64), program(72), program(80), long, broken("second.cu"), broken("third.cu"), program(88)];
    for threads in [7, 3, 1] {
        let ahead = device.compile_ahead(&programs, NonZeroUsize::new(threads).unwrap());
        let compiled = cache.counts();
        for width in [64, 88] {
            SiluMul::compile(&device, SiluMulShape { width }).unwrap();
        }
        assert_eq!(cache.counts(), compiled, "{threads} threads");
        let error = ahead.complete().unwrap_err().to_string();
        assert!(error.starts_with("first.cu does not compile:"), "{threads} threads: {error}");
    }
    // What is wrong with the folder is said once.
    let notices = cache.take_notices();
    assert!(matches!(&notices[..], [CacheNotice::Unwritable { .. }]), "{notices:?}");
}

#[test]
fn a_folder_that_may_only_be_read_gives_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), &program(64));
    fs::set_permissions(folder.path(), Permissions::from_mode(0o555)).unwrap();
    let (_, counts_then, notices) = compile(folder.path(), &program(64));
    assert_eq!((counts_then, notices), (counts(1, 0), vec![]));
    // The superuser may write wherever it likes.
    if File::create(folder.path().join("probe")).is_err() {
        let (_, counts_then, notices) = compile(folder.path(), &program(72));
        assert_eq!(counts_then, counts(0, 1));
        assert!(matches!(&notices[..], [CacheNotice::Unwritable { .. }]), "{notices:?}");
    }
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_folder_stays_within_its_limit_and_keeps_what_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let age = |path: &Path, hours: u64| {
        let then = SystemTime::now() - Duration::from_hours(hours);
        File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
    };
    let path_of = |width: usize| {
        let before = files(folder.path());
        compile(folder.path(), &program(width));
        files(folder.path()).into_iter().find(|path| !before.contains(path)).unwrap()
    };
    let (used, idle) = (path_of(64), path_of(72));
    age(&used, 200);
    age(&idle, 100);
    let [abandoned, in_work] = ["a.1.0.partial", "b.2.0.partial"].map(|name| folder.path().join(name));
    fs::write(&abandoned, "").unwrap();
    fs::write(&in_work, "").unwrap();
    age(&abandoned, 2);
    assert_eq!(compile(folder.path(), &program(64)).1, counts(1, 0), "which makes it the latest");
    // Room for two.
    let limit = 5 * fs::metadata(&used).unwrap().len() / 2;
    let cache = KernelCache::new(folder.path().to_owned(), limit);
    cache.compile(&compiler(), &program(80), SM_80).unwrap();
    let left = files(folder.path());
    assert!(left.contains(&used) && !left.contains(&idle), "{left:?}");
    assert!(left.contains(&in_work) && !left.contains(&abandoned), "{left:?}");
    assert_eq!(left.len(), 3, "{left:?}");
    // Even what is larger than the limit alone is there for the next start.
    let cache = KernelCache::new(folder.path().to_owned(), 1);
    cache.compile(&compiler(), &program(88), SM_80).unwrap();
    assert_eq!(files(folder.path()).len(), 2, "the new one and the unfinished");
    assert_eq!(compile(folder.path(), &program(88)).1, counts(1, 0));
}

const WIDTHS: [usize; 4] = [64, 72, 80, 88];

#[test]
fn processes_may_fill_a_folder_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let mut children: Vec<_> = (0..3)
        .map(|_| {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "one_of_several_processes", "--ignored", "--nocapture"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            writeln!(child.stdin.take().unwrap(), "{path}").unwrap();
            child
        })
        .collect();
    for child in &mut children {
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success(), "{said}");
    }
    for width in WIDTHS {
        let (compiled, _, notices) = compile(folder.path(), &program(width));
        assert_eq!(notices, []);
        assert!(compiled.code == compiler().compile(&program(width), SM_80).unwrap().code);
    }
    assert_eq!(files(folder.path()).len(), WIDTHS.len(), "no unfinished file is left");
}

#[test]
#[ignore = "the test above runs it"]
fn one_of_several_processes() {
    let mut folder = String::new();
    std::io::stdin().read_line(&mut folder).unwrap();
    let folder = Path::new(folder.trim_end());
    let compiler = compiler();
    for _ in 0..3 {
        // Files go away while others read and write them.
        for width in WIDTHS {
            let cache = KernelCache::new(folder.to_owned(), LARGE);
            cache.compile(&compiler, &program(width), SM_80).unwrap();
            assert_eq!(cache.take_notices(), []);
            if let Some(path) = files(folder).iter().find(|path| path.extension().is_some_and(|end| end == "kernel")) {
                let _ = fs::remove_file(path);
            }
        }
    }
}
