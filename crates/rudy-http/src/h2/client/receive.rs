//! Decodes what a server sends: frames, and what each means for its stream.

use std::time::Instant;

use bytes::BytesMut;
use http::Version;
use rudy_message::Framing;
use rudy_message::text::read_trailers;

use super::ClientConnection;
use super::event::Event;
use crate::Limits;
use crate::field_section::{HeadBuffers, HeadFault, ReceivedHead, ResponseText};
use crate::h2::body::{Piece, Received, WRONG_LENGTH};
use crate::h2::core::Turn;
use crate::h2::frame::{flag, put_ping};
use crate::h2::reader::{BLOCK_BYTES_FACTOR, Frame};
use crate::h2::{ConnectionError, ErrorCode};
use crate::progress::Receiving;

/// The maximum length of the reason of GOAWAY that is passed on.
const REASON_BYTES_MAX: usize = 256;

/// A decoded header block, whose text is in the buffers.
struct Block {
    stream: u32,
    ends_stream: bool,
    checked: Result<ReceivedHead, HeadFault>,
    /// What the stream waits for; `None` if this side has reset it.
    receiving: Option<Receiving>,
}

/// What a frame leads to.
enum Step<'i> {
    Nothing,
    Block(Block),
    Event(Event<'i>),
    /// GOAWAY, whose reason is in the buffers.
    GoAway {
        last_stream: u32,
        code: ErrorCode,
    },
}

impl ClientConnection {
    /// Returns the next event of `input`, and removes what it consists of from there. `None` if more input is needed; then
    /// all of it is used. Appends frames that the server must get, such as acknowledgements.
    ///
    /// # Errors
    ///
    /// The server violates the protocol or a limit. Pass the error to [`Self::fail`], and close the connection.
    pub fn receive<'i: 'e, 'e>(
        &mut self,
        input: &mut &'i [u8],
        buffers: &'e mut HeadBuffers,
        now: Instant,
        limits: &Limits,
        out: &mut BytesMut,
    ) -> Result<Option<Event<'e>>, ConnectionError> {
        if let Some(stream) = self.last_stream.and_then(|last| self.core.streams.pop_after(last)) {
            return Ok(Some(Event::Reset { stream, code: ErrorCode::REFUSED_STREAM, reason: None }));
        }
        // A server without HTTP/2 responds to the preface.
        if !self.has_settings && !self.core.reader.is_in_frame() && input.starts_with(b"HTTP/1") {
            return Err(ConnectionError::protocol("the server responds with HTTP/1"));
        }
        let mut turn = Turn { now, limits, out };
        let block = loop {
            match self.receive_frame(input, buffers, &mut turn)? {
                None => return Ok(None),
                Some(Step::Event(event)) => return Ok(Some(event)),
                Some(Step::GoAway { last_stream, code }) => {
                    return Ok(Some(Event::GoAway { last_stream, code, reason: &buffers.head }));
                }
                // Interim responses and trailers for a closed stream count as frames without purpose.
                Some(Step::Block(Block { receiving: None, .. })) => {
                    self.core.allowances.count_frame(&limits.http2, now)?;
                }
                Some(Step::Nothing) => {}
                Some(Step::Block(block)) => break block,
            }
        };
        Ok(Some(match block.receiving {
            Some(Receiving::Body) => self.receive_trailers(&block, &buffers.head, &mut turn),
            _ => self.receive_head(&block, &buffers.head, &mut turn)?,
        }))
    }

    fn receive_frame<'i>(
        &mut self,
        input: &mut &'i [u8],
        buffers: &mut HeadBuffers,
        turn: &mut Turn<'_>,
    ) -> Result<Option<Step<'i>>, ConnectionError> {
        let limits = turn.limits;
        let block_bytes_max = limits.head_bytes.saturating_mul(BLOCK_BYTES_FACTOR);
        let Some(frame) = self.core.reader.read(input, block_bytes_max)? else { return Ok(None) };
        match frame {
            Frame::Data { stream, data, flow_bytes, ends_stream, is_empty } => {
                if is_empty && !ends_stream {
                    self.core.allowances.count_frame(&limits.http2, turn.now)?;
                }
                let piece = Piece { stream, data, flow_bytes, ends: ends_stream, is_empty };
                return self.receive_data(&piece, turn).map(Some);
            }
            Frame::Headers { stream, block, ends_stream, .. } => {
                let receiving = self.core.streams.get(stream).map(|stream| stream.progress.receiving);
                let HeadBuffers { strings, head, .. } = buffers;
                let mut text = ResponseText::new(head, Version::HTTP_2, receiving != Some(Receiving::Head));
                let mut field = |name: &[u8], value: &[u8]| text.field(name, value, limits);
                // In any case, because the table must remain that of the server.
                self.core.decoder.decode(block, strings, &mut field).map_err(|_| {
                    ConnectionError::new(ErrorCode::COMPRESSION_ERROR, "a header block cannot be decoded")
                })?;
                let checked = text.finish(limits);
                self.check_not_idle(stream)?;
                let is_closed = receiving.is_none_or(|receiving| receiving == Receiving::Ended);
                if is_closed && !self.core.was_reset_by_us(stream) {
                    let reason = "HEADERS for a stream that is closed";
                    return Err(ConnectionError::new(ErrorCode::STREAM_CLOSED, reason));
                }
                return Ok(Some(Step::Block(Block { stream, ends_stream, checked, receiving })));
            }
            Frame::Settings(payload) => {
                let mut peer = self.core.peer;
                peer.apply(payload)?;
                // RFC 9113 §6.5.2.
                if peer.has_enabled_push {
                    return Err(ConnectionError::protocol("a server sent SETTINGS_ENABLE_PUSH with 1"));
                }
                if peer.header_table_bytes_min < self.core.peer.header_table_bytes_min {
                    // RFC 7541 §4.2: the smallest size counts, also if a larger one follows.
                    self.encoder.set_peer_table_bytes(peer.header_table_bytes_min);
                }
                self.core.set_peer(peer, turn.out)?;
                self.encoder.set_peer_table_bytes(peer.header_table_bytes);
                self.has_settings = true;
                self.core.allowances.count_frame(&limits.http2, turn.now)?;
                return Ok(Some(Step::Event(Event::Settings)));
            }
            Frame::WindowUpdate { stream, increment } => {
                self.check_not_idle(stream)?;
                self.core.count_update(&limits.http2, turn.now)?;
                return Ok(Some(match self.core.window_update(stream, increment)? {
                    Some(code) => {
                        Step::Event(self.fail_stream(stream, (code, "an invalid WINDOW_UPDATE"), turn))
                    }
                    None => Step::Nothing,
                }));
            }
            Frame::Reset { stream, code } => {
                self.check_not_idle(stream)?;
                // It needs no limit: each stream is one of this side.
                if self.core.streams.remove(stream).is_some() {
                    return Ok(Some(Step::Event(Event::Reset { stream, code, reason: None })));
                }
            }
            Frame::GoAway { last_stream, code, reason } => {
                // RFC 9113 §6.8.
                if self.last_stream.is_some_and(|last| last_stream > last) {
                    return Err(ConnectionError::protocol(
                        "a GOAWAY has a later last stream than the one before",
                    ));
                }
                buffers.head.clear();
                buffers.head.extend_from_slice(&reason[..reason.len().min(REASON_BYTES_MAX)]);
                self.last_stream = Some(last_stream);
                self.core.allowances.count_frame(&limits.http2, turn.now)?;
                return Ok(Some(Step::GoAway { last_stream, code }));
            }
            Frame::Ping(payload) => put_ping(flag::ACK, payload, turn.out),
            Frame::PingAck(payload) => {
                if self.core.ping_ack(payload, &limits.http2, turn.out) {
                    return Ok(Some(Step::Nothing));
                }
            }
            Frame::PushPromise => {
                return Err(ConnectionError::protocol("PUSH_PROMISE, although SETTINGS_ENABLE_PUSH is 0"));
            }
            // RFC 9218 §7.1.
            Frame::PriorityUpdate { .. } => {
                return Err(ConnectionError::protocol("a server sent PRIORITY_UPDATE"));
            }
            Frame::Priority { .. } | Frame::HeadersPart | Frame::SettingsAck | Frame::Unknown => {}
        }
        self.core.allowances.count_frame(&limits.http2, turn.now)?;
        Ok(Some(Step::Nothing))
    }

    fn receive_data<'i>(
        &mut self,
        piece: &Piece<'i>,
        turn: &mut Turn<'_>,
    ) -> Result<Step<'i>, ConnectionError> {
        let &Piece { stream, data, ends, .. } = piece;
        self.check_not_idle(stream)?;
        Ok(match self.core.receive_piece(piece, turn.limits, turn.out)? {
            Received::Ignored => Step::Nothing,
            Received::Malformed((code @ ErrorCode::STREAM_CLOSED, reason)) => {
                return Err(ConnectionError::new(code, reason));
            }
            Received::Malformed(fault) => Step::Event(self.fail_stream(stream, fault, turn)),
            Received::TooLarge => Step::Event(self.fail_stream(stream, BODY_TOO_LARGE, turn)),
            Received::Accepted => match data {
                [] if !ends => Step::Nothing,
                [] => Step::Event(Event::End { stream, trailers: None }),
                _ => Step::Event(Event::Data { stream, data, ends }),
            },
        })
    }

    /// Handles the head of a response, which may be an interim one.
    fn receive_head<'e>(
        &mut self,
        block: &Block,
        text: &'e [u8],
        turn: &mut Turn<'_>,
    ) -> Result<Event<'e>, ConnectionError> {
        let &Block { stream, ends_stream: ends, checked, .. } = block;
        let head = match checked {
            Ok(head) => head,
            Err(fault) => return Ok(self.fail_stream(stream, stream_fault(fault), turn)),
        };
        if (100..200).contains(&head.status) {
            let reason = match (head.status, ends) {
                // RFC 9113 §8.6.
                (101, _) => "a response with status 101",
                (_, true) => "an interim response ends the stream",
                (_, false) => {
                    self.core.allowances.count_frame(&turn.limits.http2, turn.now)?;
                    let head = head.view(text, Framing::None);
                    return Ok(Event::Informational { stream, head });
                }
            };
            return Ok(self.fail_stream(stream, (ErrorCode::PROTOCOL_ERROR, reason), turn));
        }
        let Some(state) = self.core.streams.get_mut(stream) else {
            return Err(ConnectionError::new(ErrorCode::INTERNAL_ERROR, "a head without a stream"));
        };
        let Ok(framing) = state.progress.receive_response(head, ends) else {
            return Ok(self.fail_stream(stream, WRONG_LENGTH, turn));
        };
        if state.progress.expected.unwrap_or(0) > turn.limits.body_bytes {
            return Ok(self.fail_stream(stream, BODY_TOO_LARGE, turn));
        }
        self.core.count_exchange();
        self.core.close_if_ended(stream);
        Ok(Event::Head { stream, head: head.view(text, framing), ends })
    }

    /// Ends a response with trailers.
    fn receive_trailers<'e>(&mut self, block: &Block, section: &[u8], turn: &mut Turn<'_>) -> Event<'e> {
        let stream = block.stream;
        let expected = self.core.streams.get(stream).and_then(|stream| stream.progress.expected);
        let fault = if !block.ends_stream {
            (ErrorCode::PROTOCOL_ERROR, "trailers do not end the stream")
        } else if expected.is_some_and(|left| left > 0) {
            WRONG_LENGTH
        } else {
            match block.checked.map(|_| read_trailers(section, &turn.limits.of_message())) {
                Ok(Ok(trailers)) => {
                    if let Some(state) = self.core.streams.get_mut(stream) {
                        state.progress.receiving = Receiving::Ended;
                    }
                    self.core.close_if_ended(stream);
                    return Event::End { stream, trailers };
                }
                Ok(Err(_)) => (ErrorCode::PROTOCOL_ERROR, "a field is not allowed as a trailer"),
                Err(fault) => stream_fault(fault),
            }
        };
        self.fail_stream(stream, fault, turn)
    }

    /// Checks that a stream is one that this side has opened (RFC 9113 §5.1).
    fn check_not_idle(&self, stream: u32) -> Result<(), ConnectionError> {
        if stream < self.next_stream && (stream == 0 || !stream.is_multiple_of(2)) {
            return Ok(());
        }
        Err(ConnectionError::protocol("a frame for a stream that is not open"))
    }

    /// Resets a stream because of what the server did.
    fn fail_stream<'e>(
        &mut self,
        stream: u32,
        (code, reason): (ErrorCode, &'static str),
        turn: &mut Turn<'_>,
    ) -> Event<'e> {
        self.core.reset(stream, code, turn.out);
        Event::Reset { stream, code, reason: Some(reason) }
    }
}

/// The body is larger than [`Limits::body_bytes`].
const BODY_TOO_LARGE: (ErrorCode, &str) = (ErrorCode::CANCEL, "the body is larger than the limit");

/// Returns the error of a stream whose head or trailers have a fault.
fn stream_fault(fault: HeadFault) -> (ErrorCode, &'static str) {
    match fault {
        HeadFault::Malformed(reason) => (ErrorCode::PROTOCOL_ERROR, reason),
        HeadFault::TooLarge => {
            (ErrorCode::ENHANCE_YOUR_CALM, "the response has more or larger fields than the limit")
        }
    }
}
