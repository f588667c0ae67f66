//! The client side: one request taken apart, load at a rate, floods of streams.
//!
//! The protocol is the client's role of `rudy-http`; the loops are our own, a thread and an `epoll` each, because what a
//! generator does for itself it does to its figures.

mod access;
pub mod bench;
mod body;
mod connection;
mod exit;
mod failure;
pub mod flood;
pub mod get;
mod http_load;
mod interrupt;
mod link;
mod poller;
mod request;
mod room;
pub mod svg;
mod tls;
mod units;
mod url;

pub use access::{Access, AccessError, Route};
pub use exit::Exit;
pub use failure::{Failure, FailureKind};
pub use http_load::http_load;
pub use interrupt::Interrupt;
pub use link::{Remote, Security};
pub use request::{Encoded, Mix, Template, WEIGHTS_MAX, WeightError, parse_field};
pub use tls::{Trust, TrustError};
pub use url::{Url, UrlError};
