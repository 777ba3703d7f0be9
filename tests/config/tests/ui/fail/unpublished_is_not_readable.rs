use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
struct Args {
    /// Worker threads.
    #[config(ns = "pool", default = 2)]
    workers: usize,
}

fn main() -> Result<(), kitbag::Errors> {
    let record = Args::loader().record()?;
    let _ = record.pool().workers();
    let resolved = Args::loader().resolve()?;
    let _ = resolved.pin();
    Ok(())
}
