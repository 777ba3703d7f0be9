//! What is in a model? Told from its files, without loading it.

use std::collections::BTreeMap;

use crate::weights::{ElementType, Weights};

/// Tensors of one kind: those whose names differ in numbers only, and that are stored alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorKind {
    /// Their name, with `*` for every number.
    pub name: String,
    /// How their elements are stored.
    pub element: ElementType,
    /// How many there are.
    pub tensors: usize,
    /// Elements of all of them.
    pub elements: usize,
    /// Bytes of all of them in the files.
    pub bytes: usize,
}

/// Groups the tensors of a checkpoint by kind, in the order of their names.
#[must_use]
pub fn tensor_kinds(weights: &Weights) -> Vec<TensorKind> {
    let mut kinds = BTreeMap::new();
    for (name, tensor) in weights.iter() {
        let (name, stored) = (kind_of(name), tensor.element.name());
        let kind = kinds.entry((name.clone(), stored)).or_insert(TensorKind {
            name,
            element: tensor.element,
            tensors: 0,
            elements: 0,
            bytes: 0,
        });
        kind.tensors += 1;
        kind.elements += tensor.shape.iter().product::<usize>();
        kind.bytes += tensor.stored_bytes();
    }
    kinds.into_values().collect()
}

/// A name with `*` for every part that is a number.
fn kind_of(name: &str) -> String {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<_> = name.split('.').map(|part| if is_number(part) { "*" } else { part }).collect();
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::kind_of;

    #[test]
    fn numbers_of_layers_and_experts_make_no_kinds() {
        assert_eq!(
            kind_of("model.layers.12.mlp.experts.3.up_proj.weight"),
            "model.layers.*.mlp.experts.*.up_proj.weight"
        );
        assert_eq!(kind_of("blk.0.attn_q.weight"), "blk.*.attn_q.weight");
        assert_eq!(kind_of("model.norm2.weight"), "model.norm2.weight");
        assert_eq!(kind_of("a..b"), "a..b");
    }
}
