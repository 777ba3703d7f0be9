//! Incidents 13, 28 and D6: a name, a choice or a type that the schema does not have.

use config_incidents::{Engine, LoadFormat};
use kitbag::ConfigNamespaces;

fn main() {
    let cfg = Engine::for_test(|o| { o.model().load_format(LoadFormat::Dumy); });
    let _ = cfg.child("draft", |o| { o.model().load_format("dummy"); });
    let _ = cfg.override_with("as in the field", |o| { o.schedule().chunk("banana"); });
    let _ = cfg.pin().schedule().pagesize();
    let _ = Engine::keys().schedule.chunk_size;
}
