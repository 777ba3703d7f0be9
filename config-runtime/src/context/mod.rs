//! Published configuration: a cheap handle on one engine's settings.

mod ambient;
mod child;
mod commit;
mod epoch;
mod explain;
mod history;
mod layer;
mod one_thread;
mod overrides;
mod plan;
mod reader;
mod reload;
mod request;
mod rollback;
mod scope;
mod subscription;
mod trial;
mod turn;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

pub use ambient::Entered;
pub use epoch::Pinned;
pub use history::Change;
pub use overrides::{DroppedOverride, Override};
pub use plan::{Plan, Planned};
pub use reader::Reader;
pub use reload::{Outstanding, Watch};
pub use scope::{Scoped, ThreadOverride};
pub use subscription::{Subscription, Update};
pub use trial::Trial;

use self::commit::State;
use self::epoch::Epoch;
use self::one_thread::OneThread;
use self::subscription::Subscribers;
use self::turn::Turns;
use crate::error::ConfigError;
use crate::facts::Facts;
use crate::leaf::Erased;
use crate::origin::Origin;
use crate::published::Published;
use crate::record::Record;
use crate::resolved::{Declaration, Resolved};
use crate::role::{Everything, Role, View};
use crate::schema::ConfigNamespaces;
use crate::table::Table;
use crate::value::Value;

/// One engine's published configuration: a cheap handle, `Clone + Send + Sync`.
///
/// Readers [`pin`](Self::pin) an epoch and read plain fields. Changes are layers: each commit checks everything,
/// recomputes derived values, builds the next epoch aside and swaps it in.
pub struct Context<S: ConfigNamespaces>(Arc<Inner<S>>);

struct Inner<S: ConfigNamespaces> {
    current: Published<Epoch<S>>,
    state: Mutex<State>,
    /// What this context follows lives as long as it does: changes come down through it.
    parent: Option<Context<S>>,
    children: Mutex<Vec<(String, Weak<Inner<S>>)>>,
    subscribers: Subscribers<S>,
    shared: Arc<Shared>,
}

/// What a context has in common with its children.
struct Shared {
    table: Arc<Table>,
    sources: Mutex<Arc<Sources>>,
    /// Taken for a whole commit: parents and children change together or not at all.
    turns: Turns,
    persist: Mutex<Option<Persist>>,
}

/// Called with all permanent overrides before a new one becomes visible.
type Persist = Arc<dyn Fn(&[(&'static str, Value)]) -> Result<(), String> + Send + Sync>;

/// What the sources said, for explain, and what was declared while loading, for reloads; with the facts it was settled by.
struct Sources {
    facts: Facts,
    candidates: Vec<Vec<(Origin, Erased)>>,
    declared: Vec<Declaration>,
    warnings: Vec<ConfigError>,
    /// The files that were read: one of them that is gone at a reload is missing, also if it need not be there.
    files: Vec<PathBuf>,
}

impl Sources {
    fn of<S>(record: Record<S>, facts: Facts, declared: Vec<Declaration>) -> Self {
        let Record { candidates, warnings, files, .. } = record;
        Self { facts, candidates, declared, warnings, files }
    }
}

impl<S: ConfigNamespaces> Context<S> {
    pub(crate) fn publish(resolved: Resolved<S>) -> Self {
        let Resolved { record, facts, values, declared, .. } = resolved;
        let table = Arc::clone(&record.table);
        let shared = Shared {
            table,
            sources: Mutex::new(Arc::new(Sources::of(record, facts, declared))),
            turns: Turns::default(),
            persist: Mutex::default(),
        };
        let epoch = Epoch::first(Arc::clone(&values));
        Self(Arc::new(Inner::new(Arc::new(shared), None, State::new(values, Vec::new()), epoch)))
    }

    /// One consistent epoch, as this thread or future sees it: with its own scoped overrides, if there are any.
    ///
    /// A later change is seen by the next pin, never by this one.
    #[must_use]
    pub fn pin(&self) -> S::Pin<Everything> {
        S::Pin::from(self.pinned())
    }

    pub(crate) fn pinned(&self) -> Pinned<S> {
        Pinned(scope::overlaid(&self.0, || self.0.current.load()).unwrap_or_else(|| self.0.current.load()))
    }

    pub(crate) fn table(&self) -> &Table {
        &self.0.shared.table
    }

    /// How long a change of this context, its parent or its children waits while another one is being decided: 10 seconds
    /// unless set.
    ///
    /// Changes take turns, and one takes as long as its rules, vetoes and persistence. A change that waits longer than
    /// this for a single other one is refused, naming whom that one waits for; so a veto that waits for a thread which
    /// changes the same context gets an error and no hang. The end of an override is not refused: it is done when the
    /// change in its way is over.
    pub fn set_patience(&self, patience: Duration) {
        self.0.shared.turns.set_patience(patience);
    }

    /// What was warned of when the sources were read: deprecated names that are still in use.
    #[must_use]
    pub fn warnings(&self) -> Vec<ConfigError> {
        lock(&self.0.shared.sources).warnings.clone()
    }

    /// A reader for one thread that follows the context at the cost of one atomic load.
    #[must_use]
    pub fn reader(&self) -> Reader<S> {
        Reader::new(self)
    }

    /// This context as role `R` sees it.
    #[must_use]
    pub fn view<R: Role>(&self) -> View<S, R> {
        View::new(self.clone())
    }

    /// Number of the current epoch: 0 at publish, one more with every commit.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.0.current.number()
    }

    /// Every leaf with its effective value, in schema order. Secrets are redacted.
    #[must_use]
    pub fn values(&self) -> Vec<(&'static str, Value)> {
        let epoch = self.pinned().0;
        let leaves = self.0.shared.table.entries.iter().map(|entry| entry.info.path);
        leaves.zip(epoch.values.iter().map(|value| value.to_value())).collect()
    }

    /// The effective value of the leaf with this path, for admin surfaces; programs read through accessors.
    #[must_use]
    pub fn value(&self, path: &str) -> Option<Value> {
        let index = self.0.shared.table.index(path)?;
        let read = |epoch: &Epoch<S>| epoch.values[index].to_value();
        Some(
            scope::overlaid(&self.0, || self.0.current.load())
                .map_or_else(|| self.0.current.look(read), |epoch| read(&epoch)),
        )
    }
}

impl Shared {
    fn sources(&self) -> Arc<Sources> {
        Arc::clone(&lock(&self.sources))
    }
}

impl<S: ConfigNamespaces> Inner<S> {
    fn new(shared: Arc<Shared>, parent: Option<Context<S>>, state: State, epoch: Epoch<S>) -> Self {
        Self {
            current: Published::new(epoch, 0),
            state: Mutex::new(state),
            parent,
            children: Mutex::default(),
            subscribers: Subscribers::default(),
            shared,
        }
    }
}

impl<S: ConfigNamespaces> Clone for Context<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: ConfigNamespaces> fmt::Debug for Context<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (path, value) in self.values() {
            map.entry(&format_args!("{path}"), &format_args!("{value}"));
        }
        map.finish()
    }
}

/// A panic in user code cannot leave state half-written, because it is written only after that code returned.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
