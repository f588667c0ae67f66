//! A stream in memory for the crate `h2`, which is polled by hand.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use h2::{Reason, RecvStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Outcome, take_frame};

/// The types of frames by which a side that sends nothing else refuses something.
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;

/// Input and output of `h2`.
#[derive(Clone, Default)]
pub(super) struct Pipe(Rc<RefCell<(Vec<u8>, Vec<u8>)>>);

impl Pipe {
    pub(super) fn send(&self, input: &[u8]) {
        self.0.borrow_mut().0.extend_from_slice(input);
    }

    /// Takes the output, and adds the frame by which `h2` refuses something.
    pub(super) fn take_refusal(&self, outcome: &mut Outcome) {
        let output = std::mem::take(&mut self.0.borrow_mut().1);
        let mut rest = &output[..];
        while let Some(frame) = take_frame(&mut rest) {
            // Without an error, GOAWAY is the last frame of a connection.
            let is_refusal = match frame[3] {
                HEADERS | RST_STREAM => true,
                GOAWAY => frame[13..17] != [0; 4],
                _ => false,
            };
            if is_refusal {
                outcome.refused.get_or_insert_with(|| frame.escape_ascii().to_string());
            }
        }
    }
}

/// Adds the reset of a stream: by the frame of the peer, or by `h2`, which sends no frame for a stream that has ended.
pub(super) fn add_reset(frame: &[u8], stream: u32, code: Reason, outcome: &mut Outcome) {
    let of_frame = u32::from_be_bytes([frame[5] & 0x7f, frame[6], frame[7], frame[8]]);
    match frame[3] {
        RST_STREAM if of_frame == stream => outcome.reset(stream, code.into()),
        // The server does not process the stream.
        GOAWAY => outcome.reset(stream, Reason::REFUSED_STREAM.into()),
        _ => {
            outcome.refused.get_or_insert_with(|| format!("{stream} reset {}", u32::from(code)));
        }
    }
}

/// Reads what has arrived of a body, and removes the body at its end.
pub(super) fn read_body(
    stream: u32,
    body: &mut Option<RecvStream>,
    context: &mut Context<'_>,
    outcome: &mut Outcome,
) {
    while let Some(reading) = body {
        match reading.poll_data(context) {
            Poll::Ready(Some(Ok(data))) => {
                if !data.is_empty() {
                    outcome.data(stream, &data);
                }
                reading.flow_control().release_capacity(data.len()).expect("it is used");
            }
            Poll::Ready(Some(Err(_))) => *body = None,
            Poll::Pending => break,
            Poll::Ready(None) => {
                if let Poll::Ready(Ok(trailers)) = reading.poll_trailers(context) {
                    outcome.end(stream, trailers.as_ref());
                }
                *body = None;
            }
        }
    }
}

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
