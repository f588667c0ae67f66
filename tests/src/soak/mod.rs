//! A long run of a server under clients and applications that fail at random: what it holds at the end is what it held at
//! the start, and every whole response is right.
//!
//! [`run()`] starts Rudy, php-fpm and an application ([`app`]) in a temporary folder. `client` sends requests and leaves at any
//! point of them; `faults` kills processes and reloads; `sample` looks at descriptors, files, threads and memory. `cargo xtask
//! soak` starts it.

pub mod app;
mod client;
mod faults;
mod pattern;
mod request;
mod run;
mod sample;
mod site;
mod tally;
mod watch;
mod wire;

pub use run::{Options, run};
