//! What the full schema costs while a program runs: `cargo bench -p config-scale --bench resolve`.
//!
//! Each figure is the median of many samples.

use std::hint::black_box;
use std::time::{Duration, Instant};

use config_scale::Args;
use kitbag::{ConfigNamespaces, Facts};

/// Nanoseconds per call of `run`, the median of `samples` samples of `calls` calls.
fn median(samples: usize, calls: u32, mut run: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..=samples)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..calls {
                run();
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
        })
        // The first sample warms caches.
        .skip(1)
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Milliseconds from the call of a reload, its file being settled, to the last of eight acknowledgements; the median.
fn reload(samples: usize) -> f64 {
    let path = std::env::temp_dir().join(format!("kitbag-bench-{}.toml", std::process::id()));
    let write = |hidden: bool| {
        let text = format!("[model]\nmodel_path = \"m\"\n[schedule]\ndisable_chunked_prefix_cache = {hidden}\n");
        std::fs::write(&path, text).expect("a folder for temporary files");
    };
    write(false);
    let loader = Args::loader().file(&path).facts(Facts::for_test());
    let cfg = loader.clone().load().expect("valid");
    let workers: Vec<_> = (0..8)
        .map(|number| {
            let mut subscription = cfg.subscribe(&format!("worker {number}"));
            std::thread::spawn(move || {
                while let Some(update) = subscription.wait(Duration::from_secs(1)) {
                    black_box(update.pin());
                    subscription.acknowledge(&update);
                }
            })
        })
        .collect();
    let mut times: Vec<f64> = (0..samples)
        .map(|sample| {
            write(sample % 2 == 0);
            let start = Instant::now();
            cfg.reload(&loader).expect("valid");
            cfg.wait_applied(cfg.epoch(), Duration::from_secs(5)).expect("all acknowledge");
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    drop(cfg);
    for worker in workers {
        worker.join().expect("a worker ends");
    }
    // A file that stays behind is a file for the system to remove.
    let _ = std::fs::remove_file(&path);
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let text = "[model]\nmodel_path = \"m\"\n[parallel]\ntp_size = 8\n[schedule]\nmax_prefill_tokens = 2048\n";
    let from_file = Args::loader().text("scale.toml", text).facts(Facts::for_test());
    let from_flags = from_file.clone().args(["scale", "--ep-size=4", "--log-level=debug"]);
    let cfg = from_file.clone().load().expect("valid");
    let mut reader = cfg.reader();
    let now = cfg.pin();
    let results = [
        ("resolve and publish, file", median(41, 20, || drop(black_box(from_file.clone().load())))),
        ("resolve and publish, file and flags", median(41, 5, || drop(black_box(from_flags.clone().load())))),
        (
            "override commit and its removal",
            median(41, 50, || {
                let guard = cfg.override_with("bench", |o| {
                    o.schedule().disable_chunked_prefix_cache(true);
                });
                drop(black_box(guard));
            }),
        ),
        ("explain a setting", median(41, 500, || drop(black_box(cfg.explain("schedule.max_prefill_tokens"))))),
        ("explain a derived value", median(41, 200, || drop(black_box(cfg.explain("parallel.max_world_size"))))),
        ("read by name", median(41, 10_000, || drop(black_box(cfg.value(black_box("parallel.tp_size")))))),
        ("pin", median(41, 100_000, || drop(black_box(cfg.pin())))),
        (
            "read through a live reader",
            median(41, 1_000_000, || {
                black_box(black_box(&mut reader).now().parallel().tp_size());
            }),
        ),
        (
            "read through a pin",
            median(41, 1_000_000, || {
                black_box(black_box(&now).parallel().tp_size());
            }),
        ),
    ];
    for (name, nanos) in results {
        match nanos {
            1e6.. => println!("{name:<40} {:>10.3} ms", nanos / 1e6),
            1e3.. => println!("{name:<40} {:>10.3} µs", nanos / 1e3),
            _ => println!("{name:<40} {nanos:>10.2} ns"),
        }
    }
    println!("{:<40} {:>10.3} ms", "reload to the last of 8 acknowledgements", reload(41));
}
