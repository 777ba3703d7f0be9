use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
struct Args {
    #[config(nested)]
    inner: usize,
}

fn main() {}
