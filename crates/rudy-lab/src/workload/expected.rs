//! Checks a response before a run, so that no figure comes from errors, wrong files, or responses that are not compressed.

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use flate2::read::MultiGzDecoder;
use rudy_experiment::plan::{Encoding, Expect, Kind, Workload};
use serde::Deserialize;

use super::{own_program, request_arguments};
use crate::variant::Workspace;

/// Maximum time for the response.
const TIMEOUT: &str = "5s";

/// The arguments of a workload that change its requests, each followed by a value.
const REQUEST_FLAGS: [&str; 6] = ["-m", "--method", "-X", "-b", "--body", "--data"];

/// The report of `rudy get`, with the fields that are checked.
#[derive(Deserialize)]
struct Report {
    status: u16,
    http_version: String,
}

/// Requests what the workload requests, once, and compares the response with what the workload expects.
///
/// # Errors
///
/// A sentence with the difference, and the command that shows it.
pub(crate) fn check(workload: &Workload, workspace: &Workspace<'_>) -> Result<(), String> {
    let Some(expect) = &workload.expect else { return Ok(()) };
    let file = workspace.folder().join("response");
    let command = command(workload, workspace, &file);
    let wrong = |why: String| {
        format!("the response is not the expected one: {why}; it was to `{}`", command.join(" "))
    };
    let cannot = |error: std::io::Error| format!("cannot check the response: {error}");
    let mut get = Command::new(&command[0]);
    let output = get.args(&command[1..]).stdin(Stdio::null()).process_group(0).output().map_err(cannot)?;
    let report: Report = serde_json::from_slice(&output.stdout)
        .ok()
        .filter(|_| output.status.success())
        .ok_or_else(|| wrong(String::from_utf8_lossy(&output.stderr).trim().to_owned()))?;
    let wanted_version = if is_http2(workload) { "2" } else { "1.1" };
    if report.http_version != wanted_version {
        return Err(wrong(format!("HTTP/{} instead of HTTP/{wanted_version}", report.http_version)));
    }
    let body = expect.body.as_ref().map(|path| fs::read(workspace.file(path)));
    let (body, response) = (body.transpose().map_err(cannot)?, fs::read(&file).map_err(cannot)?);
    compare(expect, report.status, &response, body.as_deref()).map_err(wrong)
}

fn is_http2(workload: &Workload) -> bool {
    matches!(workload.kind, Kind::Bench { streams: Some(_), .. })
}

/// `rudy get` with the request of the workload. Writes head and body to this file.
fn command(workload: &Workload, workspace: &Workspace<'_>, file: &Path) -> Vec<String> {
    let version = if is_http2(workload) { "--http2-prior-knowledge" } else { "--http1.1" };
    let mut command = vec![own_program()];
    let flags = ["get", "-i", "--json", "--no-backoff", "--timeout", TIMEOUT, version, "-o"];
    command.extend(flags.map(str::to_owned));
    command.push(file.to_string_lossy().into_owned());
    // The other arguments are about the load, and may be unknown to `rudy get`.
    let request = workload.arguments.windows(2).filter(|pair| REQUEST_FLAGS.contains(&pair[0].as_str()));
    command.extend(request.flatten().map(|argument| workspace.fill(argument)));
    command.extend(request_arguments(workload, workspace));
    command
}

/// Compares a response, with its head, with the expected one, whose body is that of the plan's file.
fn compare(expect: &Expect, status: u16, response: &[u8], file: Option<&[u8]>) -> Result<(), String> {
    if status != expect.status {
        return Err(format!("status {status} instead of {}", expect.status));
    }
    let Some(file) = file else { return Ok(()) };
    let end = response.windows(4).position(|bytes| bytes == b"\r\n\r\n").map_or(response.len(), |at| at + 4);
    let (head, body) = response.split_at(end);
    let coding = coding(&String::from_utf8_lossy(head));
    let decoded;
    let decoded = match (expect.encoding, coding.as_str()) {
        (None, "") => body,
        (Some(Encoding::Gzip), "gzip") => {
            decoded = decompressed(body, file.len())
                .map_err(|error| format!("it cannot be decompressed: {error}"))?;
            &decoded
        }
        (Some(_), "") => return Err("it is not compressed".to_owned()),
        (_, other) => return Err(format!("its content coding is {other}")),
    };
    if decoded.len() != file.len() {
        return Err(format!("a body of {} bytes instead of {}", decoded.len(), file.len()));
    }
    if decoded != file {
        return Err(format!("a body of {} bytes, as long as expected, with different content", file.len()));
    }
    Ok(())
}

/// The value of `Content-Encoding`; empty without one.
fn coding(head: &str) -> String {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let field = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-encoding"));
    field.map_or_else(String::new, |(_, value)| value.trim().to_ascii_lowercase())
}

/// At most one byte more than expected, so that a wrong response does not fill the memory.
fn decompressed(body: &[u8], expected: usize) -> std::io::Result<Vec<u8>> {
    let mut decoded = Vec::with_capacity(expected);
    MultiGzDecoder::new(body).take(expected as u64 + 1).read_to_end(&mut decoded)?;
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn each_difference_between_a_response_and_the_expected_one_is_named() {
        let text = b"a page";
        let response =
            |field: &str, body: &[u8]| [format!("HTTP/1.1 200 OK\r\n{field}\r\n").as_bytes(), body].concat();
        let gzipped = response("Content-Encoding: gzip\r\n", &gzip(text));
        for (encoding, status, response, expected) in [
            (None, 200, response("", text), Ok(())),
            (None, 503, response("", text), Err("status 503 instead of 200")),
            (None, 200, response("", b"a pag"), Err("a body of 5 bytes instead of 6")),
            (
                None,
                200,
                response("", b"A page"),
                Err("a body of 6 bytes, as long as expected, with different content"),
            ),
            (None, 200, gzipped.clone(), Err("its content coding is gzip")),
            (Some(Encoding::Gzip), 200, gzipped.clone(), Ok(())),
            (Some(Encoding::Gzip), 200, response("", text), Err("it is not compressed")),
            (
                Some(Encoding::Gzip),
                200,
                response("content-encoding: br\r\n", text),
                Err("its content coding is br"),
            ),
            (
                Some(Encoding::Gzip),
                200,
                response("Content-Encoding: gzip\r\n", &gzip(b"a page that is longer")),
                Err("a body of 7 bytes instead of 6"),
            ),
            (
                Some(Encoding::Gzip),
                200,
                response("Content-Encoding: gzip\r\n", text),
                Err("it cannot be decompressed: unexpected end of file"),
            ),
        ] {
            let expect = Expect { status: 200, body: Some("a".to_owned()), encoding, cached: false };
            let found = compare(&expect, status, &response, Some(text));
            assert_eq!(found, expected.map_err(str::to_owned), "{encoding:?} {status}");
        }
    }
}
