//! Views narrow a context to a role's namespaces.

use config_tests::{Exec, Schedule, ScheduleBag, Service, ServiceBag};
use kitbag::{ConfigNamespaces, ConfigRole, Everything, Role};

/// An engine.
#[derive(ConfigNamespaces)]
struct Args {
    #[config(nested)]
    schedule: Schedule,
    #[config(nested)]
    exec: Exec,
    #[config(nested)]
    service: Service,
}

/// Declared in another crate than the namespaces it reads.
#[derive(ConfigRole)]
#[config(reads(ScheduleBag, ServiceBag))]
struct Scheduler;

fn chunk_of(pin: &ArgsPin<Scheduler>) -> usize {
    *pin.schedule().chunk()
}

#[test]
fn a_role_reads_its_namespaces_and_sees_changes() {
    let cfg = Args::for_test(|_| {});
    let view = cfg.view::<Scheduler>();
    assert_eq!((chunk_of(&view.pin()), view.pin().service().title().as_str()), (512, "thumbs"));
    let guard = cfg.override_with("x", |o| o.schedule().chunk(3)).unwrap();
    assert_eq!(chunk_of(&view.clone().pin()), 3);
    drop(guard);
    assert_eq!((Scheduler::NAME, Everything::NAME), ("Scheduler", "everything"));
    assert_eq!(cfg.view::<Everything>().pin().exec().threads(), 2);
}
