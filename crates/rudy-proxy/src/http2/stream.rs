//! What a request has of a connection.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, BytesMut};
use http::HeaderMap;
use rudy_http::h2::client::Request;
use rudy_message::ReceivedHead;
use rudy_service::current_runtime;

use super::connection::{Http2Connection, OUTPUT_BYTES, State};
use crate::failure::{Cause, HttpCause};
use crate::received::{Head, INTERIM_MAX};

/// A stream of a connection. Dropping it cancels its request.
#[derive(Debug)]
pub(crate) struct Http2Stream {
    connection: Arc<Http2Connection>,
    usage: Usage,
}

/// What a stream counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Usage {
    /// In the pool, for a later request.
    Idle,
    Reserved,
    Open(u32),
}

/// Parts of a response that were received and not taken.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) interim: Vec<ReceivedHead>,
    pub(crate) head: Option<Head>,
    pub(crate) body: BytesMut,
    pub(crate) trailers: Option<HeaderMap>,
    pub(crate) is_complete: bool,
}

/// The state of a stream in its connection.
#[derive(Debug, Default)]
pub(super) struct StreamState {
    pub(super) parts: Parts,
    failure: Option<Cause>,
    /// The waker of the request.
    pub(super) waker: Option<Waker>,
    /// Whether it waits in [`State::blocked`].
    pub(super) is_blocked: bool,
}

impl Parts {
    fn is_empty(&self) -> bool {
        let Self { interim, head, body, trailers: _, is_complete } = self;
        interim.is_empty() && head.is_none() && body.is_empty() && !is_complete
    }
}

impl StreamState {
    /// Ends the stream with a failure, unless its response is complete: an upstream may reset the stream then, to stop the request's body
    /// (RFC 9113 §8.1).
    pub(super) fn fail(&mut self, cause: Cause, wakers: &mut Vec<Waker>) {
        if !self.parts.is_complete {
            self.failure.get_or_insert(cause);
        }
        wakers.extend(self.waker.take());
    }

    fn wait(&mut self, cx: &Context<'_>) {
        if self.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            self.waker = Some(cx.waker().clone());
        }
    }

    pub(super) fn add_interim(&mut self, head: ReceivedHead) -> Result<(), Cause> {
        if self.parts.interim.len() >= INTERIM_MAX as usize {
            return Err(HttpCause::TooManyInterim(INTERIM_MAX).into());
        }
        self.parts.interim.push(head);
        Ok(())
    }
}

impl Http2Stream {
    pub(super) fn reserved(connection: Arc<Http2Connection>) -> Self {
        Self { connection, usage: Usage::Reserved }
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.connection.address
    }

    /// Returns whether the connection has had other streams.
    pub(crate) fn has_served(&self) -> bool {
        self.connection.with(|state| state.has_served)
    }

    /// Returns whether the upstream accepts requests for tunnels.
    pub(crate) fn accepts_tunnels(&self) -> bool {
        self.connection.with(|state| state.protocol.accepts_tunnels())
    }

    /// Returns whether the connection is encrypted.
    pub(crate) fn is_https(&self) -> bool {
        self.connection.scheme == "https"
    }

    /// Reserves a stream of the same connection for another request, if it is one of the current worker.
    pub(crate) fn is_usable(&mut self, check_kernel: bool) -> bool {
        if self.connection.runtime != current_runtime() || self.connection.is_silent() {
            return false;
        }
        let is_reserved = self.connection.with(|state| {
            if check_kernel {
                state.receive_available();
            }
            state.reserve()
        });
        if is_reserved {
            self.usage = Usage::Reserved;
        }
        is_reserved
    }

    /// Encodes the head of a request. `make` gets the scheme. If the connection has ended, the stream is not [open](Self::is_open), and
    /// what is received tells why.
    ///
    /// # Errors
    ///
    /// The head cannot be encoded. Nothing was sent.
    pub(crate) fn begin(&mut self, make: impl FnOnce(&str) -> Result<Request, Cause>) -> Result<(), Cause> {
        let request = make(self.connection.scheme)?;
        let begun = self.connection.with(|state| {
            if state.end.is_some() || state.is_retired {
                return None;
            }
            let stream = state.protocol.request(&request, &mut state.output)?;
            state.reserved -= 1;
            state.has_served = true;
            state.streams.insert(stream, StreamState::default());
            state.wake_task();
            Some(stream)
        });
        if let Some(stream) = begun {
            self.usage = Usage::Open(stream);
        }
        Ok(())
    }

    /// Returns whether it has a request.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.usage, Usage::Open(_))
    }

    /// Takes what was received. Ready when there is something.
    pub(crate) fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Parts, Cause>> {
        self.poll_with(cx, mem::take, |parts| parts.body.len())
    }

    /// Reads bytes of a tunnel; returns 0 at the end.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = |parts: &mut Parts| {
            let length = parts.body.len().min(buffer.len());
            parts.body.split_to(length).copy_to_slice(&mut buffer[..length]);
            length
        };
        self.poll_with(cx, read, |length| *length).map_err(|cause| io::Error::other(cause.to_string()))
    }

    /// Takes some of what was received, and opens the window for it.
    fn poll_with<T>(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&mut Parts) -> T,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Poll<Result<T, Cause>> {
        let Usage::Open(id) = self.usage else { return Poll::Ready(Err(HttpCause::GoneAway.into())) };
        self.connection.with(|state| {
            let Some(stream) = state.streams.get_mut(&id) else {
                return Poll::Ready(Err(HttpCause::GoneAway.into()));
            };
            if stream.parts.is_empty() {
                if let Some(cause) = stream.failure.take() {
                    return Poll::Ready(Err(cause));
                }
                stream.wait(cx);
                return Poll::Pending;
            }
            let taken = take(&mut stream.parts);
            let queued = state.output.len();
            state.protocol.open_stream_window(id, bytes(&taken), &mut state.output);
            if state.output.len() > queued {
                state.wake_task();
            }
            Poll::Ready(Ok(taken))
        })
    }

    /// Encodes a part of a body, as far as the windows and the output have room. If the stream was closed, what was received tells why.
    pub(crate) fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Usage::Open(id) = self.usage else { return Poll::Pending };
        self.connection.with(|state| {
            let State { protocol, output, streams, blocked, .. } = state;
            let Some(stream) = streams.get_mut(&id) else { return Poll::Pending };
            let window = if output.len() < OUTPUT_BYTES { protocol.window(id) } else { 0 };
            let length = bytes.len().min(OUTPUT_BYTES).min(usize::try_from(window).unwrap_or(usize::MAX));
            if length == 0 {
                stream.wait(cx);
                if !mem::replace(&mut stream.is_blocked, true) {
                    blocked.push_back(id);
                }
                return Poll::Pending;
            }
            let encoded = protocol.encode_piece(id, &bytes[..length], output);
            state.wake_task();
            Poll::Ready(encoded.map(|()| length).map_err(io::Error::other))
        })
    }

    /// Ends the body of the request.
    ///
    /// # Errors
    ///
    /// It is shorter than its Content-Length.
    pub(crate) fn finish(&mut self, trailers: Option<&HeaderMap>) -> io::Result<()> {
        let Usage::Open(id) = self.usage else { return Ok(()) };
        self.connection.with(|state| {
            let finished = state.protocol.finish(id, trailers, &mut state.output);
            state.wake_task();
            finished.map_err(io::Error::other)
        })
    }

    /// Ends the request, and cancels what is left of it.
    pub(crate) fn end(&mut self) {
        match mem::replace(&mut self.usage, Usage::Idle) {
            Usage::Idle => {}
            Usage::Reserved => self.connection.with(|state| state.reserved -= 1),
            Usage::Open(stream) => self.connection.with(|state| state.remove(stream)),
        }
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        self.end();
    }
}
