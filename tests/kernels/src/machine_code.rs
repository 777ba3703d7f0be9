//! What the assembler made of the kernels: registers, memory, and the instructions that decide their speed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use kernels::cuda::{CudaError, KernelCache, Program, Target};

use crate::compiler;
use crate::conflicts::BankConflicts;
use crate::disassembly::{self, Counts, MNEMONICS};

/// The targets that kernels are compiled for, and whose figures are committed.
pub const TARGETS: [&str; 5] = ["sm_80", "sm_89", "sm_90", "sm_90a", "sm_100"];

/// One kernel's machine code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineCode {
    /// The file that it comes from.
    pub source: &'static str,
    /// Its name and what it was compiled with.
    pub name: String,
    /// Registers of a thread.
    pub registers: usize,
    /// Bytes of a thread's memory on the stack, which lies in global memory.
    pub stack_bytes: usize,
    /// Bytes of registers that are stored there and loaded again.
    pub spill_bytes: usize,
    /// Shared memory of a block that is not chosen at launch.
    pub shared_bytes: usize,
    /// How often each of the counted instructions is there, if they were counted.
    pub instructions: Option<Counts>,
    /// Passes over shared memory that bank conflicts cost the emulator, if they were counted; no matter of the target.
    pub conflicts: Option<u64>,
}

/// Where the figures of a target are committed.
#[must_use]
pub fn table_path(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("machine_code/{target}.tsv"))
}

/// The machine code of programs for a target, in their order, with its instructions counted if that is wanted.
///
/// # Panics
///
/// If the tools are missing, or what they say is not what this reads.
pub fn measure(
    programs: &[Program],
    target: Target,
    counted: bool,
    cache: &KernelCache,
) -> Result<Vec<MachineCode>, CudaError> {
    let compiler = compiler();
    let compiled = in_parallel(programs, |program| cache.compile(&compiler, program, target));
    let compiled: Vec<_> = compiled.into_iter().collect::<Result<_, _>>()?;
    let codes: Vec<_> = compiled.iter().map(|compiled| &*compiled.code).collect();
    let counts = counted.then(|| disassembly::count(target, &codes));
    let kernels = programs.iter().zip(&compiled).enumerate().flat_map(|(index, (program, compiled))| {
        let counts = counts.as_ref().map(|counts| &counts[index]);
        read(program, &compiled.log, counts)
    });
    Ok(kernels.collect())
}

/// What a function makes of each item, on all processors.
///
/// # Panics
///
/// If the function does.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = Mutex::new(items.iter().enumerate());
    let done = Mutex::new(BTreeMap::new());
    let worker = || {
        loop {
            let Some((index, item)) = next.lock().expect("nothing panics here").next() else { return };
            let result = work(item);
            done.lock().expect("nothing panics here").insert(index, result);
        }
    };
    thread::scope(|scope| {
        for _ in 1..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(worker);
        }
        worker();
    });
    done.into_inner().expect("nothing panicked").into_values().collect()
}

/// Adds to kernels what the emulator counted.
///
/// # Panics
///
/// If it did not run one of them.
pub fn add_conflicts(kernels: &mut [MachineCode], counted: &BankConflicts) {
    let mut missing = BTreeSet::new();
    for kernel in kernels {
        let function = kernel.name.split(' ').next().unwrap_or_default();
        kernel.conflicts = counted.of(kernel.source, function);
        if kernel.conflicts.is_none() {
            missing.insert(function);
        }
    }
    assert!(missing.is_empty(), "no problem in tests/kernels/src/subjects runs these: {missing:?}");
}

/// The kernels of a program, from the assembler's messages and, by their names, the counts of their instructions.
fn read(program: &Program, log: &str, counts: Option<&BTreeMap<&str, Counts>>) -> Vec<MachineCode> {
    let mut kernels = Vec::new();
    let mut name = "";
    let (mut stack_bytes, mut spill_bytes) = (0, 0);
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            name = rest.split('\'').next().unwrap_or_default();
        } else if line.contains("bytes stack frame") {
            stack_bytes = before(line, " bytes stack frame");
            spill_bytes = before(line, " bytes spill stores") + before(line, " bytes spill loads");
        } else if line.contains("Used ") {
            let counts = counts.map(|counts| counts.get(name));
            let missing = || panic!("{name} is not in its disassembly");
            kernels.push(MachineCode {
                source: program.source.name,
                name: format!("{name}{}", program.to_string().trim_start_matches(program.source.name)),
                registers: before(line, " registers"),
                stack_bytes,
                spill_bytes,
                shared_bytes: before(line, " bytes smem"),
                instructions: counts.map(|counts| *counts.unwrap_or_else(missing)),
                conflicts: None,
            });
        }
    }
    assert!(!kernels.is_empty(), "no kernel in:\n{log}");
    kernels
}

/// The number before some words of a line; none is 0.
fn before(line: &str, words: &str) -> usize {
    let Some((start, _)) = line.split_once(words) else { return 0 };
    let number = start.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    number.parse().unwrap_or_else(|_| panic!("no number before `{words}` in: {line}"))
}

const COLUMNS: [&str; 4] = ["registers", "stack", "spills", "shared"];

impl MachineCode {
    /// What a table has in the columns of [`COLUMNS`], of [`MNEMONICS`] and of conflicts, as far as it was counted.
    fn figures(&self) -> impl Iterator<Item = u64> {
        let always = [self.registers, self.stack_bytes, self.spill_bytes, self.shared_bytes];
        let counted = always.into_iter().chain(self.instructions.into_iter().flatten()).map(|figure| figure as u64);
        counted.chain(self.conflicts)
    }
}

/// The figures as they are committed: a kernel a line. What was not counted for all of them has no column.
#[must_use]
pub fn table(kernels: &[MachineCode]) -> String {
    let instructions = if kernels.iter().all(|kernel| kernel.instructions.is_some()) { &MNEMONICS[..] } else { &[] };
    let conflicts = kernels.iter().all(|kernel| kernel.conflicts.is_some()).then_some("conflicts");
    let columns: Vec<_> = COLUMNS.iter().chain(instructions).copied().chain(conflicts).collect();
    let mut text = columns.join("\t") + "\tkernel\n";
    for kernel in kernels {
        for figure in kernel.figures() {
            let _ = write!(text, "{figure}\t");
        }
        let _ = writeln!(text, "{}", kernel.name);
    }
    text
}

/// The lines of a table for those kernels that another has as well.
#[must_use]
pub fn lines_of(table: &str, other: &str) -> String {
    let names = rows(other);
    let mut lines = table.lines();
    let head = lines.next().unwrap_or_default();
    let of_others = lines.filter(|line| line.rsplit('\t').next().is_some_and(|name| names.contains_key(name)));
    std::iter::once(head).chain(of_others).flat_map(|line| [line, "\n"]).collect()
}

/// The kernels of a table that have spilled registers or anything else on the stack.
#[must_use]
pub fn using_the_stack(table: &str) -> Vec<&str> {
    let figure = |row: &BTreeMap<&str, &str>, column| row.get(column).is_none_or(|figure| *figure != "0");
    let found = rows(table).into_iter().filter(|(_, row)| figure(row, "stack") || figure(row, "spills"));
    found.map(|(name, _)| name).collect()
}

/// What differs between two tables, in words, as far as the second has columns; nothing if they are the same.
#[must_use]
pub fn differences(committed: &str, found: &str) -> Vec<String> {
    let (before, after) = (rows(committed), rows(found));
    let names: BTreeSet<_> = before.keys().chain(after.keys()).copied().collect();
    let differences = names.into_iter().filter_map(|name| match (before.get(name), after.get(name)) {
        (None, _) => Some(format!("{name}: is not in the table")),
        (_, None) => Some(format!("{name}: is in the table and no longer among the kernels")),
        (Some(before), Some(after)) => {
            let columns: BTreeSet<_> = after.keys().copied().collect();
            let value = |row: &BTreeMap<&str, &str>, column| row.get(column).map_or("none", |value| value).to_owned();
            let changed = columns.into_iter().filter(|column| before.get(column) != after.get(column));
            let changed: Vec<_> = changed
                .map(|column| format!("{column} {} is now {}", value(before, column), value(after, column)))
                .collect();
            (!changed.is_empty()).then(|| format!("{name}: {}", changed.join(", ")))
        }
    });
    differences.collect()
}

/// Kernel, column, figure.
fn rows(table: &str) -> BTreeMap<&str, BTreeMap<&str, &str>> {
    let mut lines = table.lines();
    let columns: Vec<_> = lines.next().unwrap_or_default().split('\t').collect();
    lines
        .filter_map(|line| {
            let fields: Vec<_> = line.split('\t').collect();
            let name = *fields.last()?;
            Some((
                name,
                columns.iter().copied().zip(fields.iter().copied()).filter(|(column, _)| *column != "kernel").collect(),
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the assembler writes it, by hand.
    #[test]
    fn figures_are_read_from_messages() {
        let log = "ptxas info    : 0 bytes gmem\n\
                   ptxas info    : Compiling entry function 'one' for 'sm_80'\n\
                   ptxas info    : Function properties for one\n\
                   \x20   8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n\
                   ptxas info    : Used 72 registers, used 1 barriers, 8 bytes cumulative stack size, 20480 bytes smem, 400 bytes cmem[0]\n";
        let counts = BTreeMap::from([("one", [2, 0, 0, 1])]);
        let source = kernels::cuda::KernelSource { name: "one.cu", text: "".into() };
        let found = read(&Program { source, defines: vec![("A", 1), ("B", 2)] }, log, Some(&counts));
        let expected = MachineCode {
            source: "one.cu",
            name: "one A=1 B=2".to_owned(),
            registers: 72,
            stack_bytes: 8,
            spill_bytes: 16,
            shared_bytes: 20480,
            instructions: Some([2, 0, 0, 1]),
            conflicts: None,
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn tables_are_cut_to_each_other_and_show_what_spills() {
        let whole = "registers\tstack\tspills\tkernel\n40\t0\t0\ta X=1\n41\t8\t0\tb\n41\t0\t4\tc\n";
        let other = "registers\tkernel\n41\tb\n41\td\n";
        assert_eq!(lines_of(whole, other), "registers\tstack\tspills\tkernel\n41\t8\t0\tb\n");
        assert_eq!(using_the_stack(whole), ["b", "c"]);
        assert_eq!(using_the_stack(other), ["b", "d"], "what is not said is not taken for none");
    }

    #[test]
    fn differences_name_kernel_and_column() {
        let before = "registers\tHMMA\tkernel\n40\t2\ta X=1\n41\t0\tb\n";
        assert_eq!(differences(before, before), Vec::<String>::new());
        let fewer = "registers\tkernel\n40\ta X=1\n41\tb\n";
        assert_eq!(differences(before, fewer), Vec::<String>::new());
        let after = "registers\tHMMA\tkernel\n48\t2\ta X=1\n41\t0\tc\n";
        assert_eq!(
            differences(before, after),
            [
                "a X=1: registers 40 is now 48",
                "b: is in the table and no longer among the kernels",
                "c: is not in the table"
            ]
        );
    }
}
