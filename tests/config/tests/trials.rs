//! Changes that go unless confirmed, and going back: on a simulated clock, but for the thread that keeps time.

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use config_tests::{Schedule, Service};
use kitbag::{ConfigNamespaces, Context, Facts, Loader, Outstanding};

/// An engine.
#[derive(ConfigNamespaces)]
struct Args {
    #[config(nested)]
    schedule: Schedule,
    #[config(nested)]
    service: Service,
}

const LONG: Duration = Duration::from_secs(20);

fn loader(text: &str) -> Loader<Args> {
    Args::loader().facts(Facts::for_test()).text("app.toml", text)
}

/// A clock that only the test moves.
fn clock() -> impl Fn(u64) -> Instant {
    let start = Instant::now();
    move |seconds| start + Duration::from_secs(seconds)
}

fn chunk(cfg: &Context<Args>) -> usize {
    *cfg.pin().schedule().chunk()
}

fn title(cfg: &Context<Args>) -> String {
    String::clone(&cfg.pin().service().title())
}

fn set(cfg: &Context<Args>, chunk: &str) {
    cfg.override_by_name("admin", &[("schedule.chunk", chunk)]).unwrap();
}

/// What each lasting change made of the chunk, or what it was.
fn lasting(cfg: &Context<Args>) -> Vec<String> {
    let short = |change: kitbag::Change| match change.leaves().find(|(leaf, ..)| *leaf == "schedule.chunk") {
        Some((_, _, new)) => new.to_owned(),
        None => change.what().split(' ').next().unwrap_or_default().to_owned(),
    };
    cfg.lasting_changes().into_iter().map(short).collect()
}

#[test]
fn an_unconfirmed_change_goes_and_what_it_lay_over_shows_again() {
    let (cfg, at) = (loader("[schedule]\nchunk = 100").load().unwrap(), clock());
    set(&cfg, "200");
    let trial = cfg.try_until("admin", &[("schedule.chunk", "300"), ("service.title", "new")], at(60)).unwrap();
    assert_eq!((chunk(&cfg), title(&cfg)), (300, "new".to_owned()));
    assert_eq!((trial.leaves(), trial.deadline()), (["schedule.chunk", "service.title"].as_slice(), at(60)));
    let chain = cfg.explain("schedule.chunk").unwrap().to_string();
    assert!(chain.contains(&format!("> trial {} \"admin\" (", trial.id())), "{chain}");
    assert_eq!(cfg.trials(), std::slice::from_ref(&trial));
    assert_eq!(cfg.end_trials(at(59)), []);
    // What is changed meanwhile stays, and is persisted without what may go.
    let (sender, persisted) = std::sync::mpsc::channel();
    cfg.persist_with(move |values| sender.send(format!("{values:?}")).map_err(|error| error.to_string()));
    cfg.override_permanently("else", |o| o.service().temperature(1.0)).unwrap();
    let persisted = persisted.recv().unwrap();
    assert!(persisted.contains("200") && !persisted.contains("300") && !persisted.contains("new"), "{persisted}");
    assert_eq!(cfg.end_trials(at(60)), [trial]);
    assert_eq!(lasting(&cfg), ["200", "permanent"], "a trial that is over is nothing to go back over");
    assert_eq!((chunk(&cfg), title(&cfg), *cfg.pin().service().temperature()), (200, "thumbs".to_owned(), 1.0));
    assert!(cfg.trials().is_empty() && cfg.end_trials(at(61)).is_empty());
    let last = cfg.history().pop().unwrap();
    assert!(last.what().starts_with("end of trial ") && last.what().contains("\"admin\""), "{last}");
}

#[test]
fn a_confirmed_change_is_an_ordinary_one() {
    let (cfg, at) = (loader("").load().unwrap(), clock());
    let stored = Arc::new(Mutex::new(Vec::new()));
    cfg.persist_with({
        let stored = Arc::clone(&stored);
        move |values| {
            let lines = values.iter().map(|(leaf, value)| format!("{leaf} = {value}")).collect::<Vec<_>>();
            if lines.contains(&"schedule.chunk = 666".to_owned()) {
                return Err("disk full".to_owned());
            }
            *stored.lock().unwrap() = lines;
            Ok(())
        }
    });
    let stored = || stored.lock().unwrap().clone();
    set(&cfg, "200");
    let _asked = cfg.subscribe_with_veto("numb", |old, new| {
        if old.schedule().chunk() == new.schedule().chunk() { Err("asked for nothing".to_owned()) } else { Ok(()) }
    });
    let trial = cfg.try_until("admin", &[("schedule.chunk", "300")], at(60)).unwrap();
    assert_eq!(stored(), ["schedule.chunk = 200"], "not persisted yet");
    // In time, but only just; later it is too late even if nobody ended it.
    let late = cfg.confirm_at(trial.id(), at(60)).unwrap_err().to_string();
    assert!(late.contains(&format!("there is no trial {} to confirm; it is over", trial.id())), "{late}");
    cfg.confirm_at(trial.id(), at(59)).unwrap();
    assert_eq!((stored(), chunk(&cfg)), (vec!["schedule.chunk = 300".to_owned()], 300));
    assert!(cfg.confirm_at(trial.id(), at(59)).is_err() && cfg.end_trials(at(1000)).is_empty());
    assert!(!cfg.end_trial(trial.id()));
    let chain = cfg.explain("schedule.chunk").unwrap();
    assert!(chain.origin().starts_with("permanent override \"admin\""), "{chain}");
    assert_eq!(chain.steps().count(), 2, "it replaced the 200: {chain}");
    cfg.end_permanent("admin", &["schedule.chunk"]).unwrap();
    assert_eq!(chunk(&cfg), 512);
    // What cannot be persisted is not confirmed.
    let trial = cfg.try_until("admin", &[("schedule.chunk", "666")], at(90)).unwrap();
    assert!(cfg.confirm_at(trial.id(), at(80)).unwrap_err().to_string().contains("disk full"));
    assert_eq!((chunk(&cfg), cfg.trials().len()), (666, 1));
    assert!(cfg.end_trial(trial.id()));
    assert_eq!(chunk(&cfg), 512);
}

#[test]
fn a_trial_is_refused_like_any_change() {
    let (cfg, at) = (loader("").load().unwrap(), clock());
    let wrong = [("schedule.chunk", "none"), ("schedule.page_size", "4")];
    let errors = cfg.try_until("admin", &wrong, at(60)).unwrap_err();
    assert_eq!(errors, cfg.override_by_name("admin", &wrong).unwrap_err());
    assert!(cfg.try_until("admin", &[("schedule.chunk", "9000")], at(60)).is_err());
    assert!(cfg.try_until("admin", &[], at(60)).unwrap_err().to_string().contains("nothing to try"));
    let far = cfg.try_by_name("admin", &[("schedule.chunk", "9")], Duration::MAX).unwrap_err().to_string();
    assert!(far.contains("beyond all clocks"), "{far}");
    assert!(cfg.confirm(0).is_err() && !cfg.end_trial(0));
    assert_eq!((cfg.epoch(), cfg.trials().len()), (0, 0));
}

#[test]
fn trials_and_permanent_overrides_lie_over_each_other_newest_first() {
    let (cfg, at) = (loader("").load().unwrap(), clock());
    let first = cfg.try_until("first", &[("schedule.chunk", "100"), ("service.title", "one")], at(60)).unwrap();
    let second = cfg.try_until("second", &[("schedule.chunk", "200")], at(30)).unwrap();
    assert_eq!(chunk(&cfg), 200);
    cfg.confirm_at(first.id(), at(10)).unwrap();
    assert_eq!(chunk(&cfg), 200, "the second is still on trial");
    assert_eq!(cfg.end_trials(at(30)), [second]);
    assert_eq!((chunk(&cfg), title(&cfg)), (100, "one".to_owned()));
    // Set for good during a trial: that leaf is no matter of the trial any more.
    let third = cfg.try_until("third", &[("schedule.chunk", "300"), ("service.title", "three")], at(90)).unwrap();
    set(&cfg, "400");
    let [left] = cfg.trials().try_into().unwrap();
    assert_eq!((left.id(), left.leaves()), (third.id(), ["service.title"].as_slice()));
    cfg.end_trials(at(90));
    assert_eq!((chunk(&cfg), title(&cfg)), (400, "one".to_owned()));
    // All its leaves set anew, and there is nothing left to confirm.
    let fourth = cfg.try_until("fourth", &[("schedule.chunk", "500")], at(120)).unwrap();
    set(&cfg, "600");
    assert!(cfg.confirm_at(fourth.id(), at(100)).is_err() && cfg.end_trials(at(120)).is_empty());
    // A guard lies over a trial, and a trial under it comes and goes unseen.
    let guard = cfg.override_with("burst", |o| o.schedule().chunk(7)).unwrap();
    cfg.try_until("fifth", &[("schedule.chunk", "700")], at(150)).unwrap();
    assert_eq!(chunk(&cfg), 7);
    drop(guard);
    assert_eq!(chunk(&cfg), 700);
    cfg.end_trials(at(150));
    assert_eq!(chunk(&cfg), 600);
}

#[test]
fn a_trial_that_others_stand_on_ends_all_the_same() {
    let (cfg, at) = (loader("").load().unwrap(), clock());
    cfg.try_until("small", &[("schedule.chunk", "300")], at(60)).unwrap();
    let child = cfg.child("small cache", |o| o.schedule().max_tokens(400)).unwrap();
    let _veto = cfg.subscribe_with_veto("never", |_, _| Err("no".to_owned()));
    cfg.end_trials(at(60));
    assert_eq!((chunk(&cfg), chunk(&child), child.pin().schedule().max_tokens()), (512, 512, 4096));
    assert!(child.explain("schedule.max_tokens").unwrap().to_string().contains("suspended"));
}

#[test]
fn rollback_goes_back_over_lasting_changes_alone() {
    let cfg = loader("[schedule]\nchunk = 100").load().unwrap();
    set(&cfg, "200");
    let guard = cfg.override_with("burst", |o| o.service().title("mine".to_owned())).unwrap();
    drop(cfg.override_with("gone", |o| o.schedule().chunk(7)).unwrap());
    assert_eq!(cfg.reload(&loader("[schedule]\nchunk = 150\n[service]\ntemperature = 0.5")).unwrap().len(), 2);
    set(&cfg, "300");
    cfg.end_permanent("admin", &["schedule.chunk"]).unwrap();
    assert_eq!((chunk(&cfg), *cfg.pin().service().temperature()), (150, 0.5));
    assert_eq!(lasting(&cfg), ["200", "reload", "300", "150"]);
    cfg.rollback("too far", 1).unwrap();
    assert_eq!(chunk(&cfg), 300);
    cfg.rollback("to the start", 4).unwrap();
    assert_eq!((chunk(&cfg), *cfg.pin().service().temperature()), (200, 0.0), "before the reload");
    let chain = cfg.explain("schedule.chunk").unwrap().to_string();
    assert!(chain.contains("app.toml:2:9: 100\n> permanent override \"admin\""), "{chain}");
    assert_eq!(title(&cfg), "mine", "a guard in force stays in force");
    cfg.rollback("back again", 1).unwrap();
    assert_eq!((chunk(&cfg), *cfg.pin().service().temperature()), (300, 0.5));
    drop(guard);
    assert_eq!((title(&cfg), lasting(&cfg).len()), ("thumbs".to_owned(), 7));
    let last = cfg.history().into_iter().rfind(|change| change.what().contains("rollback")).unwrap();
    assert!(last.what().starts_with("rollback of 1 \"back again\", to before epoch "), "{last}");
    for wrong in [0, 8] {
        let errors = cfg.rollback("x", wrong).unwrap_err().to_string();
        assert!(errors.contains("`lasting_changes` lists them"), "{errors}");
    }
    assert!(cfg.rollback("x", 8).unwrap_err().to_string().contains("over 8 changes: 7 can be rolled back"));
    // The files say what they said: the next reload takes it.
    let files = loader("[schedule]\nchunk = 150\n[service]\ntemperature = 0.5");
    cfg.rollback("to the files of the start", 7).unwrap();
    assert_eq!((chunk(&cfg), *cfg.pin().service().temperature()), (100, 0.0));
    assert_eq!(cfg.reload(&files).unwrap(), ["schedule.chunk", "service.temperature"]);
}

#[test]
fn a_rollback_is_checked_vetoed_and_persisted() {
    let cfg = loader("").load().unwrap();
    let (sender, stored) = mpsc::channel();
    let sender = Mutex::new(sender);
    cfg.persist_with(move |values| {
        let lines: Vec<_> = values.iter().map(|(leaf, value)| format!("{leaf} = {value}")).collect();
        sender.lock().unwrap().send(lines.join(", ")).map_err(|error| error.to_string())
    });
    set(&cfg, "4000");
    set(&cfg, "300");
    let child = cfg.child("small", |o| o.schedule().max_tokens(400)).unwrap();
    let errors = cfg.rollback("x", 1).unwrap_err().to_string();
    assert!(errors.contains("child context `small`: a chunk is larger"), "{errors}");
    drop(child);
    let veto = cfg.subscribe_with_veto("pool", |_, _| Err("not now".to_owned()));
    assert!(cfg.rollback("x", 1).unwrap_err().to_string().contains("subscriber `pool`: not now"));
    assert_eq!((chunk(&cfg), lasting(&cfg).len()), (300, 2));
    drop(veto);
    let plan = cfg.plan_rollback("x", 2).unwrap();
    assert_eq!(plan.changes().map(ToString::to_string).collect::<Vec<_>>(), ["schedule.chunk: 300 -> 512"]);
    plan.apply().unwrap();
    assert_eq!(chunk(&cfg), 512);
    assert_eq!(stored.try_iter().collect::<Vec<_>>(), ["schedule.chunk = 4000", "schedule.chunk = 300", ""]);
}

#[test]
fn rollback_and_trials() {
    let (cfg, at) = (loader("").load().unwrap(), clock());
    set(&cfg, "100");
    // Over a trial: it is gone, and can be brought back while its time runs.
    let trial = cfg.try_until("trial", &[("schedule.chunk", "200")], at(60)).unwrap();
    cfg.rollback("off", 1).unwrap();
    assert_eq!((chunk(&cfg), cfg.trials().len()), (100, 0));
    assert!(cfg.confirm_at(trial.id(), at(1)).is_err());
    cfg.rollback("on", 1).unwrap();
    assert_eq!((chunk(&cfg), cfg.trials()), (200, vec![trial]));
    cfg.rollback("off", 1).unwrap();
    assert_eq!(cfg.end_trials(at(60)), [], "it is not in force");
    cfg.rollback("on, too late", 1).unwrap();
    assert_eq!((chunk(&cfg), cfg.trials().len()), (100, 0));
    // Confirmed since: what came before its confirmation has it confirmed.
    let trial = cfg.try_until("kept", &[("schedule.chunk", "300")], at(90)).unwrap();
    cfg.override_permanently("else", |o| o.service().temperature(1.0)).unwrap();
    cfg.confirm_at(trial.id(), at(70)).unwrap();
    cfg.rollback("else", 1).unwrap();
    assert_eq!((chunk(&cfg), *cfg.pin().service().temperature(), cfg.trials().len()), (300, 0.0, 0));
    assert_eq!(cfg.end_trials(at(90)), []);
    cfg.rollback("all of it", 3).unwrap();
    assert_eq!(chunk(&cfg), 100);
}

#[test]
fn a_child_goes_back_over_its_own_changes() {
    let cfg = loader("").load().unwrap();
    let child = cfg.child("child", |o| o.schedule().page_size(32)).unwrap();
    child.override_by_name("admin", &[("service.title", "child")]).unwrap();
    set(&cfg, "100");
    assert_eq!((child.lasting_changes().len(), cfg.lasting_changes().len()), (1, 1));
    child.rollback("x", 1).unwrap();
    assert_eq!((chunk(&child), title(&child), child.pin().schedule().page_size()), (100, "thumbs".to_owned(), 32));
    cfg.rollback("x", 1).unwrap();
    assert_eq!((chunk(&cfg), chunk(&child)), (512, 512));
}

#[test]
fn what_can_be_rolled_back_is_bounded_and_begins_anew_with_a_republish() {
    let (cfg, at) = (loader("").load().unwrap(), clock());
    for step in 1..=200 {
        set(&cfg, &step.to_string());
        drop(cfg.override_with("passing", |o| o.service().temperature(1.0)).unwrap());
    }
    assert_eq!((cfg.lasting_changes().len(), lasting(&cfg)[0].as_str()), (64, "137"));
    cfg.rollback("far", 64).unwrap();
    assert_eq!(chunk(&cfg), 136);
    let trial = cfg.try_until("trial", &[("service.title", "t")], at(60)).unwrap();
    cfg.republish(loader("[schedule]\npage_size = 64").resolve().unwrap(), Outstanding::Carry).unwrap();
    assert_eq!((cfg.lasting_changes().len(), cfg.trials().len()), (0, 1));
    assert!(cfg.rollback("x", 1).unwrap_err().to_string().contains("0 can be rolled back"));
    cfg.confirm_at(trial.id(), at(1)).unwrap();
    assert_eq!((chunk(&cfg), title(&cfg)), (136, "t".to_owned()));
}

/// Threads of trials that are there.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux tells");
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.flatten().filter(|task| task.path().exists()).map(name).filter(|name| name.trim() == "config-trial").count()
}

/// The only test that waits for real time, and for no longer than it takes. In one test, because threads are those of the
/// whole process.
#[test]
#[cfg(target_os = "linux")]
fn a_thread_keeps_the_time_of_a_trial_and_goes_with_it() {
    let cfg = loader("").load().unwrap();
    let mut told = cfg.subscribe("told");
    let trial = cfg.try_by_name("admin", &[("schedule.chunk", "100")], Duration::from_millis(1)).unwrap();
    // However the two meet: in the end it is gone, and nobody called.
    let deadline = Instant::now() + LONG;
    while chunk(&cfg) != 512 || threads() > 0 {
        assert!(Instant::now() < deadline, "the trial does not end");
        if let Some(update) = told.wait(Duration::from_millis(1)) {
            told.acknowledge(&update);
        }
    }
    assert!(cfg.confirm(trial.id()).is_err());
    // A thread gives itself its name when it starts, so it may be a while until it is counted.
    let soon = |count: usize| {
        let deadline = Instant::now() + LONG;
        while threads() != count {
            assert!(Instant::now() < deadline, "{} threads, not {count}", threads());
            std::thread::yield_now();
        }
    };
    let begun = || soon(1);
    let gone = || soon(0);
    // Confirmed, ended, rolled back and over, refused, and the context gone: no thread waits for an hour.
    let hour = Duration::from_hours(1);
    let trial = cfg.try_by_name("confirmed", &[("schedule.chunk", "200")], hour).unwrap();
    begun();
    cfg.confirm(trial.id()).unwrap();
    gone();
    let trial = cfg.try_by_name("ended", &[("schedule.chunk", "300")], hour).unwrap();
    begun();
    assert!(cfg.end_trial(trial.id()));
    gone();
    assert!(cfg.try_by_name("refused", &[("schedule.chunk", "0")], hour).is_err());
    assert!(cfg.try_by_name("refused", &[("schedule.chunk", "9000")], hour).is_err());
    gone();
    let trial = cfg.try_by_name("rolled back", &[("schedule.chunk", "400")], hour).unwrap();
    begun();
    cfg.rollback("x", 1).unwrap();
    assert_eq!(cfg.end_trials(trial.deadline()), []);
    gone();
    let _trial = cfg.try_by_name("left alone", &[("schedule.chunk", "500")], hour).unwrap();
    begun();
    drop(cfg);
    gone();
}

#[test]
fn trials_beside_each_other_are_decided_one_by_one() {
    let (cfg, at) = (loader("").load().unwrap(), clock());
    let attempt = |leaf, value| cfg.try_until("admin", &[(leaf, value)], at(60)).unwrap();
    let (one, other) = (attempt("schedule.chunk", "300"), attempt("service.title", "new"));
    assert!(cfg.end_trial(one.id()));
    assert_eq!((chunk(&cfg), title(&cfg)), (512, "new".to_owned()));
    let again = attempt("schedule.chunk", "200");
    cfg.confirm_at(other.id(), at(59)).unwrap();
    assert_eq!(cfg.trials(), std::slice::from_ref(&again));
    assert_eq!(cfg.end_trials(at(61)), [again]);
    assert_eq!((chunk(&cfg), title(&cfg)), (512, "new".to_owned()));
}
