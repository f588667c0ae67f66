//! An encoder of a content coding that writes into memory.

use std::io::{self, Write};

use rudy_message::semantics::negotiation::Coding;

/// Window size of Brotli and Zstandard while a response is sent, as a power of two: 256 KiB, enough for a page. It limits the tables
/// of Zstandard too.
const LIVE_WINDOW: u32 = 18;
/// Maximum level of Brotli while a response is sent. At this level an encoder needs 5 MiB; one level higher it needs 11 MiB to save
/// 1 % of the size.
const LIVE_BROTLI_LEVEL_MAX: u32 = 6;
/// The largest window of Brotli (RFC 7932 §9.1). Zstandard stays within the 8 MiB of RFC 9659 at all levels up to 19.
const BROTLI_WINDOW_MAX: u32 = 24;
const BROTLI_BUFFER_BYTES: usize = 4096;

/// How much memory and time an encoder may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// For a response that is sent at the same time.
    Live,
    /// For a file that is compressed once.
    Once,
}

/// An encoder that writes into memory.
pub enum Encoder {
    /// No coding.
    Identity(Vec<u8>),
    /// RFC 1952.
    Gzip(flate2::write::GzEncoder<Vec<u8>>),
    /// RFC 8878.
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    /// RFC 7932.
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
}

impl Encoder {
    /// Creates an encoder. `size` is the number of bytes to compress, if known.
    pub fn new(coding: Coding, level: u8, size: Option<u64>, effort: Effort) -> io::Result<Self> {
        let level = u32::from(level);
        Ok(match coding {
            Coding::Identity => Self::Identity(Vec::new()),
            Coding::Gzip => {
                Self::Gzip(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(level)))
            }
            Coding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), level.cast_signed())?;
                if effort == Effort::Live {
                    encoder.window_log(LIVE_WINDOW)?;
                }
                // Without the size, the tables are allocated for the largest possible file.
                encoder.set_pledged_src_size(size)?;
                Self::Zstd(encoder)
            }
            Coding::Brotli => {
                let (level, window) = match effort {
                    Effort::Live => (level.min(LIVE_BROTLI_LEVEL_MAX), LIVE_WINDOW),
                    Effort::Once => (level, BROTLI_WINDOW_MAX),
                };
                Self::Brotli(Box::new(brotli::CompressorWriter::new(
                    Vec::new(),
                    BROTLI_BUFFER_BYTES,
                    level,
                    window,
                )))
            }
        })
    }

    /// Compresses `input`. The output can come with a later call.
    pub fn write(&mut self, input: &[u8]) -> io::Result<()> {
        match self {
            Self::Identity(output) => output.write_all(input),
            Self::Gzip(encoder) => encoder.write_all(input),
            Self::Zstd(encoder) => encoder.write_all(input),
            Self::Brotli(encoder) => encoder.write_all(input),
        }
    }

    /// Completes the output, so that a decoder can decode the whole input so far.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Identity(_) => Ok(()),
            Self::Gzip(encoder) => encoder.flush(),
            Self::Zstd(encoder) => encoder.flush(),
            Self::Brotli(encoder) => encoder.flush(),
        }
    }

    /// Takes the output since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(match self {
            Self::Identity(output) => output,
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
            Self::Brotli(encoder) => encoder.get_mut(),
        })
    }

    /// Returns the rest of the output, with the end of the coding.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Identity(output) => Ok(output),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
            Self::Brotli(encoder) => Ok(encoder.into_inner()),
        }
    }
}
