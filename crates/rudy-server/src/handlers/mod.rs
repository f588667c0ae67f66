//! The handlers that need no folder: each is made ready when the configuration is read.

mod audience;
mod broadcast;
mod delay;
mod info;
mod redirect;
mod respond;
mod status;
mod stream;
mod subscribe;
mod tail;

pub(crate) use broadcast::Broadcast;
pub(crate) use delay::Delay;
pub(crate) use info::Info;
pub(crate) use redirect::Redirect;
pub(crate) use respond::Respond;
pub(crate) use status::Status;
pub use status::Vitals;
pub(crate) use stream::Stream;
pub(crate) use tail::Tail;
