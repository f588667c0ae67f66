//! The heads of the client side: a request to send, and a response that was received.

mod error;
mod request;
mod response;

pub use error::RequestError;
pub use request::{RequestFields, RequestHead, RequestInfo};
pub use response::ResponseHead;
