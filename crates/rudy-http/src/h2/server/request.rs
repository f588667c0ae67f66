//! Handles the parts of requests: heads, bodies, trailers.

use super::ServerConnection;
use super::event::Event;
use super::head::HeadFault;
use super::receive::{Block, Piece, Step, Turn};
use crate::h1::{BodyLength, Rejection, RequestHead, read_trailers};
use crate::h2::stream::{Receiving, Sending, Stream};
use crate::h2::window::SendWindow;
use crate::h2::{ConnectionError, ErrorCode};

/// The fault of a body that has not the length of its head (RFC 9113 §8.1.1).
const WRONG_LENGTH: (ErrorCode, &str) =
    (ErrorCode::PROTOCOL_ERROR, "the body has another length than Content-Length");

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
            Ok(()) => RequestHead::of_http2(text, limits),
            Err(HeadFault::TooLarge) => Err(Rejection::HeadTooLarge),
            Err(HeadFault::Malformed(reason)) => {
                return self.fail_stream(stream, (ErrorCode::PROTOCOL_ERROR, reason), turn);
            }
        };
        let stated = head.as_ref().ok().and_then(RequestHead::stated_length);
        if block.ends_stream && stated.is_some_and(|length| length > 0) {
            return self.fail_stream(stream, WRONG_LENGTH, turn);
        }
        self.requests += 1;
        self.core.count_exchange();
        let (receiving, body) = match stated {
            _ if block.ends_stream => (Receiving::Ended, BodyLength::Known(0)),
            Some(length @ 1..) => (Receiving::Body, BodyLength::Known(length)),
            // Also with a length of 0, because the end is still to come.
            _ => (Receiving::Body, BodyLength::Chunked),
        };
        self.core.streams.push(Stream {
            id: stream,
            send_window: SendWindow::new(self.core.peer.initial_window),
            receive_window: self.core.new_receive_window(),
            receiving,
            sending: Sending::Head,
            expected: stated,
            received: 0,
            is_head: block.is_head,
            expects_continue: head.as_ref().is_ok_and(|head| head.expects_continue),
        });
        Ok(match head {
            Ok(head) => Event::Request { stream, head: head.with_body(body), priority: block.priority },
            Err(rejection) => Event::Rejected { stream, rejection },
        })
    }

    pub(super) fn receive_data<'i>(
        &mut self,
        piece: &Piece<'i>,
        turn: &mut Turn<'_>,
    ) -> Result<Step<'i>, ConnectionError> {
        let &Piece { stream: id, data, flow_bytes, ends, is_empty } = piece;
        let is_handled = self.is_handled(id)?;
        if is_empty && (!ends || self.core.streams.get(id).is_none()) {
            self.core.count_frame(&turn.limits.http2, turn.now)?;
        }
        self.core.receive_data(flow_bytes, turn.out)?;
        let stream = self.core.streams.get_mut(id).filter(|stream| stream.receiving != Receiving::Ended);
        let Some(stream) = stream else {
            self.core.pass_on(0, flow_bytes, turn.out);
            if !is_handled || self.core.was_reset_by_us(id) {
                return Ok(Step::Nothing);
            }
            let fault = (ErrorCode::STREAM_CLOSED, "DATA after the end of the stream");
            return self.fail_stream(id, fault, turn).map(Step::Event);
        };
        let length = data.len() as u64;
        stream.received += length;
        let left = stream.expected.map(|expected| expected.checked_sub(length));
        stream.expected = left.flatten();
        let has_wrong_length = left == Some(None) || ends && stream.expected.is_some_and(|left| left > 0);
        let fault = if stream.receive_window.receive(flow_bytes).is_err() {
            Some((ErrorCode::FLOW_CONTROL_ERROR, "DATA exceeds the window of the stream"))
        } else {
            has_wrong_length.then_some(WRONG_LENGTH)
        };
        if let Some(fault) = fault {
            self.core.pass_on(0, flow_bytes, turn.out);
            return self.fail_stream(id, fault, turn).map(Step::Event);
        }
        if stream.received > turn.limits.body_bytes {
            self.core.pass_on(id, flow_bytes, turn.out);
            return Ok(Step::Event(Event::Rejected { stream: id, rejection: Rejection::BodyTooLarge }));
        }
        if ends {
            stream.receiving = Receiving::Ended;
        }
        let padding = flow_bytes.saturating_sub(u32::try_from(length).unwrap_or(u32::MAX));
        if padding > 0 {
            self.core.pass_on(id, padding, turn.out);
        }
        Ok(match data {
            [] if !ends => Step::Nothing,
            [] => {
                self.core.close_if_ended(id);
                Step::Event(Event::End { stream: id, trailers: None })
            }
            _ => {
                self.core.close_if_ended(id);
                Step::Event(Event::Data { stream: id, data, ends })
            }
        })
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
        let fault = if stream.receiving == Receiving::Ended {
            (ErrorCode::STREAM_CLOSED, "HEADERS after the end of the stream")
        } else if !block.ends_stream {
            (ErrorCode::PROTOCOL_ERROR, "trailers do not end the stream")
        } else if stream.expected.is_some_and(|left| left > 0) {
            WRONG_LENGTH
        } else {
            match block.written {
                Err(HeadFault::Malformed(reason)) => (ErrorCode::PROTOCOL_ERROR, reason),
                Err(HeadFault::TooLarge) => (ErrorCode::ENHANCE_YOUR_CALM, "trailers exceed the limit"),
                Ok(()) => match read_trailers(section, turn.limits) {
                    Ok(trailers) => {
                        stream.receiving = Receiving::Ended;
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
