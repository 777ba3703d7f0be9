//! Breaking a kernel on purpose, and telling how that was noticed.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kernels::cuda::{CudaError, KernelSource};

use crate::Emulator;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Waits until no other test of this process has a device that may fail.
pub fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The source with one place changed.
///
/// # Panics
///
/// If there is no such place, or more than one.
#[must_use]
pub fn mutate(source: &KernelSource, from: &str, to: &str) -> KernelSource {
    assert_eq!(source.text.matches(from).count(), 1, "`{from}` must be in {} once", source.name);
    KernelSource { name: source.name, text: source.text.replacen(from, to, 1).into() }
}

/// The source with one of its headers written out, so that a place of the header can be changed.
///
/// # Panics
///
/// If it does not include the header.
#[must_use]
pub fn inline(source: &KernelSource, header: &str) -> KernelSource {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/cu").join(header);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    mutate(source, &format!("#include \"{header}\""), &text.replace("#pragma once", ""))
}

/// The emulator's report must have `words` and name a line of the source that has one of `lines`.
///
/// # Panics
///
/// If they are not, or if the kernel ran.
pub fn assert_reported(outcome: Result<bool, CudaError>, source: &KernelSource, words: &str, lines: &[&str]) {
    let error = outcome.expect_err("the broken kernel ran");
    assert!(matches!(error, CudaError::Driver { .. }), "{error}");
    let report = Emulator::open().report();
    assert!(report.contains(words), "no `{words}` in:\n{report}");
    let prefix = format!("{}:", source.name);
    let named: Vec<&str> = report
        .match_indices(&prefix)
        .filter_map(|(at, _)| {
            let digits = &report[at + prefix.len()..];
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            source.text.lines().nth(digits[..end].parse::<usize>().ok()? - 1)
        })
        .collect();
    let names = |wanted: &&str| named.iter().any(|line| line.contains(*wanted));
    assert!(lines.iter().any(names), "lines {named:?} in:\n{report}");
}
