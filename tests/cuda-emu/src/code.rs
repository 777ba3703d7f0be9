//! Result codes of the driver API.

use std::ffi::CStr;

/// A result code, as every function of the driver API returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Code(i32);

/// What the driver's functions do when they do not succeed.
pub(crate) type Answer<T = ()> = Result<T, Code>;

macro_rules! codes {
    ($($constant:ident = $value:literal $name:literal $meaning:literal,)*) => {
        impl Code {
            $(#[doc = $meaning] pub(crate) const $constant: Self = Self($value);)*

            /// The code's name and meaning.
            pub(crate) fn texts(self) -> Option<(&'static CStr, &'static CStr)> {
                match self.0 {
                    $($value => Some((
                        const { c_str(concat!("CUDA_", $name, "\0")) },
                        const { c_str(concat!($meaning, "\0")) },
                    )),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    SUCCESS = 0 "SUCCESS" "no error",
    INVALID_VALUE = 1 "ERROR_INVALID_VALUE" "invalid argument",
    OUT_OF_MEMORY = 2 "ERROR_OUT_OF_MEMORY" "out of memory",
    NOT_INITIALIZED = 3 "ERROR_NOT_INITIALIZED" "initialization error",
    INVALID_DEVICE = 101 "ERROR_INVALID_DEVICE" "invalid device ordinal",
    INVALID_CONTEXT = 201 "ERROR_INVALID_CONTEXT" "invalid device context",
    NO_BINARY_FOR_GPU = 209 "ERROR_NO_BINARY_FOR_GPU" "no kernel image is available for execution on the device",
    INVALID_PTX = 218 "ERROR_INVALID_PTX" "a PTX JIT compilation failed",
    INVALID_HANDLE = 400 "ERROR_INVALID_HANDLE" "invalid resource handle",
    NOT_FOUND = 500 "ERROR_NOT_FOUND" "named symbol not found",
    ILLEGAL_ADDRESS = 700 "ERROR_ILLEGAL_ADDRESS" "an illegal memory access was encountered",
    LAUNCH_TIMEOUT = 702 "ERROR_LAUNCH_TIMEOUT" "the launch timed out and was terminated",
    MISALIGNED_ADDRESS = 716 "ERROR_MISALIGNED_ADDRESS" "misaligned address",
    LAUNCH_FAILED = 719 "ERROR_LAUNCH_FAILED" "unspecified launch failure",
}

impl From<Answer> for Code {
    fn from(answer: Answer) -> Self {
        answer.err().unwrap_or(Self::SUCCESS)
    }
}

const fn c_str(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a text with a NUL inside"),
    }
}
