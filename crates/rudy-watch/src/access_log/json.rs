//! The JSON format: one object per line. Unknown members are absent; `status` is `null` if none was sent.

use std::io::Write;

use rudy_units::is_interpreted;

use super::field::{Field, Source, Value};
use super::{put_address, put_number};

/// The members of an object, in order.
pub(super) const MEMBERS: [Field; 43] = [
    Field::Time,
    Field::Client,
    Field::ClientPort,
    Field::Proxy,
    Field::Connection,
    Field::Tls,
    Field::Cipher,
    Field::TlsGroup,
    Field::EarlyData,
    Field::ClientCertificate,
    Field::Method,
    Field::Target,
    Field::Path,
    Field::Version,
    Field::Host,
    Field::Referer,
    Field::UserAgent,
    Field::RequestId,
    Field::Traceparent,
    Field::TraceId,
    Field::SpanId,
    Field::User,
    Field::Site,
    Field::Route,
    Field::Upstream,
    Field::Attempts,
    Field::UpstreamConnect,
    Field::UpstreamWait,
    Field::UpstreamResponse,
    Field::UpstreamStatus,
    Field::UpstreamAddresses,
    Field::UpstreamStatuses,
    Field::Cache,
    Field::Limit,
    Field::Rejected,
    Field::Status,
    Field::RequestBodyBytes,
    Field::BodyBytes,
    Field::ReceivedBytes,
    Field::SentBytes,
    Field::Duration,
    Field::Wait,
    Field::Ended,
];

/// Appends the line of an exchange, its newline included. `sample` is the number of exchanges that it represents.
pub(super) fn write(source: &Source<'_>, sample: u32, line: &mut Vec<u8>) {
    for field in &MEMBERS {
        field.with_value(source, |value| match value {
            // Most requests have no body.
            Some(Value::Number(0)) if *field == Field::RequestBodyBytes => {}
            Some(Value::Text([])) if *field == Field::Site => {}
            // Other members have the address and the status of a single attempt.
            Some(Value::Text(list)) if field.is_of_attempts() && !list.contains(&b',') => {}
            Some(value) => put_member(field.name(), &value, line),
            None if *field == Field::Status => put(line, [",\"status\":null"]),
            None => {}
        });
    }
    if sample > 1 {
        put_member("sample", &Value::Number(sample.into()), line);
    }
    // The first member has a comma before it, too.
    if let Some(first) = line.first_mut() {
        *first = b'{';
    }
    line.extend_from_slice(b"}\n");
}

/// Returns a line with the number of lines that are missing before it.
pub(super) fn dropped(lines: u64, time: &str) -> String {
    format!("{{\"time\":\"{time}\",\"dropped_lines\":{lines}}}\n")
}

fn put_member(name: &str, value: &Value<'_>, line: &mut Vec<u8>) {
    put(line, [",\"", name, "\":"]);
    match value {
        Value::Text(text) => put_text(&[*text], line),
        Value::Texts(texts) => put_text(texts, line),
        Value::Plain(text) => put(line, ["\"", text, "\""]),
        Value::Address(peer) => {
            line.push(b'"');
            put_address(*peer, line);
            line.push(b'"');
        }
        Value::Number(number) => put_number(*number, line),
        Value::Flag(flag) => put(line, [if *flag { "true" } else { "false" }]),
        Value::Status(status) => put(line, [status.as_str()]),
    }
}

/// Appends a string: texts with spaces between them.
fn put_text(texts: &[&[u8]], line: &mut Vec<u8>) {
    line.push(b'"');
    for (index, text) in texts.iter().enumerate() {
        if index > 0 {
            line.push(b' ');
        }
        // Most texts need no escape. Without an early end, the compiler checks many bytes at once.
        if text.iter().fold(true, |plain, byte| plain & is_plain(*byte)) {
            line.extend_from_slice(text);
            continue;
        }
        for chunk in text.utf8_chunks() {
            chunk.valid().chars().for_each(|c| put_char(c, line));
            if !chunk.invalid().is_empty() {
                put_char(char::REPLACEMENT_CHARACTER, line);
            }
        }
    }
    line.push(b'"');
}

/// Whether a byte is a character that needs no escape.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

/// Appends a character. RFC 8259 §7 requires escapes for quote, backslash and the controls below space. DEL, the C1 controls
/// and those of bidirectional text can affect a terminal, and U+2028 and U+2029 end a line for some programs.
fn put_char(c: char, line: &mut Vec<u8>) {
    match c {
        '"' | '\\' => line.extend_from_slice(&[b'\\', c as u8]),
        c if c.is_ascii() && is_plain(c as u8) => line.push(c as u8),
        c if is_interpreted(c) => {
            line.write_fmt(format_args!("\\u{:04x}", c as u32)).expect("writing to a Vec cannot fail");
        }
        c => line.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

fn put<const N: usize>(line: &mut Vec<u8>, texts: [&str; N]) {
    for text in texts {
        line.extend_from_slice(text.as_bytes());
    }
}
