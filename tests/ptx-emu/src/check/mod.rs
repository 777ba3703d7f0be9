//! What is watched while a kernel runs.

pub(crate) mod bank;
pub(crate) mod race;
