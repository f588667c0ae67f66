//! The text of heads and trailers (RFC 9112 §2 to §5): what a connection needs to read and write it.
//!
//! Heads of all versions of HTTP are kept in this form. A connection of a later version writes what it has decompressed as text, so
//! that the same checks apply to it.

mod connection_fields;
mod encode;
mod field_line;
mod field_scan;
mod fields;
mod head_lines;
mod host;
mod lines;
mod request_line;
mod target;

pub use connection_fields::{Coding, ConnectionFields, Length};
pub use encode::{put_content_length, put_digits, put_field, put_head, put_status_line, sent_fields};
pub use field_line::FieldLine;
pub use fields::{Fields, is_forbidden_trailer, parse_trailers, read_trailers};
pub use head_lines::{CompleteHead, HeadLines, is_blank};
pub use host::is_host;
pub use lines::{Lines, Section};

pub(crate) use encode::CONNECTION_FIELDS;
pub(crate) use field_scan::{FieldPositions, FieldScan};
pub(crate) use fields::build_fields;
pub(crate) use host::split_authority;
pub(crate) use request_line::RequestLine;
pub(crate) use target::{TargetParts, needs_host, parse_target};
