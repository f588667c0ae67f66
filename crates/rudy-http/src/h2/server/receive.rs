//! Decodes what a client sends: frames, and what each means for its stream.

use std::time::Instant;

use bytes::BytesMut;

use super::event::Event;
use super::head::{HeadBuffers, HeadFault, HeadText};
use super::{SHUTDOWN_PING, ServerConnection, Shutdown};
use crate::Limits;
use crate::h2::body::Piece;
use crate::h2::core::Turn;
use crate::h2::frame::{PREFACE, flag, put_ping};
use crate::h2::reader::Frame;
use crate::h2::{ConnectionError, ErrorCode, Priority};

/// A decoded header block, whose text is in the buffers.
pub(super) struct Block {
    pub(super) stream: u32,
    pub(super) ends_stream: bool,
    pub(super) priority: Priority,
    pub(super) written: Result<(), HeadFault>,
    is_trailer: bool,
}

/// What a frame leads to.
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
        self.is_partial = false;
        let event = if block.is_trailer {
            self.receive_trailers(&block, &buffers.head, &mut turn)
        } else {
            self.receive_request(&block, &buffers.head, &mut turn)
        };
        self.note_idle(now);
        event
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
        if is_partial && !self.is_partial {
            self.wait_started = now;
        }
        self.is_partial = is_partial;
    }

    fn receive_frame<'i>(
        &mut self,
        input: &mut &'i [u8],
        buffers: &mut HeadBuffers,
        turn: &mut Turn<'_>,
    ) -> Result<Option<Step<'i>>, ConnectionError> {
        let Some(frame) = self.core.reader.read(input, turn.limits.head_bytes)? else { return Ok(None) };
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
                    return self.depends_on_itself(stream, turn).map(Some);
                }
                let priority = text.priority;
                let written = if is_trailer { text.write_trailers(head) } else { text.write_request(head) };
                return Ok(Some(Step::Block(Block { stream, ends_stream, priority, written, is_trailer })));
            }
            Frame::Settings(payload) => {
                let mut peer = self.core.peer;
                peer.apply(payload)?;
                self.core.set_peer(peer, turn.out)?;
            }
            Frame::PriorityUpdate { stream: 0, .. } => {
                return Err(ConnectionError::protocol("PRIORITY_UPDATE for the connection"));
            }
            Frame::PriorityUpdate { stream, value } => {
                let priority = Priority::parse(value);
                self.core.count_frame(&turn.limits.http2, turn.now)?;
                let is_open = self.core.streams.get(stream).is_some();
                let event = || Step::Event(Event::Priority { stream, priority });
                return Ok(Some(if is_open { event() } else { Step::Nothing }));
            }
            Frame::Data { stream, data, flow_bytes, ends_stream, is_empty } => {
                if is_empty && !ends_stream {
                    self.core.count_frame(&turn.limits.http2, turn.now)?;
                }
                let piece = Piece { stream, data, flow_bytes, ends: ends_stream };
                return self.receive_data(&piece, turn).map(Some);
            }
            Frame::WindowUpdate { stream, increment } => {
                self.check_not_idle(stream)?;
                if increment == 0 && stream != 0 {
                    let fault = (ErrorCode::PROTOCOL_ERROR, "an invalid WINDOW_UPDATE");
                    return self.fail_stream(stream, fault, turn).map(Step::Event).map(Some);
                }
                if let Some(code) = self.core.window_update(stream, increment)? {
                    let fault = (code, "an invalid WINDOW_UPDATE");
                    return self.fail_stream(stream, fault, turn).map(Step::Event).map(Some);
                }
            }
            Frame::Reset { stream, code } => {
                self.check_not_idle(stream)?;
                if self.core.streams.remove(stream).is_some() {
                    self.core.count_reset(&turn.limits.http2, turn.now)?;
                    return Ok(Some(Step::Event(Event::Reset { stream, code, reason: None })));
                }
                self.core.forget_reset(stream);
            }
            Frame::Priority { stream, depends_on } if stream == depends_on => {
                return self.depends_on_itself(stream, turn).map(Some);
            }
            Frame::Ping(payload) => put_ping(flag::ACK, payload, turn.out),
            Frame::PingAck(SHUTDOWN_PING) if self.shutdown == Shutdown::Announced => {
                self.stop_accepting(turn.out);
            }
            Frame::PingAck(payload) => self.core.ping_ack(payload, &turn.limits.http2, turn.out),
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
        self.core.count_frame(&turn.limits.http2, turn.now)?;
        Ok(Some(Step::Nothing))
    }

    /// Checks that a stream is not one that the client has not opened yet (RFC 9113 §5.1).
    pub(super) fn check_not_idle(&self, stream: u32) -> Result<(), ConnectionError> {
        if stream <= self.last_stream {
            return Ok(());
        }
        Err(ConnectionError::protocol("a frame for a stream that is not open"))
    }

    /// RFC 7540 §5.3.1: all that is left of the priorities of that RFC.
    fn depends_on_itself<'i>(
        &mut self,
        stream: u32,
        turn: &mut Turn<'_>,
    ) -> Result<Step<'i>, ConnectionError> {
        let fault = (ErrorCode::PROTOCOL_ERROR, "a stream depends on itself");
        self.last_stream = self.last_stream.max(stream);
        self.fail_stream(stream, fault, turn).map(Step::Event)
    }

    /// Resets a stream because of what the client did (CVE-2025-8671).
    pub(super) fn fail_stream<'e>(
        &mut self,
        stream: u32,
        (code, reason): (ErrorCode, &'static str),
        turn: &mut Turn<'_>,
    ) -> Result<Event<'e>, ConnectionError> {
        self.core.count_reset(&turn.limits.http2, turn.now)?;
        self.core.reset(stream, code, turn.out);
        Ok(Event::Reset { stream, code, reason: Some(reason) })
    }
}
