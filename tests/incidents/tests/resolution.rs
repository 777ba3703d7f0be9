//! What resolution may read and write, and what a second one sees.

use config_incidents::{Attention, Engine};
use kitbag::{ConfigNamespaces, Facts, Leaf, Loader, Outstanding, Start, Value};

fn loader(text: &str) -> Loader<Engine> {
    Engine::loader().facts(Facts::for_test()).text("engine.toml", text)
}

/// Incident 20 (PR 35907): resolution edited its own input, so a second one halved the chunk again (8192, 4096, 2048)
/// and scaled a ratio twice. Here the same record gives the same values, and resolving settled values changes nothing.
#[test]
fn resolving_twice_is_resolving_once() {
    let text = "[schedule]\nchunk = 8192\n[parallel]\ntp = 4\nattn_dp = 2";
    let first = loader(text).load().unwrap();
    assert_eq!((*first.pin().schedule().chunk_per_rank(), *first.pin().schedule().chunk()), (4096, 8192));
    assert_eq!(loader(text).load().unwrap().values(), first.values());
    let second = first.snapshot().publish::<Engine>().unwrap();
    let third = second.snapshot().publish::<Engine>().unwrap();
    assert_eq!((second.values(), third.values()), (first.values(), first.values()));
    assert_eq!(*third.pin().schedule().chunk_per_rank(), 4096);
}

/// Incident 21 (PR 34266): the first replica published a backend that a rule had chosen; the second one took it for the
/// operator's choice and fell back to another. Here who chose a value is its origin, and a choice does not feed back.
#[test]
fn what_a_rule_chose_is_not_taken_for_the_operators_choice() {
    let facts = || Facts::for_test().with_cpus(64);
    let cfg = Engine::loader().facts(facts()).load().unwrap();
    for _ in 0..3 {
        let replica = cfg.child("replica", |_| {}).unwrap();
        assert_eq!(replica.pin().exec().linear().kernel(), Attention::Fa3);
        let explained = replica.explain("exec.linear.kernel").unwrap();
        assert_eq!(explained.steps().last(), Some(("rule `linear`", "\"fa3\"")));
    }
    let chosen = Engine::loader().facts(facts()).args(["engine", "--kernel", "fa3"]).load().unwrap();
    assert_eq!(chosen.explain("exec.linear.kernel").unwrap().steps().last(), Some(("--kernel", "\"fa3\"")));
}

/// Incident 22: resolution overwrote fields, so that neither a readback nor a second resolution could see the input.
/// Here the input stays in the chain behind a value, whatever came later.
#[test]
fn the_input_is_still_there_after_everything_else() {
    let sources = || loader("[serving]\nparser = \"auto\"\n[schedule]\nchunk = 100").args(["engine", "--chunk", "200"]);
    let record = format!("{:?}", sources().record().unwrap());
    assert!(record.contains("schedule.chunk (engine.toml:4:9): 100"), "{record}");
    let declared = sources().resolve().unwrap().declare("template", |o| {
        o.serving().parser("json");
    });
    let cfg = declared.unwrap().publish();
    cfg.override_permanently("tuned", |o| {
        o.schedule().chunk(300);
    })
    .unwrap();
    let values =
        |path: &str| -> Vec<String> { cfg.explain(path).unwrap().steps().map(|(_, value)| value.to_owned()).collect() };
    assert_eq!(values("schedule.chunk"), ["2048", "100", "200", "300"]);
    assert_eq!(values("serving.parser"), ["\"auto\"", "\"auto\"", "\"json\""]);
    assert_eq!(format!("{:?}", sources().record().unwrap()), record);
}

/// Incident 23 (PR 37195): what an embedding program had declared before resolution was cleared by it. Here it is a
/// source like others, named in explain, or a declaration, of which later ones do not clear earlier ones.
#[test]
fn what_an_embedder_says_survives_resolution() {
    let embedded = loader("").text("embedder.toml", "[model]\npath = \"theirs\"").resolve().unwrap();
    let declared = embedded.declare("embedder", |o| {
        o.schedule().max_tokens(8192);
    });
    let declared = declared.unwrap().declare("checkpoint", |o| {
        o.exec().moe().fused(false);
    });
    let cfg = declared.unwrap().publish();
    let now = cfg.pin();
    assert_eq!((now.model().path(), now.schedule().max_tokens(), now.exec().moe().fused()), ("theirs", 8192, false));
    let origin = |path: &str| cfg.explain(path).unwrap().steps().last().unwrap().0.to_owned();
    assert!(origin("model.path").starts_with("embedder.toml:2"), "{}", origin("model.path"));
    assert!(origin("schedule.max_tokens").contains("load time \"embedder\""));
}

/// Incidents 24 and 25: a failed validation left the record half-changed, so that a second try saw other input than the
/// first. Here a failure gives no value, and what it was made from is untouched.
#[test]
fn a_failed_try_does_not_change_the_next_one() {
    let sources = loader("[schedule]\nchunk = 4096");
    let detect = |tokens: usize| {
        sources.clone().resolve()?.declare("template", |o| {
            o.serving().parser("json");
            o.schedule().max_tokens(tokens);
        })
    };
    assert!(detect(64).is_err());
    let cfg = detect(8192).unwrap().publish();
    let fresh = loader("[schedule]\nchunk = 4096").resolve().unwrap().declare("template", |o| {
        o.serving().parser("json");
        o.schedule().max_tokens(8192);
    });
    assert_eq!(cfg.values(), fresh.unwrap().publish().values());
    let broken = loader("[schedule]\nchunk = 6000\nmax_tokens = 4096");
    assert!(broken.clone().resolve().is_err());
    assert!(broken.clone().args(["engine", "--chunk", "7"]).load().is_ok_and(|cfg| *cfg.pin().schedule().chunk() == 7));
}

/// A choice with two spellings.
#[derive(Clone, Debug, PartialEq)]
struct Algorithm(&'static str);

impl Leaf for Algorithm {
    type Read<'a> = &'static str;

    fn read(&self) -> &'static str {
        self.0
    }

    fn expected() -> String {
        "`eagle`, also spelt `nextn`, or `ngram`".to_owned()
    }

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "eagle" | "nextn" => Some(Self("eagle")),
            "ngram" => Some(Self("ngram")),
            _ => None,
        }
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Self::from_text(text),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        Value::Text(self.0.to_owned())
    }
}

fn wants_hidden_states(algorithm: &str) -> bool {
    algorithm == "eagle"
}

/// Declared in the wrong order on purpose: the rule of the first leaf reads the last one.
#[derive(ConfigNamespaces)]
struct Speculative {
    /// Whether hidden states are returned.
    #[config(ns = "spec", auto = wants_hidden_states(spec.algorithm))]
    hidden_states: bool,
    /// Algorithm.
    #[config(ns = "spec", default = "ngram")]
    algorithm: Algorithm,
}

/// Incident 26 (PRs 38236, 38246): an alias was mapped to the canonical name after the hooks that compared with it.
/// Here spellings end where text is parsed, and a rule runs after its inputs, so rules see one name only.
#[test]
fn an_alias_is_the_name_before_any_rule_runs() {
    let spelt = |name: &str| {
        let cfg = Speculative::loader().args(["engine", "--algorithm", name]).load().unwrap();
        (cfg.values(), cfg.pin().spec().hidden_states())
    };
    assert_eq!(spelt("nextn"), spelt("eagle"));
    assert!(spelt("nextn").1 && !spelt("ngram").1);
    let by_path = |text: &str| loader(text).load().unwrap().fingerprint();
    assert_eq!(by_path("[schedule]\npage = 8"), by_path("[schedule]\npage_size = 8"));
}

/// Incident 27: passes were listed in one place and called in another, and the two differed. Here a rule is named at
/// the leaf it gives a value to, and nowhere else; each runs, once.
#[test]
fn every_rule_that_is_declared_runs() {
    let cfg = loader("").load().unwrap();
    let mut ran = 0;
    for (path, _) in cfg.values() {
        let namespace = path.rsplit_once('.').unwrap().0;
        let all = Engine::SCHEMA.children.iter().flat_map(|child| child.children.iter().chain([child]));
        let info = all.filter(|child| child.path == namespace).flat_map(|child| child.leaves);
        let Some(Start::Computed(computation)) = info.clone().find(|leaf| leaf.path == path).map(|leaf| leaf.start)
        else {
            continue;
        };
        let steps: Vec<_> = cfg.explain(path).unwrap().steps().map(|(origin, _)| origin.to_owned()).collect();
        assert_eq!(steps.len(), 1, "{path}: {steps:?}");
        assert!(steps[0].ends_with(&format!("`{}`", computation.function)), "{path}: {steps:?}");
        ran += 1;
    }
    assert_eq!(ran, 15);
}

/// Incident 28: which backends exist depended on what had been imported by then. Here the choices are a type: help
/// lists all of them, and there is no later.
#[test]
fn help_and_parser_know_the_same_choices() {
    let help = loader("").args(["engine", "--help"]).load().unwrap_err();
    assert!(help.is_help() && help.to_string().contains("auto, dummy, remote"), "{help}");
    for name in ["auto", "dummy", "remote"] {
        assert!(loader("").args(["engine", "--load-format", name]).load().is_ok(), "{name}");
    }
    let errors = loader("").args(["engine", "--load-format", "dumy"]).load().unwrap_err();
    assert!(errors.to_string().contains("did you mean `dummy`?"), "{errors}");
}

/// Incident 29, second half: of two decisions about one leaf the later one won, and nobody was told. Two rules for one
/// leaf do not compile (`ui/fail/two_rules_for_one_leaf.rs`); of two declarations the later one holds and both are
/// shown.
#[test]
fn of_two_decisions_about_one_leaf_both_are_shown() {
    let first = loader("").resolve().unwrap().declare("architecture", |o| {
        o.schedule().max_tokens(8192);
    });
    let second = first.unwrap().declare("memory", |o| {
        o.schedule().max_tokens(4096);
    });
    let explained = second.unwrap().publish().explain("schedule.max_tokens").unwrap();
    let steps: Vec<_> = explained.steps().skip(1).collect();
    assert!(steps[0].0.contains("\"architecture\"") && steps[1].0.contains("\"memory\""), "{steps:?}");
    assert_eq!((steps[0].1, steps[1].1, explained.value()), ("8192", "4096", "4096"));
}

/// Incident 33 (PR 37086): one fact about the platform lived in several modules, and a test replaced one of them. Here
/// the facts are one value, and all that depends on it turns with it.
#[test]
fn one_fact_turns_everything_that_depends_on_it() {
    let on = |cpus: usize| {
        let cfg = Engine::loader().facts(Facts::for_test().with_cpus(cpus)).load().unwrap();
        (cfg.pin().schedule().running(), cfg.pin().exec().linear().kernel())
    };
    assert_eq!((on(2), on(64)), ((16, Attention::Triton), (512, Attention::Fa3)));
}

fn enough(workers: usize, facts: &Facts) -> Result<(), String> {
    if workers <= facts.cpus() { Ok(()) } else { Err(format!("there are {} CPUs", facts.cpus())) }
}

/// A rule that holds a setting against the machine.
#[derive(ConfigNamespaces)]
#[config(validate(enough(pool.workers, facts)))]
struct Machine {
    /// Worker threads; one per CPU unless set.
    #[config(ns = "pool", auto = Facts::cpus)]
    workers: usize,
    /// Jobs that may wait.
    #[config(ns = "pool", default = 1, hot)]
    queue: usize,
}

/// Incident 33, second half: a fact that had changed was asked for again in one place and remembered in another. Facts
/// go with the settings they settled: after a republish checks, children and reloads use the new ones.
#[test]
fn facts_go_with_the_settings_they_settled() {
    let on = |cpus: usize| Machine::loader().facts(Facts::for_test().with_cpus(cpus));
    let cfg = on(2).load().unwrap();
    cfg.republish(on(64).resolve().unwrap(), Outstanding::Drop).unwrap();
    let child = cfg
        .child("half", |o| {
            o.pool().workers(32);
        })
        .unwrap();
    assert_eq!((cfg.pin().pool().workers(), child.pin().pool().workers()), (64, 32));
    let _wide = cfg
        .override_with("burst", |o| {
            o.pool().queue(5);
        })
        .unwrap();
    let reloaded = cfg.reload(&on(64).text("pool.toml", "[pool]\nqueue = 7"));
    assert_eq!(reloaded.unwrap(), ["pool.queue"]);
    drop(child);
    assert!(
        cfg.republish(on(2).text("pool.toml", "[pool]\nworkers = 2").resolve().unwrap(), Outstanding::Carry).is_ok()
    );
    let errors = cfg.child("too many", |o| {
        o.pool().workers(3);
    });
    assert!(errors.unwrap_err().to_string().contains("there are 2 CPUs (pool.workers = 3)"));
}
