//! Compression of responses over real sockets: streams, failures, clients that leave, protocols.

mod failures;
mod protocols;
mod streams;

use std::fmt::Write as _;

use rudy_tests::prelude::*;

/// Starts a server that compresses what `upstream` sends, with these settings of the site.
fn proxy(upstream: &Upstream, settings: &str) -> Server {
    Server::config(&config(upstream, settings))
}

fn config(upstream: &Upstream, settings: &str) -> String {
    let mut text = String::from("listen = ['127.0.0.1:0,h2c']\n[[site]]\n");
    let _ = write!(text, "{settings}\n[[site.route]]\npath = '/*'\nproxy = '{}'\n", upstream.url());
    text
}

/// Decodes gzip as far as possible. Returns whether it is complete.
fn gunzip(bytes: &[u8]) -> (String, bool) {
    let mut decoder = flate2::read::GzDecoder::new(bytes);
    let (mut plain, mut part) = (Vec::new(), [0; 4096]);
    let is_complete = loop {
        match decoder.read(&mut part) {
            Ok(0) => break true,
            Ok(length) => plain.extend_from_slice(&part[..length]),
            Err(_) => break false,
        }
    };
    (String::from_utf8(plain).expect("the text is ASCII"), is_complete)
}

/// Text that is larger than a piece, the buffers of sockets and what Rudy reads ahead in memory.
fn long_text() -> String {
    (0_u32..400_000).fold(String::new(), |mut text, number| {
        let _ = write!(text, "{:x} ", number.wrapping_mul(2_654_435_761));
        text
    })
}
