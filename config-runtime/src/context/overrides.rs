//! Overrides that every reader of a context sees.

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Weak};

use super::commit::{Past, Terms, described};
use super::layer::{Kind, Layer, Mode, insert};
use super::request::{Named, Request, hot_leaves};
use super::turn::Deferred;
use super::{Context, Inner, lock};
use crate::edit::{Edit, EngineWideOverride};
use crate::error::Errors;
use crate::leaf::Erased;
use crate::origin::Origin;
use crate::resolved::check_ranges;
use crate::schema::ConfigNamespaces;
use crate::value::Value;

impl<S: ConfigNamespaces> Context<S> {
    /// Overrides `hot` leaves for every reader of this context until the guard is dropped.
    ///
    /// Guards may be dropped in any order and from any thread: each is a layer, the newest wins, and dropping one
    /// removes its layer only.
    ///
    /// # Errors
    /// A value out of range, a broken cross-field rule or a veto, here or in a child. Nothing has changed then.
    #[track_caller]
    pub fn override_with(
        &self,
        why: &str,
        set: impl FnOnce(&mut S::Setters<EngineWideOverride>),
    ) -> Result<Override<S>, Errors> {
        // User code runs before any lock is taken.
        self.push_layer(why, Location::caller(), collect::<S, _>(set))
    }

    pub(crate) fn push_layer(
        &self,
        why: &str,
        location: &'static Location<'static>,
        edit: Vec<(usize, Erased)>,
    ) -> Result<Override<S>, Errors> {
        let id = self.0.commit(|draft| {
            let id = draft.number();
            let origin = Origin::Override { layer: id, why: why.to_owned(), location };
            check_ranges(&self.0.shared.table, &edit, &origin)?;
            let terms = described(&origin);
            insert(&mut draft.layers, Layer::new(id, Kind::EngineWide, origin, edit));
            Ok((id, terms))
        })?;
        Ok(Override { context: Arc::downgrade(&self.0), id })
    }

    /// Overrides `hot` leaves for good: below every scoped override, above what the sources said.
    ///
    /// Made inside a scope it survives the scope. Setting a leaf again replaces the earlier value, so that memory
    /// does not grow. If the program gave [`persist_with`](Self::persist_with), all permanent overrides are handed
    /// to it before this one becomes visible.
    ///
    /// # Errors
    /// A value out of range, a broken cross-field rule, a veto or failed persistence. Nothing has changed then.
    #[track_caller]
    pub fn override_permanently(
        &self,
        why: &str,
        set: impl FnOnce(&mut S::Setters<EngineWideOverride>),
    ) -> Result<(), Errors> {
        self.push_permanent(why, Location::caller(), collect::<S, _>(set))
    }

    fn push_permanent(
        &self,
        why: &str,
        location: &'static Location<'static>,
        edit: Vec<(usize, Erased)>,
    ) -> Result<(), Errors> {
        let origin = Origin::Permanent { why: why.to_owned(), location };
        self.make(&Request::Set { origin, edit, term: None })
    }

    /// Makes a lasting change. Nothing to do is no error and makes no epoch.
    pub(super) fn make(&self, request: &Request) -> Result<(), Errors> {
        match self.0.commit(|draft| request.draft(&self.0, draft)) {
            Err(errors) if errors.is_empty() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Permanent overrides of leaves named by path and value as text, for admin surfaces; all or none.
    ///
    /// ```
    /// # use kitbag::ConfigNamespaces;
    /// # #[derive(ConfigNamespaces)]
    /// # struct Args {
    /// #     /// Jobs that may wait.
    /// #     #[config(ns = "pool", default = 32, range = 1..=64, hot)]
    /// #     queue: usize,
    /// # }
    /// let cfg = Args::for_test(|_| {});
    /// cfg.override_by_name("admin", &[("pool.queue", "64")])?;
    /// assert!(cfg.pin().pool().queue() == 64);
    /// let error = cfg.override_by_name("admin", &[("pool.queu", "6")]).unwrap_err();
    /// assert!(error.to_string().contains("did you mean `pool.queue`?"));
    /// # Ok::<(), kitbag::Errors>(())
    /// ```
    ///
    /// # Errors
    /// An unknown path, a leaf that is not `hot`, a text that is no value of it, and what
    /// [`override_permanently`](Self::override_permanently) refuses; all together.
    #[track_caller]
    pub fn override_by_name(&self, why: &str, values: &[(&str, &str)]) -> Result<(), Errors> {
        let location = Location::caller();
        let named = Named::parse(&self.0.shared.table, why, values);
        named.refused.check(())?;
        self.push_permanent(why, location, named.edit)
    }

    /// Takes permanent overrides of these leaves back: what the sources said holds again.
    ///
    /// # Errors
    /// An unknown path, or the settings are not valid without them.
    pub fn end_permanent(&self, why: &str, paths: &[&str]) -> Result<(), Errors> {
        let leaves = hot_leaves(&self.0.shared.table, why, paths)?;
        self.make(&Request::End { why: why.to_owned(), leaves })
    }

    /// Has all permanent overrides handed to `persist` before a new one becomes visible; an error refuses it.
    ///
    /// Write them with [`toml_line`](crate::export::toml_line), and the text is a file that the loader reads. Secrets are
    /// not handed over.
    pub fn persist_with(
        &self,
        persist: impl Fn(&[(&'static str, Value)]) -> Result<(), String> + Send + Sync + 'static,
    ) {
        *lock(&self.0.shared.persist) = Some(Arc::new(persist));
    }
}

/// The changes that setters collected.
pub(super) fn collect<S: ConfigNamespaces, F>(set: impl FnOnce(&mut S::Setters<F>)) -> Vec<(usize, Erased)> {
    let mut setters = S::Setters::<F>::from(Edit::default());
    set(&mut setters);
    let edit: Edit = setters.into();
    edit.values
}

/// An engine-wide override; it ends when this guard is dropped.
#[must_use = "the override ends when this guard is dropped"]
pub struct Override<S: ConfigNamespaces> {
    context: Weak<Inner<S>>,
    id: u64,
}

impl<S: ConfigNamespaces> Override<S> {
    /// Whether the override is set aside: the settings are not valid with it since something else was removed.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.context
            .upgrade()
            .is_some_and(|inner| lock(&inner.state).layers.iter().any(|layer| layer.id == self.id && layer.suspended))
    }
}

impl<S: ConfigNamespaces> Drop for Override<S> {
    fn drop(&mut self) {
        // A context that is gone has nothing to restore, and a layer may have been dropped by a republish.
        let Some(inner) = self.context.upgrade() else { return };
        let (context, id) = (Weak::clone(&self.context), self.id);
        let again = || -> Deferred { Box::new(move || drop(Self { context, id })) };
        let Some(turn) = inner.shared.turns.take_or_defer(again) else { return };
        let removed = inner.commit_in(turn, |draft| {
            let Some(position) = draft.layers.iter().position(|layer| layer.id == self.id) else {
                return Err(Errors::default());
            };
            let layer = draft.layers.remove(position);
            // Removal always succeeds: what is no longer valid without this layer is suspended.
            Ok((
                (),
                Terms {
                    mode: Mode::Suspend,
                    what: format!("end of {}", layer.origin),
                    persist: false,
                    past: Past::Passing,
                },
            ))
        });
        // The error only says that there was no layer to remove.
        drop(removed);
    }
}

impl<S: ConfigNamespaces> fmt::Debug for Override<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Override({})", self.id)
    }
}

/// An override that a republish took away.
#[derive(Clone, Debug, PartialEq)]
pub struct DroppedOverride {
    /// Its origin, as explain shows it.
    pub origin: String,
    /// Paths of the leaves it set.
    pub leaves: Vec<&'static str>,
}
