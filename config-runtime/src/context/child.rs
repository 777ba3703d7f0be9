//! Contexts that follow another one.

use std::panic::Location;
use std::sync::Arc;

use super::commit::State;
use super::epoch::Epoch;
use super::layer::{Before, Kind, Layer, Mode, solve};
use super::overrides::collect;
use super::{Context, Inner, lock};
use crate::edit::ChildContext;
use crate::error::Errors;
use crate::leaf::Erased;
use crate::origin::Origin;
use crate::resolved::check_ranges;
use crate::schema::ConfigNamespaces;
use crate::table::Recompute;

impl<S: ConfigNamespaces> Context<S> {
    /// A context of its own that follows this one except for what `set` sets, of any class.
    ///
    /// Building it changes nothing here. Later changes of this context show through unless shadowed; one that would
    /// make the child invalid is refused, naming the child.
    ///
    /// # Errors
    /// A value out of range or a broken cross-field rule.
    #[track_caller]
    pub fn child(&self, name: &str, set: impl FnOnce(&mut S::Setters<ChildContext>)) -> Result<Self, Errors> {
        self.push_child(name, Location::caller(), collect::<S, _>(set))
    }

    pub(crate) fn push_child(
        &self,
        name: &str,
        location: &'static Location<'static>,
        edit: Vec<(usize, Erased)>,
    ) -> Result<Self, Errors> {
        let origin = Origin::Child { name: name.to_owned(), location };
        let shared = &self.0.shared;
        check_ranges(&shared.table, &edit, &origin)?;
        let _commit = lock(&shared.commit);
        let base = Arc::clone(&self.0.current.load().values);
        let mut layers = vec![Layer { id: 0, kind: Kind::Child, origin, edit, suspended: false }];
        // A child is launched here: values that are fixed at its launch are computed anew.
        let before = Before { base: &base, facts: &shared.sources().facts, values: &base };
        let values = solve(shared, &before, &mut layers, Mode::Refuse, Recompute::All)?;
        let state = State::new(base, layers);
        let child = Arc::new(Inner::new(Arc::clone(shared), state, Epoch::first(values)));
        let mut children = lock(&self.0.children);
        children.retain(|(_, child)| child.strong_count() > 0);
        children.push((name.to_owned(), Arc::downgrade(&child)));
        Ok(Self(child))
    }
}
