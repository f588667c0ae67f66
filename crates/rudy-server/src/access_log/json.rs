//! The JSON format: one object per line. Unknown members are absent; `status` is `null` if none was sent.

use std::fmt::{Arguments, Display};
use std::io::Write;

use rudy_http::semantics::path::RequestPath;
use rudy_net::Peer;

use super::{Record, RequestInfo, ended_word, micros, version_text};

/// Appends the line of `record`, its newline included.
pub(super) fn write(record: &Record<'_>, time: &impl Display, line: &mut Vec<u8>) {
    put(line, format_args!("{{\"time\":\"{time}\""));
    let client = record.client.address();
    put_address("client", client, line);
    if let Some(port) = client.port() {
        put(line, format_args!(",\"client_port\":{port}"));
    }
    if record.client.forwarded.is_some() {
        put_address("proxy", record.client.peer, line);
    }
    put(line, format_args!(",\"connection\":{}", record.client.connection_number));
    if let Some(tls) = &record.client.tls {
        put(line, format_args!(",\"tls\":\"{}\",\"cipher\":\"{}\"", tls.version, tls.cipher));
        if tls.is_early {
            put(line, format_args!(",\"early_data\":true"));
        }
        if let Some(certificate) = &tls.client_certificate {
            put_text("client_certificate", certificate.subject.as_bytes(), line);
        }
    }
    if let Some(request) = record.request {
        put_request(request, line);
    }
    if let Some(reason) = record.rejection {
        put_text("refused", reason.as_bytes(), line);
    }
    let outcome = record.outcome;
    match outcome.status {
        Some(status) => put(line, format_args!(",\"status\":{}", status.as_u16())),
        None => put(line, format_args!(",\"status\":null")),
    }
    let (duration_us, wait_us) = (micros(outcome.duration), micros(outcome.wait));
    put(line, format_args!(",\"body_bytes\":{}", outcome.body_bytes));
    put(line, format_args!(",\"duration_us\":{duration_us},\"wait_us\":{wait_us}"));
    put(line, format_args!(",\"ended\":\"{}\"}}\n", ended_word(outcome.end_reason)));
}

/// Returns a line with the number of lines that are missing before it.
pub(super) fn dropped(lines: u64, time: &impl Display) -> String {
    format!("{{\"time\":\"{time}\",\"dropped_lines\":{lines}}}\n")
}

fn put_address(name: &str, peer: Peer, line: &mut Vec<u8>) {
    match peer.ip() {
        Some(ip) => put(line, format_args!(",\"{name}\":\"{ip}\"")),
        None => put(line, format_args!(",\"{name}\":\"unix:\"")),
    }
}

fn put_request(request: &RequestInfo, line: &mut Vec<u8>) {
    put_text("method", request.method.as_str().as_bytes(), line);
    put_text("target", request.target(), line);
    // The canonical path, which routes match: all spellings of a path have the same value here.
    if let Ok(path) = RequestPath::parse(request.path())
        && request.path() != b"*"
    {
        put_text("path", path.as_bytes(), line);
    }
    put_text("version", version_text(request.version).as_bytes(), line);
    for (name, value) in
        [("host", &request.host), ("referer", &request.referer), ("user_agent", &request.user_agent)]
    {
        if let Some(value) = request.value(value.as_ref()) {
            put_text(name, value, line);
        }
    }
}

fn put_text(name: &str, value: &[u8], line: &mut Vec<u8>) {
    put(line, format_args!(",\"{name}\":\""));
    for chunk in value.utf8_chunks() {
        chunk.valid().chars().for_each(|c| put_char(c, line));
        if !chunk.invalid().is_empty() {
            put_char(char::REPLACEMENT_CHARACTER, line);
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
