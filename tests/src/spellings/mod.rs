//! One request, spelled in thousands of ways, and what servers make of each: how two servers understand the same bytes in
//! two ways is how requests are smuggled and closed folders opened.
//!
//! [`all`] generates the spellings, the same ones every time. [`site`] is what the servers serve. [`mod@ask`] sends one spelling
//! and names what came back. [`Comparison`] puts the servers beside each other, and [`RULES`] explains where they differ.
//! The program `spellings` does this with any server.

mod ask;
mod compare;
mod fields;
mod framing;
mod generate;
mod line;
mod path;
mod request;
mod rules;
pub mod site;

pub use ask::{Seen, ask, ask_all, percent_encode};
pub use compare::{Comparison, Difference};
pub use generate::{Spelling, all};
pub use rules::{RULES, Rule};

/// The host under which the site is served. Requests for other hosts reach the other site.
pub const HOST: &str = "example.test";
