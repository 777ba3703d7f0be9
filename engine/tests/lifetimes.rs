//! Engines that come and go leave nothing behind: memory, threads and open files of the process stay as they were.
//!
//! This is the only test of its program: what others would hold at the same time would be counted too.

#![cfg(target_os = "linux")]

mod support;

use std::fs;
use std::path::Path;

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine_config::Settings;
use kitbag::ConfigNamespaces;
use support::{folder_with, greedy, models, open, runner};

const CYCLES: usize = 1000;
/// Enough that the allocator has what it keeps.
const WARM_UP: usize = 100;

/// What a process holds.
#[derive(Debug)]
struct Held {
    resident_kib: usize,
    threads: usize,
    files: usize,
}

fn held() -> Held {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells");
    let number = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("a line");
        line.trim().trim_end_matches("kB").trim().parse().expect("a number")
    };
    // One of the files is the folder that lists them.
    let files = fs::read_dir("/proc/self/fd").expect("Linux tells").count() - 1;
    Held { resident_kib: number("VmRSS:"), threads: number("Threads:"), files }
}

/// Settings, a model, its threads and pages, an answer; and all of it dropped.
///
/// A vocabulary takes long to read, so one in ten models has one. The others are in the folder `bare`.
fn cycle(bare: &Path, index: usize) {
    let page_size = 1 << (index % 5);
    let context = Settings::for_test(|set| {
        set.schedule().page_size(page_size);
    });
    let pin = context.pin();
    let checkpoint = if index.is_multiple_of(10) {
        open(&models().join("llama_tied"))
    } else {
        Checkpoint::open(bare, LoadFormat::Dummy).expect("a model")
    };
    let mut runner = runner(&checkpoint, pin.schedule().page_size(), 8);
    assert_eq!(greedy(&mut runner, &[1, 2, 3], 2).len(), 2);
}

/// Threads that have been joined may take a moment to go from the list.
fn settled(threads: usize) -> Held {
    for _ in 0..200 {
        if held().threads <= threads {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    held()
}

#[test]
fn a_thousand_engines_leave_nothing_behind() {
    let bare = folder_with("llama_tied", &["config.json"]);
    let threads = held().threads;
    (0..WARM_UP).for_each(|index| cycle(bare.path(), index));
    let before = settled(threads);
    (WARM_UP..CYCLES).for_each(|index| cycle(bare.path(), index));
    let after = settled(threads);
    assert_eq!((after.threads, after.files), (before.threads, before.files), "{before:?} {after:?}");
    // A model of this size has 0.6 MiB: one that stayed in ten cycles would be 50 MiB.
    assert!(after.resident_kib < before.resident_kib + 16 * 1024, "{before:?} {after:?}");
}
