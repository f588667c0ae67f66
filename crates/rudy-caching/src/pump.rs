//! Moves the body of a response into the store, from where all its clients receive it.

use std::future::poll_fn;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rudy_cache::{Content, Span};
use rudy_runtime::blocking;
use rudy_service::{Body, BodyError, BodyPiece, BodyStream, FileRange, poll_time};
use rudy_store::{Fill, Finished, Object};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::flights::Registration;
use super::reply::position;

/// The largest piece to receive, or to copy, at a time.
const PIECE_BYTES: u64 = 256 * 1024;

/// After how many bytes other tasks of the worker get a turn, as for responses to clients.
const TURN_BYTES: usize = 512 * 1024;

/// A client that takes nothing from one of these checks to the next, so for 10 to 20 s, is cut off if others wait for a response that is
/// not stored. It would hold all of them. Sockets have buffers of up to 4 MiB, so one that takes nothing for 10 s may still read from them
/// slowly, with about 100 KB/s.
const STALL_CHECK: Duration = Duration::from_secs(10);

/// The body of a response of the origin.
pub(super) enum Source {
    Whole(Bytes),
    Stream(Box<dyn BodyStream>),
}

impl Source {
    pub(super) fn new(body: Body) -> Self {
        match body {
            Body::Empty | Body::Silence => Self::Whole(Bytes::new()),
            Body::Bytes(bytes) => Self::Whole(bytes),
            Body::File(range) => {
                Self::Stream(Box::new(std::collections::VecDeque::from([BodyPiece::File(range)])))
            }
            Body::Stream(stream) => Self::Stream(stream),
        }
    }

    /// Returns the next bytes when the store has room for them. `None` at the end; trailers are not stored.
    async fn next(&mut self, fill: &mut Fill) -> Option<Result<Bytes, BodyError>> {
        let piece = match self {
            Self::Whole(bytes) if bytes.is_empty() => return None,
            Self::Whole(bytes) => return Some(Ok(std::mem::take(bytes))),
            Self::Stream(stream) => {
                make_room(fill).await;
                poll_fn(|cx| stream.poll_piece(cx, poll_time(), PIECE_BYTES)).await?
            }
        };
        match piece {
            Ok(BodyPiece::Data(bytes)) => Some(Ok(bytes)),
            Ok(BodyPiece::File(range)) => Some(read(range).await.map_err(Into::into)),
            Ok(BodyPiece::Trailers(_)) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// Waits until the store has room for a piece.
async fn make_room(fill: &mut Fill) {
    while timeout(STALL_CHECK, poll_fn(|cx| fill.poll_ready(cx))).await.is_err() {
        fill.abort_stalled();
    }
}

/// Reads a piece of a file, whose length the caller has checked.
pub async fn read(range: FileRange) -> io::Result<Bytes> {
    let read = move || {
        let mut bytes = BytesMut::zeroed(usize::try_from(range.length).map_err(io::Error::other)?);
        range.file.read_exact_at(&mut bytes, range.start)?;
        Ok(bytes.freeze())
    };
    blocking(read).await.map_err(io::Error::other)?
}

/// Receives the whole body. Returns the object if it is stored. If no client is left, a body that is stored goes on with `keep`, or if
/// at least half of `length` was received.
pub(super) async fn run(
    mut source: Source,
    mut fill: Fill,
    registration: &mut Registration,
    mut keep: bool,
    length: Option<u64>,
) -> Option<Arc<Object>> {
    let mut turn = 0;
    loop {
        if turn >= TURN_BYTES {
            turn = 0;
            yield_now().await;
        }
        let (flight, is_kept) = (registration.flight.clone(), keep && fill.is_stored());
        let next = tokio::select! {
            biased;
            next = source.next(&mut fill) => next,
            () = flight.closed(), if !is_kept => {
                let has_half =
                    fill.is_stored() && length.is_some_and(|length| fill.received() >= length.div_ceil(2));
                if !has_half && registration.end_if_abandoned() {
                    return interrupt(fill).await;
                }
                // Too late to save much: others will want the response.
                keep = has_half;
                continue;
            }
        };
        match next {
            Some(Ok(bytes)) => {
                turn += bytes.len();
                fill.write(bytes);
            }
            Some(Err(_)) => {
                // A request that joined now would be cut off too.
                registration.close();
                return interrupt(fill).await;
            }
            None => return finish(fill).await,
        }
    }
}

async fn finish(fill: Fill) -> Option<Arc<Object>> {
    match blocking(move || fill.finish()).await.ok()? {
        Ok(Finished::Stored(object)) => Some(object),
        // The store counts its errors, and its readers are informed of a wrong length.
        Ok(Finished::NotStored(_)) | Err(_) => None,
    }
}

async fn interrupt(fill: Fill) -> Option<Arc<Object>> {
    // A part of a whole response can be completed later; it is no part to combine now.
    let _ = blocking(move || fill.interrupt()).await;
    None
}

/// Copies the parts of objects into one, in the order of `content`. Blocks.
pub(super) fn copy_parts(objects: &[&Arc<Object>], content: &Content, mut fill: Fill) -> io::Result<()> {
    let whole;
    let spans = match content {
        Content::Parts { spans, .. } => spans.as_slice(),
        Content::Whole => {
            whole = [Span { start: 0, length: size_of_whole(objects) }];
            &whole
        }
    };
    for span in spans {
        let mut at = span.start;
        while at < span.end() {
            let bytes = read_part(objects, at, span.end())?;
            at += bytes.len() as u64;
            fill.write(bytes);
        }
    }
    fill.finish().map(drop).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

fn size_of_whole(objects: &[&Arc<Object>]) -> u64 {
    let sizes = objects.iter().map(|object| match object.stored().content() {
        Content::Parts { size, .. } => *size,
        Content::Whole => object.body().len(),
    });
    sizes.max().unwrap_or(0)
}

/// Reads bytes from the first object that has the position, at most up to `end`.
fn read_part(objects: &[&Arc<Object>], at: u64, end: u64) -> io::Result<Bytes> {
    for object in objects {
        let Some(position) = position(object.stored().content(), Span { start: at, length: 1 }) else {
            continue;
        };
        let until = end_of_part(object, at).min(end);
        let max = usize::try_from((until - at).min(PIECE_BYTES)).unwrap_or(usize::MAX);
        let bytes = object.body().read_at(position, max)?;
        if !bytes.is_empty() {
            return Ok(bytes);
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

fn end_of_part(object: &Object, at: u64) -> u64 {
    match object.stored().content() {
        Content::Whole => object.body().len(),
        Content::Parts { spans, .. } => {
            let part = Span { start: at, length: 1 };
            spans.iter().find(|span| span.contains(part)).map_or(at, |span| span.end())
        }
    }
}
