//! The exchange format of `HdrHistogram` tools: V2, deflated, in base64.
//!
//! There is no document but the reference implementation, `AbstractHistogram.java` of
//! <https://github.com/HdrHistogram/HdrHistogram> (`encodeIntoCompressedByteBuffer`, `fillBufferFromCountsArray`,
//! `ZigZagEncoding`). All numbers are big-endian but for those of the list:
//!
//! ```text
//! outside   u32  0x1c84_9314        deflated follows
//!           u32  length             of the zlib stream
//!           ...  zlib stream of the inside
//! inside    u32  0x1c84_9313        version 2
//!           u32  length             of the list, in bytes
//!           u32  0                  offset of the cells' index: only for values shifted by doubling
//!           u32  3                  significant digits
//!           u64  1                  lowest value told apart from 0
//!           u64  3.6e12             highest value told apart
//!           f64  1.0                what one unit is worth, for histograms of fractions
//!           ...  list: per cell its count; a run of n empty cells is -n. Zigzag, LEB128, at most 9 bytes each
//! ```
//!
//! The format has no unit. Rudy uses nanoseconds, and names the unit in the key next to the blob.

#[cfg(test)]
mod tests;

use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use super::{DIGITS, Histogram, MAX_NS};

const COOKIE_DEFLATED: u32 = 0x1c84_9314;
const COOKIE: u32 = 0x1c84_9313;
const HEADER_BYTES: usize = 40;

/// The width of cells doubles every 1024 cells; this is the exponent of 2.
const HALF_CELLS_BITS: u32 = 10;

/// The number of cells up to an hour, plus one half for the rounding.
const CELLS_MAX: usize = 34 << HALF_CELLS_BITS;

/// Maximum size of an inflated blob: each cell with the longest count. A few bytes of zlib could inflate to
/// gigabytes.
const PAYLOAD_BYTES_MAX: usize = HEADER_BYTES + 9 * CELLS_MAX;

/// Above this, a count is not exact in an `f64`. No run reaches 9 × 10¹⁵ requests.
const COUNT_MAX: u64 = 1 << 53;

/// The reason that a text is not a compatible histogram.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// It is not base64.
    #[error("the histogram is not base64: {0}")]
    NotBase64(String),
    /// It does not start like a deflated V2 histogram.
    #[error("not a deflated HdrHistogram V2, which begins with `HISTFAAA`")]
    NotV2,
    /// It is truncated, has trailing data, or is inconsistent.
    #[error("the histogram is damaged: {0}")]
    Damaged(&'static str),
    /// It is a histogram with other cells, so merging would not be exact.
    #[error(
        "the histogram has {digits} significant digits from {lowest} upward, where {DIGITS} from 1 are expected: it cannot be joined without loss"
    )]
    OtherCells {
        /// Its number of significant digits.
        digits: u32,
        /// Its lowest distinguished value.
        lowest: u64,
    },
}

impl Histogram {
    /// Encodes the histogram for `HdrHistogram` tools: V2, deflated, base64. The values are nanoseconds.
    #[must_use]
    pub fn to_base64(&self) -> String {
        let mut deflated = ZlibEncoder::new(Vec::new(), Compression::default());
        let deflated = deflated
            .write_all(&self.payload())
            .and_then(|()| deflated.finish())
            .expect("writing to memory does not fail");
        let mut blob = Vec::with_capacity(8 + deflated.len());
        blob.extend(COOKIE_DEFLATED.to_be_bytes());
        blob.extend(length(&deflated));
        blob.extend(deflated);
        STANDARD.encode(blob)
    }

    /// Decodes the output of [`to_base64`](Self::to_base64), or of another tool with the same cells (values
    /// from 1, three digits, any highest value). The values are read as nanoseconds.
    pub fn from_base64(text: &str) -> Result<Self, BlobError> {
        let blob = STANDARD.decode(text.trim()).map_err(|error| BlobError::NotBase64(error.to_string()))?;
        let mut outside = Bytes(&blob);
        if outside.u32() != Ok(COOKIE_DEFLATED) {
            return Err(BlobError::NotV2);
        }
        let deflated = outside.exactly()?;
        let mut payload = Vec::new();
        let limit = PAYLOAD_BYTES_MAX as u64 + 1;
        match ZlibDecoder::new(deflated).take(limit).read_to_end(&mut payload) {
            Err(_) => Err(BlobError::Damaged("it cannot be inflated")),
            Ok(bytes) if bytes > PAYLOAD_BYTES_MAX => {
                Err(BlobError::Damaged("it has more cells than an hour needs"))
            }
            Ok(_) => read(Bytes(&payload)),
        }
    }

    fn payload(&self) -> Vec<u8> {
        let encoded_counts = self.encoded_counts();
        let mut payload = Vec::with_capacity(HEADER_BYTES + encoded_counts.len());
        payload.extend(COOKIE.to_be_bytes());
        payload.extend(length(&encoded_counts));
        payload.extend(0_u32.to_be_bytes());
        payload.extend(u32::from(DIGITS).to_be_bytes());
        payload.extend(1_u64.to_be_bytes());
        payload.extend(MAX_NS.to_be_bytes());
        payload.extend(1.0_f64.to_be_bytes());
        payload.extend(encoded_counts);
        payload
    }

    /// The counts of the cells up to the last non-empty one.
    fn encoded_counts(&self) -> Vec<u8> {
        let mut encoded_counts = Vec::new();
        let mut next = 0;
        for (end, count) in self.cells() {
            let cell = cell_of(u64::try_from(end.as_nanos()).unwrap_or(MAX_NS));
            match cell - next {
                0 => {}
                // A single empty cell is a count of 0, as in the reference implementation.
                1 => push(&mut encoded_counts, 0),
                run => push(&mut encoded_counts, -run),
            }
            push(&mut encoded_counts, i64::try_from(count).unwrap_or(i64::MAX));
            next = cell + 1;
        }
        if encoded_counts.is_empty() {
            push(&mut encoded_counts, 0);
        }
        encoded_counts
    }
}

/// Decodes the inside of a blob.
fn read(mut payload: Bytes<'_>) -> Result<Histogram, BlobError> {
    if payload.u32()? != COOKIE {
        return Err(BlobError::NotV2);
    }
    let list_length = payload.u32()?;
    let offset = payload.u32()?;
    let (digits, lowest) = (payload.u32()?, payload.u64()?);
    let _highest = payload.u64()?;
    let unit = f64::from_bits(payload.u64()?);
    if (digits, lowest) != (u32::from(DIGITS), 1) {
        return Err(BlobError::OtherCells { digits, lowest });
    }
    if offset != 0 || unit.to_bits() != 1.0_f64.to_bits() {
        return Err(BlobError::Damaged("it contains fractions, not whole nanoseconds"));
    }
    if payload.0.len() != list_length as usize {
        return Err(BlobError::Damaged("the length of its list of counts is wrong"));
    }
    read_counts(payload)
}

fn read_counts(mut encoded_counts: Bytes<'_>) -> Result<Histogram, BlobError> {
    let mut histogram = Histogram::new();
    let (mut cell, mut total) = (0_u64, 0_u64);
    while !encoded_counts.0.is_empty() {
        let entry = encoded_counts.zigzag()?;
        if entry < 0 {
            cell = cell.saturating_add(entry.unsigned_abs());
        } else {
            total = total.saturating_add(entry.unsigned_abs());
            if entry > 0 {
                let value = value_of(cell).ok_or(BlobError::Damaged("it counts beyond the last cell"))?;
                histogram.counts.saturating_record_n(value.min(MAX_NS), entry.unsigned_abs());
            }
            cell = cell.saturating_add(1);
        }
        if total > COUNT_MAX {
            return Err(BlobError::Damaged("its counts are too large"));
        }
    }
    Ok(histogram)
}

/// The index of the cell in which a value is counted.
fn cell_of(value: u64) -> i64 {
    let shift = (u64::BITS - 1 - HALF_CELLS_BITS).saturating_sub(value.leading_zeros());
    i64::from(shift << HALF_CELLS_BITS) + (value >> shift).cast_signed()
}

/// The lowest value of a cell; `None` beyond the cells of a histogram.
fn value_of(cell: u64) -> Option<u64> {
    if cell >= CELLS_MAX as u64 {
        return None;
    }
    let shift = (cell >> HALF_CELLS_BITS).saturating_sub(1);
    Some((cell - (shift << HALF_CELLS_BITS)) << shift)
}

fn length(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).expect("at most 9 bytes for each of 34,816 cells").to_be_bytes()
}

/// Appends a number: the sign in the lowest bit, then seven bits per byte from the lowest, and all bits of
/// the ninth byte.
fn push(encoded_counts: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)).cast_unsigned();
    for _ in 0..8 {
        let low = rest.to_le_bytes()[0];
        rest >>= 7;
        if rest == 0 {
            encoded_counts.push(low & 0x7f);
            return;
        }
        encoded_counts.push(low | 0x80);
    }
    encoded_counts.push(rest.to_le_bytes()[0]);
}

/// The remaining input.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], BlobError> {
        let (first, rest) = self.0.split_first_chunk().ok_or(BlobError::Damaged("it ends early"))?;
        self.0 = rest;
        Ok(*first)
    }

    fn u32(&mut self) -> Result<u32, BlobError> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, BlobError> {
        self.take().map(u64::from_be_bytes)
    }

    /// The remaining bytes, whose length is in the next four bytes.
    fn exactly(&mut self) -> Result<&'a [u8], BlobError> {
        if self.u32()? as usize == self.0.len() {
            Ok(self.0)
        } else {
            Err(BlobError::Damaged("its length is wrong"))
        }
    }

    /// Decodes the output of [`push`].
    fn zigzag(&mut self) -> Result<i64, BlobError> {
        let mut number = 0_u64;
        for place in 0..9 {
            let [byte] = self.take()?;
            let last = place == 8;
            let bits = if last { byte } else { byte & 0x7f };
            number |= u64::from(bits) << (7 * place);
            if last || byte < 0x80 {
                break;
            }
        }
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }
}
