//! The server of the crate `h2` on a stream in memory, polled by hand.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, Connection, Handshake, SendResponse};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Outcome, describe, describe_fields};

/// Limits that no input reaches: `h2` and this project count different things.
pub(super) const STREAMS: u32 = 10_000;
pub(super) const MANY: u32 = 1 << 24;

/// The types of frames by which a server that does not respond refuses something.
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;

/// A stream in memory.
#[derive(Clone, Default)]
struct Pipe(Rc<RefCell<(Vec<u8>, Vec<u8>)>>);

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let input = &mut self.0.borrow_mut().0;
        if input.is_empty() {
            return Poll::Pending;
        }
        let length = input.len().min(buffer.remaining());
        buffer.put_slice(&input[..length]);
        input.drain(..length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().1.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

enum State {
    Handshake(Handshake<Pipe, Bytes>),
    Open(Connection<Pipe, Bytes>),
}

/// A request: its body until that has ended, and the response that is never sent.
type Exchange = (Option<RecvStream>, SendResponse<Bytes>, bool);

pub(super) struct Theirs {
    pipe: Pipe,
    state: State,
    exchanges: BTreeMap<u32, Exchange>,
}

impl Theirs {
    pub(super) fn new() -> Self {
        let (pipe, mut builder) = (Pipe::default(), Builder::new());
        builder
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(16 * 1024)
            .initial_connection_window_size(1024 * 1024)
            .max_concurrent_reset_streams(MANY as usize)
            .max_pending_accept_reset_streams(MANY as usize)
            .max_local_error_reset_streams(None)
            .data_frame_budget(MANY as usize);
        let state = State::Handshake(builder.handshake(pipe.clone()));
        Self { pipe, state, exchanges: BTreeMap::new() }
    }

    pub(super) fn receive(&mut self, input: &[u8]) -> Outcome {
        self.pipe.0.borrow_mut().0.extend_from_slice(input);
        let (mut outcome, mut context) = (Outcome::default(), Context::from_waker(Waker::noop()));
        // `h2` also reports its own resets.
        let reset = (input[3] == RST_STREAM)
            .then(|| u32::from_be_bytes([input[5] & 0x7f, input[6], input[7], input[8]]));
        // Windows are opened in the second round.
        for _ in 0..2 {
            self.accept(&mut context, &mut outcome);
            self.read_bodies(&mut context, &mut outcome, reset);
        }
        let output = std::mem::take(&mut self.pipe.0.borrow_mut().1);
        let mut rest = &output[..];
        while let Some(frame) = super::take_frame(&mut rest) {
            if matches!(frame[3], HEADERS | RST_STREAM | GOAWAY) {
                outcome.refused.get_or_insert_with(|| frame.escape_ascii().to_string());
            }
        }
        outcome
    }

    fn accept(&mut self, context: &mut Context<'_>, outcome: &mut Outcome) {
        if let State::Handshake(handshake) = &mut self.state {
            match Pin::new(handshake).poll(context) {
                Poll::Ready(connection) => self.state = State::Open(connection.expect("a valid preface")),
                Poll::Pending => return,
            }
        }
        let State::Open(connection) = &mut self.state else { return };
        loop {
            match connection.poll_accept(context) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    let (parts, body) = request.into_parts();
                    let (stream, ends) = (respond.stream_id().as_u32(), body.is_end_stream());
                    outcome.accepted.push(describe(stream, &http::Request::from_parts(parts, ()), ends));
                    self.exchanges.insert(stream, ((!ends).then_some(body), respond, false));
                }
                Poll::Ready(end) => {
                    if let Some(Err(error)) = end {
                        outcome.refused = Some(error.to_string());
                    }
                    outcome.has_ended = true;
                    return;
                }
                Poll::Pending => return,
            }
        }
    }

    /// Reads what has arrived. `reset` is the stream that the client has reset.
    fn read_bodies(&mut self, context: &mut Context<'_>, outcome: &mut Outcome, reset: Option<u32>) {
        for (stream, (body, respond, is_reset)) in &mut self.exchanges {
            if !*is_reset
                && !outcome.has_ended
                && let Poll::Ready(Ok(code)) = respond.poll_reset(context)
            {
                *is_reset = true;
                outcome
                    .accepted
                    .extend((reset == Some(*stream)).then(|| format!("{stream} reset {}", u32::from(code))));
                *body = None;
            }
            while let Some(reading) = body {
                match reading.poll_data(context) {
                    Poll::Ready(Some(Ok(data))) => {
                        if !data.is_empty() {
                            outcome.accepted.push(format!("{stream} {}", data.escape_ascii()));
                        }
                        reading.flow_control().release_capacity(data.len()).expect("it is used");
                    }
                    Poll::Ready(Some(Err(_))) => *body = None,
                    Poll::Pending => break,
                    Poll::Ready(None) => {
                        if let Poll::Ready(Ok(trailers)) = reading.poll_trailers(context) {
                            let trailers =
                                trailers.map(|trailers| format!(" {:?}", describe_fields(&trailers)));
                            outcome.accepted.push(format!("{stream} end{}", trailers.unwrap_or_default()));
                        }
                        *body = None;
                    }
                }
            }
        }
    }
}
