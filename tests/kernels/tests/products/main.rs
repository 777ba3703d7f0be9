//! Matrix products on the emulated device.

mod dense;
mod grouped;
mod quantised;
