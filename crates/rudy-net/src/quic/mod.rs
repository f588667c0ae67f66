//! QUIC: an endpoint for each worker, whose socket all of its connections share.

mod connection;
mod deliveries;
mod drops;
mod endpoint;
mod group;
mod neighbour;
mod relay;
mod send_budget;
mod socket;

pub(crate) use self::connection::{Quic, STREAMS_AT_FIRST};
pub(crate) use self::endpoint::Endpoint;
pub(crate) use self::group::Group;
pub(crate) use self::relay::Relay;
pub(crate) use self::send_budget::SendBudget;
