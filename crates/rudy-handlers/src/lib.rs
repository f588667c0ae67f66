//! Small handlers, each with a module here. A handler has a table in the configuration, a [`HandlerConfig`](rudy_pipeline::HandlerConfig),
//! which builds the type that responds, a [`Handler`](rudy_pipeline::Handler). The configuration lists all of them.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod broadcast;
mod delay;
pub mod follow;
mod redirect;
pub mod redirect_map;
mod respond;
mod rewrite;
pub mod stream;
mod subscribe;
mod tail;
pub mod topic;

use http::StatusCode;

pub use broadcast::BroadcastTable;
pub use delay::DelayTable;
pub use redirect::RedirectTable;
pub use respond::RespondTable;
pub use rewrite::RewriteTable;
pub use stream::{StreamFormat, StreamTable};
pub use subscribe::Subscribe;
pub use tail::TailTable;

/// The status of a response, from 200 to 599.
pub type Status = rudy_config::Int<200, 599>;

/// Returns the status as the HTTP library's type. All values of `Status` are valid there.
#[must_use]
pub fn status_code(status: Status) -> StatusCode {
    StatusCode::from_u16(status.as_u16()).unwrap_or(StatusCode::OK)
}
