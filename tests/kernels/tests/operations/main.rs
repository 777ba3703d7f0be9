//! The operations beside attention and matrix products, on the emulated device.

mod argmax;
mod elementwise;
mod experts;
mod gated_delta;
mod gather;
mod many;
mod merging;
mod norm;
mod pages;
mod rope;
mod routing;
mod sampling;
