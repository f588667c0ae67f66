//! The combined format of Apache and nginx, which every log reader knows, and three columns after it:
//!
//! ```text
//! 192.0.2.7 - - [21/Nov/2026:04:05:06 +0100] "GET /a HTTP/1.1" 200 512 "https://example.org/" "curl/8" 812 790 complete
//! address        time                        request line      status  referer               user agent
//!                                                                  bytes             duration µs, wait µs, how it ended
//! ```

use std::io::Write;

use http::StatusCode;

use super::{Asked, Record, ended_word, micros, version_text};

/// Appends the line of `record`, its newline included.
pub(super) fn write(record: &Record<'_>, time: &str, line: &mut Vec<u8>) {
    match record.client.address().ip() {
        Some(ip) => put(line, format_args!("{ip}")),
        None => line.extend_from_slice(b"unix:"),
    }
    put(line, format_args!(" - - [{time}] "));
    put_request_line(record.asked, line);
    let outcome = record.outcome;
    // Readers want three digits; a peer that was gone before there was an answer got no status.
    put(
        line,
        format_args!(
            " {} {} ",
            outcome.status.as_ref().map_or("000", StatusCode::as_str),
            outcome.body_bytes
        ),
    );
    put_field(record.asked.and_then(|asked| asked.value(asked.referer.as_ref())), line);
    line.push(b' ');
    put_field(record.asked.and_then(|asked| asked.value(asked.user_agent.as_ref())), line);
    let (duration_us, wait_us) = (micros(outcome.duration), micros(outcome.wait));
    put(line, format_args!(" {duration_us} {wait_us} {}\n", ended_word(outcome.end_reason)));
}

/// A line that log readers pass over.
pub(super) fn dropped(lines: u64, time: &str) -> String {
    format!("# [{time}] {lines} lines dropped here: they came faster than they could be written\n")
}

fn put_request_line(asked: Option<&Asked>, line: &mut Vec<u8>) {
    let Some(asked) = asked else { return line.extend_from_slice(b"\"-\"") };
    line.push(b'"');
    put_escaped(asked.method.as_str().as_bytes(), line);
    line.push(b' ');
    put_escaped(asked.target(), line);
    put(line, format_args!(" {}\"", version_text(asked.version)));
}

fn put_field(value: Option<&[u8]>, line: &mut Vec<u8>) {
    line.push(b'"');
    put_escaped(value.unwrap_or(b"-"), line);
    line.push(b'"');
}

fn put(line: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    line.write_fmt(text).expect("a Vec takes everything");
}

/// What could end a quoted column, end the line, or talk to a terminal is written `\xHH`, as nginx does.
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
