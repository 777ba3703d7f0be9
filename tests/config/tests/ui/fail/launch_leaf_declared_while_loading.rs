use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
struct Args {
    /// Worker threads.
    #[config(ns = "pool", default = 2)]
    workers: usize,
}

fn main() -> Result<(), kitbag::Errors> {
    let _ = Args::loader().resolve()?.declare("checkpoint", |o| { o.pool().workers(8); })?;
    Ok(())
}
