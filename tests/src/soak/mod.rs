//! A long run of a server under clients and applications that fail at random. Every complete response has to be correct, and the
//! server must not leak resources.
//!
//! [`run()`] starts Rudy, php-fpm and an application ([`app`]) in a temporary folder. `client` sends requests and disconnects at
//! any point. `faults` kills processes and reloads the configuration. `sample` measures descriptors, files, threads and memory.
//! Start it with `cargo xtask soak`.

pub mod app;
mod client;
mod faults;
mod http2;
mod http3;
mod leaks;
mod pattern;
mod request;
mod run;
mod sample;
mod serving;
mod site;
mod stream;
mod tally;
mod watch;
mod wire;

pub use run::{Options, run};
