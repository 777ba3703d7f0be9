//! The register files of one warp, and loops over its 32 lanes.

use crate::program::{Args, Reg};

/// Lanes in a warp.
pub(crate) const LANES: usize = 32;
/// The mask of a whole warp.
pub(crate) const FULL: u32 = u32::MAX;

/// One bit in each register file row per lane.
pub(crate) type Row<T> = [T; LANES];

/// Registers of one warp. 16-bit registers live in `narrow`, their upper half is zero.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Regs {
    narrow: Vec<Row<u32>>,
    wide: Vec<Row<u64>>,
    preds: Vec<u32>,
}

/// A Rust type that a lane of a register can hold.
pub(crate) trait Lane: Copy {
    type Bits: Copy + Default;
    fn row(regs: &Regs, reg: Reg) -> &Row<Self::Bits>;
    fn row_mut(regs: &mut Regs, reg: Reg) -> &mut Row<Self::Bits>;
    fn from_lane(bits: Self::Bits) -> Self;
    fn into_lane(self) -> Self::Bits;
}

macro_rules! lane {
    ($($ty:ty, $bits:ty, $file:ident, |$b:ident| $from:expr, |$v:ident| $into:expr;)*) => {$(
        impl Lane for $ty {
            type Bits = $bits;
            #[inline(always)]
            fn row(regs: &Regs, reg: Reg) -> &Row<$bits> {
                &regs.$file[usize::from(reg)]
            }
            #[inline(always)]
            fn row_mut(regs: &mut Regs, reg: Reg) -> &mut Row<$bits> {
                &mut regs.$file[usize::from(reg)]
            }
            #[inline(always)]
            fn from_lane($b: $bits) -> Self {
                $from
            }
            #[inline(always)]
            fn into_lane(self) -> $bits {
                let $v = self;
                $into
            }
        }
    )*};
}

lane! {
    u16, u32, narrow, |b| b as u16, |v| u32::from(v);
    i16, u32, narrow, |b| b as i16, |v| u32::from(v as u16);
    u32, u32, narrow, |b| b, |v| v;
    i32, u32, narrow, |b| b as i32, |v| v as u32;
    f32, u32, narrow, |b| f32::from_bits(b), |v| v.to_bits();
    u64, u64, wide, |b| b, |v| v;
    i64, u64, wide, |b| b as i64, |v| v as u64;
    f64, u64, wide, |b| f64::from_bits(b), |v| v.to_bits();
}

/// Lanes named by `mask`, in order.
#[inline]
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let lane = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            lane
        })
    })
}

/// The bits for which `test` holds.
#[inline(always)]
pub(crate) fn mask_of(test: impl Fn(usize) -> bool) -> u32 {
    let mut mask = 0;
    for lane in 0..LANES {
        mask |= u32::from(test(lane)) << lane;
    }
    mask
}

impl Regs {
    pub(crate) fn new(narrow: usize, wide: usize, preds: usize) -> Self {
        Self { narrow: vec![[0; LANES]; narrow], wide: vec![[0; LANES]; wide], preds: vec![0; preds] }
    }

    #[inline(always)]
    pub(crate) fn pred(&self, reg: Reg) -> u32 {
        self.preds[usize::from(reg)]
    }

    #[inline(always)]
    pub(crate) fn set_pred(&mut self, reg: Reg, mask: u32, value: u32) {
        let pred = &mut self.preds[usize::from(reg)];
        *pred = (*pred & !mask) | (value & mask);
    }

    /// A copy of a whole register.
    #[inline(always)]
    pub(crate) fn get<T: Lane>(&self, reg: Reg) -> Row<T::Bits> {
        *T::row(self, reg)
    }

    #[inline(always)]
    pub(crate) fn lane<T: Lane>(&self, reg: Reg, lane: usize) -> T {
        T::from_lane(T::row(self, reg)[lane])
    }

    #[inline(always)]
    pub(crate) fn set_lane<T: Lane>(&mut self, reg: Reg, lane: usize, value: T) {
        T::row_mut(self, reg)[lane] = value.into_lane();
    }

    /// Writes the lanes in `mask`.
    #[inline(always)]
    pub(crate) fn set<T: Lane>(&mut self, reg: Reg, mask: u32, values: &Row<T::Bits>) {
        let row = T::row_mut(self, reg);
        if mask == FULL {
            *row = *values;
        } else {
            // A choice in every lane, not a store in some: this is vector code.
            for lane in 0..LANES {
                row[lane] = if mask >> lane & 1 != 0 { values[lane] } else { row[lane] };
            }
        }
    }

    /// `r0 = f(r1)`.
    #[inline(always)]
    pub(crate) fn map1<A: Lane, D: Lane>(&mut self, args: &Args, mask: u32, f: impl Fn(A) -> D) {
        let a = A::row(self, args.r[1]);
        let mut out = [D::Bits::default(); LANES];
        for lane in 0..LANES {
            out[lane] = f(A::from_lane(a[lane])).into_lane();
        }
        self.set::<D>(args.r[0], mask, &out);
    }

    /// `r0 = f(r1, r2)`.
    #[inline(always)]
    pub(crate) fn map2<A: Lane, B: Lane, D: Lane>(&mut self, args: &Args, mask: u32, f: impl Fn(A, B) -> D) {
        let (a, b) = (A::row(self, args.r[1]), B::row(self, args.r[2]));
        let mut out = [D::Bits::default(); LANES];
        for lane in 0..LANES {
            out[lane] = f(A::from_lane(a[lane]), B::from_lane(b[lane])).into_lane();
        }
        self.set::<D>(args.r[0], mask, &out);
    }

    /// `r0 = f(r1, r2, r3)`.
    #[inline(always)]
    pub(crate) fn map3<A: Lane, B: Lane, C: Lane, D: Lane>(
        &mut self,
        args: &Args,
        mask: u32,
        f: impl Fn(A, B, C) -> D,
    ) {
        let (a, b, c) = (A::row(self, args.r[1]), B::row(self, args.r[2]), C::row(self, args.r[3]));
        let mut out = [D::Bits::default(); LANES];
        for lane in 0..LANES {
            out[lane] = f(A::from_lane(a[lane]), B::from_lane(b[lane]), C::from_lane(c[lane])).into_lane();
        }
        self.set::<D>(args.r[0], mask, &out);
    }

    /// `r0 = f(r1, r2, r3, r4)`, the last two 32-bit as in `bfi`.
    #[inline(always)]
    pub(crate) fn map4<A: Lane, D: Lane>(&mut self, args: &Args, mask: u32, f: impl Fn(A, A, u32, u32) -> D) {
        let (a, b) = (A::row(self, args.r[1]), A::row(self, args.r[2]));
        let (c, d) = (u32::row(self, args.r[3]), u32::row(self, args.r[4]));
        let mut out = [D::Bits::default(); LANES];
        for lane in 0..LANES {
            out[lane] = f(A::from_lane(a[lane]), A::from_lane(b[lane]), c[lane], d[lane]).into_lane();
        }
        self.set::<D>(args.r[0], mask, &out);
    }

    /// `p0 = test(r1, r2)`.
    #[inline(always)]
    pub(crate) fn compare<T: Lane>(&mut self, args: &Args, mask: u32, test: impl Fn(T, T) -> bool) {
        let (a, b) = (T::row(self, args.r[1]), T::row(self, args.r[2]));
        let bits = mask_of(|lane| test(T::from_lane(a[lane]), T::from_lane(b[lane])));
        self.set_pred(args.r[0], mask, bits);
    }

    /// `r0 = p3 ? r1 : r2`.
    #[inline(always)]
    pub(crate) fn select<T: Lane>(&mut self, args: &Args, mask: u32) {
        let (a, b) = (T::row(self, args.r[1]), T::row(self, args.r[2]));
        let pred = self.pred(args.r[3]);
        let mut out = [T::Bits::default(); LANES];
        for lane in 0..LANES {
            out[lane] = if pred >> lane & 1 != 0 { a[lane] } else { b[lane] };
        }
        self.set::<T>(args.r[0], mask, &out);
    }

    /// The addresses in operand `index`, which is a 32- or 64-bit register, plus a constant.
    #[inline(always)]
    pub(crate) fn addresses(&self, args: &Args, index: usize, offset: i64) -> Row<u64> {
        let mut out = [0; LANES];
        if args.is_wide(index) {
            let base = u64::row(self, args.r[index]);
            for lane in 0..LANES {
                out[lane] = base[lane].wrapping_add_signed(offset);
            }
        } else {
            let base = u32::row(self, args.r[index]);
            for lane in 0..LANES {
                out[lane] = u64::from(base[lane].wrapping_add(offset as u32));
            }
        }
        out
    }
}
