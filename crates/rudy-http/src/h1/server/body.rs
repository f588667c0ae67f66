//! Decodes request bodies, with any framing.

use rudy_message::{BodyLength, Malformed};

use crate::Limits;
use crate::h1::chunked::{Chunked, Decoded};
use crate::h1::length::split_up_to;

/// A decoder for one request body.
#[derive(Debug)]
pub(super) enum BodyDecoder {
    /// The number of bytes still to come.
    Length(u64),
    /// Boxed, because few requests are chunked and every connection has room for the largest variant.
    Chunked(Box<Chunked>),
}

impl BodyDecoder {
    /// Creates a decoder for a body of this length; `None` if there is no body.
    pub(super) fn new(length: BodyLength) -> Option<Self> {
        match length {
            BodyLength::Known(0) => None,
            BodyLength::Known(length) => Some(Self::Length(length)),
            BodyLength::Chunked => Some(Self::Chunked(Box::new(Chunked::new()))),
        }
    }

    /// Returns how many of the next bytes certainly belong to the body.
    pub(super) fn remaining(&self) -> u64 {
        match self {
            Self::Length(remaining) => *remaining,
            Self::Chunked(chunked) => chunked.remaining_of_chunk(),
        }
    }

    pub(super) fn decode<'a>(
        &mut self,
        bytes: &'a [u8],
        limits: &Limits,
    ) -> Result<(usize, Decoded<'a>), Malformed> {
        match self {
            Self::Chunked(chunked) => chunked.decode(bytes, limits),
            Self::Length(0) => Ok((0, Decoded::End(None))),
            Self::Length(_) if bytes.is_empty() => Ok((0, Decoded::NeedData)),
            Self::Length(remaining) => {
                let data = split_up_to(remaining, bytes);
                Ok((data.len(), Decoded::Data(data)))
            }
        }
    }

    /// Discards the part of the body in `bytes`. Returns the bytes used, and whether the body has ended.
    pub(super) fn discard(
        &mut self,
        bytes: &[u8],
        drained: &mut u64,
        limits: &Limits,
    ) -> Result<(usize, bool), Malformed> {
        if let Self::Length(remaining) = self {
            let length = split_up_to(remaining, bytes).len();
            *drained += length as u64;
            return Ok((length, *remaining == 0));
        }
        let mut used = 0;
        loop {
            let (more, decoded) = self.decode(&bytes[used..], limits)?;
            used += more;
            *drained += more as u64;
            match decoded {
                Decoded::Data(_) if *drained <= limits.drain_bytes => {}
                Decoded::Data(_) | Decoded::NeedData => return Ok((used, false)),
                Decoded::End(_) => return Ok((used, true)),
            }
        }
    }
}
