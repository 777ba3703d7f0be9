use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
struct Args {
    /// Its flag is taken.
    #[config(ns = "gpu", default = false)]
    profile: bool,
    /// Its namespace cannot be told from the profiles of a file.
    #[config(ns = "profile.gpu", default = 1)]
    depth: usize,
    /// Its namespace is a key of files.
    #[config(ns = "include", default = 1)]
    most: usize,
    /// Neither is at the top.
    #[config(ns = "exec.profile", default = 1)]
    include: usize,
}

fn main() {}
