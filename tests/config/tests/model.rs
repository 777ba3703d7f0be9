//! Random sequences of everything that changes a context, against a simple model of the layer rules.
//!
//! A failing case is printed with its seed and shrunk; proptest repeats it first from then on.

use config_tests::{Schedule, Service};
use kitbag::{ConfigNamespaces, Context, Facts, Outstanding, Override, ThreadOverride};
use proptest::prelude::*;

/// An engine.
#[derive(ConfigNamespaces)]
struct Args {
    #[config(nested)]
    schedule: Schedule,
    #[config(nested)]
    service: Service,
}

/// What may happen to a context. Numbers pick among the guards that exist.
#[derive(Clone, Debug)]
enum Act {
    Override { chunk: Option<usize>, title: Option<u8> },
    Thread { chunk: usize },
    Permanent { chunk: Option<usize>, title: Option<u8> },
    DropGuard(usize),
    DropThread(usize),
    Republish { chunk: usize, carry: bool },
    Reload { chunk: usize },
    Panic { chunk: usize },
    TooLarge,
    OutOfRange,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let chunk = 1usize..=4096;
    let both = (prop::option::of(chunk.clone()), prop::option::of(any::<u8>()));
    let act = prop_oneof![
        4 => both.clone().prop_map(|(chunk, title)| Act::Override { chunk, title }),
        2 => chunk.clone().prop_map(|chunk| Act::Thread { chunk }),
        2 => both.prop_map(|(chunk, title)| Act::Permanent { chunk, title }),
        4 => any::<usize>().prop_map(Act::DropGuard),
        2 => any::<usize>().prop_map(Act::DropThread),
        1 => (chunk.clone(), any::<bool>()).prop_map(|(chunk, carry)| Act::Republish { chunk, carry }),
        1 => chunk.clone().prop_map(|chunk| Act::Reload { chunk }),
        1 => chunk.prop_map(|chunk| Act::Panic { chunk }),
        1 => Just(Act::TooLarge),
        1 => Just(Act::OutOfRange),
    ];
    prop::collection::vec(act, 1..40)
}

/// One layer of the model: what it sets, and its guard's number.
#[derive(Clone, Debug)]
struct ModelLayer {
    number: usize,
    chunk: Option<usize>,
    title: Option<u8>,
}

/// The rules in their simplest form: thread scopes over guards over permanent over base, newest first.
#[derive(Default)]
struct Model {
    base: usize,
    permanent: (Option<usize>, Option<u8>),
    guards: Vec<ModelLayer>,
    threads: Vec<ModelLayer>,
}

impl Model {
    fn chunk(&self) -> usize {
        let scoped = self.threads.iter().rev().chain(self.guards.iter().rev()).find_map(|layer| layer.chunk);
        scoped.or(self.permanent.0).unwrap_or(self.base)
    }

    fn engine_chunk(&self) -> usize {
        let scoped = self.guards.iter().rev().find_map(|layer| layer.chunk);
        scoped.or(self.permanent.0).unwrap_or(self.base)
    }

    fn title(&self) -> String {
        let scoped = self.guards.iter().rev().find_map(|layer| layer.title);
        scoped.or(self.permanent.1).map_or("thumbs".to_owned(), |title| format!("t{title}"))
    }
}

struct Run {
    cfg: Context<Args>,
    child: Context<Args>,
    model: Model,
    guards: Vec<(usize, Override<Args>)>,
    threads: Vec<(usize, ThreadOverride)>,
    next: usize,
}

impl Run {
    fn new() -> Self {
        let cfg = loader(512).load().expect("valid");
        let child = cfg.child("child", |o| o.schedule().page_size(32)).expect("valid");
        let model = Model { base: 512, ..Model::default() };
        Self { cfg, child, model, guards: Vec::new(), threads: Vec::new(), next: 0 }
    }

    fn act(&mut self, act: &Act) {
        self.next += 1;
        let number = self.next;
        match *act {
            Act::Override { chunk, title } => {
                let guard = self.cfg.override_with("guard", |o| set(o, chunk, title)).expect("valid");
                self.guards.push((number, guard));
                self.model.guards.push(ModelLayer { number, chunk, title });
            }
            Act::Thread { chunk } => {
                let guard = self.cfg.override_thread("thread", |o| o.schedule().chunk(chunk)).expect("valid");
                self.threads.push((number, guard));
                self.model.threads.push(ModelLayer { number, chunk: Some(chunk), title: None });
            }
            Act::Permanent { chunk, title } => {
                self.cfg.override_permanently("permanent", |o| set(o, chunk, title)).expect("valid");
                self.model.permanent = (chunk.or(self.model.permanent.0), title.or(self.model.permanent.1));
            }
            Act::DropGuard(pick) if !self.guards.is_empty() => {
                let (number, guard) = self.guards.remove(pick % self.guards.len());
                drop(guard);
                self.model.guards.retain(|layer| layer.number != number);
            }
            Act::DropThread(pick) if !self.threads.is_empty() => {
                let (number, guard) = self.threads.remove(pick % self.threads.len());
                drop(guard);
                self.model.threads.retain(|layer| layer.number != number);
            }
            Act::DropGuard(_) | Act::DropThread(_) => {}
            Act::Republish { chunk, carry } => {
                let outstanding = if carry { Outstanding::Carry } else { Outstanding::Drop };
                let resolved = loader(chunk).resolve().expect("valid");
                self.cfg.republish(resolved, outstanding).expect("valid");
                self.model.base = chunk;
                if !carry {
                    self.model.guards.clear();
                    self.model.permanent = (None, None);
                }
            }
            Act::Reload { chunk } => {
                self.cfg.reload(&loader(chunk)).expect("valid");
                self.model.base = chunk;
            }
            Act::Panic { chunk } => {
                let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    let _guard = self.cfg.override_with("panic", |o| o.schedule().chunk(chunk));
                    std::panic::resume_unwind(Box::new("while overridden"));
                }));
                assert!(panicked.is_err());
            }
            Act::TooLarge => {
                let refused = self.cfg.override_with("too large", |o| o.schedule().chunk(5000));
                assert!(refused.is_err());
            }
            Act::OutOfRange => {
                assert!(self.cfg.override_permanently("range", |o| o.schedule().chunk(0)).is_err());
            }
        }
    }

    fn check(&self) {
        let (now, child) = (self.cfg.pin(), self.child.pin());
        assert_eq!(
            (*now.schedule().chunk(), String::clone(&now.service().title())),
            (self.model.chunk(), self.model.title())
        );
        // Another thread sees none of this one's scopes.
        let cfg = &self.cfg;
        let elsewhere =
            std::thread::scope(|scope| scope.spawn(|| *cfg.pin().schedule().chunk()).join().expect("reads"));
        assert_eq!(elsewhere, self.model.engine_chunk());
        // The child follows what everybody sees, not what this thread alone sees.
        assert_eq!((*child.schedule().chunk(), child.schedule().page_size()), (self.model.engine_chunk(), 32));
    }
}

fn set(o: &mut ArgsSetters<kitbag::EngineWideOverride>, chunk: Option<usize>, title: Option<u8>) {
    if let Some(chunk) = chunk {
        o.schedule().chunk(chunk);
    }
    if let Some(title) = title {
        o.service().title(format!("t{title}"));
    }
}

fn loader(chunk: usize) -> kitbag::Loader<Args> {
    Args::loader().facts(Facts::for_test()).text("app.toml", format!("[schedule]\nchunk = {chunk}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_agrees_with_the_model(acts in acts()) {
        let mut run = Run::new();
        run.check();
        for act in &acts {
            run.act(act);
            run.check();
        }
        // All guards gone, in any order: only what was meant to stay is left.
        run.guards.clear();
        run.threads.clear();
        run.model.guards.clear();
        run.model.threads.clear();
        run.check();
    }
}
