//! The smallest parts of messages, as both roles and other protocols over the same fields read them: tokens, numbers, lists,
//! field lines, and excerpts of what was none of these.

mod excerpt;
mod field;
mod number;
mod token;

pub use excerpt::Excerpt;
pub use field::{is_text, members, split_field};
pub use number::{parse_digits, parse_digits_saturating};
pub use token::is_token;

pub(crate) use field::any_byte;
pub(crate) use token::alphanumeric_and;
