use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
struct Args {
    /// Length of the context.
    #[config(ns = "model", default = 2048, load_time)]
    context_length: usize,
}

fn main() -> Result<(), kitbag::Errors> {
    let resolved = Args::loader().resolve()?;
    let _cfg = resolved.publish();
    let _ = resolved.declare("too late", |o| { o.model().context_length(8); });
    Ok(())
}
