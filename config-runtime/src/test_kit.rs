//! Contexts for tests, and the emitted equivalence tests of derived values.

use std::panic::Location;
use std::sync::Arc;

use crate::context::Context;
use crate::edit::{Edit, TestKit};
use crate::error::Errors;
use crate::facts::Facts;
use crate::leaf::{AnyLeaf, Erased};
use crate::origin::Origin;
use crate::record::Record;
use crate::resolved::Resolved;
use crate::schema::{Bags, Class, ConfigNamespaces, Policy, Start};
use crate::table::Table;

/// At most this many cases per derived value; more samples are thinned out.
const MOST_CASES: usize = 256;

/// A context from defaults and what `set` sets.
pub(crate) fn context<S: ConfigNamespaces>(set: impl FnOnce(&mut S::Setters<TestKit>)) -> Result<Context<S>, Errors> {
    let mut setters = S::Setters::from(Edit::default());
    set(&mut setters);
    let edit: Edit = setters.into();
    resolve::<S>(&Arc::new(Table::of::<S>()), &edit.values).map(Resolved::publish)
}

/// What a record that holds these values resolves to.
fn resolve<S: ConfigNamespaces>(table: &Arc<Table>, values: &[(usize, Erased)]) -> Result<Resolved<S>, Errors> {
    let mut candidates = vec![Vec::new(); table.entries.len()];
    let mut errors = Errors::default();
    for (index, value) in values {
        let entry = &table.entries[*index];
        if let Err(problem) = entry.check_range(value) {
            let error = crate::error::ConfigError::new(problem).given_by(&Origin::Test).leaf(entry.info.path);
            errors.push(error);
        }
        candidates[*index].push((Origin::Test, Arc::clone(value)));
    }
    let refused = vec![false; table.entries.len()];
    Resolved::of(Record::new(Arc::clone(table), candidates), &Facts::for_test(), &refused, errors)
}

/// Checks every derived value of schema `S`; the emitted tests call it.
///
/// Over the cross product of sample values of its inputs, a derived value must equal its function (called with the
/// samples themselves, not through the wiring) when a record with these values is resolved, in the published bag
/// read through its accessor, when the case is reached from the one before by an override or a child context, and
/// when that is undone. And the wiring must read exactly the declared inputs. Returns the number of cases.
///
/// # Panics
/// With the first disagreement, and if there is nothing to compare, because the type of an input has no samples:
///
/// ```
/// # use kitbag::{ConfigNamespaces, Leaf, Value};
/// #[derive(Clone, Debug, PartialEq)]
/// struct Percent(u8);
/// impl Leaf for Percent {
///     // without `samples`
/// #   type Read<'a> = &'a Percent;
/// #   fn read(&self) -> &Percent { self }
/// #   fn expected() -> String { "a number".to_owned() }
/// #   fn from_text(text: &str) -> Option<Self> { text.parse().ok().map(Percent) }
/// #   fn from_value(_: &Value) -> Option<Self> { None }
/// #   fn to_value(&self) -> Value { Value::Text(self.0.to_string()) }
/// }
/// # fn half(part: &Percent) -> u8 { part.0 / 2 }
/// #[derive(ConfigNamespaces)]
/// #[config(derived(pool.half: u8 = half(pool.part)))]
/// struct Args {
///     /// Part of the memory.
///     #[config(ns = "pool", default = "40")]
///     part: Percent,
/// }
/// let panic = std::panic::catch_unwind(kitbag::__private::check_derived_values::<Args>).unwrap_err();
/// let text = panic.downcast_ref::<String>().expect("a text");
/// assert_eq!(text, "`pool.half` reads `pool.part`; give its type `Percent` two `Leaf::samples`");
/// ```
pub fn check_derived_values<S: ConfigNamespaces>() -> usize {
    let table = Arc::new(Table::of::<S>());
    let derived = (0..table.entries.len()).filter(|index| table.entries[*index].is_derived());
    derived.map(|index| Equivalence::<S>::new(&table, index).check()).sum()
}

struct Equivalence<'a, S> {
    table: &'a Arc<Table>,
    derived: usize,
    /// The leaves it depends on, through other derived values too.
    inputs: Vec<usize>,
    /// Values of leaves that have no default, so that a record resolves at all.
    required: Vec<(usize, Erased)>,
    schema: std::marker::PhantomData<S>,
}

impl<'a, S: ConfigNamespaces> Equivalence<'a, S> {
    fn new(table: &'a Arc<Table>, derived: usize) -> Self {
        let mut inputs = Vec::new();
        collect_inputs(table, derived, &mut inputs);
        let required = (0..table.entries.len()).filter_map(|index| {
            let info = table.entries[index].info;
            let missing = matches!(info.start, Start::Required) && (info.ops.when_absent)().is_none();
            missing.then(|| samples(table, index).into_iter().next().map(|value| (index, value))).flatten()
        });
        Self { table, derived, inputs, required: required.collect(), schema: std::marker::PhantomData }
    }

    fn path(&self) -> &'static str {
        self.table.entries[self.derived].info.path
    }

    /// The values of the inputs, one list per case.
    fn cases(&self) -> Vec<Vec<(usize, Erased)>> {
        let mut most = MOST_CASES;
        while most.checked_pow(self.inputs.len() as u32).is_none_or(|cases| cases > MOST_CASES) && most > 2 {
            most -= 1;
        }
        let mut cases = vec![Vec::new()];
        for &input in &self.inputs {
            let mut values = samples(self.table, input);
            values.truncate(most);
            let extended = cases.iter().flat_map(|case| {
                values.iter().map(move |value| {
                    let mut case: Vec<(usize, Erased)> = case.clone();
                    case.push((input, Arc::clone(value)));
                    case
                })
            });
            cases = extended.collect();
        }
        cases
    }

    /// The function itself on the values of a case.
    fn expected(&self, derived: usize, case: &[(usize, Erased)]) -> Erased {
        let Start::Computed(computation) = self.table.entries[derived].info.start else {
            unreachable!("a derived value has a computation")
        };
        let arguments: Vec<_> = computation
            .inputs
            .iter()
            .map(|path| {
                let input = self.table.index(path).unwrap_or_else(|| panic!("no leaf is called `{path}`"));
                match case.iter().find(|(index, _)| *index == input) {
                    Some((_, value)) => Arc::clone(value),
                    None => self.expected(input, case),
                }
            })
            .collect();
        let oracle = computation.oracle.unwrap_or_else(|| unreachable!("a derived value has an oracle"));
        oracle(&arguments)
    }

    fn check(&self) -> usize {
        for input in self.inputs.iter().map(|input| self.table.entries[*input].info) {
            let samples = (input.ops.samples)();
            let differ = samples.iter().any(|sample| *sample != samples[0]);
            let only_one = (input.ops.choices)().is_some_and(|choices| choices.len() == 1);
            let (path, ty) = (self.path(), input.type_name);
            assert!(differ || only_one, "`{path}` reads `{}`; give its type `{ty}` two `Leaf::samples`", input.path);
        }
        let all_hot = self.inputs.iter().all(|input| self.table.entries[*input].info.class == Class::Hot);
        let mut previous: Option<(Context<S>, Erased)> = None;
        let mut checked = 0;
        for case in self.cases() {
            let expected = self.expected(self.derived, &case);
            let values: Vec<_> = self.required.iter().chain(&case).cloned().collect();
            // Combinations that the schema's own rules refuse are no cases.
            let Ok(resolved) = resolve::<S>(self.table, &values) else { continue };
            self.agree("a fresh resolution", &case, &*resolved.values[self.derived], &expected);
            self.check_inputs(&resolved.values);
            let context = resolved.publish();
            self.agree_published("the published bag", &case, &context, &expected);
            if let Some((from, before)) = &previous {
                self.reach(from, &case, all_hot, &expected, before);
                self.agree_published("the restored bag", &case, from, before);
            }
            previous = Some((context, expected));
            checked += 1;
        }
        assert!(checked > 0, "`{}`: the schema's rules refuse every sample of its inputs", self.path());
        checked
    }

    /// Reaches the case from another context: by an override if the inputs may change, else in a child.
    ///
    /// A value that does not follow keeps what it was under an override; a child is a launch of its own.
    fn reach(&self, from: &Context<S>, case: &[(usize, Erased)], all_hot: bool, expected: &Erased, before: &Erased) {
        let location = Location::caller();
        // A rule may hold a value against one that is fixed at launch: then a case is reached by a launch only.
        if all_hot && let Ok(_guard) = from.push_layer("equivalence test", location, case.to_vec()) {
            let follows = self.table.entries[self.derived].info.policy == Policy::Live;
            self.agree_published("an override", case, from, if follows { expected } else { before });
        } else {
            let child = from.push_child("equivalence test", location, case.to_vec());
            let child = child.unwrap_or_else(|errors| panic!("`{}`: {errors}", self.path()));
            self.agree_published("a child context", case, &child, expected);
        }
    }

    /// Holds what the accessor of the bag reads against `expected`.
    fn agree_published(&self, what: &str, case: &[(usize, Erased)], context: &Context<S>, expected: &Erased) {
        let pinned = context.pinned();
        let value = pinned.bags().read(self.derived);
        self.agree(what, case, value.unwrap_or_else(|| panic!("`{}` has no accessor", self.path())), expected);
    }

    fn check_inputs(&self, values: &[Erased]) {
        let (mut declared, mut read) = self.table.inputs_of(self.derived, values, &Facts::for_test());
        declared.sort_unstable();
        read.sort_unstable();
        let names = |indices: &[usize]| -> Vec<_> {
            indices.iter().map(|index| self.table.entries[*index].info.path).collect()
        };
        let (declared_names, read_names) = (names(&declared), names(&read));
        assert!(declared == read, "`{}` declares {declared_names:?} and reads {read_names:?}", self.path());
    }

    fn agree(&self, what: &str, case: &[(usize, Erased)], found: &dyn AnyLeaf, expected: &Erased) {
        if found.same(&**expected) {
            return;
        }
        let inputs: Vec<_> = case
            .iter()
            .map(|(index, value)| format!("{} = {}", self.table.entries[*index].info.path, value.to_value()))
            .collect();
        panic!(
            "`{}` with {}: {what} says {}, expected {}",
            self.path(),
            inputs.join(", "),
            found.to_value(),
            expected.to_value()
        );
    }
}

fn collect_inputs(table: &Table, derived: usize, inputs: &mut Vec<usize>) {
    let Start::Computed(computation) = table.entries[derived].info.start else { return };
    for path in computation.inputs {
        match table.index(path) {
            Some(input) if table.entries[input].is_derived() => collect_inputs(table, input, inputs),
            Some(input) if !inputs.contains(&input) => inputs.push(input),
            _ => {}
        }
    }
}

/// Sample values of a leaf that its range allows, its default first.
fn samples(table: &Table, index: usize) -> Vec<Erased> {
    let entry = &table.entries[index];
    let default = match entry.info.start {
        Start::Default { .. } => entry.info.default_value().and_then(Result::ok),
        _ => (entry.info.ops.when_absent)(),
    };
    let texts = (entry.info.ops.samples)();
    let mut values: Vec<Erased> = Vec::new();
    for value in default.into_iter().chain(texts.iter().filter_map(|text| (entry.info.ops.from_text)(text))) {
        if entry.check_range(&value).is_ok() && !values.iter().any(|known| known.same(&*value)) {
            values.push(value);
        }
    }
    values
}
