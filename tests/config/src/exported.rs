//! A schema with a leaf of every kind, and the documents that are made from it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::{NonZeroI8, NonZeroU32};
use std::path::PathBuf;
use std::time::Duration;

use kitbag::{ByteSize, ConfigNamespaces, Leaf, Secret, Value, export};

use crate::{Device, Exec, Schedule, Service};

/// Exported program.
///
/// It has a leaf of every kind, "quotes" among them.
#[derive(ConfigNamespaces)]
#[config(
    env = "KINDS",
    derived(
        /// Rows of all pages.
        totals.rows: usize = rows(exec.kernel.block_rows, schedule.pages),
        at_launch totals.reserved: usize = reserved(totals.factor),
    ),
    validate(enough(totals.factor, schedule.chunk)),
    retired(scalar.legacy = "it did nothing")
)]
pub struct Kinds {
    #[config(nested)]
    schedule: Schedule,
    #[config(nested)]
    exec: Exec,
    #[config(nested)]
    service: Service,
    /// A leaf of the root's own.
    #[config(ns = "totals", default = 3, cache_key = false)]
    factor: usize,

    /// A small number, on
    /// two lines.
    ///
    /// And a second paragraph with `a | b`.
    #[config(ns = "scalar", default = 7, range = -5..=100)]
    small: i8,
    /// A large number.
    #[config(ns = "scalar", default = 18_446_744_073_709_551_615)]
    large: u64,
    /// A number below another.
    #[config(ns = "scalar", default = 0.25, range = 0.0..1.0)]
    part: f64,
    /// A switch.
    #[config(ns = "scalar", default = false, env = "KINDS_VERBOSE")]
    verbose: bool,
    /// Text with everything in it.
    #[config(ns = "scalar", default = "a \"quoted\" \\ path\tand `code` | more")]
    text: String,
    /// A number that is not always there.
    #[config(ns = "scalar", range = 1..=9)]
    maybe: Option<u16>,
    /// More than none.
    #[config(ns = "scalar", default = 4, range = 1..=64)]
    several: NonZeroU32,
    /// Up or down.
    #[config(ns = "scalar", default = -1)]
    step: NonZeroI8,
    /// A number of more than 64 bits.
    #[config(ns = "scalar", default = 36_893_488_147_419_103_232)]
    huge: u128,
    /// The same, up or down.
    #[config(ns = "scalar", default = -5)]
    delta: i128,
    /// What stands between columns.
    #[config(ns = "scalar", default = ';')]
    separator: char,
    /// Somebody has to say.
    #[config(ns = "scalar")]
    needed: String,

    /// Where to listen.
    #[config(ns = "unit", default = "[::1]:8080", flag = "bind")]
    listen: SocketAddr,
    /// Whom to ask.
    #[config(ns = "unit", default = "10.0.0.1")]
    resolver: IpAddr,
    /// Whom to ask of the old kind.
    #[config(ns = "unit", default = "10.0.0.2")]
    resolver_v4: Ipv4Addr,
    /// Whom to ask of the new kind.
    #[config(ns = "unit", default = "fe80::1")]
    resolver_v6: Ipv6Addr,
    /// Where to listen of the old kind.
    #[config(ns = "unit", default = "0.0.0.0:80")]
    listen_v4: SocketAddrV4,
    /// Where to listen of the new kind.
    #[config(ns = "unit", default = "[::]:80")]
    listen_v6: SocketAddrV6,
    /// A duration within limits.
    #[config(ns = "unit", default = "250ms", range = Duration::from_millis(1)..=Duration::from_secs(30))]
    delay: Duration,
    /// A size within limits.
    #[config(ns = "unit", default = "4KiB", range = ByteSize(1)..)]
    block: ByteSize,
    /// Where to write.
    #[config(ns = "unit", default = "out/data")]
    folder: PathBuf,

    /// Devices to try in turn.
    #[config(ns = "many", default = "cpu,auto")]
    devices: Vec<Device>,
    /// Sizes of batches.
    #[config(ns = "many", default = "1,2,4", alias("many.batches", "batch.sizes"))]
    sizes: Vec<u32>,
    /// Weights by name.
    #[config(ns = "many", default = "a=0.5,b c=1")]
    weights: BTreeMap<String, f32>,

    /// Ports that are open.
    #[config(ns = "many", default = "443,80")]
    ports: BTreeSet<u16>,
    /// Devices that are not used.
    #[config(ns = "many", default = "")]
    without: HashSet<Device>,
    /// Limits by name.
    #[config(ns = "many", default = "a=1,b=2")]
    limits: HashMap<String, NonZeroU32>,

    /// A type of the program's own, which says nothing of its shape.
    #[config(ns = "own", default = "40%")]
    share: Percent,
    /// Checked by a function.
    #[config(ns = "own", default = 2, validate = even)]
    pairs: u32,
    /// A token that nobody may see.
    #[config(ns = "own", secret)]
    token: Secret<String>,
    /// Still read, not for long.
    #[config(ns = "own", default = 1, deprecated(since = "0.3", remove_in = "0.5"))]
    old: u32,
    /// Half of the pairs.
    #[config(ns = "own", deprecated(since = "0.2", use = "own.pairs", map = double))]
    singles: u32,
}

fn rows(block_rows: usize, pages: usize) -> usize {
    block_rows * pages
}

fn reserved(factor: usize) -> usize {
    factor * 2
}

fn enough(factor: usize, chunk: usize) -> Result<(), String> {
    if factor <= chunk { Ok(()) } else { Err("a chunk is smaller than the factor".to_owned()) }
}

fn even(pairs: u32) -> Result<(), String> {
    if pairs.is_multiple_of(2) { Ok(()) } else { Err("pairs come in twos".to_owned()) }
}

fn double(singles: u32) -> u32 {
    singles.saturating_mul(2)
}

/// A percentage.
#[derive(Clone, Debug, PartialEq)]
pub struct Percent(u8);

impl Leaf for Percent {
    type Read<'a> = &'a Self;

    fn read(&self) -> &Self {
        self
    }

    fn expected() -> String {
        "a percentage such as `40%`".to_owned()
    }

    fn from_text(text: &str) -> Option<Self> {
        text.strip_suffix('%')?.parse().ok().filter(|percent| *percent <= 100).map(Self)
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Self::from_text(text),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        Value::Text(format!("{}%", self.0))
    }
}

/// The documents that are kept beside the test, by file name.
#[must_use]
pub fn documents() -> [(&'static str, String); 4] {
    [
        ("reference.md", export::markdown::<Kinds>()),
        ("schema.json", export::json_schema::<Kinds>()),
        ("template.toml", export::toml_template::<Kinds>()),
        ("leaves.txt", export::listing::<Kinds>()),
    ]
}
