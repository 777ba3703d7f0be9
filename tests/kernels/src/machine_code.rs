//! What the assembler made of the kernels: registers, memory, and the instructions that decide their speed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use kernels::cuda::{CudaError, KernelCache, Program, Target};

use crate::programs::programs;
use crate::{compiler, compiler_folder};

/// The targets that kernels are compiled for.
pub const TARGETS: [&str; 5] = ["sm_80", "sm_89", "sm_90", "sm_90a", "sm_100"];

/// Those whose figures are committed.
pub const TABLED: [&str; 2] = ["sm_80", "sm_90"];

/// Instructions that are counted, and what they are: products by tensor cores of floats and of whole numbers, loads of
/// their operands from shared memory, and copies from global to shared memory that nobody waits for.
const MNEMONICS: [&str; 4] = ["HMMA", "IMMA", "LDSM", "LDGSTS"];

/// One kernel's machine code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineCode {
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
    pub instructions: Option<[usize; MNEMONICS.len()]>,
}

/// Where the figures of a target are committed, if they are.
#[must_use]
pub fn table_path(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("machine_code/{target}.tsv"))
}

/// The machine code of all kernels for a target, in the order of the programs. Disassembly, without which instructions
/// are not counted, takes longer than compilation.
///
/// # Panics
///
/// If the tools are missing, or what they say is not what this reads.
pub fn measure(target: Target, disassembled: bool, cache: &KernelCache) -> Result<Vec<MachineCode>, CudaError> {
    let compiler = compiler();
    let programs = programs();
    // The compiler works on one program at a time, and several threads may ask it.
    let next = Mutex::new(programs.iter().enumerate());
    let found = Mutex::new(BTreeMap::new());
    let work = || -> Result<(), CudaError> {
        loop {
            let Some((index, program)) = next.lock().expect("no thread panics here").next() else { return Ok(()) };
            let compiled = cache.compile(&compiler, program, target)?;
            let disassembly = disassembled.then(|| disassemble(&compiled.code));
            let kernels = read(program, &compiled.log, disassembly.as_deref());
            found.lock().expect("no thread panics here").insert(index, kernels);
        }
    };
    thread::scope(|scope| {
        let others: Vec<_> =
            (1..thread::available_parallelism().map_or(1, usize::from)).map(|_| scope.spawn(work)).collect();
        let own = work();
        others.into_iter().map(|other| other.join().expect("the thread ends")).fold(own, Result::and)
    })?;
    Ok(found.into_inner().expect("no thread panicked").into_values().flatten().collect())
}

fn disassemble(code: &[u8]) -> String {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    fs::write(file.path(), code).expect("a temporary file can be written");
    let disassembler = compiler_folder().join("nvdisasm");
    let output = Command::new(&disassembler).arg("-c").arg(file.path()).output();
    let output =
        output.unwrap_or_else(|error| panic!("{}: {error}: run `cargo xtask cuda-tools`", disassembler.display()));
    assert!(output.status.success(), "nvdisasm: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The kernels of a program, from the assembler's messages and the disassembly.
fn read(program: &Program, log: &str, disassembly: Option<&str>) -> Vec<MachineCode> {
    let instructions = disassembly.map(count);
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
            let counts = instructions.as_ref().map(|instructions| instructions.get(name));
            let missing = || panic!("{name} is not in its disassembly");
            kernels.push(MachineCode {
                name: format!("{name}{}", program.to_string().trim_start_matches(program.source.name)),
                registers: before(line, " registers"),
                stack_bytes,
                spill_bytes,
                shared_bytes: before(line, " bytes smem"),
                instructions: counts.map(|counts| *counts.unwrap_or_else(missing)),
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

/// The counted instructions of each kernel of a disassembly.
fn count(disassembly: &str) -> BTreeMap<&str, [usize; MNEMONICS.len()]> {
    let mut counts: BTreeMap<&str, [usize; MNEMONICS.len()]> = BTreeMap::new();
    let mut kernel = None;
    for line in disassembly.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix(".section\t.text.").or_else(|| line.strip_prefix(".section .text.")) {
            kernel = name.split(',').next();
            counts.entry(kernel.unwrap_or_default()).or_default();
        } else if let (Some(kernel), Some((_, code))) =
            (kernel, line.strip_prefix("/*").and_then(|rest| rest.split_once("*/")))
        {
            // A condition, `@!P0`, may stand before the instruction.
            let words = code.split_whitespace().filter(|word| !word.starts_with('@'));
            let mnemonic = words.map(|word| word.split('.').next().unwrap_or_default()).next();
            if let Some(index) = MNEMONICS.iter().position(|counted| Some(*counted) == mnemonic) {
                counts.entry(kernel).or_default()[index] += 1;
            }
        }
    }
    counts
}

const COLUMNS: [&str; 4] = ["registers", "stack", "spills", "shared"];

impl MachineCode {
    fn figures(&self) -> Vec<usize> {
        [self.registers, self.stack_bytes, self.spill_bytes, self.shared_bytes]
            .into_iter()
            .chain(self.instructions.into_iter().flatten())
            .collect()
    }
}

/// The figures as they are committed: a kernel a line. Where instructions were not counted, there are no columns of them.
#[must_use]
pub fn table(kernels: &[MachineCode]) -> String {
    let counted = if kernels.iter().all(|kernel| kernel.instructions.is_some()) { &MNEMONICS[..] } else { &[] };
    let columns: Vec<_> = COLUMNS.iter().chain(counted).copied().collect();
    let mut text = columns.join("\t") + "\tkernel\n";
    for kernel in kernels {
        for figure in kernel.figures() {
            let _ = write!(text, "{figure}\t");
        }
        let _ = writeln!(text, "{}", kernel.name);
    }
    text
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

    /// As the tools write it, by hand.
    #[test]
    fn figures_are_read_from_messages_and_disassembly() {
        let log = "ptxas info    : 0 bytes gmem\n\
                   ptxas info    : Compiling entry function 'one' for 'sm_80'\n\
                   ptxas info    : Function properties for one\n\
                   \x20   8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n\
                   ptxas info    : Used 72 registers, used 1 barriers, 8 bytes cumulative stack size, 20480 bytes smem, 400 bytes cmem[0]\n";
        let code = "\t.section\t.text.one,\"ax\",@progbits\n.text.one:\n\
                    \x20       /*0000*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;\n\
                    \x20       /*0010*/              @!P0 LDGSTS.E.BYPASS.128 [R5], [R2.64] ;\n\
                    \x20       /*0020*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;\n\
                    \x20       /*0030*/                   LDS R5, [HMMA] ;\n";
        let source = kernels::cuda::KernelSource { name: "one.cu", text: "".into() };
        let found = read(&Program { source, defines: vec![("A", 1), ("B", 2)] }, log, Some(code));
        let expected = MachineCode {
            name: "one A=1 B=2".to_owned(),
            registers: 72,
            stack_bytes: 8,
            spill_bytes: 16,
            shared_bytes: 20480,
            instructions: Some([2, 0, 0, 1]),
        };
        assert_eq!(found, [expected]);
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
