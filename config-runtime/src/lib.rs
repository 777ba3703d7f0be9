#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod bootstrap;
mod check;
mod context;
mod edit;
mod error;
mod explain;
pub mod export;
mod facts;
mod fingerprint;
mod guard;
mod hot;
mod leaf;
mod loader;
mod origin;
mod published;
mod reader;
mod record;
mod resolved;
mod role;
mod schema;
mod snapshot;
mod source;
mod suggest;
mod table;
mod test_kit;
mod value;

pub use clap;
pub use kitbag_derive::{ConfigChoice, ConfigNamespaces, ConfigRole};

pub use crate::bootstrap::{Bootstrap, Early};
pub use crate::context::{
    Change, Context, DroppedOverride, Entered, Outstanding, Override, Pinned, Plan, Planned, Reader, Scoped,
    Subscription, ThreadOverride, Trial, Update, Watch,
};
pub use crate::edit::{
    ChildContext, EngineWideOverride, LoadTimeDeclaration, MaySetHot, MaySetLaunch, MaySetLoadTime, ScopedOverride,
    TestKit,
};
pub use crate::error::{ConfigError, Errors};
pub use crate::explain::Explanation;
pub use crate::facts::Facts;
pub use crate::fingerprint::{Captured, Fingerprint, Recording};
pub use crate::hot::Hot;
pub use crate::leaf::{ByteSize, Choice, Fault, Leaf, Secret, Serde};
pub use crate::loader::Loader;
pub use crate::origin::Origin;
pub use crate::record::Record;
pub use crate::resolved::Resolved;
pub use crate::role::{Everything, MayRead, Role, View};
pub use crate::schema::{
    Bag, Class, Computation, ConfigNamespaces, Deprecated, Key, LeafInfo, Namespace, NamespaceInfo, Policy, Replaced,
    Start, Validation,
};
pub use crate::snapshot::Snapshot;
pub use crate::value::Value;

/// What generated code uses. Not for use by hand: it changes without notice.
#[doc(hidden)]
pub mod __private {
    use std::ops::{Bound, RangeBounds};
    use std::sync::Arc;

    pub use crate::check::{Message, misplaced, whole_schema};
    pub use crate::edit::Edit;
    pub use crate::fingerprint::Reads;
    pub use crate::leaf::{AnyLeaf, Erased, LeafType, erase, reveal};
    pub use crate::reader::{Inputs, argument};
    pub use crate::schema::{Bags, Case, LeafOps};
    pub use crate::test_kit::check_derived_values;

    use crate::{Bag, Leaf, Value};

    /// The bag whose leaves start at `offset`: the previous one if none of them changed.
    #[must_use]
    pub fn rebuild<B: Bag>(values: &[Erased], offset: usize, previous: Option<(&Arc<B>, &[Erased])>) -> Arc<B> {
        let leaves = offset..offset + B::LEN;
        match previous {
            Some((bag, old)) if are_same(&values[leaves.clone()], &old[leaves.clone()]) => Arc::clone(bag),
            _ => Arc::new(B::build(&values[leaves])),
        }
    }

    /// Not generic, so that it is not compiled for every bag.
    fn are_same(values: &[Erased], old: &[Erased]) -> bool {
        values.iter().zip(old).all(|(value, old)| Arc::ptr_eq(value, old))
    }

    /// The value as one of the leaf that the key names; a value of another type does not compile.
    #[must_use]
    pub fn erase_for<S, T: Leaf, P>(_: crate::Key<S, T, P>, value: T) -> Erased {
        erase(value)
    }

    /// A leaf's own check.
    ///
    /// # Errors
    /// Why the value is refused.
    pub fn validate<T: Leaf>(
        value: &Erased,
        check: impl for<'a> FnOnce(T::Read<'a>) -> Result<(), String>,
    ) -> Result<(), String> {
        check(reveal::<T>(value).read())
    }

    /// A leaf's value without its type.
    #[must_use]
    pub fn erase_copy<T: Leaf>(value: &T) -> Erased {
        erase(value.clone())
    }

    /// A leaf type that has an order, so that a range can be declared for it; an unset `Option` is in every range.
    #[diagnostic::on_unimplemented(
        message = "a range cannot be declared for `{Self}`",
        note = "ranges are for numbers, durations, byte sizes and `Option`s of these"
    )]
    pub trait Ranged: Leaf {
        /// The type of the range's ends.
        type End: Leaf + PartialOrd;
        /// The value that must lie in the range.
        fn end(&self) -> Option<Self::End>;
    }

    macro_rules! ranged {
        ($($type:ty => $end:ty, $get:expr;)+) => {$(
            impl Ranged for $type {
                type End = $end;
                fn end(&self) -> Option<$end> {
                    Some($get(*self))
                }
            }
            impl Ranged for Option<$type> {
                type End = $end;
                fn end(&self) -> Option<$end> {
                    self.map($get)
                }
            }
        )+};
    }

    macro_rules! ranged_as_they_are {
        ($($type:ty),+) => {
            ranged!($($type => $type, std::convert::identity;)+);
        };
    }

    // Ends of a range are plain numbers: `range = 1..=8` of a `NonZeroU8`.
    macro_rules! ranged_non_zero {
        ($($type:ty),+) => {
            ranged!($(std::num::NonZero<$type> => $type, std::num::NonZero::get;)+);
        };
    }

    ranged_as_they_are!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64);
    ranged_as_they_are!(std::time::Duration, crate::ByteSize);
    ranged_non_zero!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

    /// A range whose ends are of type `T`. Each kind of range is named, so that the compiler asks for this, with the
    /// advice here, and not for one of the bounds behind it.
    #[diagnostic::on_unimplemented(
        message = "the ends of this range are not of type `{T}`",
        label = "a range of `{T}` is due, this is `{Self}`",
        note = "write both ends as values of that type: `1..=8`, `0.0..1.0`, `Duration::from_millis(10)..=Duration::from_secs(60)`, `ByteSize(1024)..`"
    )]
    pub trait RangeOf<T>: RangeBounds<T> {}

    impl<T> RangeOf<T> for std::ops::Range<T> {}
    impl<T> RangeOf<T> for std::ops::RangeFrom<T> {}
    impl<T> RangeOf<T> for std::ops::RangeTo<T> {}
    impl<T> RangeOf<T> for std::ops::RangeInclusive<T> {}
    impl<T> RangeOf<T> for std::ops::RangeToInclusive<T> {}
    impl<T> RangeOf<T> for std::ops::RangeFull {}
    impl<T> RangeOf<T> for (Bound<T>, Bound<T>) {}

    /// The declared range as text, unless the value given lies in it.
    // By value: the argument is then the range as the schema has it, which is where the compiler points.
    #[allow(clippy::needless_pass_by_value)]
    pub fn range<T: Ranged>(value: Option<&Erased>, range: impl RangeOf<T::End>) -> Option<String> {
        let end = value.map(|value| reveal::<T>(value).end());
        match end {
            Some(end) if end.as_ref().is_none_or(|end| range.contains(end)) => None,
            _ => Some(range_text(range.start_bound().map(Leaf::to_value), range.end_bound().map(Leaf::to_value))),
        }
    }

    /// Not generic, so that a schema's crate does not compile it for every type.
    fn range_text(from: Bound<Value>, to: Bound<Value>) -> String {
        let from = match from {
            Bound::Included(from) | Bound::Excluded(from) => from.plain(),
            Bound::Unbounded => String::new(),
        };
        match to {
            Bound::Included(to) => format!("{from}..={}", to.plain()),
            Bound::Excluded(to) => format!("{from}..{}", to.plain()),
            Bound::Unbounded => format!("{from}.."),
        }
    }
}
