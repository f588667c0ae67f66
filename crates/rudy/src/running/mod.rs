//! Commands that ask a running server through its admin socket, or signal it.

pub(crate) mod cache;
pub(crate) mod certificates;
pub(crate) mod limits;
pub(crate) mod metrics;
pub(crate) mod reload;
pub(crate) mod status;
pub(crate) mod upstreams;
