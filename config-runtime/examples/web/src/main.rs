//! Serves until it is killed: `GREET_ADMIN_TOKEN=t cargo run -p web-example -- --config greet.toml`.

use std::error::Error;

use kitbag::ConfigNamespaces;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use web_example::{Args, Service};

fn main() -> Result<(), Box<dyn Error>> {
    // The loader is kept: a reload reads the same sources again.
    let loader = Args::loader().env(std::env::vars_os()).args(std::env::args_os());
    let cfg = match loader.load() {
        Err(errors) if errors.is_help() => {
            print!("{errors}");
            return Ok(());
        }
        loaded => loaded?,
    };
    Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let service = Service::start(&cfg, &loader)?;
        let listener = TcpListener::bind(cfg.pin().http().listen()).await?;
        println!("http://{}/", listener.local_addr()?);
        axum::serve(listener, service.router()).await?;
        Ok(())
    })
}
