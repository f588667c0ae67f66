//! Spans in the encoding of OTLP, version 1 of `opentelemetry.proto.trace`, and what a collector responds.

use std::borrow::Cow;

use crate::protobuf::{Fields, Message, Value, varint};
use crate::{Parent, SpanId};

/// The flags of a span that say whether its parent is in another process (`SpanFlags` of the schema).
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// The part that a span has in an exchange (`SpanKind` of the schema).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Work inside of the process.
    Internal = 1,
    /// A request that the process serves.
    Server = 2,
    /// A request that the process sends.
    Client = 3,
}

/// A span without its attributes.
#[derive(Debug, Clone, Copy)]
pub struct Span<'a> {
    /// Its trace, its id and its flags.
    pub own: Parent,
    /// The span that it is a child of. `None` for the first of a trace.
    pub parent: Option<SpanId>,
    /// Whether the parent is in another process.
    pub has_remote_parent: bool,
    /// `tracestate`; empty without one.
    pub state: &'a str,
    /// What it is, without parts that differ from request to request.
    pub name: &'a str,
    /// Its part in the exchange.
    pub kind: Kind,
    /// The time at which it began, in nanoseconds since 1970.
    pub start_ns: u64,
    /// The time at which it ended, in nanoseconds since 1970.
    pub end_ns: u64,
    /// Whether it has failed.
    pub has_failed: bool,
}

/// Appends attributes to a message.
pub struct Attributes<'a, 'm> {
    message: &'a mut Message<'m>,
    /// The field of the message.
    field: u64,
}

impl Attributes<'_, '_> {
    /// Appends a text. Invalid UTF-8 is replaced, because collectors reject messages with it.
    pub fn text(&mut self, key: &str, value: &[u8]) {
        let is_text = value.is_ascii();
        let text: Cow<'_, [u8]> = if is_text {
            value.into()
        } else {
            String::from_utf8_lossy(value).into_owned().into_bytes().into()
        };
        self.pair(key, 1 << 3 | 2, &text, true);
    }

    /// Appends a number.
    pub fn number(&mut self, key: &str, value: u64) {
        let (bytes, length) = varint(value);
        self.pair(key, 3 << 3, &bytes[..length], false);
    }

    fn pair(&mut self, key: &str, tag: u8, value: &[u8], has_length: bool) {
        self.message.pair(self.field, key.as_bytes(), tag, value, has_length);
    }
}

/// Appends the events of a span.
pub struct Events<'a, 'm>(&'a mut Message<'m>);

impl Events<'_, '_> {
    /// Appends what has happened at a time, in nanoseconds since 1970.
    pub fn event(&mut self, time_ns: u64, name: &str, attributes: impl FnOnce(&mut Attributes<'_, '_>)) {
        self.0.message(11, |event| {
            event.fixed64(1, time_ns);
            event.bytes(2, name.as_bytes());
            attributes(&mut Attributes { message: event, field: 3 });
        });
    }
}

/// Appends a span, as a member of the list that [`request`] sends.
pub fn write_span(
    span: &Span<'_>,
    attributes: impl FnOnce(&mut Attributes<'_, '_>),
    events: impl FnOnce(&mut Events<'_, '_>),
    out: &mut Vec<u8>,
) {
    Message(out).message(2, |message| {
        message.bytes(1, &span.own.trace.0);
        message.bytes(2, &span.own.span.0);
        if !span.state.is_empty() {
            message.bytes(3, span.state.as_bytes());
        }
        if let Some(parent) = span.parent {
            message.bytes(4, &parent.0);
        }
        message.bytes(5, span.name.as_bytes());
        message.number(6, span.kind as u64);
        message.fixed64(7, span.start_ns);
        // A clock that was set back must not make a negative duration.
        message.fixed64(8, span.end_ns.max(span.start_ns));
        attributes(&mut Attributes { message, field: 9 });
        events(&mut Events(message));
        if span.has_failed {
            // The code of an error.
            message.message(15, |status| status.number(3, 2));
        }
        let remote = if span.has_remote_parent { IS_REMOTE } else { 0 };
        message.fixed32(16, u32::from(span.own.flags()) | HAS_IS_REMOTE | remote);
    });
}

/// Returns the request that exports spans of a program: its attributes, its version, and the spans that [`write_span`] has written.
#[must_use]
pub fn request(resource: impl FnOnce(&mut Attributes<'_, '_>), version: &str, spans: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(spans.len() + 512);
    Message(&mut out).message(1, |of_resource| {
        of_resource.message(1, |message| resource(&mut Attributes { message, field: 1 }));
        of_resource.message(2, |of_scope| {
            of_scope.message(1, |scope| {
                scope.bytes(1, b"rudy");
                scope.bytes(2, version.as_bytes());
            });
            of_scope.0.extend_from_slice(spans);
        });
    });
    out
}

/// What a collector says about a request that it has accepted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accepted {
    /// The number of spans that it has rejected.
    pub rejected: u64,
    /// Why, or a warning.
    pub message: String,
}

impl Accepted {
    /// Decodes the body of a response with status 200. Without `partial_success`, all spans were accepted; so it counts if the body is
    /// no message.
    #[must_use]
    pub fn decode(body: &[u8]) -> Self {
        let mut accepted = Self::default();
        let partial = Fields(body).filter_map(|field| match field {
            (1, Value::Bytes(partial)) => Some(partial),
            _ => None,
        });
        for field in partial.flat_map(Fields) {
            match field {
                (1, Value::Number(rejected)) => accepted.rejected = rejected,
                (2, Value::Bytes(message)) => {
                    accepted.message = String::from_utf8_lossy(message).into_owned();
                }
                _ => {}
            }
        }
        accepted
    }
}

/// Decodes the message in the body of an error: a `google.rpc.Status`. Empty without one.
#[must_use]
pub fn error_message(body: &[u8]) -> String {
    let message = Fields(body).find_map(|field| match field {
        (2, Value::Bytes(message)) => Some(String::from_utf8_lossy(message).into_owned()),
        _ => None,
    });
    message.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TraceId;

    /// Returns the texts and numbers of a message, depth first, with the numbers of their fields.
    fn flat(message: &[u8], nested: &[&[u64]], path: &[u64], found: &mut Vec<(Vec<u64>, String)>) {
        for (field, value) in Fields(message) {
            let path = [path, &[field]].concat();
            match value {
                Value::Bytes(inner) if nested.contains(&&path[..]) => flat(inner, nested, &path, found),
                Value::Bytes(bytes) => found.push((path, String::from_utf8_lossy(bytes).into_owned())),
                Value::Number(number) => found.push((path, number.to_string())),
            }
        }
    }

    #[test]
    fn a_request_has_the_fields_of_the_schema() {
        let own = Parent::begin(TraceId(*b"trace-id-16bytes"), SpanId(*b"span-id8")).with_sampled(true);
        let span = Span {
            own,
            parent: Some(SpanId(*b"parent-8")),
            has_remote_parent: true,
            state: "a=1",
            name: "GET /a/*",
            kind: Kind::Server,
            start_ns: 1,
            end_ns: 2,
            has_failed: true,
        };
        let mut spans = Vec::new();
        let attributes = |attributes: &mut Attributes<'_, '_>| {
            attributes.text("url.path", b"/a/b");
            attributes.number("http.response.status_code", 500);
        };
        write_span(
            &span,
            attributes,
            |events| events.event(3, "moved", |to| to.text("to", b"c\xff")),
            &mut spans,
        );
        let request = request(|resource| resource.text("service.name", b"shop"), "1.0", &spans);
        let nested: [&[u64]; 13] = [
            &[1],
            &[1, 1],
            &[1, 1, 1],
            &[1, 1, 1, 2],
            &[1, 2],
            &[1, 2, 1],
            &[1, 2, 2],
            &[1, 2, 2, 9],
            &[1, 2, 2, 9, 2],
            &[1, 2, 2, 11],
            &[1, 2, 2, 11, 3],
            &[1, 2, 2, 11, 3, 2],
            &[1, 2, 2, 15],
        ];
        let mut found = Vec::new();
        flat(&request, &nested, &[], &mut found);
        let expected: &[(&[u64], &str)] = &[
            (&[1, 1, 1, 1], "service.name"),
            (&[1, 1, 1, 2, 1], "shop"),
            (&[1, 2, 1, 1], "rudy"),
            (&[1, 2, 1, 2], "1.0"),
            (&[1, 2, 2, 1], "trace-id-16bytes"),
            (&[1, 2, 2, 2], "span-id8"),
            (&[1, 2, 2, 3], "a=1"),
            (&[1, 2, 2, 4], "parent-8"),
            (&[1, 2, 2, 5], "GET /a/*"),
            (&[1, 2, 2, 6], "2"),
            (&[1, 2, 2, 7], "1"),
            (&[1, 2, 2, 8], "2"),
            (&[1, 2, 2, 9, 1], "url.path"),
            (&[1, 2, 2, 9, 2, 1], "/a/b"),
            (&[1, 2, 2, 9, 1], "http.response.status_code"),
            (&[1, 2, 2, 9, 2, 3], "500"),
            (&[1, 2, 2, 11, 1], "3"),
            (&[1, 2, 2, 11, 2], "moved"),
            (&[1, 2, 2, 11, 3, 1], "to"),
            (&[1, 2, 2, 11, 3, 2, 1], "c\u{fffd}"),
            (&[1, 2, 2, 15, 3], "2"),
            (&[1, 2, 2, 16], "769"),
        ];
        let found: Vec<_> = found.iter().map(|(path, value)| (&path[..], &value[..])).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_span_does_not_end_before_it_begins() {
        let own = Parent::begin(TraceId::from_bits([1, 1]), SpanId::from_bits(1));
        let mut out = Vec::new();
        let span = Span {
            own,
            parent: None,
            has_remote_parent: false,
            state: "",
            name: "",
            kind: Kind::Internal,
            start_ns: 9,
            end_ns: 2,
            has_failed: false,
        };
        write_span(&span, |_| (), |_| (), &mut out);
        let Some((2, Value::Bytes(span))) = Fields(&out).next() else { panic!("{out:?}") };
        assert!(Fields(span).any(|field| field == (8, Value::Number(9))));
        assert!(Fields(span).all(|(field, _)| ![3, 4, 15].contains(&field)), "what is empty is left out");
    }

    #[test]
    fn a_response_says_how_many_spans_were_rejected() {
        let mut body = Vec::new();
        Message(&mut body).message(1, |partial| {
            partial.number(1, 3);
            partial.bytes(2, b"too old");
        });
        assert_eq!(Accepted::decode(&body), Accepted { rejected: 3, message: "too old".to_owned() });
        for without in [&b""[..], b"OK", b"{\"partialSuccess\":{}}", &body[..3]] {
            assert_eq!(Accepted::decode(without).rejected, 0, "{without:?}");
        }
        assert_eq!(error_message(b"\x08\x03\x12\x03bad"), "bad");
        assert_eq!(error_message(b"<html>"), "");
    }
}
