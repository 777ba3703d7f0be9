//! Reading before, beside or after publication.

use config_incidents::{Dtype, Engine};
use kitbag::{ConfigNamespaces, Context, Facts, Loader, Outstanding};

fn loader(text: &str) -> Loader<Engine> {
    Engine::loader().facts(Facts::for_test()).text("engine.toml", text)
}

/// Incident 4 (PR 36973): a function that took "no configuration" for "the default" came to be called too early and
/// returned the default in silence. Here absence is an argument or an error, never a value.
#[test]
fn nothing_published_is_an_error_and_not_a_default() {
    fn port(cfg: Option<&Context<Engine>>) -> Option<u16> {
        cfg.map(|cfg| cfg.pin().serving().port())
    }
    let cfg = loader("[serving]\nport = 4").load().unwrap();
    assert_eq!((port(None), port(Some(&cfg))), (None, Some(4)));
    let error = Context::<Engine>::current().unwrap_err().to_string();
    assert!(error.contains("nothing is published here") && error.contains("serving"), "{error}");
    let entered = cfg.enter();
    assert_eq!(Context::<Engine>::current().unwrap().pin().serving().port(), 4);
    drop(entered);
    assert!(Context::<Engine>::current().is_err());
}

/// Incident 5 (PR 35904): a constructor published again "to be safe" and the overrides in force were gone. A republish
/// here has to say what becomes of them, and returns those it dropped.
#[test]
fn a_republish_carries_overrides_or_returns_them() {
    let cfg = loader("").load().unwrap();
    let _burst = cfg
        .override_with("burst", |o| {
            o.schedule().chunk(64);
        })
        .unwrap();
    let again = || loader("[serving]\nport = 5").resolve().unwrap();
    assert_eq!(cfg.republish(again(), Outstanding::Carry).unwrap(), []);
    assert_eq!((cfg.pin().serving().port(), *cfg.pin().schedule().chunk()), (5, 64));
    let dropped = cfg.republish(again(), Outstanding::Drop).unwrap();
    assert_eq!(dropped.len(), 1);
    assert_eq!(dropped[0].leaves, ["schedule.chunk"]);
    assert!(dropped[0].origin.contains("\"burst\"") && dropped[0].origin.contains("publish_order.rs"), "{dropped:?}");
    assert_eq!(*cfg.pin().schedule().chunk(), 2048);
}

/// Incident 6: a runner was handed one record while another one was published. Here what is handed in is what is read,
/// and two fingerprints tell which is which.
#[test]
fn what_is_handed_in_is_what_is_read() {
    let page_size = |cfg: &Context<Engine>| cfg.pin().schedule().page_size();
    let handed_in = loader("[schedule]\npage_size = 8").load().unwrap();
    let live = loader("[schedule]\npage_size = 64").load().unwrap();
    let _entered = live.enter();
    assert_eq!((page_size(&handed_in), page_size(&live)), (8, 64));
    assert_ne!(handed_in.fingerprint(), live.fingerprint());
}

/// Incidents 7 and D10: publication in steps failed half-way and left the new record, bags and role installed. Here it
/// is one swap: a refused republish leaves every value, the epoch and the history as they were.
#[test]
fn a_failed_publication_leaves_nothing_behind() {
    let cfg = loader("[parallel]\ntp = 8").load().unwrap();
    let _wide = cfg
        .override_with("wide", |o| {
            o.schedule().chunk(60000);
        })
        .unwrap();
    let before = (cfg.values(), cfg.epoch(), cfg.history().len(), cfg.explain("parallel.tp").unwrap());
    let small = loader("[parallel]\ntp = 2\n[schedule]\nmax_tokens = 4096").resolve().unwrap();
    let errors = cfg.republish(small, Outstanding::Carry).unwrap_err();
    assert!(errors.to_string().contains("a chunk is larger than the cache"), "{errors}");
    assert_eq!((cfg.values(), cfg.epoch(), cfg.history().len(), cfg.explain("parallel.tp").unwrap()), before);
    assert!(loader("[parallel]\ntp = 3\nattn_dp = 2").load().is_err(), "what does not hold is not published at all");
}

/// Incident 8 (PR 35909): facts of the model were built before the decisions they depend on had been taken. Here a rule
/// runs after its inputs wherever it is declared, and what a declaration changes is computed anew.
#[test]
fn what_follows_from_a_late_decision_follows() {
    let fp8 = |text: &str| {
        let resolved = loader(text).resolve().unwrap();
        let declared = resolved.declare("the checkpoint is quantised", |o| {
            o.model().dtype(Dtype::Fp8);
        });
        let cfg = declared.unwrap().publish();
        (cfg.pin().model().kv_dtype(), cfg.pin().schedule().page_size())
    };
    assert_eq!(fp8(""), (Dtype::Fp8, 32));
    assert_eq!(fp8("[schedule]\npage_size = 4"), (Dtype::Fp8, 4), "what the operator chose stays");
    assert_eq!(fp8("[model]\nkv_dtype = \"bf16\""), (Dtype::Bf16, 16));
}

/// Incident D13: handles taken before a second publication answered from the old one, or from nothing. Here a handle is
/// the context itself; only a pinned epoch stays as it was.
#[test]
fn handles_do_not_go_stale() {
    let cfg = loader("").load().unwrap();
    let (handle, mut reader, pinned) = (cfg.clone(), cfg.reader(), cfg.pin());
    cfg.republish(loader("[schedule]\npage_size = 32").resolve().unwrap(), Outstanding::Drop).unwrap();
    assert_eq!((handle.pin().schedule().page_size(), reader.now().schedule().page_size()), (32, 32));
    assert_eq!((pinned.schedule().page_size(), handle.epoch()), (16, 1));
}

/// Incident D15: the same value was kept by one way of publishing and erased by another. Here there is one way, and the
/// same input published again is no change.
#[test]
fn publishing_the_same_again_changes_nothing() {
    let text = "[model]\npath = \"large\"\n[parallel]\ntp = 8\nep = 4";
    let cfg = loader(text).load().unwrap();
    let before = (cfg.values(), cfg.fingerprint());
    cfg.republish(loader(text).resolve().unwrap(), Outstanding::Drop).unwrap();
    assert_eq!((cfg.values(), cfg.fingerprint()), before);
    assert_eq!(loader(text).load().unwrap().values(), before.0);
}
