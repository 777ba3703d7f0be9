//! Incidents 54, 55 and 56: values assigned from outside, and state that is no setting put beside the settings.

use config_incidents::Engine;
use kitbag::ConfigNamespaces;

fn main() {
    let mut now = Engine::for_test(|_| {}).pin();
    now.schedule().page_size = 64;
    now.schedule().page_size() = 64;
    now.parsed_model = true;
}
