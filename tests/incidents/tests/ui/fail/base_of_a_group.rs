//! Incident 34: a decision reads the base of a group of settings and misses what overrides it.

use config_incidents::{Attention, Engine};
use kitbag::ConfigNamespaces;

fn main() {
    let now = Engine::for_test(|_| {}).pin();
    let _ = now.exec().attention().base() == Attention::Fa3;
}
