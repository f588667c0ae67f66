//! The JSON format: one object per line. Unknown members are absent; `status` is `null` if none was sent.

use std::fmt::{Arguments, Display};
use std::io::Write;

use super::field::{Field, Times, Value};
use crate::exchange::Finished;

/// The members of an object, in order.
pub(super) const MEMBERS: [Field; 35] = [
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
    Field::User,
    Field::Site,
    Field::Route,
    Field::Upstream,
    Field::Attempts,
    Field::UpstreamConnect,
    Field::UpstreamWait,
    Field::Cache,
    Field::Limit,
    Field::Refused,
    Field::Status,
    Field::RequestBodyBytes,
    Field::BodyBytes,
    Field::Duration,
    Field::Wait,
    Field::Ended,
];

/// Appends the line of an exchange, its newline included. `sample` is the number of exchanges that it represents.
pub(super) fn write(exchange: &Finished<'_>, times: &Times<'_>, sample: u32, line: &mut Vec<u8>) {
    for field in &MEMBERS {
        field.with_value(exchange, times, |value| match value {
            // Most requests have no body.
            Some(Value::Number(0)) if *field == Field::RequestBodyBytes => {}
            Some(Value::Text([])) if *field == Field::Site => {}
            Some(value) => put_member(field.name(), &value, line),
            None if *field == Field::Status => put(line, format_args!(",\"status\":null")),
            None => {}
        });
    }
    if sample > 1 {
        put(line, format_args!(",\"sample\":{sample}"));
    }
    // The first member has a comma before it, too.
    if let Some(first) = line.first_mut() {
        *first = b'{';
    }
    line.extend_from_slice(b"}\n");
}

/// Returns a line with the number of lines that are missing before it.
pub(super) fn dropped(lines: u64, time: &impl Display) -> String {
    format!("{{\"time\":\"{time}\",\"dropped_lines\":{lines}}}\n")
}

fn put_member(name: &str, value: &Value<'_>, line: &mut Vec<u8>) {
    put(line, format_args!(",\"{name}\":"));
    match value {
        Value::Text(text) => put_text(&[*text], line),
        Value::Texts(texts) => put_text(texts, line),
        Value::Plain(text) => put(line, format_args!("\"{text}\"")),
        Value::Address(peer) => match peer.ip() {
            Some(ip) => put(line, format_args!("\"{ip}\"")),
            None => put(line, format_args!("\"unix:\"")),
        },
        Value::Number(number) => put(line, format_args!("{number}")),
        Value::Flag(flag) => put(line, format_args!("{flag}")),
        Value::Status(status) => put(line, format_args!("{}", status.as_u16())),
    }
}

/// Appends a string: texts with spaces between them.
fn put_text(texts: &[&[u8]], line: &mut Vec<u8>) {
    line.push(b'"');
    for (index, text) in texts.iter().enumerate() {
        if index > 0 {
            line.push(b' ');
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

/// Appends a character. RFC 8259 §7 requires escapes for quote, backslash and the controls below space. DEL and the C1 controls can
/// affect a terminal, and U+2028 and U+2029 end a line for some programs.
fn put_char(c: char, line: &mut Vec<u8>) {
    match c {
        '"' | '\\' => line.extend_from_slice(&[b'\\', c as u8]),
        ' '..='~' => line.push(c as u8),
        c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
            put(line, format_args!("\\u{:04x}", c as u32));
        }
        c => line.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

fn put(line: &mut Vec<u8>, text: Arguments<'_>) {
    line.write_fmt(text).expect("writing to a Vec cannot fail");
}
