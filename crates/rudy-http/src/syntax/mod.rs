//! Parsers for tokens, numbers, lists and field lines, shared by both roles and by CGI, and excerpts for error messages.

mod excerpt;
mod field;
mod number;
mod token;

pub use excerpt::Excerpt;
pub use field::{is_text, members, split_field, split_response_field};
pub use number::{parse_digits, parse_digits_saturating};
pub use token::is_token;

pub(crate) use field::any_byte;
pub(crate) use token::alphanumeric_and;
