//! What is watched while a kernel runs.

pub(crate) mod bank;
pub(crate) mod blocks;
pub(crate) mod race;
