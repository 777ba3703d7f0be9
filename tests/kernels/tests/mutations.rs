//! Broken kernels are found out: a test of the tests.
//!
//! Here is what the emulator says of some, each noticed by the check that is there for it, and a sample of all the places
//! that can be broken; `cargo xtask kernel-mutants` tries every one.
//!
//! A failed kernel fails its device for good, so every test here opens the device for itself and they run one at a time.

use std::collections::BTreeSet;

use kernel_tests::mutants::{Harmless, Kind, Mutant, Sources, Trial, Verdict, mutants};
use kernel_tests::mutation::{alone, assert_reported, inline, mutate};
use kernel_tests::subjects::subjects;
use kernel_tests::{Emulator, device};
use kernels::cuda::check::{GroupedGemmProblem, SampleProblem};
use kernels::cuda::{CudaError, GroupedGemm, GroupedGemmShape, KernelSource, Sample};

/// Of the mutants of a kind in a file, the first is tried here, and then one in so many.
const SAMPLE: usize = 80;

#[test]
fn every_kernel_has_problems() {
    let sources = Sources::read();
    let kernels: BTreeSet<&str> = sources.kernels().collect();
    let subjects: BTreeSet<&str> = subjects().iter().filter(|it| !it.problems.is_empty()).map(|it| it.file).collect();
    assert_eq!(kernels, subjects, "every kernel needs problems in tests/kernels/src/subjects");
}

#[test]
fn what_is_listed_as_harmless_exists() {
    let sources = Sources::read();
    let all: Vec<Mutant> = sources.files().flat_map(|file| mutants(&sources, file)).collect();
    let stale = Harmless::read().stale(&all);
    assert!(stale.is_empty(), "no mutant is like these in tests/kernels/harmless.txt: {stale:#?}");
}

#[test]
fn a_sample_of_the_mutants_is_found_out() {
    let _alone = alone();
    let sources = Sources::read();
    let subjects = subjects();
    let harmless = Harmless::read();
    let mut trial = Trial::new(&sources);
    let (mut missed, mut caught) = (Vec::new(), 0);
    for file in sources.files() {
        let all = mutants(&sources, file);
        for kind in Kind::ALL {
            for mutant in all.iter().filter(|mutant| mutant.kind == kind).step_by(SAMPLE) {
                let verdict = trial.run(&subjects, mutant);
                caught += usize::from(verdict.is_caught());
                let listed = harmless.reason(mutant).is_some();
                if (listed && verdict.is_harm()) || (!listed && verdict == Verdict::Unnoticed) {
                    missed.push(format!("{mutant}\n{verdict:?}"));
                }
            }
        }
    }
    println!("{caught} mutants found out");
    assert!(missed.is_empty(), "not found out, or found out and listed as harmless:\n{}", missed.join("\n\n"));
}

const PRODUCT: GroupedGemmShape =
    GroupedGemmShape { block_rows: 64, experts: 3, columns: 64, depth: 160, rows_per_input: 2 };

/// Whether a broken product is right in numbers; an error is the emulator's.
fn run_product(source: KernelSource) -> Result<bool, CudaError> {
    let device = device();
    let kernel = GroupedGemm::compile_source(&device, PRODUCT, source)?;
    let problem = GroupedGemmProblem::random(PRODUCT, &[65, 0, 9], 0, 31)?;
    let found = problem.run(&device, &kernel)?;
    Ok(problem.compare(&found).holds())
}

/// The grouped product with the main loop of all products written out.
fn product_source() -> KernelSource {
    inline(&GroupedGemm::SOURCE, "gemm.cuh")
}

#[test]
fn a_failure_ends_with_its_device() {
    let _alone = alone();
    run_product(mutate(&product_source(), "    __syncthreads();\n", "")).unwrap_err();
    assert!(run_product(GroupedGemm::SOURCE).unwrap());
}

#[test]
fn a_product_without_its_barrier_races() {
    let _alone = alone();
    let source = mutate(&product_source(), "__syncthreads();", "");
    let outcome = run_product(source.clone());
    assert_reported(outcome, &source, "read after write", &["load_matrix_x4"]);
}

#[test]
fn a_product_that_overwrites_before_the_barrier_races() {
    let _alone = alone();
    let (barrier, copies) = ("__syncthreads();", "start_copies(step + STAGES - 1);");
    let source = mutate(&product_source(), &format!("{barrier}\n    {copies}"), &format!("{copies}\n    {barrier}"));
    let outcome = run_product(source.clone());
    assert_reported(outcome, &source, "write after read", &["copy16_async"]);
}

#[test]
fn a_product_that_does_not_wait_for_its_copies_is_reported() {
    let _alone = alone();
    let source = mutate(&product_source(), "wait_for_copies<STAGES - 2>();", "wait_for_copies<STAGES>();");
    let outcome = run_product(source.clone());
    assert_reported(outcome, &source, "is not waited for", &["load_matrix_x4"]);
}

#[test]
fn a_product_that_gathers_padding_rows_leaves_its_input() {
    let _alone = alone();
    let source = mutate(&product_source(), "bool exists = (u32)row < (u32)rows;", "bool exists = true;");
    let outcome = run_product(source.clone());
    assert_reported(outcome, &source, "allocation", &["copy16_async"]);
}

#[test]
fn a_product_with_a_wrong_fragment_address_has_wrong_numbers() {
    let _alone = alone();
    let source = mutate(&product_source(), "lane / 8 % 2 * 8", "lane / 16 * 8");
    assert!(!run_product(source).unwrap());
}

/// The tokens are right here, because the emulator lets the last lane win, and on a GPU may be others.
#[test]
fn lanes_that_draw_several_tokens_conflict() {
    let _alone = alone();
    let run = |source: KernelSource| -> Result<bool, CudaError> {
        let device = device();
        let problem = SampleProblem::random(22, 1024, 0, 51);
        let (tokens, untouched) = problem.run(&device, &Sample::compile_source(&device, source)?)?;
        Ok(untouched && problem.first_wrong(&tokens).is_none())
    };
    let source = mutate(&Sample::SOURCE, "target - (end - weight) < weight", "target >= end - weight");
    assert_reported(run(source.clone()), &source, "different values", &["tokens[index] = token"]);
}

/// Right numbers, and slow: what the counters are for.
#[test]
fn a_product_that_does_not_turn_its_chunks_has_bank_conflicts() {
    let _alone = alone();
    let emulator = Emulator::open();
    assert!(run_product(GroupedGemm::SOURCE).unwrap());
    assert_eq!(emulator.bank_conflicts(), 0);
    let source = mutate(&product_source(), "return column ^ row / ROWS_PER_LINE % TURNS * 8;", "return column;");
    assert!(run_product(source).unwrap());
    assert!(emulator.bank_conflicts() > 0);
}
