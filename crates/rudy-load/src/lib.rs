//! The commands that send requests: single requests with timings, load at a rate, and many long-lived connections.
//!
//! `rudy-request` is the client. Each thread has its own loop over an `epoll`, because the overhead of a generator becomes part of its
//! results.

pub mod bench;
mod body;
mod descriptor_limit;
pub mod flood;
pub mod get;
mod http_load;
mod mix;
mod output_file;
mod poller;
pub mod tls;

use rudy_units as units;

pub use http_load::http_load;
pub use mix::{Mix, WEIGHTS_MAX, WeightError};
