//! Handles the parts of requests: heads, bodies, trailers.

use std::time::Instant;

use bytes::BytesMut;
use http::Version;
use rudy_message::text::read_trailers;
use rudy_message::{Rejection, RequestHead};

use super::event::Event;
use super::receive::{Block, Step};
use super::{ServerConnection, Shutdown};
use crate::Limits;
use crate::field_section::HeadFault;
use crate::h2::body::{Piece, Received, WRONG_LENGTH};
use crate::h2::core::Turn;
use crate::h2::stream::{Draining, Stream};
use crate::h2::window::SendWindow;
use crate::h2::{ConnectionError, ErrorCode};
use crate::progress::{Progress, Receiving};

impl ServerConnection {
    /// Opens a stream for a request.
    pub(super) fn receive_request<'e>(
        &mut self,
        block: &Block,
        text: &'e [u8],
        turn: &mut Turn<'_>,
    ) -> Result<Event<'e>, ConnectionError> {
        let (stream, limits) = (block.stream, turn.limits);
        self.last_stream = stream;
        if self.core.streams.len() >= limits.http2.streams as usize {
            let fault = (ErrorCode::REFUSED_STREAM, "too many concurrent streams");
            return self.fail_stream(stream, fault, turn);
        }
        let head = match block.written {
            Ok(()) => {
                RequestHead::of_field_section(text, Version::HTTP_2, block.is_tunnel, &limits.of_message())
            }
            Err(HeadFault::TooLarge) => Err(Rejection::HeadTooLarge),
            Err(HeadFault::Malformed(reason)) => {
                return self.fail_stream(stream, (ErrorCode::PROTOCOL_ERROR, reason), turn);
            }
        };
        let methods = (block.is_head, block.is_tunnel);
        let Ok((progress, body)) = Progress::of_request(head.as_ref().ok(), methods, block.ends_stream)
        else {
            return self.fail_stream(stream, WRONG_LENGTH, turn);
        };
        self.requests += 1;
        self.core.count_exchange();
        self.core.streams.push(Stream {
            id: stream,
            send_window: SendWindow::new(self.core.peer.initial_window),
            receive_window: self.core.new_receive_window(),
            progress,
            draining: None,
        });
        Ok(match head {
            Ok(head) => Event::Request { stream, head: head.with_body(body), priority: block.priority },
            Err(rejection) => Event::Rejected { stream, rejection, head: Some(text) },
        })
    }

    pub(super) fn receive_data<'i>(
        &mut self,
        piece: &Piece<'i>,
        turn: &mut Turn<'_>,
    ) -> Result<Step<'i>, ConnectionError> {
        let &Piece { stream: id, data, ends, is_empty, .. } = piece;
        let is_handled = self.is_handled(id)?;
        if is_empty && (!ends || self.core.streams.get(id).is_none()) {
            self.core.allowances.count_frame(&turn.limits.http2, turn.now)?;
        }
        let is_draining = self.core.streams.get(id).is_some_and(|stream| stream.draining.is_some());
        match self.core.receive_piece(piece, turn.limits, turn.out)? {
            Received::Malformed(_) if !is_handled => Ok(Step::Nothing),
            Received::Ignored => Ok(Step::Nothing),
            Received::Malformed(fault) => self.fail_stream(id, fault, turn).map(Step::Event),
            received if is_draining => {
                if received == Received::Accepted {
                    self.pass_on(id, data.len(), turn.out);
                }
                if self.has_drained_enough(id, turn.limits) {
                    self.core.reset(id, ErrorCode::NO_ERROR, turn.out);
                }
                Ok(Step::Nothing)
            }
            Received::TooLarge => {
                let rejection = Rejection::BodyTooLarge;
                Ok(Step::Event(Event::Rejected { stream: id, rejection, head: None }))
            }
            Received::Accepted => Ok(match data {
                [] if !ends => Step::Nothing,
                [] => Step::Event(Event::End { stream: id, trailers: None }),
                _ => Step::Event(Event::Data { stream: id, data, ends }),
            }),
        }
    }

    /// Whether more of a request was discarded than the connection is worth.
    fn has_drained_enough(&self, stream: u32, limits: &Limits) -> bool {
        let stream = self.core.streams.get(stream);
        let drained = stream.and_then(|stream| Some(stream.progress.received - stream.draining?.from));
        drained.is_some_and(|bytes| bytes > limits.drain_bytes)
    }

    /// Resets the streams whose clients have not ended their requests in time after the response: at once if the connection is about
    /// to end. Clients that see the end of the connection on an open stream do not trust the response (the crate `h2` reports a
    /// broken pipe); NO_ERROR shows that it is complete (RFC 9113 §8.1).
    pub fn expire(&mut self, now: Instant, limits: &Limits, out: &mut BytesMut) {
        let is_ending = self.shutdown == Shutdown::Final;
        let is_late = |draining: Draining| is_ending || draining.since + limits.head_timeout <= now;
        let late = self.core.streams.draining().filter(|(_, draining)| is_late(*draining));
        for (id, _) in late.collect::<Vec<_>>() {
            self.reset(id, ErrorCode::NO_ERROR, now, out);
        }
    }

    /// Ends the body of a request with trailers.
    pub(super) fn receive_trailers(
        &mut self,
        block: &Block,
        section: &[u8],
        turn: &mut Turn<'_>,
    ) -> Result<Event<'static>, ConnectionError> {
        let id = block.stream;
        let Some(stream) = self.core.streams.get_mut(id) else {
            let reason = "HEADERS for a stream that is closed";
            return Err(ConnectionError::new(ErrorCode::STREAM_CLOSED, reason));
        };
        let fault = if stream.progress.receiving == Receiving::Ended {
            (ErrorCode::STREAM_CLOSED, "HEADERS after the end of the stream")
        } else if !block.ends_stream {
            (ErrorCode::PROTOCOL_ERROR, "trailers do not end the stream")
        } else if stream.progress.expected.is_some_and(|left| left > 0) {
            WRONG_LENGTH
        } else {
            match block.written {
                Err(HeadFault::Malformed(reason)) => (ErrorCode::PROTOCOL_ERROR, reason),
                Err(HeadFault::TooLarge) => (ErrorCode::ENHANCE_YOUR_CALM, "trailers exceed the limit"),
                Ok(()) => match read_trailers(section, &turn.limits.of_message()) {
                    Ok(trailers) => {
                        stream.progress.receiving = Receiving::Ended;
                        self.core.close_if_ended(id);
                        return Ok(Event::End { stream: id, trailers });
                    }
                    Err(_) => (ErrorCode::PROTOCOL_ERROR, "a field is not allowed as a trailer"),
                },
            }
        };
        self.fail_stream(id, fault, turn)
    }
}
