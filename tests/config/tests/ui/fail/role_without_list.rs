use kitbag::ConfigRole;

#[derive(ConfigRole)]
struct Worker;

fn main() {}
