//! HPACK, the compression of fields in HTTP/2 (RFC 7541).
//!
//! A [`Decoder`] decodes the field blocks of one direction of a connection, an [`Encoder`] encodes them. Both keep a dynamic
//! table of earlier fields, which the peer keeps in step. Blocks must therefore be decoded and encoded in the order on the
//! wire, each to its end. After a [`DecodeError`] the tables differ, and only the close of the connection helps.
//!
//! Field lines that are the same for many connections can be encoded once with [`encode_stateless`].
//!
//! ```
//! use rudy_http::hpack::{Decoder, Encoder, Indexing, encode_stateless};
//!
//! let (mut encoder, mut block) = (Encoder::default(), bytes::BytesMut::new());
//! encoder.begin_block(&mut block);
//! encode_stateless(b":status", b"200", &mut block);
//! encoder.encode(b"server", b"Rudy", Indexing::Incremental, &mut block);
//! assert_eq!(block.len(), 7);
//!
//! let (mut decoder, mut fields) = (Decoder::new(4096), Vec::new());
//! decoder.decode(&block, &mut Vec::new(), &mut |name, value| fields.push((name.to_vec(), value.to_vec())))?;
//! assert_eq!(fields[0], (b":status".to_vec(), b"200".to_vec()));
//! assert_eq!(fields[1], (b"server".to_vec(), b"Rudy".to_vec()));
//! # Ok::<(), rudy_http::hpack::DecodeError>(())
//! ```

#[cfg(test)]
mod appendix_c;
mod decode_error;
mod decoder;
mod encoder;
mod hash_index;
pub(crate) mod huffman;
mod huffman_code;
pub(crate) mod integer;
#[cfg(test)]
mod properties;
pub(crate) mod static_table;
pub(crate) mod string;
pub(crate) mod table;

pub use self::decode_error::DecodeError;
pub use self::decoder::Decoder;
pub(crate) use self::encoder::Hpack;
pub use self::encoder::{Encoder, Indexing, encode_stateless};
