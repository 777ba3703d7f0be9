//! The keys and values of all layers.

use kernels::cpu::PagedKv;

use crate::error::{Error, Result};

/// Keys and values, `[pages · page_size, kv_heads · head_dim]` for each layer, in single precision.
#[derive(Debug)]
pub struct KvStore {
    layers: Vec<Layer>,
    page_size: usize,
    token_len: usize,
}

#[derive(Debug)]
struct Layer {
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl KvStore {
    /// How an element is kept.
    pub const ELEMENT: &str = "float32";

    /// A store of `pages` pages of `page_size` tokens; a token has `token_len` key and as many value elements in each layer.
    ///
    /// Memory is reserved, not touched: pages that are never used cost address space only.
    pub fn new(layers: usize, pages: u32, page_size: usize, token_len: usize) -> Result<Self> {
        let too_large = || {
            Error::Setting(format!(
                "{pages} pages of {page_size} tokens of keys and values do not fit into memory (lower --max-total-tokens)"
            ))
        };
        let elements = (pages as usize)
            .checked_mul(page_size)
            .and_then(|slots| slots.checked_mul(token_len))
            .ok_or_else(too_large)?;
        // Ask whether all of it can be had before taking it: a failed allocation could not be reported.
        let all = elements.checked_mul(2 * layers).ok_or_else(too_large)?;
        Vec::<f32>::new().try_reserve_exact(all).map_err(|_| too_large())?;
        let zeros = || vec![0.0; elements];
        let layers = (0..layers).map(|_| Layer { keys: zeros(), values: zeros() }).collect();
        Ok(Self { layers, page_size, token_len })
    }

    /// Bytes of all keys and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.layers.iter().map(|layer| size_of_val(&*layer.keys) + size_of_val(&*layer.values)).sum()
    }

    /// Elements of a token's keys in one layer; its values are as many.
    #[must_use]
    pub fn token_len(&self) -> usize {
        self.token_len
    }

    /// The number of layers.
    #[must_use]
    pub fn layers(&self) -> usize {
        self.layers.len()
    }

    /// Stores the key and value of one token in slot `slot` of `layer`.
    ///
    /// # Panics
    ///
    /// When there is no such slot or layer, or a vector has another length.
    pub fn write(&mut self, layer: usize, slot: usize, key: &[f32], value: &[f32]) {
        let range = slot * self.token_len..(slot + 1) * self.token_len;
        let layer = &mut self.layers[layer];
        layer.keys[range.clone()].copy_from_slice(key);
        layer.values[range].copy_from_slice(value);
    }

    /// What attention reads of `layer`.
    ///
    /// # Panics
    ///
    /// When there is no such layer.
    #[must_use]
    pub fn layer(&self, layer: usize) -> PagedKv<'_> {
        let Layer { keys, values } = &self.layers[layer];
        PagedKv { keys, values, page_size: self.page_size }
    }
}
