//! Headers of the PROXY protocol: accepted or rejected with the same result at every split, without reading a byte after them.

use rudy_net::proxy_header::{ParseStatus, ProxiedClient, ProxyHeaderError, parse};

/// The maximum size of a header.
const BYTES_MAX: usize = 4096;

pub(crate) fn run(bytes: &[u8]) {
    let (whole, read) = read(bytes, usize::MAX);
    let (pieces, read_in_pieces) = self::read(bytes, 1);
    // The error may differ: a line can be too long before it is malformed.
    let (whole, pieces) = (whole.and_then(Result::ok), pieces.and_then(Result::ok));
    assert_eq!(whole, pieces);
    if whole.is_some() {
        assert_eq!(read, read_in_pieces);
    }
}

/// Reads at most `at_once` bytes at a time, and never more than the header needs. `None` if the header is incomplete.
fn read(bytes: &[u8], at_once: usize) -> (Option<Result<ProxiedClient, ProxyHeaderError>>, usize) {
    let mut read = 0;
    loop {
        match parse(&bytes[..read]) {
            Ok(ParseStatus::Complete(client)) => return (Some(Ok(client)), read),
            Err(error) => return (Some(Err(error)), read),
            Ok(ParseStatus::Incomplete(needs)) => {
                assert!(needs > 0 && read + needs <= BYTES_MAX, "{needs} more than {read}");
                if read == bytes.len() {
                    return (None, read);
                }
                read += needs.min(at_once).min(bytes.len() - read);
            }
        }
    }
}
