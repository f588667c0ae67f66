//! The header fields that belong to a connection, and are not passed on (RFC 9110 §7.6.1).

use std::time::Duration;

use http::header::{CONNECTION, HOST, HeaderName, HeaderValue, TE};
use rudy_message::client::ResponseHead;
use rudy_message::semantics::field::{FieldLines, KnownField, KnownFields};
use rudy_message::syntax::{members, parse_digits};
use rudy_message::{FieldLine, FieldValue, Instructions, LazyHead, ReceivedFields, ReceivedHead};

/// The fields of a connection.
const OF_CONNECTION: KnownFields = KnownFields::of(&[
    KnownField::Connection,
    KnownField::Expect,
    KnownField::KeepAlive,
    KnownField::ProxyConnection,
    KnownField::Te,
    KnownField::TransferEncoding,
    KnownField::Upgrade,
]);

/// Removes the fields of the client's connection from a request.
///
/// `TE: trailers` is set again, because trailers are passed on. `Expect` is not passed on: the connection to the client sends
/// 100 Continue when the body is read.
pub(super) fn remove_connection_fields(head: &mut LazyHead<'_>) {
    if !head.has_any(OF_CONNECTION) {
        return;
    }
    let takes_trailers =
        head.lines(KnownField::Te).flat_map(members).any(|member| member.eq_ignore_ascii_case(b"trailers"));
    remove_named_fields(head);
    head.remove_all(OF_CONNECTION);
    if takes_trailers {
        head.add(TE, HeaderValue::from_static("trailers"));
        head.add(CONNECTION, HeaderValue::from_static("te"));
    }
}

/// Removes the fields that `Connection` names.
fn remove_named_fields(head: &mut LazyHead<'_>) {
    // That of nearly all requests.
    if matches!(head.field(KnownField::Connection), FieldValue::Once(option) if is_usual(option)) {
        return;
    }
    // A request without Host would be invalid, and its body has a length of our own.
    let named = head.lines(KnownField::Connection).filter(|line| !is_usual(line)).flat_map(members);
    let names: Vec<_> = named.filter_map(|option| HeaderName::from_bytes(option).ok()).collect();
    for name in names.iter().filter(|name| **name != HOST) {
        head.remove(name);
    }
}

/// Sets the host of an absolute target, which replaces the field (RFC 9112 §3.2.2).
pub(super) fn set_host_of_target(head: &mut LazyHead<'_>) {
    if head.is_absolute()
        && let Ok(host) = HeaderValue::from_bytes(head.host())
    {
        head.set(HOST, host);
    }
}

/// Whether an option of `Connection` names no field, or one that is removed in any case.
fn is_usual(option: &[u8]) -> bool {
    [&b"keep-alive"[..], b"close"].iter().any(|usual| option.eq_ignore_ascii_case(usual))
}

/// The fields of a response head that is being received, without those of the upstream's connection. The connection to the client sets its
/// own framing.
#[derive(Debug, Default)]
pub(super) struct ResponseFields {
    passed: ReceivedFields,
    /// How long the upstream keeps its connection open without a request, if it says so (`Keep-Alive: timeout=5`).
    kept_for: Option<Duration>,
    /// Whether `Connection` names other fields.
    names_others: bool,
    /// The instructions for this server.
    instructions: Option<Box<Instructions>>,
}

/// A response head without what is for this server.
#[derive(Debug)]
pub(super) struct PassedHead {
    /// The status, and the fields without those of the connection.
    pub(super) head: ReceivedHead,
    /// How long the upstream keeps the connection open without a request, if it says so.
    pub(super) kept_for: Option<Duration>,
    /// The instructions for this server.
    pub(super) instructions: Option<Box<Instructions>>,
}

impl ResponseFields {
    /// Adds a field, unless it is one of the connection, which is read.
    pub(super) fn push(&mut self, line: &FieldLine<'_>) {
        match line.known {
            Some(KnownField::Te | KnownField::Upgrade | KnownField::ProxyConnection) => {}
            Some(KnownField::KeepAlive) => {
                self.kept_for = self.kept_for.or_else(|| keep_alive_timeout(line.value));
            }
            Some(KnownField::Connection) => {
                self.names_others |=
                    !is_usual(line.value) && members(line.value).any(|option| !is_usual(option));
            }
            None if Instructions::take(&mut self.instructions, line) => {}
            _ => self.passed.push_line(line),
        }
    }

    /// Returns the head with the fields so far, which are all those of `head`. The next head can begin.
    pub(super) fn finish(&mut self, head: &ResponseHead<'_>) -> PassedHead {
        let Self { passed, kept_for, names_others, instructions } = std::mem::take(self);
        let passed = if names_others { without_named_fields(head) } else { passed };
        PassedHead { head: passed.with_status(head.status_code()), kept_for, instructions }
    }
}

/// Returns the fields of a head whose `Connection` names others.
fn without_named_fields(head: &ResponseHead<'_>) -> ReceivedFields {
    let lines = head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("connection"));
    let named: Vec<_> = lines.flat_map(|(_, value)| members(value)).collect();
    let is_named = |name: &str| named.iter().any(|option| option.eq_ignore_ascii_case(name.as_bytes()));
    let mut fields = ResponseFields::default();
    for (name, value) in head.fields().filter(|(name, _)| !is_named(name)) {
        fields.push(&FieldLine::new(name.as_bytes(), value));
    }
    fields.passed
}

/// As [`ResponseFields::finish`], for a head that was received at once.
pub(super) fn received_head(head: &ResponseHead<'_>) -> PassedHead {
    let mut fields = ResponseFields::default();
    for (name, value) in head.fields() {
        fields.push(&FieldLine::new(name.as_bytes(), value));
    }
    fields.finish(head)
}

/// Returns the parameter `timeout` in seconds (RFC 2068 §19.7.1.1).
fn keep_alive_timeout(value: &[u8]) -> Option<Duration> {
    let timeout = |member: &[u8]| {
        let (name, seconds) = member.split_at_checked(b"timeout=".len())?;
        name.eq_ignore_ascii_case(b"timeout=").then(|| parse_digits(seconds)).flatten()
    };
    members(value).find_map(timeout).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let mut map = HeaderMap::new();
        map.extend(fields.iter().map(field));
        map
    }

    #[test]
    fn the_time_that_an_upstream_keeps_a_connection_is_read() {
        for (value, seconds) in [
            ("timeout=5, max=100", Some(5)),
            ("max=100,Timeout=0", Some(0)),
            ("max=100", None),
            ("timeout=", None),
            ("timeout=-1", None),
            ("timeout", None),
        ] {
            assert_eq!(keep_alive_timeout(value.as_bytes()).map(|time| time.as_secs()), seconds, "{value}");
        }
    }

    #[test]
    fn fields_of_the_connection_are_removed_and_all_others_stay() {
        for (given, passed) in [
            (&[("host", "a"), ("accept", "*/*"), ("x-a", "1"), ("x-a", "2")][..], None),
            (&[("host", "a"), ("connection", "close")], Some(&[("host", "a")][..])),
            (
                &[("connection", "keep-alive, X-Secret"), ("x-secret", "1"), ("x-a", "1")],
                Some(&[("x-a", "1")]),
            ),
            (&[("connection", "x-a"), ("connection", "x-b"), ("x-a", "1"), ("x-b", "1")], Some(&[])),
            (&[("connection", "host, upgrade"), ("host", "a"), ("upgrade", "h2c")], Some(&[("host", "a")])),
            (&[("keep-alive", "timeout=5"), ("proxy-connection", "keep-alive")], Some(&[])),
            (&[("expect", "100-continue"), ("transfer-encoding", "chunked")], Some(&[])),
            (&[("connection", "Keep-Alive"), ("keep-alive", "max=5"), ("x-a", "1")], Some(&[("x-a", "1")])),
            (&[("te", "gzip")], Some(&[])),
            (&[("te", "gzip, Trailers")], Some(&[("te", "trailers"), ("connection", "te")])),
        ] {
            let mut head = LazyHead::from(map(given));
            remove_connection_fields(&mut head);
            assert_eq!(*head.headers(), map(passed.unwrap_or(given)), "{given:?}");
        }
    }
}
