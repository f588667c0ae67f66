//! Content of test files, and requests of curl for them.

use rudy_tests::prelude::*;

/// Returns content without repeated parts, so that a wrong offset is detected.
pub(crate) fn varied(bytes: usize) -> Vec<u8> {
    (0u64..).flat_map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()).take(bytes).collect()
}

/// Returns compressible text without repeated lines.
pub(crate) fn text(lines: usize) -> String {
    let lines: Vec<_> = (0..lines).map(|n| format!("line {n} of a text that says little\n")).collect();
    lines.concat()
}

/// Sets the modification time to an hour ago.
pub(crate) fn make_older(path: &Path) {
    let hour_ago = SystemTime::now() - Duration::from_hours(1);
    let file = fs::File::options().write(true).open(path).expect("the file is writable");
    file.set_modified(hour_ago).expect("the file is writable");
}

/// Requests `path` with curl.
pub(crate) fn get(curl: &Curl, server: &Server, path: &str, arguments: &[&str]) -> CurlResult {
    let url = server.url(path);
    curl.run(arguments.iter().copied().chain([url.as_str()]))
}
