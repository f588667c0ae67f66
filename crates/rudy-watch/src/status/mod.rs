//! What `rudy status` and the dashboard show: the active requests, the connections, and the busiest clients, paths and hosts.

mod activity;
mod filter;
mod handler;
mod sketch;
mod top;

pub use self::activity::{Activity, Selection};
pub use self::handler::StatusTable;

/// The maximum number of active requests in a report: one of each has less than a kilobyte.
pub const LIMIT_MAX: usize = 50_000;
