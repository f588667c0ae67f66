//! Decodes what a client sends: frames, and what each means for its stream.

use std::time::Instant;

use bytes::BytesMut;

use super::event::Event;
use super::{SHUTDOWN_PING, ServerConnection, Shutdown};
use crate::Limits;
use crate::field_section::{HeadBuffers, HeadFault, HeadText};
use crate::h2::body::Piece;
use crate::h2::core::Turn;
use crate::h2::frame::{PREFACE, flag, put_ping};
use crate::h2::reader::{BLOCK_BYTES_FACTOR, Frame};
use crate::h2::stream::Stream;
use crate::h2::{ConnectionError, ErrorCode, Priority};

/// RFC 7540 §5.3.1: all that is left of the priorities of that RFC.
const DEPENDS_ON_ITSELF: &str = "a stream depends on itself";

/// A decoded header block, whose text is in the buffers.
pub(super) struct Block {
    pub(super) stream: u32,
    pub(super) ends_stream: bool,
    pub(super) priority: Priority,
    /// The method is HEAD.
    pub(super) is_head: bool,
    /// The request is for a tunnel.
    pub(super) is_tunnel: bool,
    pub(super) written: Result<(), HeadFault>,
    is_trailer: bool,
}

/// What a frame leads to.
#[expect(
    clippy::large_enum_variant,
    reason = "it is passed on at once; a box would be an allocation for each request"
)]
pub(super) enum Step<'i> {
    Nothing,
    Block(Block),
    Event(Event<'i>),
}

impl ServerConnection {
    /// Returns the next event of `input`, and removes what it consists of from there. `None` if more input is needed; then
    /// all of it is used. Appends frames that the client must get, such as acknowledgements.
    ///
    /// # Errors
    ///
    /// The client violates the protocol or a limit. Pass the error to [`Self::fail`], and close the connection.
    pub fn receive<'i: 'e, 'e>(
        &mut self,
        input: &mut &'i [u8],
        buffers: &'e mut HeadBuffers,
        now: Instant,
        limits: &Limits,
        out: &mut BytesMut,
    ) -> Result<Option<Event<'e>>, ConnectionError> {
        self.receive_preface(input)?;
        let mut turn = Turn { now, limits, out };
        let block = loop {
            match self.receive_frame(input, buffers, &mut turn)? {
                None => {
                    self.note_partial(now);
                    return Ok(None);
                }
                Some(Step::Nothing) => {}
                Some(Step::Event(event)) => {
                    self.note_idle(now);
                    return Ok(Some(event));
                }
                Some(Step::Block(block)) => break block,
            }
        };
        let event = if block.is_trailer {
            self.receive_trailers(&block, &buffers.head, &mut turn)
        } else {
            self.receive_request(&block, &buffers.head, &mut turn)
        };
        self.note_idle(now);
        event.map(Some)
    }

    fn receive_preface(&mut self, input: &mut &[u8]) -> Result<(), ConnectionError> {
        let expected = &PREFACE[usize::from(self.preface)..];
        let length = expected.len().min(input.len());
        let (received, rest) = input.split_at(length);
        if received != &expected[..length] {
            return Err(ConnectionError::protocol("the connection does not begin with the preface"));
        }
        *input = rest;
        self.preface += u8::try_from(length).unwrap_or(u8::MAX);
        Ok(())
    }

    /// Notes whether a frame or a header block is incomplete, and since when.
    fn note_partial(&mut self, now: Instant) {
        let is_partial = self.core.reader.is_in_block() || self.core.reader.is_in_frame();
        self.partial_since = is_partial.then(|| self.partial_since.unwrap_or(now));
    }

    fn receive_frame<'i>(
        &mut self,
        input: &mut &'i [u8],
        buffers: &mut HeadBuffers,
        turn: &mut Turn<'_>,
    ) -> Result<Option<Step<'i>>, ConnectionError> {
        let block_bytes_max = turn.limits.head_bytes.saturating_mul(BLOCK_BYTES_FACTOR);
        let Some(frame) = self.core.reader.read(input, block_bytes_max)? else { return Ok(None) };
        self.has_completed |= !matches!(frame, Frame::Data { .. });
        // A header block that continues has begun with its first frame.
        if frame != Frame::HeadersPart {
            self.partial_since = None;
        }
        match frame {
            Frame::Headers { stream, block, ends_stream, depends_on } => {
                let HeadBuffers { strings, parts, head } = buffers;
                let is_trailer = stream <= self.last_stream;
                let mut text = HeadText::new(parts, is_trailer, turn.limits.head_bytes);
                let mut field = |name: &[u8], value: &[u8]| text.field(name, value);
                // In any case, because the table must remain that of the client.
                self.core.decoder.decode(block, strings, &mut field).map_err(|_| {
                    ConnectionError::new(ErrorCode::COMPRESSION_ERROR, "a header block cannot be decoded")
                })?;
                if depends_on == Some(stream) {
                    text.reject(DEPENDS_ON_ITSELF);
                }
                if self.is_ignored(stream)? || is_trailer && self.core.was_reset_by_us(stream) {
                    return self.count_frame(turn).map(Some);
                }
                let (priority, is_head, is_tunnel) = (text.priority, text.is_head(), text.is_tunnel());
                let written = if is_trailer {
                    text.write_trailers(head)
                } else {
                    text.write_request(head, self.accepts_tunnels)
                };
                let block = Block { stream, ends_stream, priority, is_head, is_tunnel, written, is_trailer };
                return Ok(Some(Step::Block(block)));
            }
            Frame::Data { stream, data, flow_bytes, ends_stream, is_empty } => {
                self.has_completed |= !self.core.reader.is_in_data();
                let piece = Piece { stream, data, flow_bytes, ends: ends_stream, is_empty };
                return self.receive_data(&piece, turn).map(Some);
            }
            Frame::Settings(payload) => {
                let mut peer = self.core.peer;
                peer.apply(payload)?;
                if self.core.set_peer(peer, turn.out)? {
                    self.core.allowances.count_frame(&turn.limits.http2, turn.now)?;
                    return Ok(Some(Step::Event(Event::Window { stream: 0 })));
                }
            }
            Frame::PriorityUpdate { stream, value } => {
                let priority = Priority::parse(value);
                return self.receive_priority(stream, priority, turn).map(Some);
            }
            Frame::WindowUpdate { stream, increment } => {
                return self.receive_window_update(stream, increment, turn).map(Some);
            }
            Frame::Reset { stream, code } => return self.receive_reset(stream, code, turn).map(Some),
            Frame::Priority { stream, depends_on } if stream == depends_on => {
                if self.is_handled(stream)? && self.core.streams.get(stream).is_some() {
                    let fault = (ErrorCode::PROTOCOL_ERROR, DEPENDS_ON_ITSELF);
                    return self.fail_stream(stream, fault, turn).map(Step::Event).map(Some);
                }
            }
            Frame::Ping(payload) => put_ping(flag::ACK, payload, turn.out),
            Frame::PingAck(SHUTDOWN_PING) if self.shutdown == Shutdown::Announced => {
                self.stop_accepting(turn.out);
            }
            Frame::PingAck(payload) => {
                if self.core.ping_ack(payload, &turn.limits.http2, turn.out) {
                    return Ok(Some(Step::Nothing));
                }
            }
            Frame::PushPromise => {
                return Err(ConnectionError::protocol("a client sent PUSH_PROMISE"));
            }
            // After GOAWAY, a client may still send requests.
            Frame::Priority { .. }
            | Frame::HeadersPart
            | Frame::SettingsAck
            | Frame::GoAway { .. }
            | Frame::Unknown => {}
        }
        self.count_frame(turn).map(Some)
    }

    /// Counts a frame without purpose.
    fn count_frame<'i>(&mut self, turn: &mut Turn<'_>) -> Result<Step<'i>, ConnectionError> {
        self.core.allowances.count_frame(&turn.limits.http2, turn.now)?;
        Ok(Step::Nothing)
    }

    fn receive_priority<'i>(
        &mut self,
        stream: u32,
        priority: Priority,
        turn: &mut Turn<'_>,
    ) -> Result<Step<'i>, ConnectionError> {
        // RFC 9218 §7.1: neither the connection, nor a stream of the server, which pushes nothing.
        if stream.is_multiple_of(2) {
            return Err(ConnectionError::protocol("PRIORITY_UPDATE for a stream that no client opens"));
        }
        self.core.allowances.count_frame(&turn.limits.http2, turn.now)?;
        let is_open = self.core.streams.get(stream).is_some();
        Ok(if is_open { Step::Event(Event::Priority { stream, priority }) } else { Step::Nothing })
    }

    fn receive_window_update<'i>(
        &mut self,
        stream: u32,
        increment: u32,
        turn: &mut Turn<'_>,
    ) -> Result<Step<'i>, ConnectionError> {
        if stream != 0 && !self.is_handled(stream)? {
            return self.count_frame(turn);
        }
        if stream != 0 && increment == 0 {
            // Also for a closed stream, where other values are ignored.
            let fault = (ErrorCode::PROTOCOL_ERROR, "an invalid WINDOW_UPDATE");
            return self.fail_stream(stream, fault, turn).map(Step::Event);
        }
        self.core.count_update(&turn.limits.http2, turn.now)?;
        let has_no_window = |stream: &Stream| stream.send_window.available() == 0;
        let opens = self.core.streams.get(stream).is_some_and(has_no_window);
        match self.core.window_update(stream, increment)? {
            Some(code) => self.fail_stream(stream, (code, "an invalid WINDOW_UPDATE"), turn).map(Step::Event),
            None if opens => Ok(Step::Event(Event::Window { stream })),
            None => Ok(Step::Nothing),
        }
    }

    fn receive_reset<'i>(
        &mut self,
        stream: u32,
        code: ErrorCode,
        turn: &mut Turn<'_>,
    ) -> Result<Step<'i>, ConnectionError> {
        if !self.is_handled(stream)? || self.core.streams.remove(stream).is_none() {
            self.core.forget_reset(stream);
            return self.count_frame(turn);
        }
        self.core.allowances.count_reset(&turn.limits.http2, turn.now)?;
        Ok(Step::Event(Event::Reset { stream, code, reason: None }))
    }

    /// Whether frames other than HEADERS are handled. Fails for a stream that the client has not opened yet (RFC 9113 §5.1).
    pub(super) fn is_handled(&self, stream: u32) -> Result<bool, ConnectionError> {
        let is_ignored = self.is_ignored(stream)?;
        if !is_ignored && stream > self.last_stream {
            return Err(ConnectionError::protocol("a frame for a stream that is not open"));
        }
        Ok(!is_ignored)
    }

    /// Whether frames for a stream are ignored, because it comes after the last one of a final GOAWAY (RFC 9113 §6.8). Fails for
    /// a stream that only a server can open.
    fn is_ignored(&self, stream: u32) -> Result<bool, ConnectionError> {
        if stream.is_multiple_of(2) {
            return Err(ConnectionError::protocol("a client used a stream with an even number"));
        }
        Ok(self.shutdown == Shutdown::Final && stream > self.last_stream)
    }

    /// Resets a stream because of what the client did (CVE-2025-8671).
    pub(super) fn fail_stream<'e>(
        &mut self,
        stream: u32,
        (code, reason): (ErrorCode, &'static str),
        turn: &mut Turn<'_>,
    ) -> Result<Event<'e>, ConnectionError> {
        self.core.allowances.count_reset(&turn.limits.http2, turn.now)?;
        self.core.reset(stream, code, turn.out);
        Ok(Event::Reset { stream, code, reason: Some(reason) })
    }
}
