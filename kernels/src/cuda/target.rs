//! What kernels are compiled for.

use std::fmt;
use std::str::FromStr;

/// What to compile for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Machine code.
    Cubin(Architecture),
    /// PTX of the lowest level that the kernels are written for, `sm_80`.
    Ptx,
}

/// An architecture of GPUs, by the compute capability of its devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Architecture {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Whether code may use what only this architecture has, as that for `sm_90a`. Such code runs on no other.
    pub specific: bool,
}

impl Architecture {
    /// That of devices with a compute capability, without what only they have.
    #[must_use]
    pub fn of(major: u32, minor: u32) -> Self {
        Self { major, minor, specific: false }
    }

    /// The number that compilers give it: 90 for 9.0.
    pub(super) fn number(self) -> u32 {
        10 * self.major + self.minor
    }

    /// Whether its machine code runs on a device of a compute capability: one of the same major number, and no older.
    #[must_use]
    pub fn runs_on(self, major: u32, minor: u32) -> bool {
        let is_close = if self.specific { self.minor == minor } else { self.minor <= minor };
        self.major == major && is_close
    }
}

impl Target {
    /// The compiler's name for it.
    pub(super) fn option(self) -> String {
        match self {
            Self::Cubin(architecture) => format!("--gpu-architecture={architecture}"),
            Self::Ptx => "--gpu-architecture=compute_80".to_owned(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cubin(architecture) => architecture.fmt(f),
            Self::Ptx => f.write_str("ptx"),
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.number(), if self.specific { "a" } else { "" })
    }
}

impl FromStr for Target {
    type Err = String;

    /// `sm_90a`, or `90a` for short; `ptx`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "ptx" {
            return Ok(Self::Ptx);
        }
        let wrong = || format!("`{text}` is no target; they are called sm_80, sm_90a and the like, and ptx");
        let name = text.strip_prefix("sm_").unwrap_or(text);
        let digits = name.strip_suffix('a').unwrap_or(name);
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong());
        }
        let number: u32 = digits.parse().map_err(|_| wrong())?;
        let specific = digits.len() < name.len();
        Ok(Self::Cubin(Architecture { major: number / 10, minor: number % 10, specific }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "ptx"] {
            assert_eq!(name.parse::<Target>().map(|target| target.to_string()), Ok(name.to_owned()));
        }
        assert_eq!("90a".parse::<Target>(), "sm_90a".parse());
        for wrong in ["", "sm_", "a", "sm_9x", "compute_80", "+90", "sm_90f"] {
            assert!(wrong.parse::<Target>().is_err(), "{wrong}");
        }
    }

    /// By the compatibility rules of NVIDIA's programming guide.
    #[test]
    fn machine_code_runs_on_its_major_number_from_its_minor_on() {
        let runs = |name: &str, major, minor| match name.parse() {
            Ok(Target::Cubin(architecture)) => architecture.runs_on(major, minor),
            _ => panic!("{name}"),
        };
        assert!(runs("sm_80", 8, 0) && runs("sm_80", 8, 6) && runs("sm_80", 8, 9));
        assert!(!runs("sm_89", 8, 6) && !runs("sm_80", 9, 0) && !runs("sm_90", 8, 9));
        assert!(runs("sm_90a", 9, 0) && !runs("sm_90a", 10, 0) && !runs("sm_100a", 10, 3) && runs("sm_100", 10, 3));
    }
}
