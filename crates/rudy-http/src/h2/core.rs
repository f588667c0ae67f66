//! What both roles share: settings, windows, pings, resets, and the limits on frames without purpose.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::{BufMut, BytesMut};

use super::frame::{begin_block, put_ping, put_reset, put_window_update};
use super::growth::Growth;
use super::reader::FrameReader;
use super::settings::{OwnSettings, PeerSettings, put_settings_ack};
use super::stream::Streams;
use super::window::{ReceiveWindow, SendWindow};
use super::{ConnectionError, ErrorCode, Limits};
use crate::allowance::{Allowance, Allowances};
use crate::hpack::Decoder;
use crate::progress::Receiving;

/// What the handling of a frame needs.
pub(super) struct Turn<'t> {
    pub(super) now: Instant,
    pub(super) limits: &'t crate::Limits,
    /// Frames that the peer must get, such as acknowledgements.
    pub(super) out: &'t mut BytesMut,
}

/// The size of the windows before a SETTINGS frame (RFC 9113 §6.9.2).
const DEFAULT_WINDOW_BYTES: u32 = 65_535;

/// Frames without purpose that a peer may send for each DATA frame that it receives: some clients send PING to measure the delivery
/// of data.
const FRAMES_FOR_DATA: u32 = 2;

/// WINDOW_UPDATE frames that a peer may send for each DATA frame that it receives, and for each KiB of it: one for the stream
/// and one for the connection. The HTTP/2 of Go sends both for each 4 KiB that the application reads; others, for each packet.
const UPDATES_FOR_DATA: u32 = 2;
const UPDATES_FOR_KIB: u32 = 2;

/// The maximum of WINDOW_UPDATE frames that a peer may still send for DATA in transit: those for 8 MiB.
const UPDATES_IN_TRANSIT: u32 = 16 * 1024;

/// Smaller DATA frames, if the window of the peer is the reason, count as its doing (CVE-2019-9511).
const DRIBBLE_BYTES: u64 = 256;

/// Streams that this side has reset: frames for them may be in transit (RFC 9113 §5.1). More than the default of concurrent
/// streams, because a service may reject all of them while their bodies arrive.
const REMEMBERED_RESETS: usize = 256;

/// The size of the table of the peer before a SETTINGS frame (RFC 9113 §6.5.2).
const DEFAULT_TABLE_BYTES: u32 = 4096;

/// A field block begins with this change of the table size, to zero (RFC 7541 §6.3).
const TABLE_IS_UNUSED: u8 = 0x20;

/// The state of a connection, without its role.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) reader: FrameReader,
    pub(super) decoder: Decoder,
    pub(super) peer: PeerSettings,
    pub(super) streams: Streams,
    pub(super) send_window: SendWindow,
    receive_window: ReceiveWindow,
    /// The receive window of new streams in the SETTINGS of this side.
    initial_window: u32,
    /// The size to which the receive windows of streams are opened.
    stream_window: u32,
    growth: Growth,
    /// Whether the windows may grow.
    may_grow: bool,
    pub(super) allowances: Allowances,
    updates: Allowance,
    table: PeerTable,
    /// The newest streams that this side has reset.
    reset_by_us: VecDeque<u32>,
    /// The last of the streams that were reset before those. Frames for streams up to this one are ignored.
    forgotten_reset: u32,
}

/// The table that the peer decodes header blocks with. This side does not use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeerTable {
    /// It has at least the size that it has at first.
    Default,
    /// The peer has reduced it, which the next block must confirm (RFC 7541 §4.2).
    Reduced,
    /// A block has changed its size to zero, so that it cannot be reduced again.
    Unused,
}

impl Core {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            reader: FrameReader::default(),
            decoder: Decoder::new(DEFAULT_TABLE_BYTES),
            peer: PeerSettings::default(),
            streams: Streams::default(),
            send_window: SendWindow::new(DEFAULT_WINDOW_BYTES),
            receive_window: ReceiveWindow::new(DEFAULT_WINDOW_BYTES),
            initial_window: DEFAULT_WINDOW_BYTES,
            stream_window: DEFAULT_WINDOW_BYTES,
            growth: Growth::default(),
            may_grow: true,
            allowances: Allowances::new(now),
            updates: Allowance::new(now),
            table: PeerTable::Default,
            reset_by_us: VecDeque::new(),
            forgotten_reset: 0,
        }
    }

    /// Appends the settings of this side, and opens the window of the connection.
    pub(super) fn start(&mut self, own: OwnSettings, limits: &Limits, out: &mut BytesMut) {
        own.encode(out);
        self.initial_window = own.initial_window;
        self.stream_window = own.initial_window;
        self.receive_window.grow(limits.connection_window_bytes);
        self.open_window(out);
    }

    /// Counts a WINDOW_UPDATE frame.
    pub(super) fn count_update(&mut self, limits: &Limits, now: Instant) -> Result<(), ConnectionError> {
        if self.updates.take(limits.control_frames, now) {
            return Ok(());
        }
        Err(ConnectionError::new(ErrorCode::ENHANCE_YOUR_CALM, "too many WINDOW_UPDATE frames"))
    }

    /// Counts a request or response: real work.
    pub(super) fn count_exchange(&mut self) {
        self.allowances.count_exchange();
        self.updates.give_back(UPDATES_FOR_DATA, 0);
    }

    /// Applies new settings of the peer, and acknowledges them. Returns whether a stream had no window, and has one now.
    pub(super) fn set_peer(
        &mut self,
        peer: PeerSettings,
        out: &mut BytesMut,
    ) -> Result<bool, ConnectionError> {
        let mut opens = false;
        let change = i64::from(peer.initial_window) - i64::from(self.peer.initial_window);
        self.peer = peer;
        if self.table == PeerTable::Default && peer.header_table_bytes_min < DEFAULT_TABLE_BYTES {
            self.table = PeerTable::Reduced;
        }
        if change != 0 {
            for stream in self.streams.iter_mut() {
                let had_none = stream.send_window.available() == 0;
                stream.send_window.change(change).map_err(|_| {
                    ConnectionError::new(ErrorCode::FLOW_CONTROL_ERROR, "a setting makes a window too large")
                })?;
                opens |= had_none && stream.send_window.available() > 0;
            }
        }
        put_settings_ack(out);
        Ok(opens)
    }

    /// Begins a header block, which [`end_block`](super::frame::end_block) completes. Returns its position.
    pub(super) fn begin_block(&mut self, out: &mut BytesMut) -> usize {
        let start = begin_block(out);
        if self.table == PeerTable::Reduced {
            self.table = PeerTable::Unused;
            out.put_u8(TABLE_IS_UNUSED);
        }
        start
    }

    /// Handles the acknowledgement of a PING, which may enlarge the windows. Returns whether the PING was one of this side.
    pub(super) fn ping_ack(&mut self, payload: [u8; 8], limits: &Limits, out: &mut BytesMut) -> bool {
        if !self.growth.expects(payload) {
            return false;
        }
        let max = if self.may_grow { limits.stream_window_bytes_max } else { self.stream_window };
        if let Some(size) = self.growth.acknowledge(payload, self.stream_window, max) {
            self.grow_windows(size, out);
        }
        true
    }

    fn grow_windows(&mut self, size: u32, out: &mut BytesMut) {
        self.stream_window = size;
        // The streams of a connection share twice the window of one.
        self.receive_window.grow(size.saturating_mul(2));
        for stream in self.streams.iter_mut() {
            stream.receive_window.grow(size);
            if stream.progress.receiving != Receiving::Ended
                && let Some(increment) = stream.receive_window.update()
            {
                put_window_update(stream.id, increment, out);
            }
        }
        self.open_window(out);
    }

    /// Returns how much of all bodies was received, and not passed on.
    pub(super) fn stored_bytes(&self) -> u64 {
        u64::from(self.receive_window.stored())
    }

    pub(super) fn set_may_grow(&mut self, may_grow: bool) {
        self.may_grow = may_grow;
    }

    /// Handles WINDOW_UPDATE. Returns the error of a stream that must be reset.
    pub(super) fn window_update(
        &mut self,
        stream: u32,
        increment: u32,
    ) -> Result<Option<ErrorCode>, ConnectionError> {
        let window = match stream {
            0 => Some(&mut self.send_window),
            _ => self.streams.get_mut(stream).map(|stream| &mut stream.send_window),
        };
        // A closed stream: RFC 9113 §5.1.
        let Some(window) = window else { return Ok(None) };
        let code = match increment {
            0 => ErrorCode::PROTOCOL_ERROR,
            _ if window.change(increment.into()).is_err() => ErrorCode::FLOW_CONTROL_ERROR,
            _ => return Ok(None),
        };
        match stream {
            0 => Err(ConnectionError::new(code, "an invalid WINDOW_UPDATE for the connection")),
            _ => Ok(Some(code)),
        }
    }

    /// Counts a piece of DATA in the window of the connection.
    pub(super) fn receive_data(&mut self, bytes: u32, out: &mut BytesMut) -> Result<(), ConnectionError> {
        if let Some(ping) = self.growth.receive(bytes, self.stream_window) {
            put_ping(0, ping, out);
        }
        self.receive_window.receive(bytes).map_err(|_| {
            ConnectionError::new(ErrorCode::FLOW_CONTROL_ERROR, "DATA exceeds the window of the connection")
        })
    }

    /// Records received bytes of a stream that were passed on or dropped, which opens the windows.
    pub(super) fn pass_on(&mut self, stream: u32, bytes: u32, out: &mut BytesMut) {
        self.open_stream_window(stream, bytes, out);
        self.open_connection_window(bytes, out);
    }

    pub(super) fn open_stream_window(&mut self, stream: u32, bytes: u32, out: &mut BytesMut) {
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.receive_window.pass_on(bytes);
            // After the end, the window of the stream is of no use.
            if stream.progress.receiving != Receiving::Ended
                && let Some(increment) = stream.receive_window.update()
            {
                put_window_update(stream.id, increment, out);
            }
        }
    }

    pub(super) fn open_connection_window(&mut self, bytes: u32, out: &mut BytesMut) {
        self.receive_window.pass_on(bytes);
        self.open_window(out);
    }

    fn open_window(&mut self, out: &mut BytesMut) {
        if let Some(increment) = self.receive_window.update() {
            put_window_update(0, increment, out);
        }
    }

    /// Returns the window of a new stream. It has the size of the setting, and grows with the first bytes that are passed on.
    pub(super) fn new_receive_window(&self) -> ReceiveWindow {
        let mut window = ReceiveWindow::new(self.initial_window);
        window.grow(self.stream_window);
        window
    }

    /// Resets a stream, and ignores what is in transit for it.
    pub(super) fn reset(&mut self, stream: u32, code: ErrorCode, out: &mut BytesMut) {
        put_reset(stream, code, out);
        self.streams.remove(stream);
        if self.reset_by_us.len() == REMEMBERED_RESETS
            && let Some(oldest) = self.reset_by_us.pop_front()
        {
            self.forgotten_reset = self.forgotten_reset.max(oldest);
        }
        self.reset_by_us.push_back(stream);
    }

    /// Whether frames for a closed stream may have been in transit when this side reset it.
    pub(super) fn was_reset_by_us(&self, stream: u32) -> bool {
        stream <= self.forgotten_reset || self.reset_by_us.contains(&stream)
    }

    /// Notes that the peer has closed a stream, too: nothing more is in transit.
    pub(super) fn forget_reset(&mut self, stream: u32) {
        self.reset_by_us.retain(|reset| *reset != stream);
    }

    /// Returns how many bytes of a body this side may send on a stream.
    pub(super) fn window(&self, stream: u32) -> u64 {
        let of_stream = self.streams.get(stream).map_or(0, |stream| stream.send_window.available());
        of_stream.min(self.send_window.available())
    }

    /// Records DATA that is sent. `wanted` is how much there was to send.
    pub(super) fn send_data(&mut self, stream: u32, bytes: u64, wanted: u64) {
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.send_window.send(bytes);
        }
        self.send_window.send(bytes);
        if bytes < wanted && bytes < DRIBBLE_BYTES {
            self.updates.charge();
        } else {
            self.allowances.count_sent(FRAMES_FOR_DATA);
            // At most the size of a frame.
            let kib = u32::try_from(bytes / 1024).unwrap_or(0);
            self.updates.give_back(UPDATES_FOR_DATA + kib * UPDATES_FOR_KIB, UPDATES_IN_TRANSIT);
        }
    }

    /// Removes a stream if both directions have ended.
    pub(super) fn close_if_ended(&mut self, stream: u32) {
        if self.streams.get(stream).is_some_and(|stream| stream.progress.is_over()) {
            self.streams.remove(stream);
            self.allowances.count_end();
        }
    }

    /// Frees memory that an idle connection does not need.
    pub(super) fn free(&mut self) {
        self.streams.free();
    }

    /// Returns the heap memory in bytes.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.reader.heap_bytes()
            + self.decoder.table_bytes()
            + self.streams.heap_bytes()
            + self.reset_by_us.capacity() * size_of::<u32>()
    }
}
