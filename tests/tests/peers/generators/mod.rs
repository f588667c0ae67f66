//! `rudy bench` and wrk, against the same servers: the figures of both stand beside one another in what
//! `cargo test -p rudy-tests --test peers generators -- --nocapture` prints. Ours must be what arithmetic says, or what a
//! server's documentation does. Of wrk's only that is held against anything which wrk claims.

mod figures;
mod httpbin;
mod known;
#[path = "../../../../crates/rudy-load/tests/bench/server.rs"]
#[expect(dead_code, reason = "the generator's own tests use the rest")]
mod server;
