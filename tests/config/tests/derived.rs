//! The emitted equivalence tests find a wrong wiring.

use config_tests::Schedule;
use kitbag::__private::{Case, Edit, Reads, erase, reveal};
use kitbag::{
    ConfigChoice, ConfigNamespaces, Everything, Key, LeafInfo, Namespace, NamespaceInfo, Pinned, Recording, Role,
    Serde, Start,
};

/// A rightly wired schema with the namespace to be miswired.
#[derive(ConfigNamespaces)]
struct Right {
    #[config(nested)]
    schedule: Schedule,
}

/// The same schema, but with another `schedule.pages`.
struct Broken<B>(std::marker::PhantomData<B>);

/// What is wrong with it.
trait Break: 'static {
    const PAGES: LeafInfo;
}

const RIGHT: NamespaceInfo = <Right as ConfigNamespaces>::SCHEMA.children[0];

/// A schema whose `schedule.pages` is changed by the statements.
macro_rules! broken {
    ($($(#[$meta:meta])* $name:ident: |$computation:ident| $change:expr;)+) => {$(
        $(#[$meta])*
        struct $name;

        impl Break for $name {
            const PAGES: LeafInfo = {
                let mut leaf = RIGHT.leaves[3];
                if let Start::Computed(mut $computation) = leaf.start {
                    $change;
                    leaf.start = Start::Computed($computation);
                }
                leaf
            };
        }
    )+};
}

broken! {
    /// It reads its neighbour `chunk` (index 2) where it declares `page_size`.
    Miswired: |computation| computation.run = |inputs| {
        let max_tokens = inputs.get(Key::<Schedule, usize>::new(1));
        let wrong = inputs.get(Key::<Schedule, usize>::new(2));
        erase::<usize>(max_tokens.div_ceil(wrong))
    };
    /// A twin that rounds down.
    WrongTwin: |computation| computation.twin = Some(|arguments| {
        let [max_tokens, page_size] = [0, 1].map(|index| *reveal::<usize>(&arguments[index]));
        erase::<usize>(max_tokens / page_size)
    });
    /// The default chunk rules out all samples but one.
    Thin: |computation| computation.cases = &[];
    /// A rule refuses one of the cases, whatever goes with it.
    Refused: |computation| computation.cases = &[("schedule.max_tokens", &[Case::Text("4096"), Case::Text("4")])];
    /// A case that is out of range.
    OutOfRange: |computation| computation.cases = &[("schedule.page_size", &[Case::Made(|| erase::<usize>(0))])];
    /// A case of a leaf that is not there.
    Unknown: |computation| computation.cases = &[("schedule.page", &[Case::Text("1")])];
}

impl<B: Break> ConfigNamespaces for Broken<B> {
    const SCHEMA: NamespaceInfo = NamespaceInfo {
        path: "",
        doc: "",
        own_struct: true,
        leaves: &[],
        replaced: &[],
        retired: &[],
        validations: &[],
        children: &[NamespaceInfo {
            leaves: &[RIGHT.leaves[0], RIGHT.leaves[1], RIGHT.leaves[2], B::PAGES, RIGHT.leaves[4]],
            ..RIGHT
        }],
    };
    const ENV_PREFIX: Option<&'static str> = None;

    type Bags = <Right as ConfigNamespaces>::Bags;
    type Pin<R: Role> = BrokenPin<R>;
    type Setters<F> = BrokenSetters<F>;
    type Keys = <Schedule as Namespace>::Keys<Self>;
    type Recording = BrokenRecording<B>;

    fn keys() -> Self::Keys {
        <Schedule as Namespace>::keys(0)
    }

    fn touch(&self) {}
}

struct BrokenPin<R>(std::marker::PhantomData<R>);

impl<B: Break, R> From<Pinned<Broken<B>>> for BrokenPin<R> {
    fn from(_: Pinned<Broken<B>>) -> Self {
        Self(std::marker::PhantomData)
    }
}

struct BrokenRecording<B: Break>(Pinned<Broken<B>>, Reads);

impl<B: Break> From<Pinned<Broken<B>>> for BrokenRecording<B> {
    fn from(pinned: Pinned<Broken<B>>) -> Self {
        Self(pinned, Reads::default())
    }
}

impl<B: Break> Recording<Broken<B>> for BrokenRecording<B> {
    fn parts(&self) -> (&Pinned<Broken<B>>, &Reads) {
        (&self.0, &self.1)
    }
}

struct BrokenSetters<F>(Edit, std::marker::PhantomData<F>);

impl<F> From<Edit> for BrokenSetters<F> {
    fn from(edit: Edit) -> Self {
        Self(edit, std::marker::PhantomData)
    }
}

impl<F> From<BrokenSetters<F>> for Edit {
    fn from(setters: BrokenSetters<F>) -> Self {
        setters.0
    }
}

#[test]
fn a_right_wiring_passes_over_the_whole_matrix() {
    // `pages`, and `pages_and_spare` that follows from it, over page size × tokens.
    assert_eq!(kitbag::__private::check_derived_values::<Right>(), 2 * 9);
    let _: Option<<Right as ConfigNamespaces>::Pin<Everything>> = None;
}

/// What the emitted test of a broken schema says.
fn fault<B: Break>() -> String {
    let panic = std::panic::catch_unwind(kitbag::__private::check_derived_values::<Broken<B>>).unwrap_err();
    panic.downcast_ref::<String>().expect("a text").clone()
}

#[test]
fn what_is_wrong_is_found() {
    assert_eq!(
        fault::<Miswired>(),
        "`schedule.pages` with schedule.max_tokens = 512, schedule.page_size = 1: a fresh resolution says 1, expected 512"
    );
    assert_eq!(
        fault::<WrongTwin>(),
        "`schedule.pages` with schedule.max_tokens = 512, schedule.page_size = 100: its twin says 5, expected 6"
    );
}

#[test]
fn too_few_cases_are_a_fault() {
    assert_eq!(
        fault::<Thin>(),
        "`schedule.pages`: 1 of 9 values of `schedule.max_tokens` tried, which shows nothing; rules of the schema refuse \
         64 of 72, the first with: rule `chunk_fits`: a chunk is larger than the cache (schedule.chunk = 512, \
         schedule.max_tokens = 1); declare cases that fit together: `#[cases(schedule.max_tokens = [..])]`"
    );
    let refused = fault::<Refused>();
    assert!(refused.starts_with("`schedule.pages`: no case with `schedule.max_tokens` = 4 was tried; "), "{refused}");
    assert_eq!(fault::<OutOfRange>(), "a case of `schedule.pages`: 0 is outside 1..=256");
    assert_eq!(fault::<Unknown>(), "`schedule.pages` has cases of `schedule.page`, which is no leaf");
}

/// How weights come.
#[derive(Clone, Copy, Debug, PartialEq, ConfigChoice)]
enum Format {
    Auto,
    Remote,
}

mod plan {
    use super::Format;

    pub(super) fn ceiling(chunk: i32, dynamic: bool, stages: usize, most: usize) -> usize {
        let chunk = usize::try_from(chunk).ok().filter(|chunk| *chunk > 0).unwrap_or(most);
        if dynamic && stages > 1 { most.max(chunk * 5 / 4) } else { most.max(chunk) }
    }

    pub(super) fn remote(format: Format, transports: &[String]) -> bool {
        format == Format::Remote && transports.iter().any(|transport| transport == "engine")
    }

    pub(super) fn per_stage(ceiling: usize, stages: usize) -> usize {
        ceiling / stages
    }
}

/// The same ceiling, as the program's older code has it.
fn old_ceiling(chunk: i32, dynamic: bool, stages: usize, most: usize) -> usize {
    let chunk = if chunk < 1 { most } else { chunk.unsigned_abs() as usize };
    std::cmp::max(most, if dynamic && stages != 1 { chunk + chunk / 4 } else { chunk })
}

/// A schema whose derived values say what is tried.
#[derive(ConfigNamespaces)]
#[config(
    derived(
        /// Tokens that a buffer holds.
        #[cases(schedule.chunk = [-1, 0, 1024, 8192], schedule.dynamic = [false, true], schedule.stages = [1, 4])]
        #[cases(schedule.most = [0, 2048, 16_384])]
        #[twin = old_ceiling]
        plan.ceiling: usize = plan::ceiling(schedule.chunk, schedule.dynamic, schedule.stages, schedule.most),
        #[cases(schedule.chunk = [0, 64], schedule.dynamic = [true], schedule.stages = [1, 2], schedule.most = [9])]
        plan.per_stage: usize = plan::per_stage(plan.ceiling, schedule.stages),
        #[cases(load.format = [Format::Auto, Format::Remote])]
        #[cases(load.transports = [Vec::new().into(), vec!["engine".to_owned()].into()])]
        at_launch plan.remote: bool = plan::remote(load.format, load.transports),
    ),
    validate(one_stage_alone(schedule.stages, schedule.alone))
)]
struct Planned {
    /// Tokens at once; none to have no chunks.
    #[config(ns = "schedule", default = 0)]
    chunk: i32,
    /// Chunks change in size.
    #[config(ns = "schedule", default = false)]
    dynamic: bool,
    /// Stages of a pipeline.
    #[config(ns = "schedule", default = 1, range = 1..=64)]
    stages: usize,
    /// Most tokens of a step.
    #[config(ns = "schedule", default = 2048)]
    most: usize,
    /// There is no other engine.
    #[config(ns = "schedule", default = false)]
    alone: bool,
    /// How weights come.
    #[config(ns = "load", default = Format::Auto)]
    format: Format,
    /// Where from.
    #[config(ns = "load", default = "[]")]
    transports: Serde<Vec<String>>,
}

fn one_stage_alone(stages: usize, alone: bool) -> Result<(), String> {
    if stages == 1 || !alone { Ok(()) } else { Err("one engine alone has one stage".to_owned()) }
}

#[test]
fn declared_cases_are_tried_in_full() {
    // 48 of the ceiling, 4 of what follows from it, 4 of the last.
    assert_eq!(kitbag::__private::check_derived_values::<Planned>(), 48 + 4 + 4);
}
