//! The HTTP client side: single requests with timings, load at a rate, and many long-lived connections.
//!
//! The protocols are the client roles of `rudy-http`. Each thread has its own loop over an `epoll`, because the
//! overhead of a generator becomes part of its results.

mod access;
pub mod bench;
mod body;
mod connection;
mod descriptor_limit;
mod exit;
mod failure;
pub mod flood;
pub mod get;
mod http_load;
mod interrupt;
mod output_file;
pub mod poll;
mod poller;
mod protocols;
mod relay;
mod request;
mod sessions;
pub mod tls;
mod transport;
mod url;

use rudy_units as units;

pub use access::{Access, AccessError, Route, Sessions};
pub use exit::Exit;
pub use failure::{Failure, FailureKind};
pub use http_load::http_load;
pub use interrupt::Interrupt;
pub use protocols::Protocols;
pub use relay::Relay;
pub use request::{Encoded, Http2Request, Mix, Template, WEIGHTS_MAX, WeightError, parse_field};
pub use rudy_tls::{Trust, TrustError};
pub use transport::{Remote, Security};
pub use url::{Url, UrlError};
