//! The heads of the client side: a request to send, and a response that was received.

mod request;
mod response;

pub use request::{RequestError, RequestFields, RequestHead, RequestInfo};
pub use response::ResponseHead;
