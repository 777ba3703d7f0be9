//! User code inside a commit: a panic there is an error like any other.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `act`; a panic becomes its message.
///
/// Whatever `act` was working on is thrown away by the caller, so nothing half-done is seen afterwards.
pub(crate) fn catch<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|payload| format!("it panicked: {}", message(&*payload)))
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
