use kitbag::ConfigChoice;

#[derive(Clone, Copy, Debug, PartialEq, ConfigChoice)]
struct Device;

fn main() {}
