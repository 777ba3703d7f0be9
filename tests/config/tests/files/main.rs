//! Files: formats, includes, profiles, and everything that can be wrong with them.

mod damage;
mod faults;
mod formats;
mod service;
mod several;
