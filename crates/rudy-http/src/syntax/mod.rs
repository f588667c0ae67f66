//! The smallest parts of messages, for both roles: tokens, numbers, lists, field lines.

mod field;
mod number;
mod token;

pub(crate) use field::{any_byte, is_text, members, split_field};
pub(crate) use number::parse_digits;
pub(crate) use token::{TOKEN, alphanumeric_and};
