//! A change tried dry: what it would do, and what stands against it.

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Weak};

use super::commit::{Draft, Prepared};
use super::layer::Layer;
use super::request::{Named, Request, hot_leaves};
use super::{Context, Inner, lock};
use crate::error::{ConfigError, Errors};
use crate::leaf::Erased;
use crate::loader::Loader;
use crate::origin::Origin;
use crate::schema::{Class, ConfigNamespaces, LeafInfo};
use crate::table::{Recompute, Table};

/// What a change would do, were it made now. Making a plan changes nothing.
///
/// Print it with `{}`, or look at its parts. [`apply`](Self::apply) makes the change, exactly as planned or not at all.
///
/// ```
/// # use kitbag::ConfigNamespaces;
/// # #[derive(ConfigNamespaces)]
/// # #[config(derived(pool.bytes: usize = bytes(pool.queue)))]
/// # struct Args {
/// #     /// Jobs that may wait.
/// #     #[config(ns = "pool", default = 32, range = 1..=64, hot)]
/// #     queue: usize,
/// #     /// Worker threads.
/// #     #[config(ns = "pool", default = 4)]
/// #     workers: usize,
/// # }
/// # fn bytes(queue: usize) -> usize { queue * 1024 }
/// let cfg = Args::for_test(|_| {});
/// let plan = cfg.plan_by_name("admin", &[("pool.queue", "64")])?;
/// assert_eq!(plan.to_string(), "pool.queue: 32 -> 64\npool.bytes: 32768 -> 65536 (follows)\n");
/// assert!(cfg.pin().pool().queue() == 32);
/// plan.apply()?;
/// assert!(cfg.pin().pool().queue() == 64);
///
/// let plan = cfg.plan_by_name("admin", &[("pool.queue", "6400"), ("pool.workers", "8")])?;
/// assert_eq!(
///     plan.to_string(),
///     "needs a restart: pool.workers: 4 -> 8 (it is `launch`)\nerror: admin: pool.queue: 6400 is outside 1..=64\n"
/// );
/// assert!(plan.check().is_err() && plan.apply().is_err());
/// # Ok::<(), kitbag::Errors>(())
/// ```
#[must_use = "a plan changes nothing until it is applied"]
pub struct Plan<S: ConfigNamespaces> {
    context: Weak<Inner<S>>,
    epoch: u64,
    /// `None` if the sources could not be read.
    request: Option<Request>,
    outcome: Outcome,
    restarts: Vec<Planned>,
    errors: Vec<ConfigError>,
    vetoes: Vec<ConfigError>,
    /// All that refuses the change, in the words of the call that would make it.
    refused: Errors,
}

/// What a change comes to.
#[derive(Default)]
struct Outcome {
    /// `None` if there is nothing to be done.
    done: Option<Done>,
    changes: Vec<Planned>,
    hidden: Vec<(&'static str, String, String)>,
}

/// What history would say, and the leaves whose input changes.
#[derive(Clone, PartialEq)]
struct Done {
    what: String,
    leaves: Vec<usize>,
}

/// One leaf that a change would change.
#[derive(Clone)]
pub struct Planned {
    child: String,
    info: &'static LeafInfo,
    before: (Erased, String),
    after: (Erased, String),
}

impl Planned {
    fn new(table: &Table, index: usize, child: &str, before: &Erased, after: &Erased) -> Self {
        let shown = |value: &Erased| (Arc::clone(value), value.to_value().to_string());
        Self { child: child.to_owned(), info: table.entries[index].info, before: shown(before), after: shown(after) }
    }

    /// The child context in which it changes, with the names of those between joined by `/`; empty for the context of the
    /// plan itself.
    #[must_use]
    pub fn child(&self) -> &str {
        &self.child
    }

    /// Path of the leaf.
    #[must_use]
    pub fn path(&self) -> &'static str {
        self.info.path
    }

    /// Its effective value as text; secrets are redacted.
    #[must_use]
    pub fn before(&self) -> &str {
        &self.before.1
    }

    /// The value it would have, as text; secrets are redacted.
    #[must_use]
    pub fn after(&self) -> &str {
        &self.after.1
    }

    /// Whether it is a derived value, which follows others.
    #[must_use]
    pub fn is_derived(&self) -> bool {
        self.info.class == Class::Derived
    }
}

/// Equal in what happens: the values of secrets are compared, though never shown.
impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        (&self.child, self.info.path) == (&other.child, other.info.path)
            && self.before.0.same(&*other.before.0)
            && self.after.0.same(&*other.after.0)
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.child.is_empty() {
            write!(f, "child `{}`: ", self.child)?;
        }
        write!(f, "{}: {} -> {}", self.info.path, self.before.1, self.after.1)?;
        f.write_str(if self.is_derived() { " (follows)" } else { "" })
    }
}

impl fmt::Debug for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<S: ConfigNamespaces> Context<S> {
    /// What [`reload`](Self::reload) would do. The sources are read now; applying the plan does not read them again.
    ///
    /// Subscribers are asked, as by every plan: a veto looks only, so it is asked as often as anybody wants to know.
    /// Persistence is not tried.
    ///
    /// # Errors
    /// There is no plan: this context is a child, which follows its parent, or a change is being decided that this waits
    /// for. What is wrong with the change itself is part of the plan.
    pub fn plan_reload(&self, loader: &Loader<S>) -> Result<Plan<S>, Errors> {
        self.refuse_child("reload")?;
        match self.read_again(loader) {
            Ok(request) => self.plan(request, Named::default()),
            Err(refused) => {
                let errors = refused.iter().cloned().collect();
                Ok(Plan { errors, refused, ..Plan::empty(self) })
            }
        }
    }

    /// What [`override_by_name`](Self::override_by_name) would do.
    ///
    /// # Errors
    /// There is no plan: a change is being decided that this waits for. What is wrong with the change itself is part of the
    /// plan.
    #[track_caller]
    pub fn plan_by_name(&self, why: &str, values: &[(&str, &str)]) -> Result<Plan<S>, Errors> {
        let origin = Origin::Permanent { why: why.to_owned(), location: Location::caller() };
        let mut named = Named::parse(&self.0.shared.table, why, values);
        let request = Request::Set { origin, edit: std::mem::take(&mut named.edit), term: None };
        self.plan(request, named)
    }

    /// What [`end_permanent`](Self::end_permanent) would do.
    ///
    /// # Errors
    /// As for [`plan_by_name`](Self::plan_by_name), and an unknown path.
    pub fn plan_end_permanent(&self, why: &str, paths: &[&str]) -> Result<Plan<S>, Errors> {
        let leaves = hot_leaves(&self.0.shared.table, why, paths)?;
        self.plan(Request::End { why: why.to_owned(), leaves }, Named::default())
    }

    /// What [`rollback`](Self::rollback) would do.
    ///
    /// # Errors
    /// As for [`plan_by_name`](Self::plan_by_name).
    pub fn plan_rollback(&self, why: &str, changes: usize) -> Result<Plan<S>, Errors> {
        self.plan(Request::Rollback { why: why.to_owned(), changes }, Named::default())
    }

    fn plan(&self, request: Request, named: Named) -> Result<Plan<S>, Errors> {
        let inner = &self.0;
        let table = &inner.shared.table;
        let turn = inner.shared.turns.take()?;
        let Named { mut fixed, errors, unknown, refused, .. } = named;
        let mut plan = Plan { errors, refused, ..Plan::empty(self) };
        let of_sources = request.fixed(table, &lock(&inner.state).base);
        plan.refused.extend(of_sources.iter().map(|fixed| fixed.error.clone()));
        fixed.extend(of_sources);
        let now = inner.current.load();
        plan.restarts =
            fixed.iter().map(|to| Planned::new(table, to.index, "", &now.values[to.index], &to.value)).collect();
        if plan.errors.is_empty() {
            match inner.prepare(turn, |draft| request.draft(inner, draft)) {
                Ok(prepared) => {
                    plan.outcome = Outcome::of(&prepared, table);
                    plan.vetoes = prepared.vetoes();
                    plan.refused.extend(plan.vetoes.iter().cloned());
                }
                Err(errors) => {
                    plan.errors.extend(errors.iter().cloned());
                    plan.refused.append(errors);
                }
            }
        } else {
            // The rules say what they can without the values that are not known.
            let broken = inner.broken_rules(&request, &unknown);
            plan.refused.extend(broken.iter().cloned());
            plan.errors.extend(broken);
        }
        plan.request = Some(request);
        Ok(plan)
    }
}

impl<S: ConfigNamespaces> Inner<S> {
    /// Errors of the rules that read none of the unknown leaves.
    fn broken_rules(&self, request: &Request, unknown: &[usize]) -> Vec<ConfigError> {
        let table = &self.shared.table;
        let mut draft = Draft::of(&lock(&self.state), Recompute::Live);
        if let Err(errors) = request.draft(self, &mut draft)
            && !errors.is_empty()
        {
            return errors.iter().cloned().collect();
        }
        let mut values: Vec<_> = draft.base.iter().cloned().map(Some).collect();
        for (index, value) in draft.layers.iter().filter(|layer| !layer.suspended).flat_map(|layer| &layer.edit) {
            values[*index] = Some(Arc::clone(value));
        }
        for index in unknown {
            values[*index] = None;
        }
        let facts = &self.shared.sources().facts;
        let mut errors = table.recompute(&mut values, &self.current.load().values, facts, draft.recompute);
        // What follows from something unknown is not known either.
        let follows = |index: usize, values: &[Option<Erased>]| {
            values[index].is_some()
                && table.entries[index].is_derived()
                && table.declared_inputs(index).iter().any(|input| values[*input].is_none())
        };
        while let Some(index) = (0..values.len()).find(|index| follows(*index, &values)) {
            values[index] = None;
        }
        errors.extend(table.validate(&values, facts));
        errors
    }
}

impl Outcome {
    fn of<S: ConfigNamespaces>(prepared: &Prepared<'_, S, Vec<usize>>, table: &Table) -> Self {
        let changes = prepared.steps.iter().flat_map(|step| {
            let planned = |&index: &usize| {
                Planned::new(table, index, &step.child, &step.old.values[index], &step.new.values[index])
            };
            step.changed.iter().map(planned)
        });
        let first = &prepared.steps[0];
        // What lies under another layer is set without being seen.
        let asked = |index: usize| {
            let permanent = first.draft.layers.iter().rev().find(|layer| layer.is_confirmed() && layer.sets(index));
            let set = permanent.and_then(|layer| layer.edit.iter().find(|(set, _)| *set == index));
            set.map_or(&first.draft.base[index], |(_, value)| value)
        };
        let hidden = prepared.result.iter().filter(|index| !first.new.values[**index].same(&**asked(**index)));
        let hidden = hidden.map(|&index| {
            let over = |layer: &&Layer| !layer.suspended && layer.sets(index);
            let by =
                first.draft.layers.iter().rev().find(over).map_or_else(String::new, |layer| layer.origin.to_string());
            (table.entries[index].info.path, asked(index).to_value().to_string(), by)
        });
        let done = Done { what: prepared.terms.what.clone(), leaves: prepared.result.clone() };
        Self { done: Some(done), changes: changes.collect(), hidden: hidden.collect() }
    }

    /// How a change comes out otherwise than planned.
    fn differs(&self, now: &Self) -> Errors {
        let mut errors = Errors::default();
        let missing = self.changes.iter().filter(|change| !now.changes.contains(change));
        errors.extend(missing.map(|change| error(format!("planned {change}, which does not come about any more"))));
        let further = now.changes.iter().filter(|change| !self.changes.contains(change));
        errors.extend(further.map(|change| error(format!("now {change}, which was not planned"))));
        if errors.is_empty() && self.done != now.done {
            errors.push(error("the settings under the overrides in force have changed meanwhile".to_owned()));
        }
        errors
    }
}

fn error(problem: String) -> ConfigError {
    ConfigError::new(problem).at("plan").hint(Some("plan anew".to_owned()))
}

impl<S: ConfigNamespaces> Plan<S> {
    fn empty(context: &Context<S>) -> Self {
        Self {
            context: Arc::downgrade(&context.0),
            epoch: context.epoch(),
            request: None,
            outcome: Outcome::default(),
            restarts: Vec::new(),
            errors: Vec::new(),
            vetoes: Vec::new(),
            refused: Errors::default(),
        }
    }

    /// The epoch it was made on.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The leaves whose effective values would change, derived ones too, here and in child contexts.
    ///
    /// Those that need a restart are not among them: if there are any, this is what the rest of the change would do.
    pub fn changes(&self) -> std::slice::Iter<'_, Planned> {
        self.outcome.changes.iter()
    }

    /// The leaves of the change that cannot change while the program runs.
    pub fn restarts(&self) -> std::slice::Iter<'_, Planned> {
        self.restarts.iter()
    }

    /// Leaves that would be set without effect for now, because an override lies over them: path, value, and the origin of
    /// that override.
    pub fn hidden(&self) -> impl Iterator<Item = (&'static str, &str, &str)> {
        self.outcome.hidden.iter().map(|(path, value, origin)| (*path, value.as_str(), origin.as_str()))
    }

    /// What is wrong with the values, of sources and rules alike.
    pub fn errors(&self) -> std::slice::Iter<'_, ConfigError> {
        self.errors.iter()
    }

    /// The subscribers that would veto, each with its reason.
    pub fn vetoes(&self) -> std::slice::Iter<'_, ConfigError> {
        self.vetoes.iter()
    }

    /// Whether the change would be made.
    ///
    /// # Errors
    /// All that refuses it.
    pub fn check(&self) -> Result<(), Errors> {
        self.refused.clone().check(())
    }

    /// Makes the change if it comes out as planned, and returns the number of the epoch: a new one, unless there is
    /// nothing to do.
    ///
    /// Everything is worked out anew, and the subscribers are asked anew, on the epoch that is current now. The sources are
    /// taken as they were when the plan was made.
    ///
    /// # Errors
    /// What the plan says refuses it; every difference between what it says and what the change would do by now; a veto
    /// that was none then; failed persistence; or the context is gone. Nothing has changed then.
    pub fn apply(self) -> Result<u64, Errors> {
        self.check()?;
        let (Some(inner), Some(request)) = (self.context.upgrade(), self.request) else {
            return Err(error("the context of this plan is gone".to_owned()).hint(None).into());
        };
        let table = &inner.shared.table;
        let turn = inner.shared.turns.take()?;
        let mut errors = Errors::default();
        errors.extend(request.fixed(table, &lock(&inner.state).base).into_iter().map(|fixed| fixed.error));
        errors.check(())?;
        let (outcome, prepared) = match inner.prepare(turn, |draft| request.draft(&inner, draft)) {
            Ok(prepared) => (Outcome::of(&prepared, table), Some(prepared)),
            Err(errors) if errors.is_empty() => (Outcome::default(), None),
            Err(errors) => return Err(errors),
        };
        let mut errors = self.outcome.differs(&outcome);
        let Some(prepared) = prepared else { return errors.check(inner.current.number()) };
        errors.extend(prepared.vetoes());
        errors.check(())?;
        let epoch = prepared.steps[0].new.number;
        prepared.finish().map(|_| epoch)
    }
}

impl<S: ConfigNamespaces> fmt::Display for Plan<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { changes, hidden, .. } = &self.outcome;
        changes.iter().try_for_each(|change| writeln!(f, "{change}"))?;
        for (path, value, origin) in hidden {
            writeln!(f, "no effect for now: {path} = {value} lies under {origin}")?;
        }
        for restart in &self.restarts {
            writeln!(f, "needs a restart: {restart} (it is `{}`)", restart.info.class)?;
        }
        self.errors.iter().try_for_each(|error| writeln!(f, "error: {error}"))?;
        self.vetoes.iter().try_for_each(|veto| writeln!(f, "vetoed: {veto}"))?;
        if changes.is_empty() && hidden.is_empty() && self.restarts.is_empty() && self.refused.is_empty() {
            writeln!(f, "no changes")?;
        }
        Ok(())
    }
}

impl<S: ConfigNamespaces> fmt::Debug for Plan<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plan(epoch {})\n{self}", self.epoch)
    }
}
