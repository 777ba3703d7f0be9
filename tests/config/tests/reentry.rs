//! What a commit runs on its way (rules, vetoes, persistence, wakers) and what that may do with the same context.
//!
//! No test here decides by time: where a short patience is set, what waits can only go on once it has run out.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use config_tests::{Schedule, Service};
use kitbag::{ConfigNamespaces, Context, Facts};

/// An engine.
#[derive(ConfigNamespaces)]
#[config(derived(sizes.watched: usize = watched(schedule.chunk)))]
struct Args {
    #[config(nested)]
    schedule: Schedule,
    #[config(nested)]
    service: Service,
}

/// What the rule below does when it runs on this thread.
type InRule = Box<dyn Fn(usize)>;

thread_local! {
    static IN_RULE: RefCell<Option<InRule>> = const { RefCell::new(None) };
}

/// A rule as a program should not write it: it does as the test says.
fn watched(chunk: usize) -> usize {
    let act = IN_RULE.with(|act| act.borrow_mut().take());
    if let Some(act) = act {
        act(chunk);
        IN_RULE.with(|slot| *slot.borrow_mut() = Some(act));
    }
    chunk
}

fn in_rule(act: impl Fn(usize) + 'static) {
    IN_RULE.with(|slot| *slot.borrow_mut() = Some(Box::new(act)));
}

const SHORT: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_secs(20);

fn context() -> Context<Args> {
    let cfg = Args::for_test(|_| {});
    cfg.set_patience(SHORT);
    cfg
}

fn chunk(cfg: &Context<Args>) -> usize {
    *cfg.pin().schedule().chunk()
}

/// A permanent override from a thread that is waited for.
fn change_elsewhere(cfg: &Context<Args>) -> Result<(), String> {
    let cfg = cfg.clone();
    let change = move || cfg.override_permanently("elsewhere", |o| o.service().temperature(1.0));
    thread::spawn(change).join().expect("no panic").map_err(|errors| errors.to_string())
}

#[test]
fn a_veto_that_waits_for_a_change_gets_an_error() {
    let cfg = context();
    let handle = cfg.clone();
    let said = Arc::new(Mutex::new(String::new()));
    let heard = Arc::clone(&said);
    let subscription = cfg.subscribe_with_veto("joins", move |_, _| {
        *heard.lock().unwrap() = change_elsewhere(&handle).unwrap_err();
        Ok(())
    });
    cfg.override_permanently("outside", |o| o.schedule().chunk(9)).unwrap();
    let said = said.lock().unwrap().clone();
    assert!(said.contains("not decided after 5ms: subscriber `joins` is being asked; what a commit asks"), "{said}");
    assert_eq!((chunk(&cfg), *cfg.pin().service().temperature(), cfg.epoch()), (9, 0.0, 1));
    drop(subscription);
    // Nothing is left in the way.
    change_elsewhere(&cfg).unwrap();
}

#[test]
fn an_end_that_is_waited_for_is_put_off_until_the_commit_is_over() {
    let cfg = context();
    let child = cfg.child("child", |_| {}).unwrap();
    let guard = Mutex::new(Some(child.override_with("held", |o| o.service().temperature(1.0)).unwrap()));
    let handle = child.clone();
    let _subscription = cfg.subscribe_with_veto("joins", move |_, _| {
        let Some(guard) = guard.lock().unwrap().take() else { return Ok(()) };
        thread::spawn(move || drop(guard)).join().expect("ends");
        assert!(handle.pin().service().temperature() == 1.0, "not yet");
        Ok(())
    });
    cfg.override_permanently("outside", |o| o.schedule().chunk(9)).unwrap();
    assert_eq!((chunk(&child), *child.pin().service().temperature()), (9, 0.0));
}

#[test]
fn persistence_that_waits_for_a_change_gets_an_error() {
    let cfg = context();
    let handle = cfg.clone();
    cfg.persist_with(move |_| change_elsewhere(&handle));
    let errors = cfg.override_permanently("outside", |o| o.schedule().chunk(9)).unwrap_err().to_string();
    assert!(errors.contains("not persisted, so not applied") && errors.contains("it is being persisted"), "{errors}");
    assert_eq!((chunk(&cfg), cfg.epoch()), (512, 0));
}

#[test]
fn a_rule_may_neither_change_nor_wait_for_a_change() {
    let cfg = context();
    let (handle, said) = (cfg.clone(), Arc::new(Mutex::new(Vec::new())));
    let heard = Arc::clone(&said);
    in_rule(move |_| {
        let here = handle.override_permanently("inside", |o| o.service().temperature(1.0)).unwrap_err();
        heard.lock().unwrap().extend([here.to_string(), change_elsewhere(&handle).unwrap_err()]);
    });
    cfg.override_permanently("outside", |o| o.schedule().chunk(9)).unwrap();
    let said = said.lock().unwrap();
    assert!(said[0].contains("from inside a change of the same context (its rules and checks run)"), "{said:?}");
    assert!(said[1].contains("its rules and checks run"), "{said:?}");
    assert_eq!(said.len(), 2, "a rule runs once in a commit");
    assert_eq!((chunk(&cfg), *cfg.pin().service().temperature()), (9, 0.0));
}

#[test]
fn a_rule_that_a_scope_runs_holds_no_lock() {
    let cfg = context();
    let scope = cfg.override_thread("scope", |o| o.schedule().chunk(7)).unwrap();
    let handle = cfg.clone();
    in_rule(move |seen| {
        IN_RULE.with(|slot| *slot.borrow_mut() = None);
        if seen == 7 {
            // Outside a commit a rule can even change the context. No program should; none hangs.
            handle.override_permanently("from a rule", |o| o.service().temperature(1.0)).unwrap();
            assert_eq!(handle.explain("service.temperature").unwrap().value(), "1.0");
            let _ = handle.pin();
        }
    });
    cfg.override_permanently("below", |o| o.service().title("below".to_owned())).unwrap();
    assert_eq!(cfg.explain("schedule.chunk").unwrap().value(), "7");
    assert_eq!(*cfg.pin().sizes().watched(), 7);
    drop(scope);
}

#[test]
fn a_panicking_rule_runs_once_in_a_commit() {
    let cfg = context();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    in_rule(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        // Without the hook, which is the process's and would print.
        std::panic::resume_unwind(Box::new("in a rule"));
    });
    let errors = cfg.override_permanently("x", |o| o.schedule().chunk(9)).unwrap_err().to_string();
    assert!(errors.contains("rule `watched`: sizes.watched: it panicked: in a rule"), "{errors}");
    assert_eq!((chunk(&cfg), cfg.epoch(), runs.load(Ordering::SeqCst)), (512, 0, 1));
}

#[test]
fn two_families_that_wait_for_each_other_get_errors() {
    let (one, two) = (context(), context());
    let barrier = Arc::new(Barrier::new(2));
    let across = |other: &Context<Args>| {
        let (other, barrier) = (other.clone(), Arc::clone(&barrier));
        move || {
            barrier.wait();
            let change = other.override_permanently("across", |o| o.service().temperature(1.0));
            barrier.wait();
            change.map_err(|errors| errors.to_string())
        }
    };
    let (to_two, to_one) = (across(&two), across(&one));
    let _first = one.subscribe_with_veto("first", move |_, _| to_two());
    let _second = two.subscribe_with_veto("second", move |_, _| to_one());
    let outcomes = thread::scope(|scope| {
        let change = |cfg| move || Context::<Args>::override_permanently(cfg, "x", |o| o.schedule().chunk(9));
        let threads = [scope.spawn(change(&one)), scope.spawn(change(&two))];
        threads.map(|thread| thread.join().expect("no panic").unwrap_err().to_string())
    });
    assert!(outcomes[0].contains("subscriber `first`") && outcomes[0].contains("`second` is being asked"));
    assert!(outcomes[1].contains("subscriber `second`") && outcomes[1].contains("`first` is being asked"));
    assert_eq!((one.epoch(), two.epoch()), (0, 0));
}

#[test]
fn who_is_woken_may_change_the_context_at_once() {
    struct Changes(Context<Args>, Mutex<Option<Result<(), String>>>);
    impl Wake for Changes {
        fn wake(self: Arc<Self>) {
            let change = self.0.override_permanently("woken", |o| o.service().temperature(1.0));
            *self.1.lock().unwrap() = Some(change.map_err(|errors| errors.to_string()));
        }
    }
    let cfg = context();
    let changes = Arc::new(Changes(cfg.clone(), Mutex::new(None)));
    let waker = Waker::from(Arc::clone(&changes));
    let mut subscription = cfg.subscribe("task");
    let mut next = pin!(subscription.next());
    assert!(next.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
    cfg.override_permanently("outside", |o| o.schedule().chunk(9)).unwrap();
    assert_eq!(changes.1.lock().unwrap().clone(), Some(Ok(())));
    assert_eq!((chunk(&cfg), *cfg.pin().service().temperature()), (9, 1.0));
    let Poll::Ready(Some(update)) = next.poll(&mut TaskContext::from_waker(Waker::noop())) else { panic!("told") };
    assert_eq!(update.epoch(), 2, "of both at once");
}

#[test]
fn racing_updates_with_vetoes_lose_nothing() {
    let cfg = Args::for_test(|_| {});
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let _slow = cfg.subscribe_with_veto("slow", move |old, new| {
        count.fetch_add(1, Ordering::SeqCst);
        thread::yield_now();
        assert_eq!(new.epoch(), old.epoch() + 1);
        Ok(())
    });
    let loader =
        |chunk: usize| Args::loader().facts(Facts::for_test()).text("app.toml", format!("[schedule]\nchunk = {chunk}"));
    thread::scope(|scope| {
        scope.spawn(|| (1..=100).for_each(|round| drop(cfg.reload(&loader(round)).expect("reloads"))));
        scope.spawn(|| {
            for round in 1..=100 {
                cfg.override_by_name("admin", &[("service.title", &format!("title {round}"))]).expect("sets");
            }
        });
        scope.spawn(|| {
            for round in 1..=100u8 {
                let value = f32::from(round) / 100.0;
                cfg.override_permanently("tuned", |o| o.service().temperature(value)).expect("sets");
            }
        });
    });
    let now = cfg.pin();
    assert_eq!((chunk(&cfg), now.service().title().as_str(), *now.service().temperature()), (100, "title 100", 1.0));
    assert_eq!((cfg.epoch(), asked.load(Ordering::SeqCst)), (300, 300), "each is one commit, asked about once");
}

#[test]
fn who_left_is_not_waited_for_but_a_panic_is_told() {
    let cfg = Args::for_test(|_| {});
    let (left, mut worker) = (cfg.subscribe("left"), cfg.subscribe("worker"));
    cfg.override_permanently("x", |o| o.schedule().chunk(9)).unwrap();
    assert_eq!(cfg.wait_applied(1, Duration::ZERO).unwrap_err(), ["left", "worker"]);
    drop(left);
    let applies = thread::spawn(move || {
        let update = worker.wait(LONG).expect("told");
        assert_eq!(update.epoch(), 1);
        std::panic::resume_unwind(Box::new("half applied"));
    });
    assert!(applies.join().is_err());
    assert_eq!(cfg.wait_applied(1, LONG).unwrap_err(), ["worker (panicked)"], "known at once");
    // Of the next epoch it was never told.
    cfg.override_permanently("x", |o| o.schedule().chunk(10)).unwrap();
    cfg.wait_applied(2, Duration::ZERO).unwrap();
    // One that has applied all it was told of leaves nothing half done.
    let mut worker = cfg.subscribe("worker");
    cfg.override_permanently("x", |o| o.schedule().chunk(11)).unwrap();
    let applies = thread::spawn(move || {
        let update = worker.wait(LONG).expect("told");
        worker.acknowledge(&update);
        std::panic::resume_unwind(Box::new("later"));
    });
    assert!(applies.join().is_err());
    cfg.wait_applied(3, Duration::ZERO).unwrap();
}

#[test]
fn a_vetoed_reload_leaves_everything_as_it_was() {
    let loader = |chunk: usize| {
        let text = format!("[schedule]\nchunk = {chunk}\n[service]\ntemperature = 0.5");
        Args::loader().facts(Facts::for_test()).text("app.toml", text)
    };
    let cfg = loader(100).load().unwrap();
    let _guard = cfg.override_with("guard", |o| o.service().title("mine".to_owned())).unwrap();
    let (sender, told) = mpsc::channel();
    let mut watcher = cfg.subscribe("watcher");
    let _veto = cfg.subscribe_with_veto("pool", move |_, new| {
        sender.send(*new.schedule().chunk()).expect("the test listens");
        Err("cannot shrink".to_owned())
    });
    let state = || {
        let explained = ["schedule.chunk", "service.title"].map(|leaf| cfg.explain(leaf).unwrap().to_string());
        let history: Vec<_> = cfg.history().iter().map(ToString::to_string).collect();
        (cfg.epoch(), cfg.values(), explained, history, cfg.fingerprint())
    };
    let before = state();
    let errors = cfg.reload(&loader(50)).unwrap_err().to_string();
    assert_eq!(errors, "configuration error: subscriber `pool`: cannot shrink");
    assert_eq!((told.try_iter().collect::<Vec<_>>(), state()), (vec![50], before));
    assert!(watcher.wait(Duration::ZERO).is_none(), "nobody is told");
}
