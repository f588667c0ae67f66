//! The engines for tests that run on each of them.

use std::num::NonZeroUsize;

use rudy_net::engine::Model;

use crate::program::is_long;

/// Returns the engines that tests run on: `percore`, and with the long checks all of them.
pub fn engines() -> Vec<Model> {
    if is_long() { all_engines().into() } else { vec![Model::PerCore] }
}

/// Returns all engines. `pool` has few threads, so that connections must wait for one.
pub fn all_engines() -> [Model; 6] {
    Model::all(NonZeroUsize::new(2).expect("two is not zero"))
}
