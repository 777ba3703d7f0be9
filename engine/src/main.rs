//! The `engine` command.
fn main() {}
