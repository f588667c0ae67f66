//! Sends thousands of spellings of one request, and compares the responses of servers. Where two servers understand the same
//! bytes differently, requests can be smuggled and closed folders opened.
//!
//! [`all`] generates the spellings, which are the same in each run. [`site`] has the files of the servers. [`fn@send`] sends one
//! spelling and describes the responses. [`Comparison`] finds the differences, and [`RULES`] explains them. The program
//! `spellings` does this with any server.

mod compare;
mod fields;
mod framing;
mod generate;
mod line;
mod path;
mod request;
mod rules;
mod send;
pub mod site;

pub use compare::{Comparison, Difference};
pub use generate::{Spelling, all};
pub use rules::{RULES, Rule};
pub use send::{ResponseSummary, percent_encode, send, send_all};

/// The host of the site. Requests for other hosts get the other site.
pub const HOST: &str = "example.test";
