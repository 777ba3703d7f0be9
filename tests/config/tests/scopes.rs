//! Overrides that one thread or one future sees.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Wake, Waker};

use config_tests::{Schedule, Service};
use kitbag::{ConfigNamespaces, Context};

/// An engine.
#[derive(ConfigNamespaces)]
struct Args {
    #[config(nested)]
    schedule: Schedule,
    #[config(nested)]
    service: Service,
}

fn chunk(cfg: &Context<Args>) -> usize {
    *cfg.pin().schedule().chunk()
}

struct Ignore;

impl Wake for Ignore {
    fn wake(self: Arc<Self>) {}
}

fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut TaskContext::from_waker(&Waker::from(Arc::new(Ignore))))
}

/// Ready at the second poll.
async fn yield_once() {
    let mut polled = false;
    std::future::poll_fn(|task| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        task.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[test]
fn a_thread_override_is_seen_by_its_thread_only() {
    let cfg = Args::for_test(|_| {});
    let guard = cfg.override_thread("here", |o| o.schedule().chunk(100)).unwrap();
    let elsewhere = std::thread::scope(|scope| scope.spawn(|| chunk(&cfg)).join().unwrap());
    assert_eq!((chunk(&cfg), elsewhere), (100, 512));
    let other = Args::for_test(|_| {});
    assert_eq!(chunk(&other), 512);
    drop(guard);
    assert_eq!(chunk(&cfg), 512);
}

#[test]
fn scopes_lie_over_engine_wide_changes_and_let_the_rest_through() {
    let cfg = Args::for_test(|_| {});
    let here = cfg.override_thread("here", |o| o.schedule().chunk(100)).unwrap();
    let wide = cfg
        .override_with("wide", |o| {
            o.schedule().chunk(200);
            o.service().temperature(1.0);
        })
        .unwrap();
    assert_eq!((chunk(&cfg), *cfg.pin().service().temperature()), (100, 1.0));
    let inner = cfg.override_thread("inner", |o| o.schedule().chunk(50)).unwrap();
    assert_eq!(chunk(&cfg), 50);
    // Out of order: the outer one goes first.
    drop(here);
    assert_eq!(chunk(&cfg), 50);
    drop(inner);
    assert_eq!(chunk(&cfg), 200);
    drop(wide);
    assert_eq!((chunk(&cfg), *cfg.pin().service().temperature()), (512, 0.0));
}

#[test]
fn derived_values_and_rules_hold_inside_a_scope() {
    let cfg = Args::for_test(|o| o.schedule().max_tokens(1000));
    let errors = cfg.override_thread("x", |o| o.schedule().chunk(1001)).unwrap_err();
    assert!(errors.to_string().contains("a chunk is larger than the cache"), "{errors}");
    let _guard = cfg.override_thread("x", |o| o.schedule().chunk(1000)).unwrap();
    let text = cfg.explain("schedule.chunk").unwrap().to_string();
    assert!(text.contains("> scoped override \"x\""), "{text}");
}

#[test]
fn a_permanent_override_made_inside_a_scope_survives_it() {
    let cfg = Args::for_test(|_| {});
    let guard = cfg.override_with("burst", |o| o.schedule().chunk(100)).unwrap();
    cfg.override_permanently("tuned", |o| o.schedule().chunk(300)).unwrap();
    assert_eq!(chunk(&cfg), 100, "scoped lies above permanent");
    drop(guard);
    assert_eq!(chunk(&cfg), 300);
}

#[test]
fn a_future_takes_its_override_along() {
    let cfg = Args::for_test(|_| {});
    let mut future = pin!(
        cfg.scope(
            "task",
            |o| {
                o.schedule().chunk(100);
            },
            async {
                let before = chunk(&cfg);
                yield_once().await;
                (before, chunk(&cfg))
            }
        )
        .unwrap()
    );
    assert!(poll_once(future.as_mut()).is_pending());
    assert_eq!(chunk(&cfg), 512, "between polls nothing is left on the thread");
    // The second poll happens on another thread.
    let cfg = &cfg;
    let done = std::thread::scope(|scope| scope.spawn(|| (poll_once(future.as_mut()), chunk(cfg))).join().unwrap());
    assert_eq!(done, (Poll::Ready((100, 100)), 512));
}

#[test]
fn spawned_work_inherits_nothing_unless_carried() {
    let cfg = Args::for_test(|_| {});
    let mut outer = pin!(
        cfg.scope(
            "task",
            |o| {
                o.schedule().chunk(100);
            },
            async {
                let carried = cfg.carry(async { chunk(&cfg) });
                let plain = async { chunk(&cfg) };
                // As if spawned: polled outside this future.
                (carried, plain)
            }
        )
        .unwrap()
    );
    let Poll::Ready((carried, plain)) = poll_once(outer.as_mut()) else { panic!("ready at once") };
    assert_eq!((poll_once(pin!(carried)), poll_once(pin!(plain))), (Poll::Ready(100), Poll::Ready(512)));
}

#[test]
fn many_tasks_do_not_meet() {
    let cfg = Args::for_test(|_| {});
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let cfg = &cfg;
            scope.spawn(move || {
                let mut tasks: Vec<_> = (1..=16)
                    .map(|task| {
                        let value = thread * 100 + task;
                        let work = async move {
                            for _ in 0..50 {
                                assert_eq!(chunk(cfg), value);
                                yield_once().await;
                            }
                            value
                        };
                        Box::pin(
                            cfg.scope(
                                "task",
                                |o| {
                                    o.schedule().chunk(value);
                                },
                                work,
                            )
                            .unwrap(),
                        )
                    })
                    .collect();
                while !tasks.is_empty() {
                    tasks.retain_mut(|task| poll_once(task.as_mut()).is_pending());
                    assert_eq!(chunk(cfg), 512);
                }
            });
        }
    });
}

#[test]
fn a_panic_inside_a_poll_leaves_nothing_behind() {
    let cfg = Args::for_test(|_| {});
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let future = cfg.scope(
            "task",
            |o| {
                o.schedule().chunk(100);
            },
            async { panic!("inside") },
        );
        poll_once(pin!(future.unwrap()))
    }));
    assert!(result.is_err());
    assert_eq!(chunk(&cfg), 512);
}

#[test]
fn the_current_context_is_what_was_entered() {
    let error = Context::<Args>::current().unwrap_err().to_string();
    assert!(error.contains("nothing is published here") && error.contains("schedule, service"), "{error}");
    let (one, two) = (Args::for_test(|o| o.schedule().page_size(1)), Args::for_test(|o| o.schedule().page_size(2)));
    let current = || Context::<Args>::current().unwrap().pin().schedule().page_size();
    let outer = one.enter();
    let inner = two.enter();
    assert_eq!(current(), 2);
    drop(outer);
    assert_eq!(current(), 2);
    drop(inner);
    assert!(Context::<Args>::current().is_err());
}

/// What a thread still does when its own lists are gone already.
struct LastMoments(Context<Args>, Option<kitbag::Override<Args>>, std::sync::mpsc::Sender<(usize, String)>);

impl Drop for LastMoments {
    fn drop(&mut self) {
        let cfg = &self.0;
        let _entered = cfg.enter();
        let current = Context::<Args>::current().is_err();
        let refused = cfg.override_thread("last", |o| o.schedule().chunk(1)).err().map(|errors| errors.to_string());
        drop(self.1.take());
        let _late = cfg.override_with("late", |o| o.service().temperature(0.5));
        let said = format!("{current} {}", refused.unwrap_or_default());
        let _ = self.2.send((chunk(cfg), said));
    }
}

#[test]
fn a_threads_last_moments_are_no_trap() {
    thread_local! {
        static LAST: std::cell::RefCell<Option<LastMoments>> = const { std::cell::RefCell::new(None) };
    }
    let cfg = Args::for_test(|_| {});
    let (sender, said) = std::sync::mpsc::channel();
    std::thread::spawn({
        let cfg = cfg.clone();
        move || {
            // Registered first, so that it is dropped after kitbag's lists, which are made by what follows.
            LAST.with_borrow_mut(|last| *last = Some(LastMoments(cfg.clone(), None, sender)));
            let guard = cfg.override_with("held", |o| o.schedule().chunk(7)).unwrap();
            drop((cfg.enter(), cfg.override_thread("here", |o| o.schedule().chunk(8)).unwrap()));
            LAST.with_borrow_mut(|last| last.as_mut().map(|last| last.1 = Some(guard)));
        }
    })
    .join()
    .unwrap();
    let (value, text) = said.recv().unwrap();
    assert_eq!((value, chunk(&cfg), *cfg.pin().service().temperature()), (512, 512, 0.0));
    assert_eq!(text, "true configuration error: last: this thread is ending, so nothing can be overridden for it");
}

#[test]
fn ten_thousand_live_scopes_do_not_meet() {
    const SCOPES: usize = 10_000;
    let cfg = Args::for_test(|o| o.schedule().max_tokens(SCOPES));
    let mut scopes: Vec<_> = (1..=SCOPES)
        .map(|chunk| {
            let read = {
                let cfg = cfg.clone();
                async move {
                    yield_once().await;
                    self::chunk(&cfg)
                }
            };
            Box::pin(
                cfg.scope(
                    "task",
                    |o| {
                        o.schedule().chunk(chunk);
                    },
                    read,
                )
                .expect("valid"),
            )
        })
        .collect();
    for scope in &mut scopes {
        assert!(poll_once(scope.as_mut()).is_pending());
    }
    assert_eq!(chunk(&cfg), 512, "none of them is in force here");
    for (scope, chunk) in scopes.iter_mut().zip(1..) {
        assert_eq!(poll_once(scope.as_mut()), Poll::Ready(chunk));
    }
}

#[test]
fn what_an_outer_scope_has_set_ends_with_it() {
    let cfg = Args::for_test(|_| {});
    let outer = cfg.override_thread("outer", |o| o.schedule().chunk(100)).unwrap();
    let inner = cfg.override_thread("inner", |o| o.service().title("x")).unwrap();
    let seen = || (chunk(&cfg), cfg.pin().service().title().to_string());
    assert_eq!(seen(), (100, "x".to_owned()));
    drop(outer);
    assert_eq!(seen(), (512, "x".to_owned()));
    drop(inner);
    assert_eq!(seen(), (512, "thumbs".to_owned()));
}
