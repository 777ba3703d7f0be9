//! The emitted equivalence tests find a wrong wiring.

use config_tests::Schedule;
use kitbag::__private::{Edit, Reads, erase};
use kitbag::{ConfigNamespaces, Everything, Key, LeafInfo, Namespace, NamespaceInfo, Pinned, Recording, Role, Start};

/// A rightly wired schema with the namespace to be miswired.
#[derive(ConfigNamespaces)]
struct Right {
    #[config(nested)]
    schedule: Schedule,
}

/// The same schema, but `schedule.pages` reads its neighbour `chunk` (index 2) where it declares `page_size`.
struct Miswired;

const RIGHT: NamespaceInfo = <Right as ConfigNamespaces>::SCHEMA.children[0];

const fn miswired(mut leaf: LeafInfo) -> LeafInfo {
    if let Start::Computed(mut computation) = leaf.start {
        computation.run = |inputs| {
            let max_tokens = inputs.get(Key::<Schedule, usize>::new(1));
            let wrong = inputs.get(Key::<Schedule, usize>::new(2));
            erase::<usize>(max_tokens.div_ceil(wrong))
        };
        leaf.start = Start::Computed(computation);
    }
    leaf
}

impl ConfigNamespaces for Miswired {
    const SCHEMA: NamespaceInfo = NamespaceInfo {
        path: "",
        doc: "",
        own_struct: true,
        leaves: &[],
        replaced: &[],
        retired: &[],
        validations: &[],
        children: &[NamespaceInfo {
            leaves: &[RIGHT.leaves[0], RIGHT.leaves[1], RIGHT.leaves[2], miswired(RIGHT.leaves[3]), RIGHT.leaves[4]],
            ..RIGHT
        }],
    };
    const ENV_PREFIX: Option<&'static str> = None;

    type Bags = <Right as ConfigNamespaces>::Bags;
    type Pin<R: Role> = MiswiredPin<R>;
    type Setters<F> = MiswiredSetters<F>;
    type Keys = <Schedule as Namespace>::Keys<Self>;
    type Recording = MiswiredRecording;

    fn keys() -> Self::Keys {
        <Schedule as Namespace>::keys(0)
    }

    fn touch(&self) {}
}

struct MiswiredPin<R>(std::marker::PhantomData<R>);

impl<R> From<Pinned<Miswired>> for MiswiredPin<R> {
    fn from(_: Pinned<Miswired>) -> Self {
        Self(std::marker::PhantomData)
    }
}

struct MiswiredRecording(Pinned<Miswired>, Reads);

impl From<Pinned<Miswired>> for MiswiredRecording {
    fn from(pinned: Pinned<Miswired>) -> Self {
        Self(pinned, Reads::default())
    }
}

impl Recording<Miswired> for MiswiredRecording {
    fn parts(&self) -> (&Pinned<Miswired>, &Reads) {
        (&self.0, &self.1)
    }
}

struct MiswiredSetters<F>(Edit, std::marker::PhantomData<F>);

impl<F> From<Edit> for MiswiredSetters<F> {
    fn from(edit: Edit) -> Self {
        Self(edit, std::marker::PhantomData)
    }
}

impl<F> From<MiswiredSetters<F>> for Edit {
    fn from(setters: MiswiredSetters<F>) -> Self {
        setters.0
    }
}

#[test]
fn a_right_wiring_passes_over_the_whole_matrix() {
    // `pages` and `pages_and_spare` over page size × tokens; the default chunk of 512 rules small caches out.
    assert_eq!(kitbag::__private::check_derived_values::<Right>(), 2 * 8);
    let _: Option<<Right as ConfigNamespaces>::Pin<Everything>> = None;
}

#[test]
#[should_panic(
    expected = "`schedule.pages` with schedule.max_tokens = 4096, schedule.page_size = 16: a fresh resolution says 8, expected 256"
)]
fn a_wrong_wiring_is_found() {
    kitbag::__private::check_derived_values::<Miswired>();
}
