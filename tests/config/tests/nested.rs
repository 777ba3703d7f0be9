//! Schemas of namespace structs, which live in another crate than the root.

use std::path::{Path, PathBuf};
use std::time::Duration;

use config_tests::{Device, Exec, Schedule, Service};
use kitbag::{ByteSize, ConfigNamespaces, Facts};

/// An engine.
#[derive(ConfigNamespaces)]
#[config(env = "NEST", derived(totals.rows: usize = rows(exec.kernel.block_rows, schedule.pages)))]
pub struct Args {
    #[config(nested)]
    schedule: Schedule,
    /// Everything about execution.
    #[config(nested)]
    exec: Exec,
    #[config(nested)]
    service: Service,
    /// A leaf of the root's own.
    #[config(ns = "totals", default = 3)]
    factor: usize,
}

fn rows(block_rows: usize, pages: usize) -> usize {
    block_rows * pages
}

#[test]
fn accessors_follow_the_tree() {
    let cfg = Args::for_test(|_| {});
    let now = cfg.pin();
    assert_eq!(now.schedule().page_size(), 16);
    assert_eq!(now.schedule().chunk(), 512);
    assert_eq!(now.schedule().pages(), 256);
    assert_eq!(now.schedule().pages_and_spare(), 257);
    assert_eq!(now.exec().device(), Device::Auto);
    assert_eq!(now.exec().threads(), 2);
    assert_eq!(now.exec().kernel().block_rows(), 64);
    assert_eq!(now.exec().kernel().block_bytes(), 64 * 128);
    assert_eq!(now.exec().kernel().cache_dir(), None);
    assert_eq!(now.service().title(), "thumbs".to_owned());
    assert_eq!(now.service().patience(), Duration::from_millis(1500));
    assert_eq!(now.service().body_limit(), ByteSize(8 << 20));
    assert_eq!(now.service().allow(), ["localhost"]);
    assert_eq!(now.totals().factor(), 3);
    assert_eq!(now.totals().rows(), 64 * 256);
}

#[test]
fn every_leaf_is_reached_by_its_path() {
    let cfg = Args::for_test(|_| {});
    for (path, value) in cfg.values() {
        let explanation = cfg.explain(path).expect("listed");
        assert_eq!((explanation.path(), explanation.value()), (path, value.to_string().as_str()));
    }
    let paths: Vec<_> = cfg.values().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths.len(), 18);
    assert_eq!(paths.iter().filter(|path| path.starts_with("exec.kernel.")).count(), 4);
}

#[test]
fn setters_follow_the_tree() {
    let cfg = Args::for_test(|o| {
        o.exec().device(Device::Cpu);
        o.exec().threads(7);
        o.exec().kernel().block_rows(32);
        o.exec().kernel().cache_dir(Some(PathBuf::from("/tmp/k")));
        o.schedule().max_tokens(1000);
        o.service().title("other");
        o.totals().factor(9);
    });
    let now = cfg.pin();
    assert_eq!(now.exec().device(), Device::Cpu);
    assert_eq!(now.exec().threads(), 7);
    assert_eq!(now.exec().kernel().block_rows(), 32);
    assert_eq!(now.exec().kernel().cache_dir(), Some(Path::new("/tmp/k")));
    assert_eq!(now.schedule().pages(), 63);
    assert_eq!(now.totals().rows(), 32 * 63);
    assert_eq!(now.totals().factor(), 9);
    assert_eq!(now.service().title(), "other".to_owned());
}

#[test]
fn every_source_reaches_every_namespace() {
    let cfg = Args::loader()
        .text(
            "a.toml",
            "[exec]\ndevice = \"cuda-graph\"\n[exec.kernel]\nblock_rows = 16\n[service]\nallow = [\"a\", \"b\"]",
        )
        .env([("NEST_EXEC_KERNEL_CACHE_DIR", "/k"), ("NEST_SERVICE_PATIENCE", "2m"), ("OTHER_THING", "1")])
        .args(["nest", "--no-eager", "--temperature=1", "--max-tokens", "64", "--chunk", "64"])
        .facts(Facts::for_test().with_cpus(5))
        .load()
        .expect("valid");
    let now = cfg.pin();
    assert_eq!(now.exec().device(), Device::CudaGraph);
    assert_eq!(now.exec().threads(), 5);
    assert_eq!(now.exec().kernel().block_rows(), 16);
    assert_eq!(now.exec().kernel().cache_dir(), Some(Path::new("/k")));
    assert!(!*now.exec().kernel().eager());
    assert_eq!(now.service().allow(), ["a", "b"]);
    assert_eq!(now.service().patience(), Duration::from_mins(2));
    assert_eq!(now.service().temperature(), 1.0);
    assert_eq!(now.totals().rows(), 16 * 4);
}
