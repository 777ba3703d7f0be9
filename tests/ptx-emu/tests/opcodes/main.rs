//! One instruction at a time: every one that the emulator accepts occurs in a test with results from the PTX manual.

mod arithmetic;
mod effects;
mod families;
#[path = "../support/mod.rs"]
mod support;
mod tensor;

/// Runs all tests of this file's modules and looks at what they have loaded.
#[test]
fn every_instruction_has_a_test() {
    arithmetic::all();
    effects::all();
    families::all();
    tensor::all();
    let tested = support::mnemonics();
    let missing: Vec<_> = ptx_emu::instructions().into_iter().filter(|name| !tested.contains(*name)).collect();
    assert!(missing.is_empty(), "{} instructions without a test: {missing:?}", missing.len());
}
