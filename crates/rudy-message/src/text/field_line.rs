//! A field line of a response head.

use super::encode::put_field;
use crate::semantics::field::KnownField;

/// A valid field line of a response head.
#[derive(Debug, Clone, Copy)]
pub struct FieldLine<'a> {
    /// The name, in any case.
    pub name: &'a [u8],
    /// The value, without white space around it.
    pub value: &'a [u8],
    /// Which field it is.
    pub known: Option<KnownField>,
    /// The line with its end, if it has the form in which it would be encoded.
    whole: Option<&'a [u8]>,
}

impl<'a> FieldLine<'a> {
    /// Creates the line of a valid field.
    #[must_use]
    pub fn new(name: &'a [u8], value: &'a [u8]) -> Self {
        Self { name, value, known: KnownField::of(name), whole: None }
    }

    /// Creates a line that was received: `whole` is the line with its end, of which `name` and `value` are parts.
    #[must_use]
    #[inline]
    pub fn received(name: &'a [u8], value: &'a [u8], known: Option<KnownField>, whole: &'a [u8]) -> Self {
        Self { name, value, known, whole: in_usual_form(whole, name, value) }
    }

    /// Appends the line, with the name in the case that it has.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self.whole {
            Some(whole) => out.extend_from_slice(whole),
            None => put_field(self.name, self.value, out),
        }
    }
}

/// Returns `whole`, a line with its end, if it is a name and a value with a colon and a space between them.
#[inline]
fn in_usual_form<'a>(whole: &'a [u8], name: &[u8], value: &[u8]) -> Option<&'a [u8]> {
    let has_usual_length = whole.len() == name.len() + value.len() + 4;
    (has_usual_length && whole.ends_with(b"\r\n") && whole[name.len() + 1] == b' ').then_some(whole)
}
