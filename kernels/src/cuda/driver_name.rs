//! Giving a driver the name by which cudarc opens one.
//!
//! The system's loader takes a name for that of a library that is loaded already if the library says so itself, and drivers say
//! `libcuda.so.1`. So a library is made that has nothing but the name `libcuda.so` and the need of the driver: what is looked for
//! in it is found in the driver.

use std::ffi::{CString, c_char, c_int, c_uint};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libloading::os::unix::{Library, RTLD_LAZY};

/// Has `libcuda.so` mean the driver of this file, or of this name, if nothing that is loaded has the name yet and the system
/// allows it; whoever needs to know looks.
pub(super) fn give(driver: &Path) {
    let Some(image) = image(driver.as_os_str().as_bytes()) else { return };
    let Some(file) = in_memory(&image) else { return };
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // SAFETY: the library has no code, and what it needs is loaded already.
    if let Ok(library) = unsafe { Library::open(Some(path), RTLD_LAZY) } {
        // As long as the driver, which is never closed.
        std::mem::forget(library);
    }
}

/// A file that is in no folder.
fn in_memory(content: &[u8]) -> Option<File> {
    unsafe extern "C" {
        fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    }
    /// `MFD_CLOEXEC`
    const CLOSED_IN_OTHER_PROGRAMS: c_uint = 1;
    let name = CString::new("libcuda.so").ok()?;
    // SAFETY: the name is a C string.
    let descriptor = unsafe { memfd_create(name.as_ptr(), CLOSED_IN_OTHER_PROGRAMS) };
    if descriptor < 0 {
        return None;
    }
    // SAFETY: the descriptor is open, and nobody else has it.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    file.write_all(content).ok()?;
    Some(file)
}

/// A library in the format of Linux, ELF: no code, the name `libcuda.so`, and the need of `driver`. None for other processors than
/// those that CUDA's driver is made for.
fn image(driver: &[u8]) -> Option<Vec<u8>> {
    // One after another, each aligned to 8 bytes: the header, three of segments, the table of the loader, that of symbols, which
    // has the one that means none, its hash table, and the names.
    const HEADER: u64 = 64;
    const SEGMENTS: u64 = 3 * 56;
    const ENTRIES: u64 = 8 * 16;
    const SYMBOLS: u64 = 24;
    const HASHES: u64 = 16;
    // What is loaded may be read and written.
    const READ_AND_WRITTEN: u32 = 6;
    let machine: u16 = match std::env::consts::ARCH {
        "x86_64" => 62,
        "aarch64" => 183,
        _ => return None,
    };
    let entries = HEADER + SEGMENTS;
    let symbols = entries + ENTRIES;
    let hashes = symbols + SYMBOLS;
    let names = hashes + HASHES;
    let mut text = b"\0libcuda.so\0".to_vec();
    let driver_name = text.len() as u64;
    text.extend_from_slice(driver);
    text.push(0);
    let size = names + text.len() as u64;

    let mut image = Vec::new();
    // 64 bits, the low byte first, version 1.
    image.extend(b"\x7fELF\x02\x01\x01");
    image.resize(16, 0);
    // A library; the version; no entry; where segments are, and no sections; no flags; sizes and numbers of these headers.
    image.extend([3, machine].into_iter().flat_map(u16::to_le_bytes));
    image.extend(1_u32.to_le_bytes());
    image.extend([0, HEADER, 0].into_iter().flat_map(u64::to_le_bytes));
    image.extend(0_u32.to_le_bytes());
    image.extend([64_u16, 56, 3, 64, 0, 0].into_iter().flat_map(u16::to_le_bytes));
    // All of it is loaded to be read, and to be written, since the loader turns offsets into addresses; the loader's table; and a
    // stack that is not executed, without which libraries ask for one that is.
    let (load, table, stack) = (1_u32, 2_u32, 0x6474_e551_u32);
    for (kind, offset, bytes, alignment) in [(load, 0, size, 0x1_0000), (table, entries, ENTRIES, 8), (stack, 0, 0, 16)]
    {
        image.extend([kind, READ_AND_WRITTEN].into_iter().flat_map(u32::to_le_bytes));
        image.extend([offset, offset, offset, bytes, bytes, alignment].into_iter().flat_map(u64::to_le_bytes));
    }
    // What is needed, the own name, tables and their sizes, and the end.
    let table: [(u64, u64); 8] = [
        (1, driver_name),
        (14, 1),
        (4, hashes),
        (5, names),
        (6, symbols),
        (10, text.len() as u64),
        (11, SYMBOLS),
        (0, 0),
    ];
    image.extend(table.into_iter().flat_map(|(kind, value)| [kind, value]).flat_map(u64::to_le_bytes));
    image.resize(hashes as usize, 0);
    // One bucket, one symbol, and that is none.
    image.extend([1_u32, 1, 0, 0].into_iter().flat_map(u32::to_le_bytes));
    image.extend(text);
    Some(image)
}
