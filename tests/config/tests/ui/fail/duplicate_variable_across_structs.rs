use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
#[config(ns = "draft")]
struct Draft {
    /// Size.
    #[config(default = 1)]
    size: usize,
}

#[derive(ConfigNamespaces)]
#[config(ns = "target")]
struct Target {
    /// Width.
    #[config(default = 1, env = "APP_DRAFT_SIZE")]
    width: usize,
}

#[derive(ConfigNamespaces)]
#[config(env = "APP")]
struct Args {
    #[config(nested)]
    draft: Draft,
    #[config(nested)]
    target: Target,
}

#[derive(ConfigNamespaces)]
#[config(ns = "third")]
struct Third {
    /// Height.
    #[config(default = 1, env = "OTHER_PROFILE")]
    height: usize,
}

#[derive(ConfigNamespaces)]
#[config(env = "OTHER")]
struct Other {
    #[config(nested)]
    target: Target,
    #[config(nested)]
    third: Third,
}

#[derive(ConfigNamespaces)]
#[config(ns = "a")]
struct A {
    /// Size.
    #[config(default = 1)]
    b_c: usize,
}

#[derive(ConfigNamespaces)]
#[config(ns = "a_b")]
struct AB {
    /// Size.
    #[config(default = 1)]
    c: usize,
}

#[derive(ConfigNamespaces)]
struct Alike {
    #[config(nested)]
    a: A,
    #[config(nested)]
    a_b: AB,
}

fn main() {}
