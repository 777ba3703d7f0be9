//! Proposed by `kitbag-census schema`.

use kitbag::{ConfigChoice, ConfigNamespaces};

/// Thumbnail service.
#[derive(ConfigNamespaces)]
pub struct Args {
    /// Namespace `log`.
    #[config(nested)]
    pub log: Log,
    /// Namespace `pool`.
    #[config(nested)]
    pub pool: Pool,
    /// Namespace `store`.
    #[config(nested)]
    pub store: Store,
    /// Namespace `http`.
    #[config(nested)]
    pub http: Http,
    /// Namespace `work`.
    #[config(nested)]
    pub work: Work,
    /// Namespace `unread`.
    #[config(nested)]
    pub unread: Unread,
    // `command` is no setting: it stays with the command line.
}

/// Namespace `log`: a struct of its own.
#[derive(ConfigNamespaces)]
#[config(ns = "log")]
pub struct Log {
    /// How much.
    // Read in src/http.rs (1).
    #[config(default = "info")]
    pub level: String,
    /// Setting `log.file`.
    // Nothing seems to read it.
    pub file: Option<std::path::PathBuf>,
}

/// Namespace `pool`: names that begin with `pool`.
#[derive(ConfigNamespaces)]
#[config(ns = "pool")]
pub struct Pool {
    /// Worker threads.
    // Read in src/work.rs (1).
    #[config(default = 4, range = 1..=64, flag = "pool-workers")]
    pub workers: u16,
    /// Jobs that may wait.
    // Read in src/work.rs (1).
    #[config(default = 32, flag = "queue-length")]
    pub queue: usize,
    /// Setting `pool`.
    // Read in src/work.rs (1).
    #[config(default = false)]
    pub pool: bool,
    /// How long a job may take.
    // Nothing seems to read it.
    #[config(default = std::time::Duration::from_secs(30), flag = "pool-timeout")]
    pub timeout: std::time::Duration,
}

/// Namespace `store`: names that begin with `store`.
#[derive(ConfigNamespaces)]
#[config(ns = "store")]
pub struct Store {
    /// Where results go.
    // Read in src/work.rs (1).
    #[config(default = "results", flag = "store-folder")]
    pub folder: std::path::PathBuf,
    /// Setting `store_type`.
    // Nothing seems to read it.
    #[config(default = "png")]
    pub store_type: String,
    /// Setting `store_tags`.
    // Nothing seems to read it.
    #[config(default = Vec::new(), flag = "store-tags")]
    pub tags: Vec<String>,
    /// Setting `store_headers`.
    // Was `HashMap<String, String>`; a map is a `BTreeMap` from text.
    // Nothing seems to read it.
    #[config(default = std::collections::BTreeMap::new(), flag = "store-headers")]
    pub headers: std::collections::BTreeMap<String, String>,
    /// Setting `store_limits`.
    // Nothing seems to read it.
    #[config(default = std::collections::BTreeMap::new(), flag = "store-limits")]
    pub limits: std::collections::BTreeMap<String, u64>,
    /// Setting `store_names`.
    // Was `HashSet<String>`; a list is a `Vec`.
    // Nothing seems to read it.
    #[config(default = Vec::new(), flag = "store-names")]
    pub names: Vec<String>,
}

/// Namespace `http`: read mostly in src/http.rs.
#[derive(ConfigNamespaces)]
#[config(ns = "http")]
pub struct Http {
    /// Address to listen on.
    // Read in src/http.rs (1).
    #[config(default = "127.0.0.1:8080", env = "LISTEN")]
    pub listen: std::net::SocketAddr,
    /// Setting `max_size`.
    // Read in src/http.rs (1).
    #[config(default = "4096")]
    pub max_size: Option<usize>,
    /// Setting `started`.
    // Read in src/http.rs (1).
    // Its default is `Duration::from_millis(uptime())`: write a rule, `auto = function`.
    pub started: std::time::Duration,
}

/// Namespace `work`: read mostly in src/work.rs.
#[derive(ConfigNamespaces)]
#[config(ns = "work")]
pub struct Work {
    /// Setting `device`.
    // Read in src/work.rs (1).
    #[config(default = Device::CudaGraph)]
    pub device: Device,
    /// Setting `order`.
    // Read in src/work.rs (1).
    #[config(default = Order::FirstCome)]
    pub order: Order,
    /// Setting `ratio`.
    // Read in src/work.rs (1).
    #[config(default = 0.5)]
    pub ratio: f32,
    /// Setting `offset`.
    // Read in src/work.rs (1).
    #[config(default = -(1 << 4))]
    pub offset: i64,
}

/// Namespace `unread`: nothing seems to read them.
#[derive(ConfigNamespaces)]
#[config(ns = "unread")]
pub struct Unread {
    /// Setting `max_shape`.
    // Was `Shape`; implement `kitbag::Leaf` for it to keep it.
    // Nothing seems to read it.
    // Its default is `Shape::Deep`: write a rule, `auto = function`.
    pub max_shape: String,
    /// Setting `max_threads`.
    // Was `NonZeroUsize`; a range such as `range = 1..` refuses zero.
    // Nothing seems to read it.
    // Its default is `NonZeroUsize::MIN`: write a rule, `auto = function`.
    pub max_threads: usize,
    /// Setting `id`.
    // Nothing seems to read it.
    pub id: Option<String>,
}

/// Where the computation runs.
#[derive(Clone, Copy, Debug, PartialEq, ConfigChoice)]
pub enum Device {
    /// The processor.
    Cpu,
    /// `CudaGraph`.
    #[config(name = "gpu")]
    CudaGraph,
}

/// Choices of `Order`.
#[derive(Clone, Copy, Debug, PartialEq, ConfigChoice)]
pub enum Order {
    /// `FirstCome`.
    #[config(name = "first_come")]
    FirstCome,
    /// `LongestPrefix`.
    #[config(name = "longest_prefix")]
    LongestPrefix,
}
