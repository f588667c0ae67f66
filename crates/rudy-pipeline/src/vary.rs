//! `Vary`: the request fields on which a response depends (RFC 9110 §12.5.5).

use http::HeaderValue;
use http::header::VARY;
use rudy_message::semantics::field::ChangeFields;
use rudy_message::syntax::members;

/// Adds a field name, unless it is there.
pub fn add(fields: &mut impl ChangeFields, name: HeaderValue) {
    if !includes(fields, name.as_bytes()) {
        fields.add(VARY, name);
    }
}

/// Whether the response depends on the field, or on anything.
pub fn includes(fields: &impl ChangeFields, name: &[u8]) -> bool {
    fields.get_all(&VARY).flat_map(members).any(|member| member == b"*" || member.eq_ignore_ascii_case(name))
}
