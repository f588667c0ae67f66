//! The engines that a test goes through.

use std::num::NonZeroUsize;

use rudy_net::engine::Model;

/// Every engine, `pool` with so few threads that connections have to wait for one.
#[must_use]
pub fn engines() -> [Model; 6] {
    Model::all(NonZeroUsize::new(2).expect("two are not none"))
}
