//! Builds parameter buffers.

/// A parameter buffer that grows by one value after another, each at its natural alignment.
///
/// This is the layout of a kernel whose parameters are plain numbers and pointers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params {
    bytes: Vec<u8>,
}

impl Params {
    /// An empty buffer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A device address or another 64-bit integer.
    #[must_use]
    pub fn u64(self, value: u64) -> Self {
        self.push(&value.to_le_bytes())
    }

    /// A 32-bit unsigned integer.
    #[must_use]
    pub fn u32(self, value: u32) -> Self {
        self.push(&value.to_le_bytes())
    }

    /// A 32-bit signed integer.
    #[must_use]
    pub fn i32(self, value: i32) -> Self {
        self.push(&value.to_le_bytes())
    }

    /// A 32-bit float.
    #[must_use]
    pub fn f32(self, value: f32) -> Self {
        self.push(&value.to_le_bytes())
    }

    /// The buffer.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn push(mut self, value: &[u8]) -> Self {
        self.bytes.resize(self.bytes.len().next_multiple_of(value.len()), 0);
        self.bytes.extend_from_slice(value);
        self
    }
}
