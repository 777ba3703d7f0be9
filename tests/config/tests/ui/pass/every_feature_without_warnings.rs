//! Generated code is free of warnings under the strictest settings.
#![deny(warnings, missing_docs, unreachable_pub, unused, clippy::pedantic)]

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::path::PathBuf;

use kitbag::{ByteSize, ConfigChoice, ConfigNamespaces, ConfigRole, Facts, Serde};
use serde::{Deserialize, Serialize};

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq, ConfigChoice)]
pub enum Mode {
    /// Fast.
    Fast,
    /// Another spelling.
    #[config(name = "safe-and-slow")]
    Slow,
}

/// A namespace.
#[derive(ConfigNamespaces)]
#[config(ns = "inner", derived(twice: usize = twice(count)), validate(not_seven(count)))]
pub struct Inner {
    /// Count.
    #[config(default = 3, range = 1..=9, hot)]
    count: usize,
    /// Optional.
    limit: Option<ByteSize>,
}

fn twice(count: usize) -> usize {
    2 * count
}

fn not_seven(count: usize) -> Result<(), String> {
    if count == 7 { Err("seven is unlucky".to_owned()) } else { Ok(()) }
}

/// The schema.
#[derive(ConfigNamespaces)]
#[config(
    env = "LINT",
    derived(
        /// All of it.
        #[cases(inner.count = [1, 4], a.b.depth = [usize::MIN, 2])]
        #[twin = other_total]
        sum.total: usize = total(inner.count, a.b.depth),
    ),
    validate(fits(inner.twice, a.name))
)]
pub struct Args {
    /// Nested.
    #[config(nested)]
    inner: Inner,
    /// Name.
    #[config(ns = "a", default = "x")]
    name: String,
    /// Folder.
    #[config(ns = "a", default = PathBuf::from("/tmp"), load_time)]
    folder: PathBuf,
    /// Depth.
    #[config(ns = "a.b", auto = depth(a.name, facts))]
    depth: usize,
    /// Mode.
    #[config(ns = "a.b", default = Mode::Fast, flag = "run-mode")]
    mode: Mode,
    /// Labels.
    #[config(ns = "a.b", default = "k=1,l=2")]
    labels: BTreeMap<String, u32>,
    /// Home.
    #[config(ns = "a", default = "home", bootstrap)]
    home: PathBuf,
    /// Places, never none.
    #[config(ns = "a.b", default = 3, range = 1..=8)]
    places: NonZeroU16,
    /// By serde.
    #[config(ns = "a.b", default = "{}")]
    point: Serde<Point>,
    /// Keyword.
    #[config(ns = "a", default = true)]
    r#type: bool,
}

fn total(count: usize, depth: usize) -> usize {
    count + depth
}

fn other_total(count: usize, depth: usize) -> usize {
    depth + count
}

/// A type with serde.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    #[serde(default)]
    x: i32,
}

fn depth(name: &str, facts: &Facts) -> usize {
    name.len() + facts.cpus()
}

fn fits(twice: usize, name: &str) -> Result<(), String> {
    if twice < 100 { Ok(()) } else { Err(format!("too much for {name}")) }
}

/// A role.
#[derive(ConfigRole)]
#[config(reads(ABag, SumBag))]
pub struct Reader;

fn main() {
    let cfg = Args::for_test(|o| {
        o.a().name("four");
        o.a().r#type(false);
    });
    let early = Args::loader().bootstrap().expect("nothing is wrong");
    assert_eq!(early.get(Args::keys().a.home), PathBuf::from("home"));
    let now = cfg.view::<Reader>().pin();
    assert_eq!((now.a().b().places().get(), now.a().b().point()), (3, &Point { x: 0 }));
    assert_eq!((now.a().b().depth(), *now.sum().total()), (6, 9));
    assert_eq!((now.a().b().mode(), now.a().r#type(), now.a().b().labels()["l"]), (Mode::Fast, false, 2));
    assert_eq!(cfg.explain("a.type").map(|e| e.value().to_owned()), Ok("false".to_owned()));
}
