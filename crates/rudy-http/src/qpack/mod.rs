//! QPACK, the compression of fields in HTTP/3 (RFC 9204).
//!
//! A [`Decoder`] decodes the field sections of a connection, with the dynamic table that the peer fills. Sections that are encoded with
//! [`encode_stateless`] do not use that of the peer, so that they are valid on all connections.
//!
//! ```
//! use rudy_http::qpack::{Decoder, encode_stateless, put_prefix};
//!
//! let mut section = bytes::BytesMut::new();
//! put_prefix(&mut section);
//! encode_stateless(b":status", b"200", &mut section);
//! encode_stateless(b"server", b"Rudy", &mut section);
//! assert_eq!(section.len(), 3 + 7);
//!
//! let (decoder, mut fields) = (Decoder::new(4096), Vec::new());
//! let section = decoder.section(&section)?;
//! section.decode(&mut Vec::new(), &mut |name, value| fields.push((name.to_vec(), value.to_vec())))?;
//! assert_eq!(fields[0], (b":status".to_vec(), b"200".to_vec()));
//! assert_eq!(fields[1], (b"server".to_vec(), b"Rudy".to_vec()));
//! # Ok::<(), rudy_http::qpack::DecodeError>(())
//! ```

mod decode_error;
mod decoder;
mod encoder;
mod feedback;
mod instructions;
#[cfg(test)]
mod properties;
mod static_table;

pub use self::decode_error::DecodeError;
pub use self::decoder::{Decoder, Section};
pub(crate) use self::encoder::Qpack;
pub use self::encoder::{encode_secret, encode_stateless, put_prefix};
pub(crate) use self::feedback::Feedback;
