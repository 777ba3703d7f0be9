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
use crate::facts::Facts;
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
        let _turn = shared.turns.take()?;
        let base = Arc::clone(&self.0.current.load().values);
        // A child is launched here: what rules chose for the parent they choose anew for what the child shadows, and
        // values that are fixed at a launch are computed anew.
        let facts = shared.sources().facts.clone();
        let own = Layer::new(0, Kind::Child, origin, edit);
        let mut layers = self.rules_anew(&base, own, &facts)?;
        let before = Before { base: &base, facts: &facts, values: &base };
        let values = solve(shared, &before, &mut layers, Mode::Refuse, Recompute::All)?;
        let state = State::new(base, layers);
        let child = Arc::new(Inner::new(Arc::clone(shared), Some(self.clone()), state, Epoch::first(values)));
        let mut children = lock(&self.0.children);
        children.retain(|(_, child)| child.strong_count() > 0);
        children.push((name.to_owned(), Arc::downgrade(&child)));
        Ok(Self(child))
    }

    /// A child's own layer, and one for each `auto` leaf that follows from it: those that a rule chose for this
    /// context, or for one that it follows, and the child does not set itself.
    fn rules_anew(&self, base: &[Erased], own: Layer, facts: &Facts) -> Result<Vec<Layer>, Errors> {
        let table = &self.0.shared.table;
        let sources = self.0.shared.sources();
        let line = std::iter::successors(Some(self), |context| context.0.parent.as_ref());
        // The last layer that counts comes first.
        let layers: Vec<_> = line.flat_map(|context| lock(&context.0.state).layers.clone().into_iter().rev()).collect();
        let by_rule = |index: usize| {
            let last = layers.iter().find(|layer| !layer.suspended && layer.sets(index)).map(|layer| &layer.origin);
            let last = last.or_else(|| sources.candidates[index].last().map(|(origin, _)| origin));
            matches!(last, Some(Origin::Rule { .. }))
        };
        let mut values: Vec<_> = base.iter().cloned().map(Some).collect();
        for (index, value) in &own.edit {
            values[*index] = Some(Arc::clone(value));
        }
        let anew: Vec<_> = (0..base.len()).filter(|index| by_rule(*index) && !own.sets(*index)).collect();
        for index in &anew {
            values[*index] = None;
        }
        let mut errors = Errors::default();
        errors.extend(table.compute(&mut values, facts));
        errors.check(())?;
        let mut layers = vec![own];
        for index in anew {
            let (Some(value), Some(origin)) = (values[index].clone(), table.entries[index].rule()) else { continue };
            if !value.same(&*base[index]) {
                let id = layers.len() as u64;
                layers.push(Layer::new(id, Kind::Child, origin, vec![(index, value)]));
            }
        }
        Ok(layers)
    }
}
