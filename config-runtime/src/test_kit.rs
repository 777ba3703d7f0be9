//! Contexts for tests, and the emitted equivalence tests of derived values.

use std::panic::Location;
use std::sync::Arc;

use crate::context::Context;
use crate::edit::{Edit, TestKit};
use crate::error::Errors;
use crate::facts::Facts;
use crate::leaf::Erased;
use crate::origin::Origin;
use crate::record::Record;
use crate::resolved::Resolved;
use crate::schema::{Bags, Case, Class, Computation, ConfigNamespaces, Policy, Start};
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
/// when that is undone. A twin must agree, too. And the wiring must read exactly the declared inputs. Samples are those
/// of the input's type, or the cases that are declared. Returns the number of cases.
///
/// # Panics
/// With the first disagreement, and if there is too little to compare: of each input two values must have been tried,
/// and every declared case. Rules of the schema may refuse the others. So it does if the type of an input has no
/// samples:
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
/// assert_eq!(text, "`pool.half` reads `pool.part`; give its type `Percent` two `Leaf::samples`, \
///     or declare `#[cases(pool.part = [..])]`");
/// ```
pub fn check_derived_values<S: ConfigNamespaces>() -> usize {
    let table = Arc::new(Table::of::<S>());
    let derived = (0..table.entries.len()).filter(|index| table.entries[*index].is_derived());
    derived.map(|index| Equivalence::<S>::new(&table, index).check()).sum()
}

struct Equivalence<'a, S> {
    table: &'a Arc<Table>,
    derived: usize,
    /// The leaves that the cases set, each with its values: those that the value depends on, through other derived
    /// values too, and others of which cases are declared.
    matrix: Vec<Dimension>,
    /// Values of leaves that have no default, so that a record resolves at all.
    required: Vec<(usize, Erased)>,
    schema: std::marker::PhantomData<S>,
}

/// A leaf with the values that are tried.
struct Dimension {
    leaf: usize,
    values: Vec<Erased>,
    /// Whether the values are declared, not samples of the type.
    declared: bool,
}

/// One case: a value for each leaf of the matrix, in its order.
type Values = Vec<(usize, Erased)>;

impl<'a, S: ConfigNamespaces> Equivalence<'a, S> {
    fn new(table: &'a Arc<Table>, derived: usize) -> Self {
        let matrix = matrix(table, derived);
        let required = (0..table.entries.len()).filter_map(|index| {
            let info = table.entries[index].info;
            let missing = matches!(info.start, Start::Required) && info.ops.ty.when_absent().is_none();
            if !missing || matrix.iter().any(|dimension| dimension.leaf == index) {
                return None;
            }
            let sample = samples(table, index).into_iter().next();
            let (path, required, ty) = (table.entries[derived].info.path, info.path, info.type_name);
            let sample = sample.unwrap_or_else(|| {
                panic!("`{path}`: `{required}` is required, and its type `{ty}` has no samples; declare `#[cases({required} = [..])]`")
            });
            Some((index, sample))
        });
        let required = required.collect();
        Self { table, derived, matrix, required, schema: std::marker::PhantomData }
    }

    fn path(&self) -> &'static str {
        self.table.entries[self.derived].info.path
    }

    /// The cross product of the matrix. What is declared is tried in full; samples of types are thinned out.
    fn cases(&self) -> Vec<Values> {
        let declared = self.matrix.iter().filter(|dimension| dimension.declared);
        let declared: usize = declared.map(|dimension| dimension.values.len()).product();
        let sampled = self.matrix.iter().filter(|dimension| !dimension.declared).count() as u32;
        let mut most = MOST_CASES;
        let too_many = |most: usize| {
            most.checked_pow(sampled).and_then(|cases| cases.checked_mul(declared)).is_none_or(|all| all > MOST_CASES)
        };
        while sampled > 0 && most > 2 && too_many(most) {
            most -= 1;
        }
        let mut cases = vec![Vec::new()];
        for Dimension { leaf, values, declared } in &self.matrix {
            let values = if *declared { values } else { &values[..values.len().min(most)] };
            let extended = cases.iter().flat_map(|case: &Values| {
                values.iter().map(move |value| {
                    let mut case = case.clone();
                    case.push((*leaf, Arc::clone(value)));
                    case
                })
            });
            cases = extended.collect();
        }
        cases
    }

    fn computation(&self, derived: usize) -> Computation {
        match self.table.entries[derived].info.start {
            Start::Computed(computation) => computation,
            _ => unreachable!("a derived value has a computation"),
        }
    }

    /// What the function of a derived value is called with in a case.
    fn arguments(&self, derived: usize, case: &[(usize, Erased)]) -> Vec<Erased> {
        let argument = |path: &&str| {
            let input = self.table.index(path).unwrap_or_else(|| panic!("no leaf is called `{path}`"));
            match case.iter().find(|(index, _)| *index == input) {
                Some((_, value)) => Arc::clone(value),
                None => self.expected(input, case),
            }
        };
        self.computation(derived).inputs.iter().map(argument).collect()
    }

    /// The function itself on the values of a case.
    fn expected(&self, derived: usize, case: &[(usize, Erased)]) -> Erased {
        let oracle = self.computation(derived).oracle.unwrap_or_else(|| unreachable!("a derived value has an oracle"));
        oracle(&self.arguments(derived, case))
    }

    fn check(&self) -> usize {
        let all_hot = self.matrix.iter().all(|input| self.table.entries[input.leaf].info.class == Class::Hot);
        let mut previous: Option<(Context<S>, Erased)> = None;
        let mut checked: Vec<Values> = Vec::new();
        let mut refused: Option<(usize, Errors)> = None;
        for case in self.cases() {
            let expected = self.expected(self.derived, &case);
            let values: Vec<_> = self.required.iter().chain(&case).cloned().collect();
            let resolved = match resolve::<S>(self.table, &values) {
                Ok(resolved) => resolved,
                // Combinations that the schema's own rules refuse are no cases.
                Err(errors) => {
                    refused = Some(refused.map_or((1, errors), |(count, first)| (count + 1, first)));
                    continue;
                }
            };
            self.agree("a fresh resolution", &case, &resolved.values[self.derived], &expected);
            if let Some(twin) = self.computation(self.derived).twin {
                self.agree("its twin", &case, &twin(&self.arguments(self.derived, &case)), &expected);
            }
            self.check_inputs(&resolved.values);
            let context = resolved.publish();
            self.agree_published("the published bag", &case, &context, &expected);
            if let Some((from, before)) = &previous {
                self.reach(from, &case, all_hot, &expected, before);
                self.agree_published("the restored bag", &case, from, before);
            }
            previous = Some((context, expected));
            checked.push(case);
        }
        self.report(&checked, refused.as_ref());
        checked.len()
    }

    /// Prints how many cases ran, and fails if they are too few to show anything: of each leaf two values must have
    /// been tried, and every declared one.
    fn report(&self, checked: &[Values], refused: Option<&(usize, Errors)>) {
        let path = self.path();
        let why = refused.map_or_else(String::new, |(count, first)| {
            let first = first.iter().next().map(ToString::to_string).unwrap_or_default();
            format!("; rules of the schema refuse {count} of {}, the first with: {first}", count + checked.len())
        });
        println!("`{path}`: {} cases{why}", checked.len());
        for (position, Dimension { leaf, values, declared }) in self.matrix.iter().enumerate() {
            let leaf = self.table.entries[*leaf].info.path;
            let ran = |value: &&Erased| checked.iter().any(|case| case[position].1.same(&***value));
            if *declared && let Some(value) = values.iter().find(|value| !ran(value)) {
                panic!("`{path}`: no case with `{leaf}` = {} was tried{why}", value.to_value());
            }
            let tried = values.iter().filter(ran).count();
            assert!(
                tried >= values.len().min(2),
                "`{path}`: {tried} of {} values of `{leaf}` tried, which shows nothing{why}; {}",
                values.len(),
                declare(leaf)
            );
        }
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
        self.agree(what, case, &value.unwrap_or_else(|| panic!("`{}` has no accessor", self.path())), expected);
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

    fn agree(&self, what: &str, case: &[(usize, Erased)], found: &Erased, expected: &Erased) {
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

fn declare(leaf: &str) -> String {
    format!("declare cases that fit together: `#[cases({leaf} = [..])]`")
}

/// The leaves that cases of a derived value set, with the values to be tried.
fn matrix(table: &Table, derived: usize) -> Vec<Dimension> {
    let path = table.entries[derived].info.path;
    let mut matrix = Vec::new();
    declared_cases(table, derived, &mut matrix);
    let mut inputs = Vec::new();
    collect_inputs(table, derived, &mut inputs);
    for leaf in inputs {
        if matrix.iter().any(|dimension| dimension.leaf == leaf) {
            continue;
        }
        let info = table.entries[leaf].info;
        let samples = info.ops.ty.samples();
        let differ = samples.iter().any(|sample| *sample != samples[0]);
        let only_one = info.ops.ty.choices().is_some_and(|choices| choices.len() == 1);
        let (input, ty) = (info.path, info.type_name);
        let hint = format!("give its type `{ty}` two `Leaf::samples`, or declare `#[cases({input} = [..])]`");
        assert!(differ || only_one, "`{path}` reads `{input}`; {hint}");
        matrix.push(Dimension { leaf, values: self::samples(table, leaf), declared: false });
    }
    matrix
}

/// The cases declared for a derived value, then those of derived values that it reads, unless it has its own.
fn declared_cases(table: &Table, derived: usize, matrix: &mut Vec<Dimension>) {
    let path = table.entries[derived].info.path;
    let Start::Computed(computation) = table.entries[derived].info.start else { return };
    for (leaf, values) in computation.cases {
        let index = table.index(leaf).unwrap_or_else(|| panic!("`{path}` has cases of `{leaf}`, which is no leaf"));
        let entry = &table.entries[index];
        assert!(!entry.is_derived(), "`{path}` has cases of `{leaf}`, which is derived; name what it is computed from");
        if matrix.iter().any(|dimension| dimension.leaf == index) {
            continue;
        }
        let value = |case: &Case| {
            let value = match case {
                Case::Text(text) => entry.parse_text(text).map_err(|error| error.to_string()),
                Case::Made(make) => {
                    let value = make();
                    entry.check_range(&value).map(|()| value)
                }
            };
            value.unwrap_or_else(|problem| panic!("a case of `{path}`: {problem}"))
        };
        matrix.push(Dimension { leaf: index, values: values.iter().map(value).collect(), declared: true });
    }
    for input in computation.inputs.iter().filter_map(|path| table.index(path)) {
        declared_cases(table, input, matrix);
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
        _ => entry.info.ops.ty.when_absent(),
    };
    let texts = entry.info.ops.ty.samples();
    let mut values: Vec<Erased> = Vec::new();
    for value in default.into_iter().chain(texts.iter().filter_map(|text| entry.info.ops.ty.parse_text(text))) {
        if entry.check_range(&value).is_ok() && !values.iter().any(|known| known.same(&*value)) {
            values.push(value);
        }
    }
    values
}
