//! The draft model's settings, made from the target's.

use kitbag::{Context, Errors};

use crate::Engine;

/// What the draft reads: the target's settings, shadowed by what `spec` says of the draft.
///
/// # Errors
/// The draft's settings do not fit the target's.
pub fn draft_of(target: &Context<Engine>) -> Result<Context<Engine>, Errors> {
    let now = target.pin();
    target.child("draft", |o| {
        if let Some(format) = now.spec().draft_load_format() {
            o.model().load_format(format);
        }
        if let Some(dtype) = now.spec().draft_kv_dtype() {
            o.model().kv_dtype(dtype);
        }
    })
}
