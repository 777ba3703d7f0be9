//! Memory of the program that work reads or writes after the call that submitted it has returned.

use std::ffi::c_void;

/// A range of the program's memory.
#[derive(Clone, Copy)]
pub(crate) struct HostRange {
    /// With exposed provenance: a pointer would tie the driver to one thread.
    address: usize,
    bytes: usize,
    /// Whether the driver itself has pinned it, and so can say whether it is still there.
    pub(crate) is_pinned: bool,
}

impl HostRange {
    /// # Safety
    ///
    /// Until the work that it is for is done, every time that is done, or, if `is_pinned`, while the driver has not given
    /// the memory back: `pointer` is valid for reads of `bytes` bytes if the work reads them, else for writes.
    pub(crate) unsafe fn new(pointer: *mut c_void, bytes: usize, is_pinned: bool) -> Self {
        Self { address: pointer.expose_provenance(), bytes, is_pinned }
    }

    pub(crate) fn address(&self) -> usize {
        self.address
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// What is there now.
    pub(crate) fn to_vec(self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes];
        // SAFETY: the contract of `new`; the vector is as long.
        unsafe {
            std::ptr::with_exposed_provenance::<u8>(self.address)
                .copy_to_nonoverlapping(bytes.as_mut_ptr(), self.bytes);
        };
        bytes
    }

    /// Puts bytes there, as many as it has. What was there may be uninitialised.
    pub(crate) fn fill_from(self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.bytes);
        // SAFETY: the contract of `new`; the slice is as long.
        unsafe {
            std::ptr::with_exposed_provenance_mut::<u8>(self.address)
                .copy_from_nonoverlapping(bytes.as_ptr(), self.bytes);
        };
    }
}
