//! What `rudy status` and the dashboard show: the active requests, the connections, and the busiest clients, paths and hosts.

mod activity;
mod filter;
mod sketch;
mod top;

pub(crate) use self::activity::{Activity, Selection};

/// The maximum number of active requests in a report: one of each has less than a kilobyte.
pub(crate) const LIMIT_MAX: usize = 50_000;
