//! Result codes of the driver API.

use std::ffi::CStr;

/// A result code, as every function of the driver API returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Code(i32);

impl Code {
    /// That of a number, which tests choose.
    pub(crate) const fn of(number: i32) -> Self {
        Self(number)
    }
}

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
    ILLEGAL_STATE = 401 "ERROR_ILLEGAL_STATE" "the operation cannot be performed in the present state",
    NOT_FOUND = 500 "ERROR_NOT_FOUND" "named symbol not found",
    NOT_READY = 600 "ERROR_NOT_READY" "device not ready",
    ILLEGAL_ADDRESS = 700 "ERROR_ILLEGAL_ADDRESS" "an illegal memory access was encountered",
    LAUNCH_TIMEOUT = 702 "ERROR_LAUNCH_TIMEOUT" "the launch timed out and was terminated",
    MISALIGNED_ADDRESS = 716 "ERROR_MISALIGNED_ADDRESS" "misaligned address",
    LAUNCH_FAILED = 719 "ERROR_LAUNCH_FAILED" "unspecified launch failure",
    NOT_PERMITTED = 800 "ERROR_NOT_PERMITTED" "operation not permitted",
    NOT_SUPPORTED = 801 "ERROR_NOT_SUPPORTED" "operation not supported",
    CAPTURE_UNSUPPORTED = 900 "ERROR_STREAM_CAPTURE_UNSUPPORTED" "operation not permitted when stream is capturing",
    CAPTURE_INVALIDATED = 901 "ERROR_STREAM_CAPTURE_INVALIDATED"
        "operation failed due to a previous error during capture",
    CAPTURE_MERGE = 902 "ERROR_STREAM_CAPTURE_MERGE" "operation would merge separate capture sequences",
    CAPTURE_UNMATCHED = 903 "ERROR_STREAM_CAPTURE_UNMATCHED" "capture was not ended in the stream in which it began",
    CAPTURE_UNJOINED = 904 "ERROR_STREAM_CAPTURE_UNJOINED" "capturing stream has unjoined work",
    CAPTURE_ISOLATION = 905 "ERROR_STREAM_CAPTURE_ISOLATION" "dependency created on uncaptured work in another stream",
    CAPTURE_IMPLICIT = 906 "ERROR_STREAM_CAPTURE_IMPLICIT"
        "operation would make the legacy stream depend on a capturing blocking stream",
    CAPTURED_EVENT = 907 "ERROR_CAPTURED_EVENT" "operation not permitted on an event last recorded in a capturing stream",
    CAPTURE_WRONG_THREAD = 908 "ERROR_STREAM_CAPTURE_WRONG_THREAD"
        "attempt to end a thread's capture sequence from another thread",
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
