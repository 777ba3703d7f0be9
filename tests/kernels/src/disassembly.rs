//! Which instructions kernels have, told by NVIDIA's disassembler.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use kernels::cuda::Target;

use crate::compiler_folder;

/// Instructions that are counted, and what they are: products by tensor cores of floats and of whole numbers, loads of
/// their operands from shared memory, and copies from global to shared memory that nobody waits for.
pub const MNEMONICS: [&str; 4] = ["HMMA", "IMMA", "LDSM", "LDGSTS"];

/// How often each of [`MNEMONICS`] is in a kernel.
pub type Counts = [usize; MNEMONICS.len()];

/// Bytes of an instruction, on all devices from compute capability 7.0 on.
const INSTRUCTION: usize = 16;

/// The counted instructions of the kernels of each of some machine codes for a target, by the kernels' names.
///
/// The disassembler takes longer to start than to read all kernels, so that it gets the instructions of all of them as one
/// run, without the files around them.
///
/// # Panics
///
/// If it is missing, or what it says is not what this reads.
#[must_use]
pub fn count<'a>(target: Target, codes: &[&'a [u8]]) -> Vec<BTreeMap<&'a str, Counts>> {
    let kernels: Vec<_> = codes.iter().map(|code| sections(code)).collect();
    let all: Vec<u8> = kernels.iter().flatten().flat_map(|(_, instructions)| *instructions).copied().collect();
    let disassembly = disassemble(target, &all);
    let mut mnemonics = disassembly.lines().filter_map(mnemonic);
    let mut count_of = |instructions: &[u8]| {
        let mut counts = Counts::default();
        for _ in 0..instructions.len() / INSTRUCTION {
            let found = mnemonics.next().expect("the disassembler shows every instruction");
            if let Some(place) = MNEMONICS.iter().position(|counted| *counted == found) {
                counts[place] += 1;
            }
        }
        counts
    };
    let counts = kernels.iter().map(|kernels| kernels.iter().map(|(name, code)| (*name, count_of(code))).collect());
    let counts = counts.collect();
    assert_eq!(mnemonics.next(), None, "the disassembler shows more instructions than there are");
    counts
}

fn disassemble(target: Target, instructions: &[u8]) -> String {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    fs::write(file.path(), instructions).expect("a temporary file can be written");
    let disassembler = compiler_folder().join("nvdisasm");
    let architecture = target.to_string().replace("sm_", "SM");
    let output = Command::new(&disassembler).args(["-ndf", "-b", &architecture]).arg(file.path()).output();
    let output =
        output.unwrap_or_else(|error| panic!("{}: {error}: run `cargo xtask cuda-tools`", disassembler.display()));
    assert!(output.status.success(), "nvdisasm: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The instruction of a line, if it has one.
fn mnemonic(line: &str) -> Option<&str> {
    let (place, code) = line.trim().strip_prefix("/*")?.split_once("*/")?;
    u64::from_str_radix(place, 16).ok()?;
    // A condition, `@!P0`, may stand before the instruction.
    let word = code.split_whitespace().find(|word| !word.starts_with('@'))?;
    word.split(['.', ';']).next()
}

/// The kernels of a machine code and their instructions: sections of a 64-bit ELF file.
fn sections(code: &[u8]) -> Vec<(&str, &[u8])> {
    assert!(code.starts_with(b"\x7fELF\x02\x01"), "machine code is a 64-bit ELF file of little-endian numbers");
    let number = |at: usize, bytes: usize| -> usize {
        code[at..at + bytes].iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
    };
    let (table, entry, entries, names) = (number(40, 8), number(58, 2), number(60, 2), number(62, 2));
    // A header's fields: where the name is among the names, and where and how long the content is.
    let header = |index: usize| {
        let at = table + index * entry;
        (number(at, 4), number(at + 24, 8), number(at + 32, 8))
    };
    let (_, names, _) = header(names);
    let section = |index| {
        let (name, start, length) = header(index);
        let name = code[names + name..].split(|&byte| byte == 0).next()?;
        Some((std::str::from_utf8(name).ok()?.strip_prefix(".text.")?, &code[start..start + length]))
    };
    (0..entries).filter_map(section).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_found_in_lines_as_the_disassembler_writes_them() {
        assert_eq!(mnemonic("        /*0000*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;"), Some("HMMA"));
        assert_eq!(mnemonic("        /*0010*/              @!P0 LDGSTS.E.BYPASS.128 [R5], [R2.64] ;"), Some("LDGSTS"));
        assert_eq!(mnemonic("        /*1a0f0*/                  EXIT;"), Some("EXIT"));
        assert_eq!(mnemonic("        /*0030*/                   LDS R5, [HMMA] ;"), Some("LDS"));
        assert_eq!(mnemonic("\t.headerflags\t@\"EF_CUDA_SM90\""), None);
    }

    /// Two kernels, one of them empty, and a section that is none: laid out by hand.
    #[test]
    fn sections_of_kernels_are_found_in_an_elf_file() {
        let names = b"\0.text.one\0.data\0.text.two\0";
        let mut file = b"\x7fELF\x02\x01".to_vec();
        file.resize(64, 0);
        let (names_at, code_at) = (file.len(), file.len() + names.len());
        file.extend(names);
        file.extend([7; 32]);
        let table = file.len();
        for (name, start, length) in [(0, names_at, names.len()), (1, code_at, 32), (11, code_at, 8), (17, code_at, 0)]
        {
            let mut header = [0; 64];
            header[..4].copy_from_slice(&u32::to_le_bytes(name));
            header[24..32].copy_from_slice(&(start as u64).to_le_bytes());
            header[32..40].copy_from_slice(&(length as u64).to_le_bytes());
            file.extend(header);
        }
        file[40..48].copy_from_slice(&(table as u64).to_le_bytes());
        file[58] = 64;
        file[60] = 4;
        assert_eq!(sections(&file), [("one", &[7; 32][..]), ("two", &[][..])]);
    }
}
