//! The names of `ld` and `st`.

mod elements;
mod load;
mod store;

use super::{Run, Slot, Table, order_of};
use crate::ty::{Space, Ty};

const TYPES: [Ty; 15] = [
    Ty::B8,
    Ty::U8,
    Ty::S8,
    Ty::B16,
    Ty::U16,
    Ty::S16,
    Ty::B32,
    Ty::U32,
    Ty::S32,
    Ty::F32,
    Ty::B64,
    Ty::U64,
    Ty::S64,
    Ty::F64,
    Ty::F16,
];

/// Ordering qualifiers that stand before the state space. Blocks run one after another, so they matter only to what is
/// taken for a race.
const LOAD_ORDERS: [&str; 11] = [
    "",
    ".volatile",
    ".weak",
    ".relaxed.cta",
    ".relaxed.gpu",
    ".relaxed.sys",
    ".acquire.cta",
    ".acquire.gpu",
    ".acquire.sys",
    ".mmio.relaxed.sys",
    ".relaxed.cluster",
];
const STORE_ORDERS: [&str; 9] = [
    "",
    ".volatile",
    ".weak",
    ".relaxed.cta",
    ".relaxed.gpu",
    ".relaxed.sys",
    ".release.cta",
    ".release.gpu",
    ".release.sys",
];

/// Cache hints; they do not change what is read.
const LOAD_HINTS: [&str; 12] = [
    "",
    ".ca",
    ".cg",
    ".cs",
    ".lu",
    ".cv",
    ".nc",
    ".L1::no_allocate",
    ".nc.L1::no_allocate",
    ".nc.L2::128B",
    ".nc.L1::no_allocate.L2::128B",
    ".L2::128B",
];
const STORE_HINTS: [&str; 6] = ["", ".wb", ".cg", ".cs", ".wt", ".L1::no_allocate"];

pub(super) fn register(table: &mut Table) {
    for (infix, space) in spaces() {
        for ty in TYPES {
            for count in [1, 2, 4] {
                let bytes = ty.bytes() * u32::from(count);
                if bytes > 16 {
                    continue;
                }
                let suffix = suffix(ty, count);
                let (load, store) = (load::of(bytes, ty.signed()), store::of(bytes));
                for (order, hint) in combinations(&LOAD_ORDERS, &LOAD_HINTS, space) {
                    let name = format!("ld{order}{infix}{hint}{suffix}");
                    let slots = [destination(ty, count), Slot::Addr];
                    table.add_ordered(name, &slots, (space, bytes), order_of(order), Run::Access(load));
                }
                if space == Space::Const {
                    continue;
                }
                for (order, hint) in combinations(&STORE_ORDERS, &STORE_HINTS, space) {
                    let name = format!("st{order}{infix}{hint}{suffix}");
                    let slots = [Slot::Addr, source(ty, count)];
                    table.add_ordered(name, &slots, (space, bytes), order_of(order), Run::Access(store));
                }
            }
        }
    }
    for ty in TYPES {
        for count in [1, 2, 4] {
            let bytes = ty.bytes() * u32::from(count);
            let slots = [destination(ty, count), Slot::Param(bytes)];
            table.add(format!("ld.param{}", suffix(ty, count)), &slots, Run::Access(load::of_parameter(ty.signed())));
        }
    }
}

fn spaces() -> [(&'static str, Space); 6] {
    [
        ("", Space::Generic),
        (".global", Space::Global),
        (".shared", Space::Shared),
        (".shared::cta", Space::Shared),
        (".local", Space::Local),
        (".const", Space::Const),
    ]
}

/// Orders go with all spaces but local and constant; hints go with plain global or generic accesses.
fn combinations(
    orders: &[&'static str],
    hints: &[&'static str],
    space: Space,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let (ordered, hinted) =
        (!matches!(space, Space::Local | Space::Const), matches!(space, Space::Global | Space::Generic));
    let orders: Vec<_> = orders.iter().copied().filter(|order| ordered || order.is_empty()).collect();
    let hints: Vec<_> = hints.iter().copied().filter(|hint| hinted || hint.is_empty()).skip(1).collect();
    orders.into_iter().map(|order| (order, "")).chain(hints.into_iter().map(|hint| ("", hint)))
}

fn suffix(ty: Ty, count: u8) -> String {
    let vector = match count {
        1 => "",
        2 => ".v2",
        _ => ".v4",
    };
    format!("{vector}.{}", ty.name())
}

fn destination(ty: Ty, count: u8) -> Slot {
    if count == 1 { Slot::DstRelaxed(ty) } else { Slot::DstVecRelaxed(ty, count) }
}

fn source(ty: Ty, count: u8) -> Slot {
    if count == 1 { Slot::SrcRelaxed(ty) } else { Slot::SrcVecRelaxed(ty, count) }
}
