//! The instruction table: every accepted mnemonic, the operands it takes and the function that executes it.
//!
//! A mnemonic is accepted exactly as it is entered here, modifiers included and in order, so nothing is ever half
//! understood. To add an instruction, add one line to the file of its family and one case to a file of `tests/opcodes`.

mod async_copy;
mod atomic;
mod bits;
mod control;
mod convert;
mod float;
mod integer;
mod memory;
mod predicate;
mod tensor;
mod warp;

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::check::blocks::Order;
use crate::ty::{Space, Ty};
use crate::vector::{Access, LaneLoop};

pub(crate) use async_copy::Copies;

/// What an operand may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// A register that is written; `_` throws the value away.
    Dst(Ty),
    /// A register, special register or literal.
    Src(Ty),
    /// As `Src`, or the address of a variable.
    Value(Ty),
    /// As `Dst` and `Src`, but the register may be wider than the type.
    DstRelaxed(Ty),
    SrcRelaxed(Ty),
    /// `{a, b, ..}` of that many elements.
    DstVec(Ty, u8),
    SrcVec(Ty, u8),
    DstVecRelaxed(Ty, u8),
    SrcVecRelaxed(Ty, u8),
    /// `%d|%p`.
    DstPair(Ty),
    /// A predicate that may be negated.
    SrcNot,
    /// `[address]`.
    Addr,
    /// `[parameter]`, of which that many bytes are read.
    Param(u32),
    /// An integer known when the module is loaded.
    Int,
    /// This integer.
    Exactly(u32),
    /// Where to branch.
    Label,
}

/// Which lanes must meet at a `.sync` instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Members {
    /// All that have not exited; the whole warp must still run if `full`.
    Warp { full: bool },
    /// The mask in `r[index]`.
    Operand(usize),
}

/// How an instruction executes. The mask passed holds the lanes that do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run {
    /// Touches only registers.
    Lanes(LaneLoop),
    /// Touches memory or anything else that may fail.
    Access(Access),
    /// As `Access`, once the members have met.
    Collective(Members, Access),
    Branch,
    Exit,
    /// `bar.sync`: barrier and thread count are in `imm`.
    Barrier,
}

/// One way to write a mnemonic.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) slots: Vec<Slot>,
    pub(crate) run: Run,
    /// Where it accesses memory and how many bytes per lane at once, if it does.
    pub(crate) access: Option<(Space, u32)>,
    /// What it orders between blocks.
    pub(crate) order: Order,
}

/// What a qualifier such as `.acquire.gpu` orders between blocks.
fn order_of(qualifier: &str) -> Order {
    let mut parts = qualifier.split('.').skip(1);
    let (order, scope) = (parts.next().unwrap_or("weak"), parts.next());
    match order {
        _ if scope == Some("cta") => Order::OfBlock,
        "weak" => Order::Weak,
        "acquire" => Order::Acquire,
        "release" => Order::Release,
        "acq_rel" => Order::AcquireRelease,
        _ => Order::Relaxed,
    }
}

/// All mnemonics.
#[derive(Default)]
pub(crate) struct Table {
    forms: HashMap<String, Vec<Form>>,
}

impl Table {
    fn add(&mut self, name: impl Into<String>, slots: &[Slot], run: Run) {
        let form = Form { slots: slots.to_vec(), run, access: None, order: Order::Weak };
        self.forms.entry(name.into()).or_default().push(form);
    }

    /// As `add`, for an instruction that accesses `bytes` bytes per lane in `space`.
    fn add_access(&mut self, name: impl Into<String>, slots: &[Slot], space: Space, bytes: u32, run: Run) {
        self.add_ordered(name, slots, (space, bytes), Order::Weak, run);
    }

    /// As `add_access`, for an instruction that may also order its block among others.
    fn add_ordered(&mut self, name: impl Into<String>, slots: &[Slot], access: (Space, u32), order: Order, run: Run) {
        let form = Form { slots: slots.to_vec(), run, access: Some(access), order };
        self.forms.entry(name.into()).or_default().push(form);
    }

    /// The forms of `mnemonic`, or why there are none.
    pub(crate) fn lookup(&self, mnemonic: &str) -> Result<&[Form], String> {
        if let Some(forms) = self.forms.get(mnemonic) {
            return Ok(forms);
        }
        let base = mnemonic.split('.').next().unwrap_or(mnemonic);
        let known = self.forms.keys().any(|name| name.split('.').next() == Some(base));
        Err(if known {
            format!("`{base}` is not implemented with the modifiers of `{mnemonic}`")
        } else {
            format!("unknown instruction `{base}`")
        })
    }

    /// Every mnemonic, sorted.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.forms.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }
}

/// The one table, built at first use.
pub(crate) fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Table::default();
        integer::register(&mut table);
        bits::register(&mut table);
        float::register(&mut table);
        convert::register(&mut table);
        predicate::register(&mut table);
        memory::register(&mut table);
        atomic::register(&mut table);
        async_copy::register(&mut table);
        control::register(&mut table);
        warp::register(&mut table);
        tensor::register(&mut table);
        table
    })
}

/// Enters instructions whose operands all have one type: `same!(table, "add.s32", S32: i32, |a, b| a.wrapping_add(b))`.
macro_rules! same {
    ($table:ident, $name:expr, $ty:ident: $rust:ty, |$a:ident| $e:expr) => {
        $table.add(
            $name,
            &[$crate::opcode::Slot::Dst($crate::ty::Ty::$ty), $crate::opcode::Slot::Src($crate::ty::Ty::$ty)],
            $crate::opcode::Run::Lanes($crate::vector::lane_loop!(|regs, args, mask| regs.map1(
                args,
                mask,
                |$a: $rust| -> $rust { $e }
            ))),
        )
    };
    ($table:ident, $name:expr, $ty:ident: $rust:ty, |$a:ident, $b:ident| $e:expr) => {
        $table.add(
            $name,
            &[
                $crate::opcode::Slot::Dst($crate::ty::Ty::$ty),
                $crate::opcode::Slot::Src($crate::ty::Ty::$ty),
                $crate::opcode::Slot::Src($crate::ty::Ty::$ty),
            ],
            $crate::opcode::Run::Lanes($crate::vector::lane_loop!(|regs, args, mask| {
                regs.map2(args, mask, |$a: $rust, $b: $rust| -> $rust { $e })
            })),
        )
    };
    ($table:ident, $name:expr, $ty:ident: $rust:ty, |$a:ident, $b:ident, $c:ident| $e:expr) => {
        $table.add(
            $name,
            &[
                $crate::opcode::Slot::Dst($crate::ty::Ty::$ty),
                $crate::opcode::Slot::Src($crate::ty::Ty::$ty),
                $crate::opcode::Slot::Src($crate::ty::Ty::$ty),
                $crate::opcode::Slot::Src($crate::ty::Ty::$ty),
            ],
            $crate::opcode::Run::Lanes($crate::vector::lane_loop!(|regs, args, mask| {
                regs.map3(args, mask, |$a: $rust, $b: $rust, $c: $rust| -> $rust { $e })
            })),
        )
    };
}
pub(crate) use same;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Args;
    use crate::random::Random;
    use crate::regs::{FULL, LANES, Regs, lanes};

    /// Registers that hold positive numbers of ordinary size, whatever type they are read as.
    fn registers(random: &mut Random) -> Regs {
        let mut regs = Regs::new(16, 16, 16);
        for reg in 0..16 {
            for lane in lanes(FULL) {
                regs.set_lane::<u32>(reg, lane, 0x3f00_0000 | random.below(1 << 25) as u32);
                regs.set_lane::<u64>(reg, lane, 0x3fe0_0000_0000_0000 | random.below(1 << 53));
            }
            regs.set_pred(reg, FULL, random.below(1 << LANES) as u32);
        }
        regs
    }

    /// Arguments for `form`: as many registers as it takes, all different.
    fn arguments(form: &Form) -> Args {
        let mut args = Args { imm: [0x96, 0], order: form.order, ..Args::default() };
        for &slot in &form.slots {
            let (ty, count) = match slot {
                Slot::Dst(ty) | Slot::Src(ty) | Slot::Value(ty) | Slot::DstRelaxed(ty) | Slot::SrcRelaxed(ty) => {
                    (ty, 1)
                }
                Slot::DstVec(ty, count) | Slot::SrcVec(ty, count) => (ty, count),
                Slot::SrcNot => (Ty::Pred, 1),
                _ => continue,
            };
            for _ in 0..count {
                args.r[args.operands] = args.operands as u16;
                args.wide |= u16::from(ty.is_wide()) << args.operands;
                args.operands += 1;
            }
        }
        args
    }

    #[test]
    fn vector_code_and_plain_code_agree() {
        println!("seed 5");
        let mut random = Random::new(5);
        let mut different = Vec::new();
        for (name, form) in table().forms.iter().flat_map(|(name, forms)| forms.iter().map(move |form| (name, form))) {
            let Run::Lanes(lane_loop) = form.run else { continue };
            let args = arguments(form);
            for mask in [FULL, random.below(1 << LANES) as u32] {
                let mut vector = registers(&mut random);
                let mut plain = vector.clone();
                lane_loop.run(&mut vector, &args, mask);
                lane_loop.run_plain(&mut plain, &args, mask);
                if vector != plain {
                    different.push(name);
                }
            }
        }
        assert!(different.is_empty(), "{different:?}");
    }
}
