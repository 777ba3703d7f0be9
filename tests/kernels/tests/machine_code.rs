//! The kernels as machine code: what no emulator shows is whether they fit the registers.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use kernel_tests::machine_code::{TARGETS, differences, measure, table, table_path};
use kernel_tests::programs::programs;
use kernel_tests::{compiler, kernel_cache};
use kernels::cuda::{KernelSource, Program, Target};

/// Those whose figures this test compares, and whether instructions are counted, which takes most of the time;
/// `cargo xtask kernels --check` compares everything.
const COMPARED: [(&str, bool); 2] = [("sm_80", false), ("sm_90", true)];

#[test]
fn no_kernel_spills_and_its_figures_are_those_committed() {
    for (target, counted) in COMPARED {
        let kernels = measure(target.parse().unwrap(), counted, &kernel_cache()).unwrap();
        for kernel in &kernels {
            assert_eq!((kernel.stack_bytes, kernel.spill_bytes), (0, 0), "{target}: local memory of {kernel:?}");
        }
        let Ok(committed) = fs::read_to_string(table_path(target)) else {
            println!("no figures are committed for {target}");
            continue;
        };
        let differences = differences(&committed, &table(&kernels));
        assert!(
            differences.is_empty(),
            "machine code for {target} is not what is committed:\n  {}\nIf that is meant, run `cargo xtask kernels --bless`.",
            differences.join("\n  ")
        );
    }
}

/// The first shape of each source; the assembler is the same for all of them.
#[test]
fn every_source_compiles_for_every_target() {
    let (compiler, cache) = (compiler(), kernel_cache());
    for target in TARGETS.into_iter().filter(|target| !COMPARED.iter().any(|(compared, _)| compared == target)) {
        let mut seen = BTreeSet::new();
        for program in programs().iter().filter(|program| seen.insert(program.source.name)) {
            cache.compile(&compiler, program, target.parse().unwrap()).unwrap();
        }
    }
}

#[test]
fn every_source_is_among_the_programs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/cu");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let sources = paths.filter(|path| path.extension().is_some_and(|extension| extension == "cu"));
    let sources: BTreeSet<_> = sources.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    let listed = programs().into_iter().map(|program| program.source.name.to_owned()).collect();
    assert_eq!(sources, listed);
}

#[test]
fn an_error_in_a_source_is_shown_with_its_line() {
    let program = Program {
        source: KernelSource {
            name: "broken.cu",
            text: "extern \"C\" __global__ void broken() {\n  nonsense;\n}".into(),
        },
        defines: Vec::new(),
    };
    let message = compiler().compile(&program, Target::Ptx).unwrap_err().to_string();
    assert!(message.starts_with("broken.cu does not compile"), "{message}");
    assert!(message.contains("broken.cu(2)"), "{message}");
}
