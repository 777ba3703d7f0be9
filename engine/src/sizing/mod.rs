//! How large is what? The numeric rules behind settings that a user leaves to the engine.
//!
//! Pure functions over plain values, without a setting, a device or a model: [`tiers`] and [`memory_fraction`] turn the
//! size of a device into defaults, [`kv_budget`] turns free memory into tokens and requests, [`pages`] and
//! [`speculation`] say what one step of one request may take, [`prefill_budget`] what a prefill may take,
//! [`capture_sizes`] which batches are prepared in advance, [`warm_up`] which products are, and [`priority`] who goes
//! first. [`pool_caps`] divides memory between kinds of layers, [`host_experts`] experts between device and host, and
//! [`canary`] says what a check of keys and values needs.
//!
//! Most of these functions are called by nothing yet: the settings that will are named in each module. They are here,
//! tested, so that a rule of the schema is a call. [`crate::memory`] calls [`kv_budget`], [`crate::tuning`] [`warm_up`], and
//! captured steps have the sizes of [`capture_sizes`].
//!
//! Sizes of memory are bytes; lengths and widths are tokens.

pub mod canary;
pub mod capture_sizes;
pub mod host_experts;
pub mod kv_budget;
pub mod memory_fraction;
pub mod pages;
pub mod pool_caps;
pub mod prefill_budget;
pub mod priority;
pub mod speculation;
pub mod tiers;
pub mod warm_up;

/// Bytes of a mebibyte.
pub const MIB: u64 = 1 << 20;
/// Bytes of a gibibyte.
pub const GIB: u64 = 1 << 30;
