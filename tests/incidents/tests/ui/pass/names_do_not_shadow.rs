//! Incident 52: an accessor shadowed by a local name, or imported under another one.

use config_incidents::{Engine as Settings, ScheduleBag as Pool};
use kitbag::{ConfigNamespaces as _, Context as Published};

fn page_size(pool: &Pool) -> usize {
    let page_size = 7;
    let from_settings = pool.page_size();
    assert_ne!(page_size, from_settings);
    from_settings
}

fn main() {
    let schedule: Published<Settings> = Settings::for_test(|o| {
        o.schedule().page_size(64);
    });
    assert_eq!(page_size(schedule.pin().schedule()), 64);
}
