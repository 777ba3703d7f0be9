//! Plans: what they say, and that applying one does what it said.

use std::time::Duration;

use config_tests::{Schedule, Service};
use kitbag::{ConfigNamespaces, Context, Errors, Facts, Loader, Override, Plan, Planned, Secret};

/// An engine.
#[derive(ConfigNamespaces)]
#[config(env = "PLAN", derived(sizes.total: usize = total(schedule.chunk, schedule.page_size)))]
struct Args {
    #[config(nested)]
    schedule: Schedule,
    #[config(nested)]
    service: Service,
    /// What an admin has to know.
    #[config(ns = "admin", secret, hot)]
    token: Secret<String>,
}

fn total(chunk: usize, page_size: usize) -> usize {
    chunk * page_size
}

fn loader(text: &str) -> Loader<Args> {
    Args::loader().facts(Facts::for_test()).env([("PLAN_ADMIN_TOKEN", "hunter2")]).text("app.toml", text)
}

fn chunk(cfg: &Context<Args>) -> usize {
    *cfg.pin().schedule().chunk()
}

fn lines<'a>(errors: impl IntoIterator<Item = &'a kitbag::ConfigError>) -> Vec<String> {
    errors.into_iter().map(ToString::to_string).collect()
}

#[test]
fn a_plan_says_what_would_happen_and_does_nothing() {
    let cfg = loader("[schedule]\nchunk = 100").load().unwrap();
    let child = cfg.child("draft", |o| o.schedule().page_size(32)).unwrap();
    let grandchild = child.child("deep", |_| {}).unwrap();
    let _burst = cfg.override_with("burst", |o| o.service().title("mine".to_owned())).unwrap();
    let _veto = cfg.subscribe_with_veto("pool", |old, new| {
        if *new.schedule().chunk() < *old.schedule().chunk() { Err("cannot shrink".to_owned()) } else { Ok(()) }
    });
    let _in_child = grandchild.subscribe_with_veto("graphs", |_, new| match *new.schedule().chunk() {
        300 => Err("no graph of 300".to_owned()),
        _ => Ok(()),
    });
    let told = cfg.subscribe("told");
    let state =
        || (cfg.values(), child.values(), cfg.epoch(), child.epoch(), cfg.history().len(), cfg.lasting_changes().len());
    let before = state();
    let plan = cfg
        .plan_by_name("admin", &[("schedule.chunk", "200"), ("service.title", "yours"), ("admin.token", "hunter3")])
        .unwrap();
    let text = plan.to_string();
    let (changes, hidden) = text.split_once("no effect for now: ").unwrap();
    assert_eq!(
        changes,
        "schedule.chunk: 100 -> 200\n\
         admin.token: \"<redacted>\" -> \"<redacted>\"\n\
         sizes.total: 1600 -> 3200 (follows)\n\
         child `draft`: schedule.chunk: 100 -> 200\n\
         child `draft`: admin.token: \"<redacted>\" -> \"<redacted>\"\n\
         child `draft`: sizes.total: 3200 -> 6400 (follows)\n\
         child `draft/deep`: schedule.chunk: 100 -> 200\n\
         child `draft/deep`: admin.token: \"<redacted>\" -> \"<redacted>\"\n\
         child `draft/deep`: sizes.total: 3200 -> 6400 (follows)\n"
    );
    assert!(hidden.starts_with("service.title = \"yours\" lies under override 0 \"burst\" ("), "{hidden}");
    assert!(!format!("{text}{plan:?}").contains("hunter"), "{plan:?}");
    assert_eq!(plan.hidden().next().map(|(leaf, value, _)| (leaf, value)), Some(("service.title", "\"yours\"")));
    let follows: Vec<_> = plan.changes().filter(|change| change.is_derived()).map(Planned::path).collect();
    assert_eq!((follows, plan.epoch()), (vec!["sizes.total"; 3], 1));
    assert_eq!(state(), before, "a plan changes nothing");
    plan.check().unwrap();

    let plan = cfg.plan_by_name("admin", &[("schedule.chunk", "50"), ("schedule.page_size", "8")]).unwrap();
    assert_eq!(lines(plan.vetoes()), ["subscriber `pool`: cannot shrink"]);
    assert_eq!(plan.restarts().map(ToString::to_string).collect::<Vec<_>>(), ["schedule.page_size: 16 -> 8"]);
    let refused = plan.check().unwrap_err();
    assert_eq!(
        lines(&refused),
        [
            "admin: schedule.page_size: cannot change while the program runs: it is `launch`",
            "subscriber `pool`: cannot shrink"
        ]
    );
    assert_eq!(plan.apply().unwrap_err(), refused);

    let plan = cfg.plan_by_name("admin", &[("schedule.chunk", "300")]).unwrap();
    assert_eq!(lines(plan.vetoes()), ["subscriber `graphs` of child context `draft/deep`: no graph of 300"]);
    assert_eq!(state(), before);
    assert!(cfg.wait_applied(cfg.epoch(), Duration::ZERO).is_ok(), "nobody was told of anything");
    drop(told);
}

#[test]
fn a_plan_shows_every_error_that_it_can() {
    let cfg = loader("").load().unwrap();
    let wrong = [
        ("schedule.chunk", "9000"),
        ("service.temperature", "hot"),
        ("schedule.chnk", "4"),
        ("schedule.pages", "4"),
        ("schedule.page_size", "many"),
        ("admin.token", "a"),
        ("admin.token", "b"),
    ];
    let plan = cfg.plan_by_name("admin", &wrong).unwrap();
    let expected = [
        "admin: service.temperature: expected a number, found `hot`",
        "admin: no setting is called `schedule.chnk`; did you mean `schedule.chunk`?",
        "admin: schedule.pages: this value is derived from others and cannot be set",
        "admin: schedule.page_size: expected an integer, 0 or more, found `many`",
        "admin: admin.token: given twice; which one counts?",
        "rule `chunk_fits`: a chunk is larger than the cache (schedule.chunk = 9000, schedule.max_tokens = 4096)",
    ];
    assert_eq!((lines(plan.errors()), plan.changes().count()), (expected.map(str::to_owned).to_vec(), 0));
    assert!(cfg.override_by_name("admin", &wrong).is_err());
    // A file: its own errors, or what would need a restart beside the rest.
    let plan = cfg.plan_reload(&loader("[schedule]\nchunk = \n[service]\ntemperature = 3")).unwrap();
    assert_eq!(plan.errors().count(), 2, "{plan}");
    assert!(
        plan.to_string().starts_with("error: app.toml:2:9: ") && plan.to_string().contains("\nerror: app.toml:4:15: ")
    );
    assert!(plan.apply().is_err());
    let plan = cfg.plan_reload(&loader("[schedule]\nchunk = 9000\nmax_tokens = 10000\n")).unwrap();
    assert_eq!(
        plan.to_string(),
        "needs a restart: schedule.max_tokens: 4096 -> 10000 (it is `load_time`)\n\
         error: rule `chunk_fits`: a chunk is larger than the cache (schedule.chunk = 9000, schedule.max_tokens = 4096)\n"
    );
    let plan = cfg.plan_reload(&loader("[schedule]\nchunk = 900\nmax_tokens = 1000\n")).unwrap();
    assert_eq!(
        plan.to_string(),
        "schedule.chunk: 512 -> 900\nsizes.total: 8192 -> 14400 (follows)\n\
         needs a restart: schedule.max_tokens: 4096 -> 1000 (it is `load_time`)\n"
    );
    let child = cfg.child("child", |_| {}).unwrap();
    assert!(child.plan_reload(&loader("")).unwrap_err().to_string().contains("reload the parent"));
}

#[test]
fn a_plan_of_nothing_makes_no_epoch() {
    let cfg = loader("[schedule]\nchunk = 100").load().unwrap();
    let plan = cfg.plan_reload(&loader("# the same\n[schedule]\nchunk = 100")).unwrap();
    assert_eq!((plan.to_string().as_str(), plan.apply().unwrap()), ("no changes\n", 0));
    assert_eq!(cfg.plan_end_permanent("admin", &["schedule.chunk"]).unwrap().apply().unwrap(), 0);
    assert!(cfg.plan_end_permanent("admin", &["schedule.chnk"]).is_err());
    assert_eq!(cfg.plan_by_name("admin", &[]).unwrap().apply().unwrap(), 0);
}

#[test]
fn a_plan_that_comes_out_otherwise_is_refused() {
    let cfg = loader("[schedule]\nchunk = 100").load().unwrap();
    let plan = || cfg.plan_by_name("admin", &[("schedule.chunk", "200")]).unwrap();
    // Something unrelated changes: it comes out as planned.
    let planned = plan();
    cfg.override_permanently("else", |o| o.service().temperature(1.0)).unwrap();
    assert_eq!((planned.apply().unwrap(), chunk(&cfg)), (2, 200));
    // The same leaf changes.
    let planned = cfg.plan_by_name("admin", &[("schedule.chunk", "300")]).unwrap();
    cfg.override_permanently("meanwhile", |o| o.schedule().chunk(250)).unwrap();
    let errors = planned.apply().unwrap_err();
    assert_eq!(
        lines(&errors),
        [
            "plan: planned schedule.chunk: 200 -> 300, which does not come about any more; plan anew",
            "plan: planned sizes.total: 3200 -> 4800 (follows), which does not come about any more; plan anew",
            "plan: now schedule.chunk: 250 -> 300, which was not planned; plan anew",
            "plan: now sizes.total: 4000 -> 4800 (follows), which was not planned; plan anew",
        ]
    );
    assert_eq!(chunk(&cfg), 250);
    // Only what lies under an override changes: no value tells, the plan does.
    let guard = cfg.override_with("burst", |o| o.schedule().chunk(7)).unwrap();
    let planned = cfg.plan_rollback("admin", 1).unwrap();
    cfg.override_permanently("meanwhile", |o| o.schedule().chunk(260)).unwrap();
    let errors = planned.apply().unwrap_err().to_string();
    assert!(errors.contains("under the overrides in force have changed meanwhile; plan anew"), "{errors}");
    drop(guard);
    assert_eq!(chunk(&cfg), 260);
    // A secret changes into another one that looks the same.
    let planned = cfg.plan_by_name("admin", &[("admin.token", "one")]).unwrap();
    cfg.override_by_name("meanwhile", &[("admin.token", "two")]).unwrap();
    let errors = planned.apply().unwrap_err().to_string();
    assert!(
        errors.contains("planned admin.token: \"<redacted>\" -> \"<redacted>\"") && !errors.contains("two"),
        "{errors}"
    );
    // A veto that was none.
    let planned = plan();
    let _veto = cfg.subscribe_with_veto("new", |_, _| Err("not now".to_owned()));
    assert_eq!(lines(&planned.apply().unwrap_err()), ["subscriber `new`: not now"]);
    // The context goes.
    let planned = plan();
    assert!(planned.check().is_err());
    let gone = loader("").load().unwrap();
    let planned = gone.plan_by_name("admin", &[("schedule.chunk", "200")]).unwrap();
    drop(gone);
    assert!(planned.apply().unwrap_err().to_string().contains("plan: the context of this plan is gone"));
}

#[test]
fn a_plan_reads_the_sources_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.toml");
    std::fs::write(&file, "[schedule]\nchunk = 100\n").unwrap();
    let loader = loader("").file(&file);
    let cfg = loader.load().unwrap();
    std::fs::write(&file, "[schedule]\nchunk = 200\n").unwrap();
    let plan = cfg.plan_reload(&loader).unwrap();
    std::fs::write(&file, "[schedule]\nchunk = 300\n").unwrap();
    plan.apply().unwrap();
    assert_eq!(chunk(&cfg), 200);
    assert!(cfg.explain("schedule.chunk").unwrap().to_string().contains("app.toml:2:9: 200"));
    assert_eq!(cfg.reload(&loader).unwrap(), ["schedule.chunk"]);
}

/// A small generator, so that a run is told by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        let index = self.below(from.len() as u64);
        from[usize::try_from(index).expect("small")]
    }
}

/// What an operator may ask for.
#[derive(Debug)]
enum Patch {
    Set(Vec<(&'static str, String)>),
    Reload(String),
    End(Vec<&'static str>),
    Rollback(usize),
}

impl Patch {
    fn random(random: &mut Random) -> Self {
        match random.below(20) {
            0..11 => Self::Set((0..=random.below(3)).map(|_| Self::setting(random)).collect()),
            11..15 => Self::Reload(Self::file(random)),
            15..17 => {
                Self::End((0..=random.below(2)).map(|_| random.pick(&["schedule.chunk", "service.title"])).collect())
            }
            _ => Self::Rollback(usize::try_from(random.below(6)).expect("small")),
        }
    }

    fn setting(random: &mut Random) -> (&'static str, String) {
        match random.below(16) {
            0..6 => ("schedule.chunk", (random.below(4500) + 1).to_string()),
            6..10 => ("service.title", format!("t{}", random.below(9))),
            10..13 => ("service.temperature", format!("{}.5", random.below(3))),
            13 => ("admin.token", format!("hunter{}", random.below(3))),
            14 => ("schedule.page_size", "32".to_owned()),
            _ => (random.pick(&["schedule.chnk", "schedule.chunk", "sizes.total"]), "none".to_owned()),
        }
    }

    fn file(random: &mut Random) -> String {
        let mut text = format!("[schedule]\nchunk = {}\n", 1 + random.below(4200));
        if random.one_in(6) {
            text += random.pick(&["page_size = 32\n", "chunk = 3\n", "max_tokens = 9000\n", "[", "pages = 3\n"]);
        }
        text + &format!("[service]\ntitle = \"f{}\"\n", random.below(5))
    }

    fn plan(&self, cfg: &Context<Args>) -> Plan<Args> {
        let plan = match self {
            Self::Set(values) => cfg.plan_by_name("random", &Self::borrowed(values)),
            Self::Reload(text) => cfg.plan_reload(&loader(text)),
            Self::End(leaves) => cfg.plan_end_permanent("random", leaves),
            Self::Rollback(changes) => cfg.plan_rollback("random", *changes),
        };
        plan.expect("nothing is in the way")
    }

    fn make(&self, cfg: &Context<Args>) -> Result<(), Errors> {
        match self {
            Self::Set(values) => cfg.override_by_name("random", &Self::borrowed(values)),
            Self::Reload(text) => cfg.reload(&loader(text)).map(drop),
            Self::End(leaves) => cfg.end_permanent("random", leaves),
            Self::Rollback(changes) => cfg.rollback("random", *changes),
        }
    }

    fn borrowed<'a>(values: &'a [(&'static str, String)]) -> Vec<(&'static str, &'a str)> {
        values.iter().map(|(leaf, value)| (*leaf, value.as_str())).collect()
    }
}

/// Whose leaf, which, and its value: all that a plan speaks of, of the context and its child; the token in the clear.
type Seen = Vec<(&'static str, &'static str, String)>;

const TOKEN: &str = "the token";

fn seen(cfg: &Context<Args>, child: &Context<Args>) -> Seen {
    let mut seen = Seen::new();
    for (of, name) in [(cfg, ""), (child, "child")] {
        seen.extend(of.values().into_iter().map(|(leaf, value)| (name, leaf, value.to_string())));
        seen.push((name, TOKEN, of.pin().admin().token().expose().clone()));
    }
    seen
}

fn of_change((name, leaf, _): &(&'static str, &'static str, String), change: &Planned) -> bool {
    (*name, *leaf) == (change.child(), change.path())
}

/// Whether every change starts from what is there.
fn fits(seen: &Seen, plan: &Plan<Args>) -> bool {
    plan.changes().all(|change| seen.iter().any(|value| of_change(value, change) && value.2 == change.before()))
}

/// What will be seen after these changes; of the token only that it changes is known.
fn expect(mut seen: Seen, plan: &Plan<Args>) -> Seen {
    for change in plan.changes() {
        let value = seen.iter_mut().find(|value| of_change(value, change)).expect("a leaf");
        assert_eq!(value.2, change.before());
        change.after().clone_into(&mut value.2);
    }
    seen
}

fn assert_as_planned(before: &Seen, after: &Seen, expected: &Seen, tokens_change: usize, what: &str) {
    let mut tokens = 0;
    for ((old, new), planned) in before.iter().zip(after).zip(expected) {
        if new.1 == TOKEN {
            tokens += usize::from(old != new);
        } else {
            assert_eq!(new, planned, "{what}");
        }
    }
    assert_eq!(tokens, tokens_change, "{what}");
}

/// 10 000 random patches on a context that other changes come and go in. A plan changes nothing; what it refuses the call
/// refuses; and what it says comes about, whether it is applied or the call is made instead. A plan that is overtaken is
/// refused or comes about all the same.
#[test]
fn applying_a_plan_gives_what_it_said() {
    let seed = 0x5eed_0001;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let cfg = loader("").load().unwrap();
    let child = cfg.child("child", |o| o.schedule().page_size(4)).unwrap();
    let _vetoes = [
        cfg.subscribe_with_veto("sevens", |_, new| match *new.schedule().chunk() % 7 {
            0 => Err("a seventh".to_owned()),
            _ => Ok(()),
        }),
        child.subscribe_with_veto("elevens", |_, new| match *new.schedule().chunk() % 11 {
            0 => Err("an eleventh".to_owned()),
            _ => Ok(()),
        }),
    ];
    let mut guards: Vec<Override<Args>> = Vec::new();
    let mut counts = [0; 4];
    for round in 0..10_000 {
        if random.one_in(8) {
            let on = if random.one_in(2) { &cfg } else { &child };
            let chunk = usize::try_from(1 + random.below(4200)).expect("small");
            guards.extend(on.override_with("guard", |o| o.schedule().chunk(chunk)));
        }
        if guards.len() > 2 || (!guards.is_empty() && random.one_in(8)) {
            let index = usize::try_from(random.below(guards.len() as u64)).expect("small");
            drop(guards.swap_remove(index));
        }
        let patch = Patch::random(&mut random);
        let mut before = seen(&cfg, &child);
        let quiet = (cfg.epoch(), child.epoch(), cfg.history().len(), cfg.lasting_changes().len());
        let plan = patch.plan(&cfg);
        let what = format!("round {round}: {patch:?}\n{plan:?}");
        assert_eq!((cfg.epoch(), child.epoch(), cfg.history().len(), cfg.lasting_changes().len()), quiet, "{what}");
        assert_eq!(seen(&cfg, &child), before, "{what}");
        if let Err(refused) = plan.check() {
            assert!(patch.make(&cfg).is_err(), "{what}");
            assert_eq!(plan.apply().unwrap_err(), refused, "{what}");
            assert_eq!(seen(&cfg, &child), before, "{what}");
            counts[0] += 1;
            continue;
        }
        let tokens = plan.changes().filter(|change| change.path() == "admin.token").count();
        let overtaken = random.one_in(6) && Patch::random(&mut random).make(&cfg).is_ok();
        if overtaken {
            before = seen(&cfg, &child);
        }
        let expected = (!overtaken || fits(&before, &plan)).then(|| expect(before.clone(), &plan));
        if overtaken || random.one_in(2) {
            match plan.apply() {
                Ok(epoch) => assert_eq!(epoch, cfg.epoch(), "{what}"),
                Err(errors) => {
                    assert!(overtaken, "{what}\n{errors}");
                    assert_eq!(seen(&cfg, &child), before, "{what}");
                    counts[1] += 1;
                    continue;
                }
            }
        } else {
            patch.make(&cfg).unwrap_or_else(|errors| panic!("{what}\n{errors}"));
        }
        let expected = expected.unwrap_or_else(|| panic!("applied though it was overtaken: {what}"));
        counts[2 + usize::from(overtaken)] += 1;
        assert_as_planned(&before, &seen(&cfg, &child), &expected, tokens, &what);
    }
    println!(
        "refused {}, overtaken and refused {}, made {}, overtaken and made {}",
        counts[0], counts[1], counts[2], counts[3]
    );
    assert!(counts.iter().all(|count| *count >= 100), "{counts:?}");
}
