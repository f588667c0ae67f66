//! The engines for tests that run on each of them.

use std::num::NonZeroUsize;

use rudy_net::engine::Model;

/// Returns all engines. `pool` has few threads, so that connections must wait for one.
#[must_use]
pub fn engines() -> [Model; 6] {
    Model::all(NonZeroUsize::new(2).expect("two is not zero"))
}
