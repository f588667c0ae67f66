//! Field sections of HTTP/2 (RFC 9113 §8) and HTTP/3 (RFC 9114 §4), whatever compresses them.

mod field;
mod priority;
mod received_response;
mod request;
mod response;

pub(crate) use self::field::is_for_connection;
pub use self::priority::Priority;
pub(crate) use self::received_response::{ReceivedHead, ResponseText};
pub use self::request::HeadBuffers;
pub(crate) use self::request::{HeadFault, HeadText};
pub(crate) use self::response::{
    Compress, put_response, put_status_and_fields, put_trailers, rejection_text,
};
