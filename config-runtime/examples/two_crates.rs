//! Two crates that each bring a namespace, and a program that puts them together.
//!
//! Here the crates are modules; nothing changes if they are packages. `tests/config` does it over packages: its library
//! declares namespaces, and each of its tests is a program that nests them.

#![allow(unreachable_pub)] // The modules stand for crates, whose items are public.

use kitbag::{ConfigNamespaces, ConfigRole, Context, Errors};

/// Would be a crate: it knows its own settings and no program.
mod store {
    use std::path::PathBuf;

    use kitbag::{ByteSize, ConfigNamespaces};

    /// Where pictures are kept.
    #[derive(ConfigNamespaces)]
    #[config(
        ns = "store",
        derived(
            /// Pages that fit in the cache.
            pages: u64 = pages(cache, page)
        ),
        validate(cache_holds_a_page(cache, page))
    )]
    pub struct Store {
        /// Folder of the pictures.
        #[config(default = "pictures", flag = "store")]
        folder: PathBuf,
        /// Memory for the cache.
        #[config(default = "64MiB", hot)]
        cache: ByteSize,
        /// Size of a page.
        #[config(default = "64KiB", range = ByteSize(512)..)]
        page: ByteSize,
    }

    fn pages(cache: ByteSize, page: ByteSize) -> u64 {
        cache.0 / page.0
    }

    fn cache_holds_a_page(cache: ByteSize, page: ByteSize) -> Result<(), String> {
        if cache >= page { Ok(()) } else { Err("the cache does not hold a page".to_owned()) }
    }

    /// Takes its own bag, so it can read nothing else.
    pub fn describe(settings: &StoreBag) -> String {
        let folder = settings.folder().display();
        format!("{} pages of {} of {folder}", *settings.pages(), settings.page())
    }
}

/// Would be another crate.
mod http {
    use std::net::SocketAddr;
    use std::time::Duration;

    use kitbag::ConfigNamespaces;

    /// How requests come in.
    #[derive(ConfigNamespaces)]
    #[config(ns = "http")]
    pub struct Http {
        /// Address to listen on.
        #[config(default = "127.0.0.1:8080")]
        listen: SocketAddr,
        /// Requests at a time.
        #[config(default = 100, range = 1.., hot)]
        at_once: u64,
        /// How long connections are kept.
        #[config(nested)]
        keep: Keep,
    }

    /// How long connections are kept.
    #[derive(ConfigNamespaces)]
    #[config(ns = "http.keep")]
    pub struct Keep {
        /// Time without a request after which a connection is closed.
        #[config(default = "30s", hot)]
        idle: Duration,
    }

    pub fn describe(settings: &HttpBag) -> String {
        let keep = settings.keep().idle().as_secs();
        format!("{} requests at a time on {}, kept for {keep}s", *settings.at_once(), settings.listen())
    }
}

use http::Http;
use store::{Store, StoreBag};

/// Picture service.
#[derive(ConfigNamespaces)]
#[config(env = "PICTURES", derived(budget.pages_per_request: u64 = share(store.pages, http.at_once)))]
struct Args {
    #[config(nested)]
    store: Store,
    #[config(nested)]
    http: Http,
}

/// The program relates what its parts do not know of each other.
fn share(pages: u64, at_once: u64) -> u64 {
    pages / at_once
}

/// The part of the program that cleans up: it may read how pictures are kept, and nothing of requests.
#[derive(ConfigRole)]
#[config(reads(StoreBag))]
struct Cleaner;

fn clean(settings: &ArgsPin<Cleaner>) -> String {
    // `settings.http()` does not compile here.
    format!("cleaning {}", settings.store().folder().display())
}

fn report(cfg: &Context<Args>) -> String {
    let now = cfg.pin();
    let share = *now.budget().pages_per_request();
    let lines = [
        store::describe(now.store()),
        http::describe(now.http()),
        format!("{share} pages a request"),
        clean(&cfg.view::<Cleaner>().pin()),
    ];
    lines.join("\n")
}

fn main() -> Result<(), Errors> {
    println!("{}", report(&Args::load()?));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the part under test.
    #[derive(ConfigNamespaces)]
    struct Part {
        #[config(nested)]
        store: Store,
    }

    #[test]
    fn each_part_reads_its_own() {
        let cfg = Args::for_test(|_| {});
        let expected = "1024 pages of 64KiB of pictures\n\
                        100 requests at a time on 127.0.0.1:8080, kept for 30s\n\
                        10 pages a request\n\
                        cleaning pictures";
        assert_eq!(report(&cfg), expected);
    }

    #[test]
    fn one_file_sets_what_both_bring_and_faults_of_both_come_together() {
        let text = "[store]\ncache = \"1MiB\"\n[http]\nat_once = 4\n[http.keep]\nidle = \"5s\"\n";
        let cfg = Args::loader().text("pictures.toml", text).args(["pictures", "--store", "/p"]).load().unwrap();
        let expected = "16 pages of 64KiB of /p\n\
                        4 requests at a time on 127.0.0.1:8080, kept for 5s\n\
                        4 pages a request\n\
                        cleaning /p";
        assert_eq!(report(&cfg), expected);
        let text = "[store]\ncache = \"1KiB\"\n[http]\nat_once = 0\n";
        let errors = Args::loader().text("pictures.toml", text).load().unwrap_err().to_string();
        assert!(errors.contains("pictures.toml:4:11: http.at_once: 0 is outside 1.."), "{errors}");
    }

    #[test]
    fn a_test_of_one_part_needs_no_program() {
        let cfg = Part::for_test(|o| o.store().cache(kitbag::ByteSize(128 << 10)));
        assert_eq!(store::describe(cfg.pin().store()), "2 pages of 64KiB of pictures");
    }
}
