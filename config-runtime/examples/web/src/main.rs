//! Serves until it is killed: `GREET_ADMIN_TOKEN=t cargo run -p web-example -- --config greet.toml`.

use std::error::Error;

use kitbag::ConfigNamespaces;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use web_example::{Args, Service};

fn main() -> Result<(), Box<dyn Error>> {
    // A reload reads the loader's sources again.
    let (cfg, loader) = Args::load_for_reload()?;
    Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let service = Service::start(&cfg, &loader)?;
        let listener = TcpListener::bind(cfg.pin().http().listen()).await?;
        println!("http://{}/", listener.local_addr()?);
        axum::serve(listener, service.router()).await?;
        Ok(())
    })
}
