use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
#[config(enw = "APP")]
struct Args {
    /// Port.
    #[config(ns = "http", defalt = 80)]
    port: u16,
    /// Host.
    #[config(ns = "http", help = "A host.")]
    host: String,
}

fn main() {
    // Reads of the faulty leaf do not fail as well.
    let _ = Args::for_test(|_| {}).pin().http().port();
}
