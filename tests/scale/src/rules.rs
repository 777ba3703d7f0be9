//! Rules over several settings. Identities of ranks are checked where a topology is built.

/// Attention parallelism splits tensor parallelism without a rest.
pub(crate) fn attention_divides(tp: usize, attn_dp: usize, attn_cp: usize) -> Result<(), String> {
    divides(tp, attn_dp, attn_cp).ok_or_else(|| "attention widths do not divide the tensor-parallel width".to_owned())
}

/// Expert parallelism splits tensor parallelism without a rest.
pub(crate) fn experts_divide(tp: usize, ep: usize, moe_dp: usize) -> Result<(), String> {
    divides(tp, ep, moe_dp).ok_or_else(|| "expert widths do not divide the tensor-parallel width".to_owned())
}

fn divides(tp: usize, first: usize, second: usize) -> Option<()> {
    first.checked_mul(second).is_some_and(|parts| tp.is_multiple_of(parts)).then_some(())
}

/// Requests are spread over replicas or over attention ranks.
pub(crate) fn one_data_parallelism(dp: usize, attn_dp: usize) -> Result<(), String> {
    if dp == 1 || attn_dp == 1 {
        Ok(())
    } else {
        Err("replicas and attention data parallelism exclude each other".to_owned())
    }
}

/// A node is one of the nodes.
pub(crate) fn node_is_known(rank: usize, nodes: usize) -> Result<(), String> {
    if rank < nodes { Ok(()) } else { Err("no such node".to_owned()) }
}
