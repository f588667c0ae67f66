//! Small handlers, each with a module here. A handler has a table in the configuration, a [`HandlerConfig`](crate::pipeline::HandlerConfig),
//! which builds the type that responds, a [`Handler`](crate::pipeline::Handler). The configuration lists all of them.

pub(crate) mod broadcast;
mod delay;
mod info;
mod metrics;
mod redirect;
pub(crate) mod redirect_map;
mod respond;
mod rewrite;
mod status;
pub(crate) mod stream;
mod subscribe;
mod tail;

use http::StatusCode;

pub use broadcast::BroadcastTable;
pub use delay::DelayTable;
pub use info::InfoTable;
pub use metrics::MetricsTable;
pub use redirect::RedirectTable;
pub use respond::RespondTable;
pub use rewrite::RewriteTable;
pub use status::StatusTable;
pub use stream::{StreamFormat, StreamTable};
pub(crate) use subscribe::Subscribe;
pub use tail::TailTable;

/// The status of a response, from 200 to 599.
pub(crate) type Status = rudy_config::Int<200, 599>;

/// Returns the status as the HTTP library's type. All values of `Status` are valid there.
pub(crate) fn status_code(status: Status) -> StatusCode {
    StatusCode::from_u16(status.as_u16()).unwrap_or(StatusCode::OK)
}
