//! Compression on the fly: into memory, or while the file is sent if the result does not fit.

use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use rudy_http::semantics::negotiation::Coding;
use rudy_net::{BodyError, BodyPiece, BodyStream, FileRange};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::root::Stat;

/// Maximum number of pieces that are compressed at a time for one folder. Others wait in order, because more threads would only
/// compete for the cores. A slow client holds no permit while it reads a piece.
pub(super) const PIECES_MAX: usize = 16;
/// Bytes read from the file for one piece. Each slow client holds one piece in memory.
const PIECE_BYTES: usize = 64 * 1024;
/// Window size of Brotli and Zstandard as a power of two: 256 KiB, enough for a page. It limits the tables of Zstandard too.
const WINDOW: u32 = 18;
/// Maximum level of Brotli. At this level an encoder needs 5 MiB; one level higher it needs 11 MiB to save 1 % of the size.
const BROTLI_LEVEL_MAX: u32 = 6;
const BROTLI_BUFFER_BYTES: usize = 4096;

/// Compresses `content`. Returns `None` if the result is not smaller.
pub(super) async fn bytes(
    content: Bytes,
    coding: Coding,
    level: u8,
    pieces: &Arc<Semaphore>,
) -> io::Result<Option<Bytes>> {
    let work = move || {
        let mut encoder = Encoder::new(coding, level, content.len() as u64)?;
        encoder.write(&content)?;
        let output = encoder.finish()?;
        Ok((output.len() < content.len()).then(|| output.into_boxed_slice().into()))
    };
    with_permit(pieces.clone(), work).await
}

/// Compresses a file. Returns `None` if the result is not smaller.
pub(super) async fn file(
    file: FileRange,
    coding: Coding,
    level: u8,
    pieces: &Arc<Semaphore>,
) -> io::Result<Option<Bytes>> {
    let length = file.length;
    let mut output = Vec::new();
    let mut worker = Some(Box::new(Worker::new(file, coding, level)?));
    while let Some(next) = worker {
        let (piece, rest) = with_permit(pieces.clone(), move || next.next_piece()).await?;
        output.extend_from_slice(&piece);
        if output.len() as u64 >= length {
            return Ok(None);
        }
        worker = rest;
    }
    Ok(Some(output.into_boxed_slice().into()))
}

/// Waits for a permit, and holds it while `work` runs on the thread pool for blocking work.
async fn with_permit<T: Send + 'static>(
    pieces: Arc<Semaphore>,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let permit = pieces.acquire_owned().await.map_err(io::Error::other)?;
    let work = move || {
        let _permit = permit;
        work()
    };
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// An encoder that writes into memory.
enum Encoder {
    Identity(Vec<u8>),
    Gzip(flate2::write::GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
}

impl Encoder {
    fn new(coding: Coding, level: u8, size: u64) -> io::Result<Self> {
        let level = u32::from(level);
        Ok(match coding {
            Coding::Identity => Self::Identity(Vec::new()),
            Coding::Gzip => {
                Self::Gzip(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(level)))
            }
            Coding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), level.cast_signed())?;
                encoder.window_log(WINDOW)?;
                // Without the size, the tables are allocated for the largest possible file.
                encoder.set_pledged_src_size(Some(size))?;
                Self::Zstd(encoder)
            }
            Coding::Brotli => Self::Brotli(Box::new(brotli::CompressorWriter::new(
                Vec::new(),
                BROTLI_BUFFER_BYTES,
                level.min(BROTLI_LEVEL_MAX),
                WINDOW,
            ))),
        })
    }

    fn write(&mut self, input: &[u8]) -> io::Result<()> {
        match self {
            Self::Identity(output) => output.write_all(input),
            Self::Gzip(encoder) => encoder.write_all(input),
            Self::Zstd(encoder) => encoder.write_all(input),
            Self::Brotli(encoder) => encoder.write_all(input),
        }
    }

    /// Takes the output since the last call.
    fn take(&mut self) -> Vec<u8> {
        std::mem::take(match self {
            Self::Identity(output) => output,
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
            Self::Brotli(encoder) => encoder.get_mut(),
        })
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Identity(output) => Ok(output),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
            Self::Brotli(encoder) => Ok(encoder.into_inner()),
        }
    }
}

/// A response body that compresses a file while it is sent.
///
/// The thread pool for blocking work compresses each piece when the connection polls for it. A slow client holds the memory of
/// one piece and one encoder, but no thread.
pub(super) struct CompressedFile {
    state: State,
    pieces: Arc<Semaphore>,
    /// Limits the memory of encoders.
    _permit: OwnedSemaphorePermit,
}

enum State {
    Idle(Box<Worker>),
    Busy(Pin<Box<dyn Future<Output = io::Result<Piece>> + Send>>),
    Done,
}

/// The output, and the worker for the next piece unless the file is at its end.
type Piece = (Bytes, Option<Box<Worker>>);

impl CompressedFile {
    pub(super) fn new(
        file: FileRange,
        coding: Coding,
        level: u8,
        pieces: Arc<Semaphore>,
        permit: OwnedSemaphorePermit,
    ) -> io::Result<Self> {
        let state = State::Idle(Box::new(Worker::new(file, coding, level)?));
        Ok(Self { state, pieces, _permit: permit })
    }
}

impl BodyStream for CompressedFile {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        _now: Instant,
        _max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        loop {
            match std::mem::replace(&mut self.state, State::Done) {
                State::Done => return Poll::Ready(None),
                State::Idle(worker) => {
                    let piece = with_permit(self.pieces.clone(), move || worker.next_piece());
                    self.state = State::Busy(Box::pin(piece));
                }
                State::Busy(mut task) => {
                    let Poll::Ready(done) = task.as_mut().poll(cx) else {
                        self.state = State::Busy(task);
                        return Poll::Pending;
                    };
                    let (piece, worker) = done?;
                    self.state = worker.map_or(State::Done, State::Idle);
                    return Poll::Ready(Some(Ok(BodyPiece::Data(piece))));
                }
            }
        }
    }
}

struct Worker {
    encoder: Encoder,
    file: FileRange,
    position: u64,
}

impl Worker {
    fn new(file: FileRange, coding: Coding, level: u8) -> io::Result<Self> {
        Ok(Self { encoder: Encoder::new(coding, level, file.length)?, file, position: 0 })
    }

    /// Compresses until there is output. Returns the worker with the output unless the file is at its end.
    fn next_piece(mut self: Box<Self>) -> io::Result<Piece> {
        let mut input = vec![0; PIECE_BYTES];
        loop {
            let left = self.file.length - self.position;
            if left == 0 {
                self.check_unchanged()?;
                return Ok((Bytes::from(self.encoder.finish()?), None));
            }
            let length = usize::try_from(left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
            self.file.file.read_exact_at(&mut input[..length], self.file.start + self.position)?;
            self.position += length as u64;
            self.encoder.write(&input[..length])?;
            let output = self.encoder.take();
            if !output.is_empty() {
                return Ok((Bytes::from(output), Some(self)));
            }
        }
    }

    /// Fails if the file has changed, because a mix of two versions must not be sent as one.
    fn check_unchanged(&self) -> io::Result<()> {
        let now = Stat::of(&self.file.file)?;
        if (now.size, now.modified_ns) == (self.file.size, self.file.modified_ns) {
            return Ok(());
        }
        Err(io::Error::other("the file changed while it was sent"))
    }
}
