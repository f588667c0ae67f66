//! Parsers for tokens, numbers, lists and field lines, shared by both roles and by CGI, and excerpts for error messages.

mod excerpt;
mod field;
mod number;
mod token;

pub use excerpt::Excerpt;
pub use field::{any_byte, is_text, members, split_field, split_response_field};
pub use number::{parse_digits, parse_digits_saturating};
pub use token::{alphanumeric_and, is_token};
