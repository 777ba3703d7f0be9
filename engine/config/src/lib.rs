//! The settings of the inference engine: one file per namespace, one field per setting.
//!
//! A setting is called by its path (`schedule.page_size`) in files, by its name (`--page-size`) on the command line, and by prefix,
//! path and name (`ENGINE_SCHEDULE_PAGE_SIZE`) in the environment.

pub mod exec;
pub mod model;
pub mod sampling;
pub mod schedule;

use kitbag::ConfigNamespaces;

/// Settings of the inference engine.
#[derive(ConfigNamespaces)]
#[config(env = "ENGINE")]
pub struct Settings {
    /// Which model, and how it is read.
    #[config(nested)]
    pub model: model::Model,
    /// How requests share the memory for keys and values.
    #[config(nested)]
    pub schedule: schedule::Schedule,
    /// What the computation runs on.
    #[config(nested)]
    pub exec: exec::Exec,
    /// How tokens are chosen.
    #[config(nested)]
    pub sampling: sampling::Sampling,
}
