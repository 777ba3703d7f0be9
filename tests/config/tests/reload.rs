//! Republish, reload, watch, subscribers, history.

use std::path::Path;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use config_tests::{Schedule, Service};
use kitbag::{ConfigNamespaces, Context, Errors, Facts, Loader, Outstanding};

/// An engine.
#[derive(ConfigNamespaces)]
#[config(
    env = "RELOAD",
    derived(
        sizes.live: usize = twice(schedule.chunk),
        at_publish sizes.published: usize = twice(schedule.chunk),
        at_launch sizes.launched: usize = twice(schedule.chunk),
    )
)]
struct Args {
    #[config(nested)]
    schedule: Schedule,
    #[config(nested)]
    service: Service,
}

fn twice(chunk: usize) -> usize {
    2 * chunk
}

const LONG: Duration = Duration::from_secs(20);

fn loader(text: &str) -> Loader<Args> {
    Args::loader().facts(Facts::for_test()).text("app.toml", text)
}

fn chunk(cfg: &Context<Args>) -> usize {
    *cfg.pin().schedule().chunk()
}

fn sizes(cfg: &Context<Args>) -> (usize, usize, usize) {
    let now = cfg.pin();
    (*now.sizes().live(), *now.sizes().published(), now.sizes().launched())
}

#[test]
fn an_optional_file_may_come_and_may_not_go() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("user.toml");
    let loader = loader("[schedule]\nchunk = 100").file_if_present(&file);
    let cfg = loader.load().unwrap();
    let (sender, reports) = mpsc::channel();
    let watch = cfg.watch(loader.clone(), Duration::from_millis(2), move |report| drop(sender.send(report))).unwrap();
    std::fs::write(&file, "[schedule]\nchunk = 200").unwrap();
    assert_eq!(reports.recv_timeout(LONG).unwrap().unwrap(), ["schedule.chunk"]);
    drop(watch);
    assert_eq!(chunk(&cfg), 200);
    // An editor may be about to write it again; taking the defaults meanwhile would be wrong.
    std::fs::remove_file(&file).unwrap();
    let error = cfg.reload(&loader).unwrap_err().to_string();
    assert!(
        error.contains("user.toml: this file was read before and is gone; a file that is to set nothing"),
        "{error}"
    );
    assert_eq!(chunk(&cfg), 200);
    std::fs::write(&file, "# nothing").unwrap();
    assert_eq!(cfg.reload(&loader).unwrap(), ["schedule.chunk"]);
    assert_eq!(chunk(&cfg), 100);
    // New input is new input.
    std::fs::remove_file(&file).unwrap();
    cfg.republish(loader.resolve().unwrap(), Outstanding::Carry).unwrap();
    assert!(cfg.reload(&loader).is_ok());
}

#[test]
fn derived_values_follow_their_policy() {
    let cfg = loader("[schedule]\nchunk = 100").load().unwrap();
    assert_eq!(sizes(&cfg), (200, 200, 200));
    let guard = cfg.override_with("x", |o| o.schedule().chunk(50)).unwrap();
    assert_eq!(sizes(&cfg), (100, 200, 200));
    let child = cfg.child("child", |_| {}).unwrap();
    assert_eq!(sizes(&child), (100, 100, 100), "a child is a launch of its own");
    drop(guard);
    assert_eq!((sizes(&cfg), sizes(&child)), ((200, 200, 200), (200, 100, 100)));
    cfg.republish(loader("[schedule]\nchunk = 10").resolve().unwrap(), Outstanding::Drop).unwrap();
    assert_eq!(sizes(&cfg), (20, 20, 200));
}

#[test]
fn republish_drops_or_carries_and_says_what_it_dropped() {
    let cfg = loader("").load().unwrap();
    let scoped = cfg.override_with("burst", |o| o.schedule().chunk(100)).unwrap();
    cfg.override_permanently("tuned", |o| o.service().temperature(0.5)).unwrap();
    let new = || loader("[schedule]\npage_size = 64\nchunk = 300").resolve().unwrap();
    assert_eq!(cfg.republish(new(), Outstanding::Carry).unwrap(), []);
    assert_eq!((cfg.pin().schedule().page_size(), chunk(&cfg), *cfg.pin().service().temperature()), (64, 100, 0.5));
    let dropped = cfg.republish(new(), Outstanding::Drop).unwrap();
    let leaves: Vec<_> = dropped.iter().flat_map(|dropped| dropped.leaves.clone()).collect();
    assert_eq!(leaves, ["service.temperature", "schedule.chunk"]);
    assert!(dropped[1].origin.contains("\"burst\""), "{dropped:?}");
    assert_eq!((chunk(&cfg), *cfg.pin().service().temperature()), (300, 0.0));
    drop(scoped);
    assert_eq!(chunk(&cfg), 300);
}

#[test]
fn a_republish_that_does_not_fit_changes_nothing() {
    let cfg = loader("").load().unwrap();
    let _wide = cfg.override_with("wide", |o| o.schedule().chunk(4000)).unwrap();
    let small = loader("[schedule]\nmax_tokens = 600").resolve().unwrap();
    let errors = cfg.republish(small, Outstanding::Carry).unwrap_err();
    assert!(errors.to_string().contains("a chunk is larger than the cache"), "{errors}");
    assert_eq!((chunk(&cfg), cfg.pin().schedule().max_tokens()), (4000, 4096));
    let child = cfg.child("child", |_| {}).unwrap();
    let errors = child.republish(loader("").resolve().unwrap(), Outstanding::Drop).unwrap_err();
    assert!(errors.to_string().contains("republish the parent"), "{errors}");
}

#[test]
fn reload_takes_hot_leaves_and_refuses_the_rest_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.toml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write("[schedule]\nchunk = 100\n");
    let loader = Args::loader().facts(Facts::for_test()).file(&file);
    let cfg = loader.clone().load().unwrap();
    let epoch = cfg.epoch();
    assert_eq!(cfg.reload(&loader).unwrap(), Vec::<&str>::new());
    assert_eq!(cfg.epoch(), epoch, "nothing changed, so there is no new epoch");
    write("[schedule]\nchunk = 200\n[service]\ntemperature = 0.5");
    assert_eq!(cfg.reload(&loader).unwrap(), ["schedule.chunk", "service.temperature"]);
    assert_eq!((chunk(&cfg), sizes(&cfg)), (200, (400, 200, 200)));
    assert!(cfg.explain("schedule.chunk").unwrap().to_string().contains("app.toml:2:9: 200"));
    write("[schedule]\nchunk = 300\npage_size = 32\nmax_tokens = 9000\n");
    let errors = cfg.reload(&loader).unwrap_err();
    let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "reload: schedule.page_size: changed from 16 to 32, which needs a restart (it is `launch`)",
            "reload: schedule.max_tokens: changed from 4096 to 9000, which needs a restart (it is `load_time`)",
        ]
    );
    assert_eq!(chunk(&cfg), 200);
    for broken in ["[schedule]\nchunk = ", "[schedule]\nchunk = 0", "[schedule]\nchnk = 3"] {
        write(broken);
        assert!(cfg.reload(&loader).is_err(), "{broken}");
    }
    std::fs::remove_file(&file).unwrap();
    assert!(cfg.reload(&loader).unwrap_err().to_string().contains("cannot read"), "a vanished file is no default");
    assert_eq!((chunk(&cfg), *cfg.pin().service().temperature()), (200, 0.5));
}

#[test]
fn what_was_declared_while_loading_survives_a_reload() {
    let resolved = loader("").resolve().unwrap().declare("checkpoint", |o| o.schedule().max_tokens(2048)).unwrap();
    let cfg = resolved.publish();
    assert_eq!(cfg.reload(&loader("[schedule]\nchunk = 64")).unwrap(), ["schedule.chunk"]);
    assert_eq!((cfg.pin().schedule().max_tokens(), chunk(&cfg)), (2048, 64));
}

#[test]
fn a_commit_that_takes_long_stalls_no_reader() {
    let cfg = loader("").load().unwrap();
    // Longer than the veto waits: what waits for the commit must not get on by giving up.
    cfg.set_patience(2 * LONG);
    let (inside, entered) = mpsc::channel();
    let (leave, left) = mpsc::channel();
    let left = Mutex::new(left);
    let _slow = cfg.subscribe_with_veto("slow", move |_, _| {
        inside.send(()).unwrap();
        // In vain, if a reader were to wait for the end of this commit.
        left.lock().unwrap().recv_timeout(LONG).map_err(|_| "no reader got through".to_owned())
    });
    let mut reader = cfg.reader();
    std::thread::scope(|scope| {
        let commit = scope.spawn(|| cfg.override_permanently("slow", |o| o.schedule().chunk(64)));
        entered.recv_timeout(LONG).unwrap();
        assert_eq!((chunk(&cfg), *reader.now().schedule().chunk()), (512, 512));
        assert_eq!(cfg.value("schedule.chunk").unwrap().to_string(), "512");
        assert_eq!(cfg.explain("schedule.chunk").unwrap().value(), "512");
        let scoped = cfg.override_thread("beside it", |o| o.schedule().chunk(8)).unwrap();
        assert_eq!(chunk(&cfg), 8);
        drop(scoped);
        leave.send(()).unwrap();
        commit.join().unwrap().unwrap();
    });
    assert_eq!((chunk(&cfg), *reader.now().schedule().chunk()), (64, 64));
}

#[test]
fn every_subscriber_may_veto_and_all_reasons_are_shown() {
    let cfg = loader("").load().unwrap();
    let _one = cfg.subscribe_with_veto("pool", |old, new| {
        if *new.schedule().chunk() < *old.schedule().chunk() { Err("cannot shrink".to_owned()) } else { Ok(()) }
    });
    let _two = cfg.subscribe_with_veto("odd", |_, new| {
        assert!(new.schedule().chunk().is_multiple_of(2), "odd chunk");
        Ok(())
    });
    let epoch = cfg.epoch();
    let errors = cfg.override_permanently("x", |o| o.schedule().chunk(101)).unwrap_err();
    let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["subscriber `pool`: cannot shrink", "subscriber `odd`: it panicked: odd chunk"]);
    assert_eq!((chunk(&cfg), cfg.epoch()), (512, epoch));
    assert!(cfg.reload(&loader("[schedule]\nchunk = 100")).unwrap_err().to_string().contains("cannot shrink"));
    // The end of an override is not asked about.
    let guard = cfg.override_with("up", |o| o.schedule().chunk(600)).unwrap();
    drop(guard);
    assert_eq!(chunk(&cfg), 512);
}

#[test]
fn updates_coalesce_and_are_acknowledged() {
    let cfg = loader("").load().unwrap();
    let (mut fast, slow) = (cfg.subscribe("fast"), cfg.subscribe("slow"));
    assert!(fast.wait(Duration::ZERO).is_none());
    for chunk in 1..=100 {
        cfg.override_permanently("step", |o| o.schedule().chunk(chunk)).unwrap();
    }
    let update = fast.wait(Duration::ZERO).expect("one for all");
    assert_eq!((update.epoch(), *update.pin().schedule().chunk()), (100, 100));
    assert!(update.changed(&Args::keys().schedule.chunk) && !update.changed(&Args::keys().service.temperature));
    assert_eq!(cfg.wait_applied(100, Duration::ZERO).unwrap_err(), ["fast", "slow"]);
    fast.acknowledge(&update);
    assert_eq!(cfg.wait_applied(100, Duration::ZERO).unwrap_err(), ["slow"]);
    drop(slow);
    cfg.wait_applied(100, Duration::ZERO).unwrap();
    assert!(fast.wait(Duration::ZERO).is_none());
}

#[test]
fn a_waiting_subscriber_is_woken() {
    let cfg = loader("").load().unwrap();
    let mut subscription = cfg.subscribe("worker");
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let update = subscription.wait(LONG).expect("told");
            subscription.acknowledge(&update);
            *update.pin().schedule().chunk()
        });
        cfg.override_permanently("x", |o| o.schedule().chunk(7)).unwrap();
        cfg.wait_applied(cfg.epoch(), LONG).expect("acknowledged");
        assert_eq!(worker.join().unwrap(), 7);
    });
}

#[test]
fn a_failed_persistence_refuses_the_override() {
    let cfg = loader("").load().unwrap();
    let (sender, stored) = mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    cfg.persist_with(move |values| {
        if values.iter().any(|(_, value)| value.to_string() == "13") {
            return Err("disk full".to_owned());
        }
        let lines: Vec<_> = values.iter().map(|(path, value)| format!("{path} = {value}")).collect();
        sender.lock().unwrap().send(lines).map_err(|error| error.to_string())
    });
    cfg.override_permanently("a", |o| o.schedule().chunk(12)).unwrap();
    cfg.override_permanently("b", |o| o.service().temperature(1.0)).unwrap();
    let errors = cfg.override_permanently("c", |o| o.schedule().chunk(13)).unwrap_err();
    assert!(errors.to_string().contains("not persisted, so not applied: disk full"), "{errors}");
    let guard = cfg.override_with("scoped is not persisted", |o| o.schedule().chunk(14)).unwrap();
    drop(guard);
    assert_eq!(chunk(&cfg), 12);
    let stored: Vec<Vec<String>> = stored.try_iter().collect();
    assert_eq!(
        stored,
        [
            vec!["schedule.chunk = 12".to_owned()],
            vec!["schedule.chunk = 12".to_owned(), "service.temperature = 1.0".into()]
        ]
    );
}

#[test]
fn history_is_bounded_and_tells_who_changed_what() {
    let cfg = loader("").load().unwrap();
    for step in 1..=1000 {
        cfg.override_permanently("step", |o| o.schedule().chunk(step)).unwrap();
    }
    let history = cfg.history();
    assert_eq!(history.len(), 64);
    let last = history.last().unwrap();
    assert_eq!((last.epoch(), last.leaves().next()), (1000, Some(("schedule.chunk", "999", "1000"))));
    assert!(last.what().contains("permanent override \"step\"") && last.what().contains("reload.rs"), "{last}");
    assert_eq!(cfg.explain("schedule.chunk").unwrap().steps().count(), 2, "replaced, not piled up");
}

/// Replaces the file as editors do.
fn rename_save(path: &Path, text: &str) {
    let beside = path.with_extension("tmp");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(&beside, path).unwrap();
}

#[test]
fn a_watch_sees_files_replaced_by_rename_and_by_symlink() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().join("app.toml");
    rename_save(&real, "[schedule]\nchunk = 1");
    // As Kubernetes mounts a ConfigMap: file -> ..data/file, ..data -> version folder.
    let version = |number: u32| {
        let path = folder.path().join(format!("v{number}"));
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("mounted.toml"), format!("[service]\ntemperature = 0.{number}")).unwrap();
        path
    };
    let data = folder.path().join("data");
    std::os::unix::fs::symlink(version(1), &data).unwrap();
    let mounted = folder.path().join("mounted.toml");
    std::os::unix::fs::symlink("data/mounted.toml", &mounted).unwrap();
    let loader = Args::loader().facts(Facts::for_test()).file(&real).file(&mounted);
    let cfg = loader.clone().load().unwrap();
    let (sender, reports) = mpsc::channel::<Result<Vec<&'static str>, Errors>>();
    let watch = cfg.watch(loader, Duration::from_millis(2), move |report| drop(sender.send(report))).unwrap();
    rename_save(&real, "[schedule]\nchunk = 2");
    assert_eq!(reports.recv_timeout(LONG).unwrap().unwrap(), ["schedule.chunk"]);
    let next = folder.path().join("data.next");
    std::os::unix::fs::symlink(version(2), &next).unwrap();
    std::fs::rename(&next, &data).unwrap();
    assert_eq!(reports.recv_timeout(LONG).unwrap().unwrap(), ["service.temperature"]);
    assert_eq!((chunk(&cfg), *cfg.pin().service().temperature()), (2, 0.2));
    rename_save(&real, "[schedule]\nchunk = ");
    let errors = reports.recv_timeout(LONG).unwrap().unwrap_err();
    assert!(errors.to_string().contains("app.toml:2:"), "{errors}");
    rename_save(&real, "");
    let errors = reports.recv_timeout(LONG).unwrap().unwrap_err();
    assert!(errors.to_string().contains("taken for half-written"), "{errors}");
    assert_eq!(chunk(&cfg), 2);
    rename_save(&real, "[schedule]\nchunk = 3");
    assert_eq!(reports.recv_timeout(LONG).unwrap().unwrap(), ["schedule.chunk"]);
    assert_eq!(chunk(&cfg), 3);
    drop(watch);
    assert!(reports.recv().is_err(), "the thread is gone");
}

#[test]
fn a_veto_may_look_but_not_change() {
    let cfg = loader("").load().unwrap();
    let held = std::sync::Mutex::new(Some(cfg.override_with("held", |o| o.service().temperature(1.0)).unwrap()));
    let handle = cfg.clone();
    let (sender, said) = mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let _subscription = cfg.subscribe_with_veto("curious", move |_, _| {
        let explanation = handle.explain("schedule.chunk").map_err(|error| error.to_string())?;
        let refused = handle.override_permanently("inside", |o| o.schedule().chunk(1)).unwrap_err().to_string();
        let child = handle.child("inside", |_| {}).unwrap_err().to_string();
        // The end of an override is put off until the commit is over.
        drop(held.lock().unwrap().take());
        let still = *handle.pin().service().temperature();
        let texts = [explanation.value().to_owned(), refused, child, still.to_string()];
        sender.lock().unwrap().send((texts, handle.snapshot())).map_err(|error| error.to_string())
    });
    cfg.override_permanently("outside", |o| o.schedule().chunk(9)).unwrap();
    let ([value, refused, child, still], _) = said.recv_timeout(LONG).unwrap();
    assert_eq!((value.as_str(), still.as_str()), ("512", "1"));
    assert!(refused.contains("from inside a change") && child.contains("from inside a change"), "{refused} {child}");
    assert_eq!((chunk(&cfg), *cfg.pin().service().temperature()), (9, 0.0));
}

#[test]
fn a_task_that_waits_is_told_when_the_context_is_gone() {
    use std::future::Future;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context as TaskContext, Poll, Wake, Waker};

    struct Flag(AtomicBool);
    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let flag = Arc::new(Flag(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&flag));
    let mut task = TaskContext::from_waker(&waker);
    let cfg = loader("").load().unwrap();
    let mut subscription = cfg.subscribe("task");
    let mut next = std::pin::pin!(subscription.next());
    assert!(next.as_mut().poll(&mut task).is_pending());
    cfg.override_permanently("x", |o| o.schedule().chunk(9)).unwrap();
    assert!(flag.0.swap(false, Ordering::SeqCst), "woken by a change");
    assert!(matches!(next.as_mut().poll(&mut task), Poll::Ready(Some(_))));
    let mut second = cfg.subscribe("second");
    let mut next = std::pin::pin!(second.next());
    assert!(next.as_mut().poll(&mut task).is_pending());
    drop(cfg);
    assert!(flag.0.load(Ordering::SeqCst), "woken by the end");
    assert!(matches!(next.as_mut().poll(&mut task), Poll::Ready(None)));
}

#[test]
fn an_admin_sets_by_name_and_takes_back() {
    let cfg = loader("[schedule]\nchunk = 100").load().unwrap();
    cfg.override_by_name("admin", &[("schedule.chunk", "200"), ("service.temperature", "1.5")]).unwrap();
    assert_eq!((chunk(&cfg), *cfg.pin().service().temperature()), (200, 1.5));
    let wrong =
        [("schedule.chunk", "none"), ("schedule.page_size", "4"), ("schedule.chnk", "4"), ("service.temperature", "9")];
    let errors = cfg.override_by_name("admin", &wrong).unwrap_err();
    let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "admin: schedule.chunk: expected an integer, 0 or more, found `none`",
            "admin: schedule.page_size: cannot change while the program runs: it is `launch`",
            "admin: no setting is called `schedule.chnk`; did you mean `schedule.chunk`?",
            "admin: service.temperature: 9.0 is outside 0.0..=2.0",
        ]
    );
    assert_eq!(chunk(&cfg), 200);
    cfg.end_permanent("admin", &["schedule.chunk"]).unwrap();
    assert_eq!((chunk(&cfg), *cfg.pin().service().temperature()), (100, 1.5));
    assert!(cfg.end_permanent("admin", &["schedule.chnk"]).is_err());
}

#[test]
fn a_watch_says_that_a_failure_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.toml");
    std::fs::write(&file, "[schedule]\nchunk = 100").unwrap();
    let loader = Args::loader().facts(Facts::for_test()).file(&file);
    let cfg = loader.load().unwrap();
    let (sender, reports) = mpsc::channel();
    let _watch = cfg.watch(loader, Duration::from_millis(2), move |report| drop(sender.send(report))).unwrap();
    rename_save(&file, "[schedule]\nchnk = 100");
    assert!(reports.recv_timeout(LONG).unwrap().unwrap_err().to_string().contains("`schedule.chnk`"));
    rename_save(&file, "[schedule]\nchunk = 100");
    assert_eq!(reports.recv_timeout(LONG).unwrap().unwrap(), Vec::<&str>::new());
    rename_save(&file, "[schedule]\nchunk = 101");
    assert_eq!(reports.recv_timeout(LONG).unwrap().unwrap(), ["schedule.chunk"]);
}

#[test]
fn a_watch_takes_what_changed_before_it_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let (file, other) = (folder.path().join("app.toml"), folder.path().join("other.toml"));
    rename_save(&file, "[schedule]\nchunk = 1");
    let loader = Args::loader().facts(Facts::for_test()).file(&file);
    let cfg = loader.clone().load().unwrap();
    // Changed between load and watch.
    rename_save(&file, "[schedule]\nchunk = 2");
    let (sender, reports) = mpsc::channel::<Result<Vec<&'static str>, Errors>>();
    let mut first = true;
    let _watch = cfg
        .watch(loader, Duration::from_millis(2), move |report| {
            let _ = sender.send(report);
            assert!(!std::mem::take(&mut first), "a panic in the program's function does not end the watch");
        })
        .unwrap();
    assert_eq!(reports.recv_timeout(LONG).unwrap().unwrap(), ["schedule.chunk"]);
    assert_eq!(chunk(&cfg), 2);
    // A new include that is missing, then there.
    rename_save(&file, "include = \"other.toml\"\n[schedule]\nchunk = 3");
    assert!(reports.recv_timeout(LONG).unwrap().unwrap_err().to_string().contains("other.toml"));
    assert_eq!(chunk(&cfg), 2);
    rename_save(&other, "[service]\ntemperature = 0.5");
    assert_eq!(reports.recv_timeout(LONG).unwrap().unwrap(), ["schedule.chunk", "service.temperature"]);
    rename_save(&other, "[service]\ntemperature = 1.5");
    assert_eq!(reports.recv_timeout(LONG).unwrap().unwrap(), ["service.temperature"]);
    assert!(reports.recv_timeout(Duration::from_millis(50)).is_err(), "each is reported once");
    let child = cfg.child("child", |_| {}).unwrap();
    let refused = child.watch(Args::loader(), LONG, |_| {}).unwrap_err().to_string();
    assert!(refused.contains("watch the parent"), "{refused}");
}

#[test]
fn odd_times_and_strangers_updates() {
    let (cfg, other) = (loader("").load().unwrap(), loader("").load().unwrap());
    let (mut mine, mut theirs) = (cfg.subscribe("mine"), other.subscribe("theirs"));
    for cfg in [&cfg, &other] {
        cfg.override_permanently("x", |o| o.schedule().chunk(9)).unwrap();
    }
    let strange = theirs.wait(Duration::MAX).expect("told");
    mine.acknowledge(&strange);
    assert_eq!(cfg.wait_applied(1, Duration::ZERO).unwrap_err(), ["mine"]);
    let update = mine.wait(Duration::MAX).expect("told");
    mine.acknowledge(&update);
    cfg.wait_applied(1, Duration::MAX).unwrap();
}

#[test]
fn overrides_that_a_republish_drops_are_gone_from_persistence_too() {
    let cfg = loader("").load().unwrap();
    cfg.override_permanently("a", |o| o.schedule().chunk(12)).unwrap();
    let (sender, stored) = mpsc::channel();
    let sender = Mutex::new(sender);
    cfg.persist_with(move |values| sender.lock().unwrap().send(values.len()).map_err(|error| error.to_string()));
    cfg.republish(loader("").resolve().unwrap(), Outstanding::Carry).unwrap();
    assert_eq!(stored.try_iter().count(), 0, "what is carried over is stored already");
    cfg.republish(loader("").resolve().unwrap(), Outstanding::Drop).unwrap();
    assert_eq!(stored.try_iter().collect::<Vec<_>>(), [0]);
    assert_eq!(chunk(&cfg), 512);
}
