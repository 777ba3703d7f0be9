//! The service whose files the tests read, and how they look at what comes of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use kitbag::{ByteSize, ConfigNamespaces, Errors, Facts, Loader, Secret};

/// A service.
#[derive(ConfigNamespaces)]
#[config(env = "APP", derived(pool.total: usize = total(pool.queue)))]
pub(crate) struct Args {
    /// Jobs that may wait.
    #[config(ns = "pool", default = 32, range = 0..=9999)]
    queue: usize,
    /// Keep jobs on disk.
    #[config(ns = "pool", default = false)]
    durable: bool,
    /// Seed.
    #[config(ns = "pool", default = 7)]
    seed: u64,
    /// Offset.
    #[config(ns = "pool", default = 0)]
    offset: i64,
    /// Share of jobs.
    #[config(ns = "pool", default = 0.5)]
    share: f64,
    /// Greeting.
    #[config(ns = "http", default = "hello")]
    greeting: String,
    /// Banner.
    #[config(ns = "http", default = "none")]
    banner: Option<String>,
    /// Hosts.
    #[config(ns = "http", default = "")]
    hosts: Vec<String>,
    /// Ports.
    #[config(ns = "http", default = "")]
    ports: Vec<u16>,
    /// How long a client may wait.
    #[config(ns = "http.client", default = "1s")]
    patience: Duration,
    /// Largest body.
    #[config(ns = "http.client", default = "1MiB")]
    body: ByteSize,
    /// Weights by name.
    #[config(ns = "http.client", default = "")]
    weights: BTreeMap<String, u32>,
    /// Number that opens the door.
    #[config(ns = "door", secret)]
    pin: Option<Secret<u32>>,
}

fn total(queue: usize) -> usize {
    queue + 1
}

pub(crate) fn loader() -> Loader<Args> {
    Args::loader().facts(Facts::for_test())
}

pub(crate) fn lines(errors: &Errors) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

pub(crate) fn faults(name: &str, text: &str) -> Vec<String> {
    match loader().text(name, text).load() {
        Ok(_) => panic!("{name} was accepted: {text:?}"),
        Err(errors) => lines(&errors),
    }
}

/// The value of a leaf after reading a text.
pub(crate) fn value(name: &str, text: &str, leaf: &str) -> String {
    let cfg = loader().text(name, text).load().unwrap_or_else(|errors| panic!("{text:?}: {errors}"));
    cfg.explain(leaf).unwrap().value().to_owned()
}

pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            folder.write(name, text.as_bytes());
        }
        folder
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Without this folder's own name.
    pub(crate) fn short(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.0.path().display()), "")
    }

    pub(crate) fn faults(&self, name: &str) -> Vec<String> {
        let errors = loader().file(self.path(name)).load().map(|_| ()).unwrap_err();
        errors.iter().map(|error| self.short(&error.to_string())).collect()
    }
}
