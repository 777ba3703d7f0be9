//! What is known about the machine: the instructions of its processor, and the memory this process may still take.

use std::fs;
use std::path::{Path, PathBuf};

use kernels::cpu::Isa;

/// Facts about the machine. Probes declare them instead.
#[derive(Clone, Copy)]
pub(crate) struct Machine {
    /// What the computation may use of the processor.
    pub(crate) isa: Isa,
    /// Bytes of memory this process may still take, where that is known.
    pub(crate) memory: Option<u64>,
}

impl Machine {
    /// This machine, now.
    pub(crate) fn detect() -> Self {
        Self { isa: Isa::detect(), memory: available_memory(Path::new("/")) }
    }
}

/// What the kernel says is available, or less where a control group allows less. Nothing where `root` is not Linux's.
fn available_memory(root: &Path) -> Option<u64> {
    let meminfo = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let available = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10;
    Some(left_in_groups(root).fold(available, u64::min))
}

/// What is left in each control group of this process, in both versions of control groups.
fn left_in_groups(root: &Path) -> impl Iterator<Item = u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut left = Vec::new();
    for line in groups.lines() {
        // `hierarchy:controllers:path`; the second version has no controllers here.
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        if controllers.is_empty() {
            let files = ["memory.max", "memory.current", "inactive_file"];
            left.extend(up_from(&root.join("sys/fs/cgroup"), path).filter_map(|group| left_in(&group, files)));
        } else if controllers.split(',').any(|controller| controller == "memory") {
            let files = ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"];
            left.extend(up_from(&root.join("sys/fs/cgroup/memory"), path).filter_map(|group| left_in(&group, files)));
        }
    }
    left.into_iter()
}

/// The folder of a group below `mount` and those above it: each of them limits. In a container the path may be one of the
/// host, of which only the mount itself is there.
fn up_from(mount: &Path, path: &str) -> impl Iterator<Item = PathBuf> {
    let inner = PathBuf::from(path.trim_start_matches('/'));
    let folders: Vec<_> = inner.ancestors().map(|part| mount.join(part)).collect();
    folders.into_iter()
}

/// The limit of a group less what it uses; what it uses to cache files can be had again.
fn left_in(group: &Path, [limit, usage, cache]: [&str; 3]) -> Option<u64> {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    // Without a limit the second version says `max`, which is no number.
    let (limit, usage) = (number(limit)?, number(usage)?);
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let cached = stat.lines().find_map(|line| line.strip_prefix(cache)?.trim().parse::<u64>().ok()).unwrap_or(0);
    Some(limit.saturating_sub(usage.saturating_sub(cached)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       2000 kB\nMemFree:         500 kB\nMemAvailable:    1000 kB\n";

    /// What is available where `files` are there.
    fn available(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            fs::write(path, text).expect("written");
        }
        available_memory(root.path())
    }

    #[test]
    fn without_a_group_it_is_what_the_kernel_says() {
        assert_eq!(available(&[("proc/meminfo", MEMINFO)]), Some(1_024_000));
        assert_eq!(available(&[]), None);
        for text in ["MemTotal: 1 kB\n", "MemAvailable: 1\n", "MemAvailable: 1 MB\n", "MemAvailable: one kB\n"] {
            assert_eq!(available(&[("proc/meminfo", text)]), None, "{text}");
        }
    }

    #[test]
    fn a_group_of_the_second_version_and_those_above_it_limit() {
        let inner = |limit: &'static str| {
            available(&[
                ("proc/meminfo", MEMINFO),
                ("proc/self/cgroup", "0::/outer/inner\n"),
                ("sys/fs/cgroup/outer/memory.max", "900000\n"),
                ("sys/fs/cgroup/outer/memory.current", "100000\n"),
                ("sys/fs/cgroup/outer/inner/memory.max", limit),
                ("sys/fs/cgroup/outer/inner/memory.current", "60000\n"),
                ("sys/fs/cgroup/outer/inner/memory.stat", "anon 10000\ninactive_file 50000\n"),
            ])
        };
        // 500 000 − (60 000 − 50 000), and 900 000 − 100 000 above.
        assert_eq!(inner("500000\n"), Some(490_000));
        assert_eq!(inner("max\n"), Some(800_000));
        assert_eq!(inner("50\n"), Some(0));
        let unused = [
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "0::/outer\n"),
            ("sys/fs/cgroup/outer/memory.max", "500000\n"),
        ];
        assert_eq!(available(&unused), Some(1_024_000), "what it uses is not told");
    }

    #[test]
    fn a_group_of_the_first_version_limits_and_a_container_sees_the_mount_alone() {
        let group = |folder: &'static str| {
            available(&[
                ("proc/meminfo", MEMINFO),
                ("proc/self/cgroup", "5:cpu:/x\n4:memory:/of/the/host\n0::/\n"),
                (&format!("sys/fs/cgroup/memory{folder}/memory.limit_in_bytes"), "700000\n"),
                (&format!("sys/fs/cgroup/memory{folder}/memory.usage_in_bytes"), "300000\n"),
                (&format!("sys/fs/cgroup/memory{folder}/memory.stat"), "total_inactive_file 100000\n"),
            ])
        };
        assert_eq!((group(""), group("/of/the/host")), (Some(500_000), Some(500_000)));
        assert_eq!(group("/of/another"), Some(1_024_000));
        // The group of another controller may be one that limits memory, and is not this process's.
        let of_another = available(&[
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "5:cpu,cpuacct:/tight\n"),
            ("sys/fs/cgroup/memory/tight/memory.limit_in_bytes", "7\n"),
            ("sys/fs/cgroup/memory/tight/memory.usage_in_bytes", "1\n"),
        ]);
        assert_eq!(of_another, Some(1_024_000));
    }
}
