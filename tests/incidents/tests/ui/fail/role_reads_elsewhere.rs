//! Incidents 48 and D14: a role reads what it has no business with, and a role that is only a name.

use config_incidents::{Engine, ServingBag};
use kitbag::{ConfigNamespaces, ConfigRole};

#[derive(ConfigRole)]
#[config(reads(ServingBag))]
struct Tokenizer;

fn main() {
    let cfg = Engine::for_test(|_| {});
    let _ = cfg.view::<Tokenizer>().pin().parallel().tp();
    let _ = cfg.view::<&str>();
}
