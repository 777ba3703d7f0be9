//! What runs next, and how much of it?
//!
//! Pure functions over plain values, without a queue, a clock or a model: [`prefill_delayer`] lets groups of devices
//! prefill together, [`free_slots`] holds prefills until several can go at once, and [`chunk_sizer`] cuts a prompt into
//! pieces that take equally long.
//!
//! Nothing calls these functions yet: the command runs one request. The settings that will are named in each module.

pub mod chunk_sizer;
pub mod free_slots;
pub mod prefill_delayer;
