//! QUIC: an endpoint for each worker, whose socket all of its connections share.

mod connection;
mod endpoint;

pub(crate) use self::connection::{NO_ERROR, Quic};
pub(crate) use self::endpoint::Endpoint;
