//! Bodies, after their content codings are decoded.

use std::borrow::Cow;
use std::io::{self, Read};

use rudy_tls::sha256;

use super::{Difference, Kind};
use crate::Response;
use crate::response::Body;

/// Maximum size of a decoded body, in bytes. A few kilobytes can decode to gigabytes.
const DECODED_BYTES_MAX: u64 = 64 << 20;

/// Number of bytes of a hash that a report shows.
const HASH_BYTES: usize = 6;

/// A body that can be compared.
struct Content<'a> {
    bytes: Cow<'a, [u8]>,
    /// The length of the whole body; `None` if only its start was decoded.
    length: Option<u64>,
}

pub(super) fn compare(old: &Response, new: &Response) -> Vec<Difference> {
    let mut differences = Vec::new();
    let codings = [coding(old), coding(new)];
    if codings[0] != codings[1] && !old.body.bytes.is_empty() && !new.body.bytes.is_empty() {
        let subject = format!("compression of {}", old.media_type());
        differences.push(Difference::new(Kind::Compression, subject).between(&codings[0], &codings[1]));
    }
    let kind = if old.has_own_page() { Kind::ErrorPage } else { Kind::Body };
    let subject = match kind {
        Kind::ErrorPage => format!("body of {} responses", old.status),
        _ => format!("body of {}", old.media_type()),
    };
    let difference = |detail| Difference::new(kind, subject).with_detail(detail);
    match (content(&old.body, &codings[0]), content(&new.body, &codings[1])) {
        (Ok(a), Ok(b)) if a.is_same(&b) => {}
        (Ok(a), Ok(b)) => differences.push(difference(format!("{} → {}", a.shown(), b.shown()))),
        (Err(_), Err(_)) if old.body == new.body => {}
        (a, b) => {
            let shown = |content: Result<Content<'_>, io::Error>, coding: &str| match content {
                Ok(content) => content.shown(),
                Err(error) => format!("not decodable as {coding} ({error})"),
            };
            differences.push(difference(format!("{} → {}", shown(a, &codings[0]), shown(b, &codings[1]))));
        }
    }
    differences
}

/// The name of the content coding, or `none`.
fn coding(response: &Response) -> String {
    let coding = response.field("content-encoding").unwrap_or_default().trim().to_ascii_lowercase();
    match coding.as_str() {
        "" | "identity" => "none".to_owned(),
        "x-gzip" => "gzip".to_owned(),
        _ => coding,
    }
}

/// The decoded body of a response, as far as it is kept. Empty if it cannot be decoded.
pub(crate) fn decoded(response: &Response) -> Cow<'_, [u8]> {
    content(&response.body, &coding(response)).map(|content| content.bytes).unwrap_or_default()
}

fn content<'a>(body: &'a Body, coding: &str) -> io::Result<Content<'a>> {
    let bytes = body.bytes.as_slice();
    let reader: Box<dyn Read + '_> = match coding {
        // The body of a response to HEAD is empty, whatever its coding.
        _ if bytes.is_empty() => Box::new(io::empty()),
        "gzip" => Box::new(flate2::read::MultiGzDecoder::new(bytes)),
        "deflate" => Box::new(flate2::read::ZlibDecoder::new(bytes)),
        "br" => Box::new(brotli::Decompressor::new(bytes, 4096)),
        "zstd" => Box::new(zstd::Decoder::new(bytes)?),
        _ => return Ok(Content { bytes: Cow::Borrowed(bytes), length: Some(body.length) }),
    };
    let is_whole = body.length == bytes.len() as u64;
    let mut decoded = Vec::new();
    let result = reader.take(DECODED_BYTES_MAX).read_to_end(&mut decoded);
    if is_whole {
        result?;
    }
    let length = decoded.len() as u64;
    let length = (is_whole && length < DECODED_BYTES_MAX).then_some(length);
    Ok(Content { bytes: Cow::Owned(decoded), length })
}

impl Content<'_> {
    fn is_same(&self, other: &Self) -> bool {
        if let (Some(a), Some(b)) = (self.length, other.length)
            && a != b
        {
            return false;
        }
        let common = self.bytes.len().min(other.bytes.len());
        self.bytes[..common] == other.bytes[..common]
    }

    fn shown(&self) -> String {
        let hash = sha256(&self.bytes);
        let hash = hash.iter().take(HASH_BYTES).fold(0_u64, |hash, byte| hash << 8 | u64::from(*byte));
        let length = self.length.map_or_else(|| format!("more than {}", self.bytes.len()), |n| n.to_string());
        format!("{length} bytes, sha256 {hash:012x}…")
    }
}
