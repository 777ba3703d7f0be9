//! Permanent overrides on trial: they go by themselves unless they are confirmed in time.

use std::fmt;
use std::panic::Location;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::commit::{Past, Terms};
use super::layer::{Layer, Mode};
use super::request::{Named, Request, remove_permanent};
use super::turn::Deferred;
use super::{Context, Inner, lock};
use crate::error::{ConfigError, Errors};
use crate::origin::Origin;
use crate::schema::ConfigNamespaces;
use crate::table::Table;

/// Until when a layer is on trial.
#[derive(Clone)]
pub(super) struct Term {
    deadline: Instant,
    /// Who ends it on time notices that this is gone with the last copy of the layer.
    _watched: Option<mpsc::Sender<Watched>>,
}

/// A change that goes unless it is confirmed.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    id: u64,
    deadline: Instant,
    origin: String,
    leaves: Vec<&'static str>,
}

impl Trial {
    fn of(table: &Table, layer: &Layer, term: &Term) -> Self {
        let leaves = layer.edit.iter().map(|(index, _)| table.entries[*index].info.path).collect();
        Self { id: layer.id, deadline: term.deadline, origin: layer.origin.to_string(), leaves }
    }

    /// Its number within its context, to confirm it by.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// When it ends unless confirmed.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Paths of the leaves it sets.
    #[must_use]
    pub fn leaves(&self) -> &[&'static str] {
        &self.leaves
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.leaves.join(", "))
    }
}

impl<S: ConfigNamespaces> Context<S> {
    /// [`override_by_name`](Self::override_by_name) on trial: unless [`confirm`](Self::confirm)ed within this time, the
    /// overrides go by themselves, and what they lay over shows again.
    ///
    /// For changes that may cut off whoever made them. Until confirmed they are not persisted. A thread ends them on time;
    /// it does not keep the context alive, and is gone as soon as the trial is over or the context is. With a clock of
    /// the program's own, such as a simulated one, use [`try_until`](Self::try_until).
    ///
    /// A trial ends like any override: this always succeeds, and what was changed meanwhile stays. A leaf that is set
    /// permanently during the trial belongs to it no more.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use kitbag::ConfigNamespaces;
    /// # #[derive(ConfigNamespaces)]
    /// # struct Args {
    /// #     /// Jobs that may wait.
    /// #     #[config(ns = "pool", default = 32, hot)]
    /// #     queue: usize,
    /// # }
    /// let cfg = Args::for_test(|_| {});
    /// let trial = cfg.try_by_name("admin", &[("pool.queue", "64")], Duration::from_secs(600))?;
    /// assert!(cfg.pin().pool().queue() == 64);
    /// cfg.confirm(trial.id())?; // or it is 32 again ten minutes later
    /// # Ok::<(), kitbag::Errors>(())
    /// ```
    ///
    /// # Errors
    /// As for [`override_by_name`](Self::override_by_name), a time beyond all clocks, or the system gives no thread.
    #[track_caller]
    pub fn try_by_name(&self, why: &str, values: &[(&str, &str)], within: Duration) -> Result<Trial, Errors> {
        let location = Location::caller();
        let failed = |problem: String| Errors::from(ConfigError::new(problem).at(why));
        // First, so that there is no trial without anybody to end it.
        let watched = end_on_time(Arc::downgrade(&self.0)).map_err(|error| failed(format!("no thread: {error}")))?;
        let deadline = || {
            let deadline = Instant::now().checked_add(within);
            deadline.ok_or_else(|| failed(format!("{within:?} from now is beyond all clocks; confirm within less")))
        };
        let trial = self.begin(why, location, values, deadline, Some(watched.clone()))?;
        // A trial that is over already has let go of its thread.
        let _ = watched.send(Watched { id: trial.id, deadline: trial.deadline });
        Ok(trial)
    }

    /// The same over a clock that the caller has: the trial is over at `deadline`, and goes when
    /// [`end_trials`](Self::end_trials) is next called with that time or a later one.
    ///
    /// ```
    /// # use std::time::{Duration, Instant};
    /// # use kitbag::ConfigNamespaces;
    /// # #[derive(ConfigNamespaces)]
    /// # struct Args {
    /// #     /// Jobs that may wait.
    /// #     #[config(ns = "pool", default = 32, hot)]
    /// #     queue: usize,
    /// # }
    /// let cfg = Args::for_test(|_| {});
    /// let at = { let start = Instant::now(); move |seconds| start + Duration::from_secs(seconds) };
    /// let trial = cfg.try_until("admin", &[("pool.queue", "64")], at(60))?;
    /// assert!(cfg.end_trials(at(59)).is_empty() && cfg.pin().pool().queue() == 64);
    /// assert_eq!(cfg.end_trials(at(60)), [trial]);
    /// assert!(cfg.pin().pool().queue() == 32);
    /// # Ok::<(), kitbag::Errors>(())
    /// ```
    ///
    /// # Errors
    /// As for [`override_by_name`](Self::override_by_name).
    #[track_caller]
    pub fn try_until(&self, why: &str, values: &[(&str, &str)], deadline: Instant) -> Result<Trial, Errors> {
        self.begin(why, Location::caller(), values, || Ok(deadline), None)
    }

    fn begin(
        &self,
        why: &str,
        location: &'static Location<'static>,
        values: &[(&str, &str)],
        deadline: impl FnOnce() -> Result<Instant, Errors>,
        watched: Option<mpsc::Sender<Watched>>,
    ) -> Result<Trial, Errors> {
        let table = &self.0.shared.table;
        let named = Named::parse(table, why, values);
        named.refused.check(())?;
        if named.edit.is_empty() {
            return Err(ConfigError::new("nothing to try: no setting is named").at(why).into());
        }
        self.0.commit(|draft| {
            // Counted from when it is this change's turn.
            let term = Some(Term { deadline: deadline()?, _watched: watched });
            let origin = Origin::Trial { id: 0, why: why.to_owned(), location };
            let (_, terms) = Request::Set { origin, edit: named.edit, term }.draft(&self.0, draft)?;
            let Past::Lasting { trial: Some(id) } = terms.past else { unreachable!("a change with a term is a trial") };
            let layer = draft.layers.iter().find(|layer| layer.id == id);
            let begun = layer.and_then(|layer| Some(Trial::of(table, layer, layer.trial.as_ref()?)));
            Ok((begun.unwrap_or_else(|| unreachable!("its layer was just put there")), terms))
        })
    }

    /// The trials that are neither confirmed nor over, oldest first.
    #[must_use]
    pub fn trials(&self) -> Vec<Trial> {
        let table = &self.0.shared.table;
        let state = lock(&self.0.state);
        state.layers.iter().filter_map(|layer| Some(Trial::of(table, layer, layer.trial.as_ref()?))).collect()
    }

    /// Makes a trial's overrides permanent. They are persisted then.
    ///
    /// No value changes, so no subscriber is asked.
    ///
    /// # Errors
    /// There is no such trial any more, it was over a moment ago, or persistence fails; then it is still on trial.
    #[track_caller]
    pub fn confirm(&self, id: u64) -> Result<(), Errors> {
        self.confirm_at(id, Instant::now())
    }

    /// The same for trials over the caller's clock: `now` is the time there.
    ///
    /// # Errors
    /// As for [`confirm`](Self::confirm). At its deadline a trial is over, whether or not it was ended already.
    #[track_caller]
    pub fn confirm_at(&self, id: u64, now: Instant) -> Result<(), Errors> {
        let location = Location::caller();
        self.0.commit(|draft| {
            let trial = draft.layers.iter().find(|layer| layer.id == id && layer.trial.is_some());
            let Some(trial) = trial.filter(|layer| layer.trial.as_ref().is_some_and(|term| now < term.deadline)) else {
                let problem = format!("there is no trial {id} to confirm");
                let hint = "it is over, was confirmed, was rolled back, or each of its leaves was set anew".to_owned();
                return Err(ConfigError::new(problem).hint(Some(hint)).into());
            };
            let what = format!("confirmation of {} ({location})", trial.origin);
            confirm_in(&mut draft.layers, id);
            Ok(((), Terms { mode: Mode::Refuse, what, persist: true, past: Past::Confirmed(id) }))
        })
    }

    /// Ends a trial now, as if its time was over. Whether there was one.
    pub fn end_trial(&self, id: u64) -> bool {
        self.0.end_trial(id).is_some()
    }

    /// Ends the trials that are over at `now` and says which.
    ///
    /// Trials of [`try_by_name`](Self::try_by_name) end without this call.
    pub fn end_trials(&self, now: Instant) -> Vec<Trial> {
        let over: Vec<_> = {
            let state = lock(&self.0.state);
            let past = state.undo.iter().flat_map(|undo| &undo.permanent);
            let over = |layer: &Layer| layer.trial.as_ref().filter(|term| term.deadline <= now).map(|_| layer.id);
            // Also those that only a rollback could bring back.
            let mut over: Vec<_> = state.layers.iter().chain(past).filter_map(over).collect();
            over.sort_unstable();
            over.dedup();
            over
        };
        over.into_iter().filter_map(|id| self.0.end_trial(id)).collect()
    }
}

impl<S: ConfigNamespaces> Inner<S> {
    /// Always succeeds: if another change is in the way, that one ends the trial when it is over.
    fn end_trial(self: &Arc<Self>, id: u64) -> Option<Trial> {
        let context = Arc::downgrade(self);
        let again = || -> Deferred { Box::new(move || drop(context.upgrade().and_then(|inner| inner.end_trial(id)))) };
        let turn = self.shared.turns.take_or_defer(again)?;
        let ended = self.commit_in(turn, |draft| {
            let Some(position) = draft.layers.iter().position(|layer| layer.id == id && layer.trial.is_some()) else {
                // No rollback brings it back either.
                let forgotten = lock(&self.state).forget_trial(id);
                drop(forgotten);
                return Err(Errors::default());
            };
            let layer = draft.layers.remove(position);
            let term = layer.trial.as_ref().unwrap_or_else(|| unreachable!("it is on trial"));
            let terms = Terms {
                mode: Mode::Suspend,
                what: format!("end of {}", layer.origin),
                persist: false,
                past: Past::Ended(id),
            };
            Ok((Trial::of(&self.shared.table, &layer, term), terms))
        });
        // The error only says that there was no trial to end.
        ended.ok()
    }
}

/// Makes the layer of a trial, if it is among these, an ordinary permanent one. It replaces what it lay over.
pub(super) fn confirm_in(layers: &mut Vec<Layer>, id: u64) {
    let Some(trial) = layers.iter_mut().find(|layer| layer.id == id && layer.trial.is_some()) else { return };
    let leaves: Vec<_> = trial.edit.iter().map(|(index, _)| *index).collect();
    let origin = match &trial.origin {
        Origin::Trial { why, location, .. } => Origin::Permanent { why: why.clone(), location },
        other => other.clone(),
    };
    remove_permanent(layers, Layer::is_confirmed, |index| leaves.contains(&index));
    for layer in layers.iter_mut().filter(|layer| layer.id == id) {
        layer.trial = None;
        layer.origin = origin.clone();
    }
}

/// What the thread of a trial is told once it has begun.
struct Watched {
    id: u64,
    deadline: Instant,
}

/// A thread that ends one trial when its time is over. It is gone when nobody holds the sender any longer.
fn end_on_time<S: ConfigNamespaces>(context: Weak<Inner<S>>) -> std::io::Result<mpsc::Sender<Watched>> {
    let (watched, told) = mpsc::channel::<Watched>();
    let run = move || {
        let Ok(Watched { id, deadline }) = told.recv() else { return };
        let left = deadline.saturating_duration_since(Instant::now());
        if matches!(told.recv_timeout(left), Err(RecvTimeoutError::Timeout))
            && let Some(inner) = context.upgrade()
        {
            let _ = inner.end_trial(id);
        }
    };
    std::thread::Builder::new().name("config-trial".to_owned()).spawn(run)?;
    Ok(watched)
}
