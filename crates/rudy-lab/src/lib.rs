//! Experiments: servers side by side under the same load, in rounds, with what is needed to say whether one is better.
//!
//! A [`plan`] says which subjects, which loads and what is to be compared. A run of it leaves a folder of [records](record),
//! a line after each single run, so that what was measured is never lost with what was not.

pub mod plan;
pub mod record;
