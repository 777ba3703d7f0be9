//! PTX fundamental types and state spaces.

/// A PTX type as it appears in declarations and as an instruction suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ty {
    Pred,
    B8,
    U8,
    S8,
    B16,
    U16,
    S16,
    F16,
    Bf16,
    B32,
    U32,
    S32,
    F32,
    F16x2,
    Bf16x2,
    B64,
    U64,
    S64,
    F64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pred,
    Bits,
    Int,
    Float,
    /// Two or one half-precision numbers, for which PTX declares registers as `.bN`.
    Half,
}

impl Ty {
    /// The type named by `name`, without its leading dot.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "pred" => Self::Pred,
            "b8" => Self::B8,
            "u8" => Self::U8,
            "s8" => Self::S8,
            "b16" => Self::B16,
            "u16" => Self::U16,
            "s16" => Self::S16,
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "b32" => Self::B32,
            "u32" => Self::U32,
            "s32" => Self::S32,
            "f32" => Self::F32,
            "f16x2" => Self::F16x2,
            "bf16x2" => Self::Bf16x2,
            "b64" => Self::B64,
            "u64" => Self::U64,
            "s64" => Self::S64,
            "f64" => Self::F64,
            _ => return None,
        })
    }

    /// The name, without a leading dot.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pred => "pred",
            Self::B8 => "b8",
            Self::U8 => "u8",
            Self::S8 => "s8",
            Self::B16 => "b16",
            Self::U16 => "u16",
            Self::S16 => "s16",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::B32 => "b32",
            Self::U32 => "u32",
            Self::S32 => "s32",
            Self::F32 => "f32",
            Self::F16x2 => "f16x2",
            Self::Bf16x2 => "bf16x2",
            Self::B64 => "b64",
            Self::U64 => "u64",
            Self::S64 => "s64",
            Self::F64 => "f64",
        }
    }

    /// Size in bytes; a predicate counts as one.
    pub(crate) fn bytes(self) -> u32 {
        match self {
            Self::Pred | Self::B8 | Self::U8 | Self::S8 => 1,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 2,
            Self::B32 | Self::U32 | Self::S32 | Self::F32 | Self::F16x2 | Self::Bf16x2 => 4,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 8,
        }
    }

    /// Whether loads and conversions of this type extend the sign.
    pub(crate) fn signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    /// Whether a register of this type may be declared.
    pub(crate) fn is_register(self) -> bool {
        self == Self::Pred || self.bytes() >= 2
    }

    /// Whether values live in the 64-bit register file.
    pub(crate) fn is_wide(self) -> bool {
        self.bytes() == 8
    }

    fn kind(self) -> Kind {
        match self {
            Self::Pred => Kind::Pred,
            Self::B8 | Self::B16 | Self::B32 | Self::B64 => Kind::Bits,
            Self::F32 | Self::F64 => Kind::Float,
            Self::F16 | Self::Bf16 | Self::F16x2 | Self::Bf16x2 => Kind::Half,
            _ => Kind::Int,
        }
    }

    /// Whether an instruction operand of this type takes a register declared as `register`.
    ///
    /// The manual's "operand type checking rules": sizes agree; untyped bits agree with everything, signed and unsigned
    /// integers with each other, floats with floats only.
    pub(crate) fn accepts(self, register: Self) -> bool {
        if (self == Self::Pred) != (register == Self::Pred) || self.bytes() != register.bytes() {
            return false;
        }
        let (want, have) = (self.kind(), register.kind());
        want == Kind::Bits || have == Kind::Bits || (want == have && (want != Kind::Half || self == register))
    }

    /// The relaxed rule of `ld`, `st` and `cvt`: the register may also be wider.
    pub(crate) fn accepts_wider(self, register: Self) -> bool {
        let narrow = matches!(self.kind(), Kind::Bits | Kind::Int) && matches!(register.kind(), Kind::Bits | Kind::Int);
        self.accepts(register) || (narrow && register.bytes() > self.bytes())
    }
}

/// Where an address points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    #[default]
    Generic,
    Global,
    Const,
    Shared,
    Local,
}

impl Space {
    /// First generic address of the shared window; its low half is zero, so truncation yields the offset.
    pub(crate) const SHARED_WINDOW: u64 = 0x0100_0000_0000_0000;
    /// First generic address of the local window.
    pub(crate) const LOCAL_WINDOW: u64 = 0x0200_0000_0000_0000;
    const WINDOW_BYTES: u64 = 1 << 32;

    /// What to add to an address in this space to make it generic.
    pub(crate) fn window(self) -> u64 {
        match self {
            Self::Shared => Self::SHARED_WINDOW,
            Self::Local => Self::LOCAL_WINDOW,
            Self::Generic | Self::Global | Self::Const => 0,
        }
    }

    /// Turns a generic address into one of a particular space; others pass unchanged.
    #[inline]
    pub(crate) fn resolve(self, address: u64) -> (Self, u64) {
        if self != Self::Generic {
            return (self, address);
        }
        if address.wrapping_sub(Self::SHARED_WINDOW) < Self::WINDOW_BYTES {
            (Self::Shared, address - Self::SHARED_WINDOW)
        } else if address.wrapping_sub(Self::LOCAL_WINDOW) < Self::WINDOW_BYTES {
            (Self::Local, address - Self::LOCAL_WINDOW)
        } else {
            (Self::Global, address)
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::Global => "global",
            Self::Const => "const",
            Self::Shared => "shared",
            Self::Local => "local",
        }
    }
}
