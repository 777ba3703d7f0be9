//! Incident 29: two rules for one setting, of which the later one silently wins.

use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
#[config(derived(model.dtype: u32 = from_architecture(model.layers)))]
struct Args {
    /// Layers.
    #[config(ns = "model", default = 2)]
    layers: u32,
    /// Bits of a number.
    #[config(ns = "model", auto = from_architecture(model.layers))]
    dtype: u32,
    /// Bits of a number in the cache.
    #[config(ns = "model", auto = from_architecture(model.layers), auto = from_family(model.layers))]
    kv_dtype: u32,
}

fn from_architecture(layers: u32) -> u32 {
    layers
}

fn from_family(layers: u32) -> u32 {
    layers
}

fn main() {}
