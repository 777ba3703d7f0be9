//! The kernels as machine code: what no emulator shows is whether they fit the registers.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use kernel_tests::conflicts::BankConflicts;
use kernel_tests::machine_code::{
    TARGETS, add_conflicts, differences, lines_of, measure, table, table_path, using_the_stack,
};
use kernel_tests::programs::{one_of_each_source, programs};
use kernel_tests::{Emulator, compiler, device, kernel_cache};
use kernels::cuda::{KernelSource, Program, Target};

/// The target of which every kernel is compiled and disassembled here. Of the others it is one program of each source, and
/// no instructions are counted; `cargo xtask kernels --check` compares everything.
const WHOLE: &str = "sm_90";

fn committed(target: &str) -> String {
    let path = table_path(target);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn assert_committed(target: &str, committed: &str, found: &str) {
    let differences = differences(committed, found);
    assert!(
        differences.is_empty(),
        "machine code for {target} is not what is committed:\n  {}\nIf that is meant, run `cargo xtask kernels --bless`.",
        differences.join("\n  ")
    );
}

#[test]
fn no_kernel_spills() {
    for target in TARGETS {
        assert_eq!(using_the_stack(&committed(target)), [""; 0], "{target}");
    }
}

#[test]
fn the_figures_of_all_kernels_are_those_committed() {
    let mut kernels = measure(&programs(), WHOLE.parse().unwrap(), true, &kernel_cache()).unwrap();
    add_conflicts(&mut kernels, &BankConflicts::count(&device(), &Emulator::open()));
    assert_committed(WHOLE, &committed(WHOLE), &table(&kernels));
}

/// Another program of each source for every target.
#[test]
fn the_figures_of_every_source_are_those_committed_for_every_target() {
    let cache = kernel_cache();
    for (number, target) in TARGETS.into_iter().enumerate().filter(|(_, target)| *target != WHOLE) {
        let kernels = measure(&one_of_each_source(number), target.parse().unwrap(), false, &cache).unwrap();
        let (committed, found) = (committed(target), table(&kernels));
        assert_committed(target, &lines_of(&committed, &found), &found);
    }
}

/// So that none is missing where only some of its programs are compiled.
#[test]
fn the_tables_of_all_targets_have_the_same_kernels() {
    let whole = committed(WHOLE);
    for target in TARGETS {
        let table = committed(target);
        assert_eq!(lines_of(&whole, &table), whole, "{target} lacks kernels");
        assert_eq!(lines_of(&table, &whole), table, "{target} has more kernels");
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
