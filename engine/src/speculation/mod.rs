//! How far is a guess verified?
//!
//! A draft guesses several tokens and says how sure it is of each. Verifying all of them costs time that other requests
//! would have used; [`step_costs`] says how much, and [`verify_planner`] which guesses are worth it.
//!
//! Functions and values without an engine. Nothing calls them yet: there is no speculative decoding. The settings that
//! will are named in each module. [`crate::sizing::speculation`] says how long drafts are and what they allocate.

pub mod step_costs;
pub mod verify_planner;
