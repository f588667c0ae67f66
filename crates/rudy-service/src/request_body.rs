//! Request bodies, passed from the connection to the service one piece at a time.
//!
//! There is room for one piece. The connection reads from the socket only after the service has taken the
//! last piece. So a slow service slows its client down, and no data accumulates.

#[cfg(test)]
mod races;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use http_body::{Body, Frame, SizeHint};

use crate::Observer;
use crate::sync::Mutex;

/// The body of a request. Read it with [`http_body::Body::poll_frame`]; dropping it discards the rest.
#[derive(Debug, Default)]
pub struct RequestBody(BodySource);

/// The source of a body.
#[derive(Debug, Default)]
enum BodySource {
    /// The body is empty, or at its end.
    #[default]
    Empty,
    /// The whole body is in memory.
    Whole(Bytes),
    /// The connection sends the body.
    Connection {
        slot: Arc<Mutex<State>>,
        remaining: Option<u64>,
        /// How much more the service accepts; [`u64::MAX`] without a limit, because handlers store a body while they wait.
        most: u64,
        discarded_trailers: Option<fn(&HeaderName) -> bool>,
    },
}

/// Returns the trailers whose names are not discarded. `None` without any.
fn without(is_discarded: fn(&HeaderName) -> bool, mut fields: HeaderMap) -> Option<HeaderMap> {
    let discarded: Vec<_> = fields.keys().filter(|name| is_discarded(name)).cloned().collect();
    for name in discarded {
        fields.remove(name);
    }
    (!fields.is_empty()).then_some(fields)
}

impl RequestBody {
    /// Creates an empty body.
    #[must_use]
    #[inline]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Creates a body from memory.
    #[must_use]
    pub fn whole(bytes: Bytes) -> Self {
        Self(if bytes.is_empty() { BodySource::Empty } else { BodySource::Whole(bytes) })
    }

    /// Creates a body, and its sender for the connection. `length` is the value of `Content-Length`.
    #[must_use]
    pub fn pair(length: Option<u64>) -> (Self, BodySender) {
        let slot = Arc::<Mutex<State>>::default();
        let source = BodySource::Connection {
            slot: slot.clone(),
            remaining: length,
            most: u64::MAX,
            discarded_trailers: None,
        };
        (Self(source), BodySender(slot))
    }

    /// Reports what arrives of the body to an observer. Called at most once.
    #[inline]
    pub fn set_observer(&self, observer: &Arc<dyn Observer>) {
        match &self.0 {
            BodySource::Empty => {}
            BodySource::Whole(bytes) => observer.body_received(bytes.len() as u64),
            BodySource::Connection { slot, .. } => slot.lock().observer = Some(observer.clone()),
        }
    }

    /// Returns the body with a maximum size: reading more than `most` bytes fails with [`RequestBodyError::TooLarge`].
    #[must_use]
    pub fn at_most(mut self, most: u64) -> Self {
        if let BodySource::Connection { most: known, .. } = &mut self.0 {
            *known = most.min(*known);
        }
        self
    }

    /// Returns the body without its trailers.
    #[must_use]
    pub fn without_trailers(mut self) -> Self {
        if let BodySource::Connection { discarded_trailers, .. } = &mut self.0 {
            *discarded_trailers = Some(|_| true);
        }
        self
    }

    /// Returns the body without the trailers with some names.
    #[must_use]
    pub fn without_trailers_named(mut self, is_discarded: fn(&HeaderName) -> bool) -> Self {
        if let BodySource::Connection { discarded_trailers, .. } = &mut self.0 {
            discarded_trailers.get_or_insert(is_discarded);
        }
        self
    }

    /// Returns the next piece, or `None` at the end. Skips trailers; use [`http_body::Body`] to read them.
    pub async fn next_piece(&mut self) -> Option<Result<Bytes, RequestBodyError>> {
        loop {
            match std::future::poll_fn(|cx| Pin::new(&mut *self).poll_frame(cx)).await? {
                Ok(frame) => {
                    if let Ok(piece) = frame.into_data() {
                        return Some(Ok(piece));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        let (slot, remaining, most, discarded) = match &mut self.0 {
            BodySource::Connection { slot, remaining, most, discarded_trailers } => {
                (slot, remaining, most, *discarded_trailers)
            }
            whole_or_empty => {
                let BodySource::Whole(bytes) = std::mem::take(whole_or_empty) else {
                    return Poll::Ready(None);
                };
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
        };
        let mut state = slot.lock();
        if let Some(piece) = state.piece.take() {
            state.wake_sender();
            drop(state);
            let length = piece.len() as u64;
            if *most < length {
                slot.lock().drop_body();
                self.0 = BodySource::Empty;
                return Poll::Ready(Some(Err(RequestBodyError::TooLarge)));
            }
            *most -= if *most == u64::MAX { 0 } else { length };
            *remaining = remaining.map(|bytes| bytes.saturating_sub(length));
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        if let Some(end) = state.end.take() {
            drop(state);
            self.0 = BodySource::Empty;
            return Poll::Ready(match end {
                Ok(trailers) => {
                    let left = trailers.and_then(|fields| match discarded {
                        Some(is_discarded) => without(is_discarded, fields),
                        None => Some(fields),
                    });
                    left.map(|fields| Ok(Frame::trailers(fields)))
                }
                Err(error) => Some(Err(error)),
            });
        }
        state.wanted = true;
        state.reader = Some(cx.waker().clone());
        state.wake_sender();
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, BodySource::Empty)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodySource::Empty => SizeHint::with_exact(0),
            BodySource::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            BodySource::Connection { remaining, .. } => {
                remaining.map_or_else(SizeHint::default, SizeHint::with_exact)
            }
        }
    }
}

impl Drop for RequestBody {
    #[inline]
    fn drop(&mut self) {
        if let BodySource::Connection { slot, .. } = &self.0 {
            slot.lock().drop_body();
        }
    }
}

/// Why a request body is incomplete.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestBodyError {
    /// The peer violated the protocol; the text explains how.
    #[error("the request body is malformed: {0}")]
    Malformed(String),
    /// The peer disconnected during the body.
    #[error("the peer disconnected during the request body")]
    PeerGone,
    /// The body is larger than the limit.
    #[error("the request body is larger than the limit (`body_bytes`)")]
    TooLarge,
    /// The peer sent the body more slowly than the minimum rate.
    #[error("the peer sent the request body more slowly than the minimum rate (`limits.body_rate_min`)")]
    TooSlow,
}

/// The connection's end of a request body.
#[derive(Debug)]
pub struct BodySender(Arc<Mutex<State>>);

impl BodySender {
    /// Ready with `true` when the service waits for a piece, with `false` when it has dropped the body.
    pub fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.0.lock();
        if state.dropped {
            return Poll::Ready(false);
        }
        if state.wanted && state.piece.is_none() {
            return Poll::Ready(true);
        }
        state.sender = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Whether the service waits for a piece.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        let state = self.0.lock();
        state.wanted && state.piece.is_none()
    }

    /// Whether the service has dropped the body.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.lock().dropped
    }

    /// Sends a piece. Call only after [`Self::poll_ready`] has returned `true`.
    pub fn send(&self, piece: Bytes) {
        let mut state = self.0.lock();
        debug_assert!(state.piece.is_none(), "one piece at a time");
        if let Some(observer) = &state.observer {
            observer.body_received(piece.len() as u64);
        }
        state.piece = Some(piece);
        state.wake_reader();
    }

    /// Ends the body, with its trailers or an error.
    pub fn finish(&self, end: Result<Option<HeaderMap>, RequestBodyError>) {
        let mut state = self.0.lock();
        state.end = Some(end);
        state.ended = true;
        state.wake_reader();
    }
}

impl Drop for BodySender {
    /// Ends the body with the exchange, so that a reader in another task does not wait forever.
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if !state.ended {
            state.end = Some(Err(RequestBodyError::PeerGone));
            state.wake_reader();
        }
    }
}

#[derive(Debug, Default)]
struct State {
    piece: Option<Bytes>,
    end: Option<Result<Option<HeaderMap>, RequestBodyError>>,
    /// Whether the end has been reported.
    ended: bool,
    wanted: bool,
    dropped: bool,
    reader: Option<Waker>,
    sender: Option<Waker>,
    observer: Option<Arc<dyn Observer>>,
}

impl State {
    /// Tells the connection that the service reads no further.
    fn drop_body(&mut self) {
        self.dropped = true;
        self.wake_sender();
    }

    fn wake_reader(&mut self) {
        self.wanted = false;
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    fn wake_sender(&mut self) {
        if let Some(waker) = self.sender.take() {
            waker.wake();
        }
    }
}
