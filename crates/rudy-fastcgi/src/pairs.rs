//! Name-value pairs: two lengths of one or four bytes each, then the name and the value (section 3.4).

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use crate::record::{CONTENT_BYTES_MAX, HEADER_BYTES, Kind, RequestId, encode_stream_end, padded_header};
use crate::{Fault, Limits};

/// An iterator over encoded name-value pairs, which it borrows.
#[derive(Clone, PartialEq, Eq)]
pub struct Pairs<'a> {
    /// Complete pairs only.
    bytes: &'a [u8],
}

/// The parameters of one request, in one allocation.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Params {
    /// Complete pairs only.
    bytes: Bytes,
    count: usize,
}

/// Appends a name and its value.
///
/// # Panics
///
/// If the name or the value has 2^31 bytes or more, which cannot be encoded.
pub fn encode_pair(name: &[u8], value: &[u8], out: &mut BytesMut) {
    encode_lengths(name.len(), value.len(), out);
    out.put_slice(name);
    out.put_slice(value);
}

/// Encodes the parameters of a request pair by pair into the output buffer, without an intermediate copy. Begins a new
/// record when one is full.
///
/// ```
/// use bytes::BytesMut;
/// use rudy_fastcgi::RequestId;
/// use rudy_fastcgi::pairs::ParamsEncoder;
///
/// let mut out = BytesMut::new();
/// let mut params = ParamsEncoder::new(RequestId::MIN, &mut out);
/// params.push(b"REQUEST_METHOD", b"GET");
/// params.push(b"SCRIPT_NAME", b"/");
/// params.finish();
/// assert_eq!(out.len() % 8, 0);
/// ```
#[must_use = "the stream ends with `finish`"]
pub struct ParamsEncoder<'a> {
    id: RequestId,
    out: &'a mut BytesMut,
    /// Where the current record begins. Its header is written when the record is complete.
    start: usize,
}

impl<'a> ParamsEncoder<'a> {
    /// Begins the stream.
    pub fn new(id: RequestId, out: &'a mut BytesMut) -> Self {
        let start = out.len();
        out.put_bytes(0, HEADER_BYTES);
        Self { id, out, start }
    }

    /// Appends a parameter.
    ///
    /// # Panics
    ///
    /// As [`encode_pair`].
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        encode_pair(name, value, self.out);
        self.end_full_records();
    }

    /// Appends a parameter whose value is made of two parts.
    ///
    /// # Panics
    ///
    /// As [`encode_pair`].
    pub fn push_joined(&mut self, name: &[u8], start: &[u8], end: &[u8]) {
        encode_lengths(name.len(), start.len() + end.len(), self.out);
        self.push_encoded(name);
        self.push_encoded(start);
        self.push_encoded(end);
    }

    /// Appends a parameter whose name is a prefix and another name, which `spell` changes.
    ///
    /// # Panics
    ///
    /// As [`encode_pair`].
    pub fn push_spelled(&mut self, prefix: &[u8], name: &[u8], spell: impl FnOnce(&mut [u8]), value: &[u8]) {
        encode_lengths(prefix.len() + name.len(), value.len(), self.out);
        self.out.put_slice(prefix);
        let start = self.out.len();
        self.out.put_slice(name);
        spell(&mut self.out[start..]);
        self.out.put_slice(value);
        self.end_full_records();
    }

    /// Appends parameters that were encoded with [`encode_pair`], or a part of them.
    pub fn push_encoded(&mut self, pairs: &[u8]) {
        self.out.put_slice(pairs);
        self.end_full_records();
    }

    #[inline]
    fn end_full_records(&mut self) {
        if self.out.len() - self.start - HEADER_BYTES > CONTENT_BYTES_MAX {
            self.split_records();
        }
    }

    #[cold]
    fn split_records(&mut self) {
        while self.out.len() - self.start - HEADER_BYTES > CONTENT_BYTES_MAX {
            let next = self.start + HEADER_BYTES + CONTENT_BYTES_MAX;
            let overflow = self.out.split_off(next);
            self.fill();
            self.start = self.out.len();
            self.out.put_bytes(0, HEADER_BYTES);
            self.out.put_slice(&overflow);
        }
    }

    /// Ends the stream.
    pub fn finish(mut self) {
        if self.out.len() == self.start + HEADER_BYTES {
            // An empty record ends the stream by itself.
            self.out.truncate(self.start);
        } else {
            self.fill();
        }
        encode_stream_end(Kind::Params, self.id, self.out);
    }

    /// Completes the current record: writes its header and appends its padding.
    fn fill(&mut self) {
        let content_bytes = self.out.len() - self.start - HEADER_BYTES;
        let header = padded_header(Kind::Params, Some(self.id), content_bytes);
        self.out[self.start..self.start + HEADER_BYTES].copy_from_slice(&header.encode());
        self.out.put_bytes(0, header.padding_bytes.into());
    }
}

impl<'a> Pairs<'a> {
    /// Returns the pairs that were encoded with [`encode_pair`]. An incomplete one at the end is left out.
    #[must_use]
    pub fn encoded(bytes: &'a [u8]) -> Self {
        let mut rest = bytes;
        while let Some(after) = Lengths::decode(rest).and_then(|lengths| rest.get(lengths.pair()..)) {
            rest = after;
        }
        Self { bytes: &bytes[..bytes.len() - rest.len()] }
    }

    /// Checks the content of a complete record.
    pub(crate) fn whole(bytes: &'a [u8]) -> Result<Self, Fault> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let lengths = Lengths::decode(rest).ok_or(Fault::TruncatedPair)?;
            rest = rest.get(lengths.pair()..).ok_or(Fault::TruncatedPair)?;
        }
        Ok(Self { bytes })
    }

    /// Returns the value of a name: the first one, if there are several.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.clone().find(|(other, _)| *other == name.as_bytes()).map(|(_, value)| value)
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let lengths = Lengths::decode(self.bytes)?;
        let (pair, rest) = self.bytes.split_at_checked(lengths.pair())?;
        self.bytes = rest;
        Some(pair[lengths.prefix..].split_at(lengths.name))
    }
}

impl fmt::Debug for Pairs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.clone().map(|(name, value)| (Text(name), Text(value)))).finish()
    }
}

impl Params {
    /// Iterates over the parameters in the order in which they were received.
    #[must_use]
    pub fn iter(&self) -> Pairs<'_> {
        Pairs { bytes: &self.bytes }
    }

    /// Returns the value of a name: the first one, if there are several.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().get(name)
    }

    /// Number of parameters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no parameters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl<'a> IntoIterator for &'a Params {
    type Item = (&'a [u8], &'a [u8]);
    type IntoIter = Pairs<'a>;

    fn into_iter(self) -> Pairs<'a> {
        self.iter()
    }
}

impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.iter(), f)
    }
}

/// Decodes the parameter stream of a request, whose records may end anywhere within a pair.
#[derive(Debug, Default)]
pub(crate) struct ParamsDecoder {
    bytes: BytesMut,
    /// Bytes of complete pairs.
    whole: usize,
    count: usize,
}

impl ParamsDecoder {
    /// Appends a piece of the stream. Checks limits as soon as the lengths of a pair are known, before its data arrives.
    pub(crate) fn push(&mut self, piece: &[u8], limits: &Limits) -> Result<(), Fault> {
        let too_large = Fault::ParamsTooLarge { limit: limits.params_bytes };
        let capacity = limits.params_bytes.saturating_sub(self.bytes.len());
        // Report the first fault of the stream, independent of how it was split.
        self.bytes.extend_from_slice(&piece[..piece.len().min(capacity)]);
        while let Some(lengths) = Lengths::decode(&self.bytes[self.whole..]) {
            let end = self.whole.saturating_add(lengths.pair());
            if end > limits.params_bytes {
                return Err(too_large);
            }
            if end > self.bytes.len() {
                break;
            }
            if self.count == limits.params_count {
                return Err(Fault::TooManyParams { limit: limits.params_count });
            }
            self.whole = end;
            self.count += 1;
        }
        if piece.len() > capacity { Err(too_large) } else { Ok(()) }
    }

    /// Ends the stream.
    pub(crate) fn finish(self) -> Result<Params, Fault> {
        if self.whole < self.bytes.len() {
            return Err(Fault::TruncatedPair);
        }
        Ok(Params { bytes: self.bytes.freeze(), count: self.count })
    }
}

/// The two lengths in front of a pair.
struct Lengths {
    /// Number of bytes that encode the lengths.
    prefix: usize,
    name: usize,
    value: usize,
}

impl Lengths {
    /// Returns `None` if the lengths are incomplete.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (name, first) = decode_length(bytes)?;
        let (value, second) = decode_length(&bytes[first..])?;
        Some(Self { prefix: first + second, name, value })
    }

    /// Size of the pair including its lengths. Saturates where a `usize` has 32 bits and cannot hold the sum.
    fn pair(&self) -> usize {
        self.prefix.saturating_add(self.name).saturating_add(self.value)
    }
}

/// Decodes a length, and returns the number of bytes that encode it: one up to 127, else four with the highest bit set.
fn decode_length(bytes: &[u8]) -> Option<(usize, usize)> {
    match *bytes {
        [short @ 0..=127, ..] => Some((short.into(), 1)),
        [a, b, c, d, ..] => Some(((u32::from_be_bytes([a, b, c, d]) & !LONG) as usize, 4)),
        _ => None,
    }
}

/// Appends both lengths of a pair: at once if they are short, as nearly all are.
#[inline]
fn encode_lengths(name: usize, value: usize, out: &mut BytesMut) {
    if let (Ok(name @ 0..=127), Ok(value @ 0..=127)) = (u8::try_from(name), u8::try_from(value)) {
        out.put_slice(&[name, value]);
    } else {
        encode_length(name, out);
        encode_length(value, out);
    }
}

fn encode_length(length: usize, out: &mut BytesMut) {
    if let Ok(short @ 0..=127) = u8::try_from(length) {
        out.put_u8(short);
    } else {
        let long = u32::try_from(length).ok().filter(|long| long & LONG == 0);
        out.put_u32(LONG | long.expect("no name and no value has 2^31 bytes"));
    }
}

/// The bit that marks a length of four bytes.
const LONG: u32 = 1 << 31;

/// Formats bytes as text, with escapes.
struct Text<'a>(&'a [u8]);

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}
