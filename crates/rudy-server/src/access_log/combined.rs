//! The combined format of Apache and nginx, which every log analyzer can read, with three more columns:
//!
//! ```text
//! 192.0.2.7 - - [21/Nov/2026:04:05:06 +0100] "GET /a HTTP/1.1" 200 512 "https://example.org/" "curl/8" 812 790 complete
//! address        time                        request line      status  referer               user agent
//!                                                                  bytes             duration µs, wait µs, how it ended
//! ```

use std::io::Write;

use http::StatusCode;

use super::{Record, RequestInfo, ended_word, micros, version_text};

/// Appends the line of `record`, its newline included.
pub(super) fn write(record: &Record<'_>, time: &str, line: &mut Vec<u8>) {
    match record.client.address().ip() {
        Some(ip) => put(line, format_args!("{ip}")),
        None => line.extend_from_slice(b"unix:"),
    }
    put(line, format_args!(" - - [{time}] "));
    put_request_line(record.request, line);
    let outcome = record.outcome;
    // Log analyzers need three digits. There is no status if the peer closed the connection before the response.
    put(
        line,
        format_args!(
            " {} {} ",
            outcome.status.as_ref().map_or("000", StatusCode::as_str),
            outcome.body_bytes
        ),
    );
    put_field(record.request.and_then(|request| request.value(request.referer.as_ref())), line);
    line.push(b' ');
    put_field(record.request.and_then(|request| request.value(request.user_agent.as_ref())), line);
    let (duration_us, wait_us) = (micros(outcome.duration), micros(outcome.wait));
    put(line, format_args!(" {duration_us} {wait_us} {}\n", ended_word(outcome.end_reason)));
}

/// Returns a line with the number of dropped ones, as a comment that log analyzers skip.
pub(super) fn dropped(lines: u64, time: &str) -> String {
    format!("# [{time}] {lines} lines dropped here, because writing is too slow or the disk was full\n")
}

fn put_request_line(request: Option<&RequestInfo>, line: &mut Vec<u8>) {
    let Some(request) = request else { return line.extend_from_slice(b"\"-\"") };
    line.push(b'"');
    put_escaped(request.method.as_str().as_bytes(), line);
    line.push(b' ');
    put_escaped(request.target(), line);
    put(line, format_args!(" {}\"", version_text(request.version)));
}

fn put_field(value: Option<&[u8]>, line: &mut Vec<u8>) {
    line.push(b'"');
    put_escaped(value.unwrap_or(b"-"), line);
    line.push(b'"');
}

fn put(line: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    line.write_fmt(text).expect("writing to a Vec cannot fail");
}

/// Appends text and escapes quotes, line breaks and control characters as `\xHH`, as nginx does.
fn put_escaped(bytes: &[u8], line: &mut Vec<u8>) {
    for &byte in bytes {
        if must_escape(byte) {
            put(line, format_args!("\\x{byte:02X}"));
        } else {
            line.push(byte);
        }
    }
}

fn must_escape(byte: u8) -> bool {
    !matches!(byte, b' '..=b'~') || byte == b'"' || byte == b'\\'
}
