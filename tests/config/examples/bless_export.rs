//! Writes the documents that `tests/export.rs` expects: `cargo run -p config-tests --example bless_export`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export");
    for (name, text) in config_tests::exported::documents() {
        std::fs::write(folder.join(name), text)?;
        println!("wrote {name}");
    }
    Ok(())
}
