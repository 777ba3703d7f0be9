//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use kitbag::ConfigNamespaces;

use crate::choices::RlOnPolicyTarget;

/// Reproducible results.
#[derive(ConfigNamespaces)]
#[config(ns = "exec.deterministic")]
pub struct ExecDeterministic {
    /// Batch-invariant kernels; forces several backend choices.
    #[config(default = false)]
    enable_deterministic_inference: bool,
    /// Match numerics of a given training system.
    rl_on_policy_target: Option<RlOnPolicyTarget>,
}
