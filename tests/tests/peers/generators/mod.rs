//! Compares `rudy bench` and wrk against the same servers. `cargo xtask quick -- generators::
//! -- --nocapture` prints the results of both. The results of `rudy bench` must match the known behavior of
//! the server. Those of wrk are checked only as far as wrk claims them.

mod httpbin;
mod known;
mod metrics;
#[path = "../../../../crates/rudy-load/tests/bench/server.rs"]
#[expect(dead_code, reason = "the generator's own tests use the rest")]
mod server;
