//! The handlers that need no folder: each is made ready when the configuration is read, and answers at once.

mod redirect;
mod respond;
mod status;

pub(crate) use redirect::Redirect;
pub(crate) use respond::Respond;
pub(crate) use status::Status;
pub use status::Vitals;
