//! What streams and graphs have the device do.

use ptx_emu::LaunchConfig;

use crate::host::HostRange;

/// One thing for the device to do.
#[derive(Clone)]
pub(crate) enum Work {
    /// Run a kernel.
    Launch { function: usize, config: LaunchConfig, parameters: Vec<u8> },
    /// Copy to the device.
    Write { to: u64, from: Source },
    /// Copy from the device.
    Read { to: HostRange, from: u64 },
    /// Copy within the device.
    Copy { to: u64, from: u64, bytes: usize },
    /// Repeat a pattern.
    Fill { to: u64, pattern: Vec<u8>, count: usize },
    /// Give memory back.
    Free { address: u64 },
    /// Note the time for an event.
    Mark { event: usize },
}

/// Where a copy to the device gets its bytes.
#[derive(Clone)]
pub(crate) enum Source {
    /// They were read when the copy was submitted, as the driver does with memory that is not pinned.
    Bytes(Vec<u8>),
    /// They are read when the copy is done.
    Host(HostRange),
}

impl Source {
    /// Bytes of the copy.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Host(range) => range.len(),
        }
    }
}
