//! A protocol unlike HTTP/1.1: concurrent bodies on a connection, in frames, each limited by its window.
//!
//! A frame has a kind, a stream number, the length of its payload in four bytes, and the payload. In the
//! other direction, messages open windows: a stream number, and the number of additional bytes in four bytes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{BufMut, BytesMut};
use http::HeaderMap;
use rudy_http::Limits;
use rudy_http::h1::Pace;
use rudy_message::LengthError;
use rudy_service::{Body, EndReason};
use tokio::io::ReadBuf;

use crate::Counters;
use crate::driver::framing::{Framing, Layout};
use crate::driver::output::{Output, RawPiece};
use crate::driver::poll_context::{Budget, PollContext};
use crate::driver::pump::{Filled, Pump};
use crate::transport::Stream;

pub(super) const DATA: u8 = b'D';
pub(super) const END: u8 = b'E';
pub(super) const RESET: u8 = b'R';

/// Maximum length of a payload.
const FRAME_BYTES: u64 = 16 * 1024;

const LAYOUT: Layout = Layout { head_bytes: 6, data_bytes: 16 * 1024, frames: 1 };

/// The side that sends bodies.
pub(super) struct Toy {
    io: Stream,
    pub(super) output: Output,
    /// The first stream has its turn next.
    pub(super) streams: VecDeque<ToyStream>,
    /// A partial message.
    input: Vec<u8>,
    pub(super) limits: Limits,
    counters: Arc<Counters>,
}

pub(super) struct ToyStream {
    pub(super) number: u8,
    window: u64,
    has_ended: bool,
    pump: Pump,
    /// Measures how long the peer takes to open the window.
    pace: Pace,
}

/// The framing of a stream.
struct Frames<'a> {
    number: u8,
    window: &'a mut u64,
    has_ended: &'a mut bool,
}

impl Frames<'_> {
    fn put_head(&self, kind: u8, length: u64, out: &mut BytesMut) {
        out.put_slice(&[kind, self.number]);
        out.put_u32(u32::try_from(length).unwrap());
    }
}

impl Framing for Frames<'_> {
    fn window(&self) -> u64 {
        *self.window
    }

    fn has_ended(&self) -> bool {
        *self.has_ended
    }

    fn encode_piece(&mut self, data: &[u8], out: &mut BytesMut) -> Result<(), LengthError> {
        if !data.is_empty() {
            let framed = self.begin_raw(data.len() as u64, out)?;
            assert_eq!(framed, data.len() as u64, "a piece is no larger than the window and a frame");
            out.put_slice(data);
        }
        Ok(())
    }

    fn begin_raw(&mut self, length: u64, out: &mut BytesMut) -> Result<u64, LengthError> {
        let framed = length.min(*self.window).min(FRAME_BYTES);
        self.put_head(DATA, framed, out);
        *self.window -= framed;
        Ok(framed)
    }

    fn finish(
        &mut self,
        trailers: Option<&HeaderMap>,
        _now: Instant,
        out: &mut BytesMut,
    ) -> Result<(), LengthError> {
        let lines = trailers.into_iter().flatten();
        let lines: Vec<_> =
            lines.map(|(name, value)| format!("{name}={};", value.to_str().unwrap())).collect();
        let text = lines.concat();
        self.put_head(END, text.len() as u64, out);
        out.put_slice(text.as_bytes());
        *self.has_ended = true;
        Ok(())
    }
}

impl ToyStream {
    /// Frames available data, and measures how long the stream is without a window.
    fn fill(
        &mut self,
        limits: &Limits,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> Result<Filled, EndReason> {
        let before = poll_cx.body_bytes;
        let Self { number, window, has_ended, .. } = self;
        let mut frames = Frames { number: *number, window, has_ended };
        let filled = self.pump.fill(&mut frames, Some(LAYOUT), poll_cx, out)?;
        let framed = poll_cx.body_bytes - before;
        if framed > 0 || !matches!(filled, Filled::Blocked) {
            self.pace.record_bytes(framed, poll_cx.now);
        }
        if matches!(filled, Filled::Blocked) {
            self.pace.start_waiting(poll_cx.now);
            let deadline = self.pace.stall_deadline(limits.send_stall_timeout);
            if deadline.is_some_and(|deadline| deadline <= poll_cx.now) {
                return Err(EndReason::PeerStalled);
            }
            poll_cx.wake_at(deadline);
        }
        Ok(filled)
    }
}

impl Toy {
    pub(super) fn new(
        io: impl Into<Stream>,
        window: u64,
        bodies: impl IntoIterator<Item = (u8, Body)>,
    ) -> Self {
        let streams = bodies.into_iter().map(|(number, body)| {
            let mut pump = Pump::default();
            pump.set_body(body);
            ToyStream { number, window, has_ended: false, pump, pace: Pace::default() }
        });
        let (limits, counters) = (Limits::default(), Arc::<Counters>::default());
        let (output, input) = (Output::default(), Vec::new());
        Self { io: io.into(), output, streams: streams.collect(), input, limits, counters }
    }

    /// Ready when all bodies have been sent, or the connection is broken. While pending, `due` is the time of
    /// the next poll.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        due: &mut Option<Instant>,
    ) -> Poll<Result<(), EndReason>> {
        let (counters, budget) = (self.counters.clone(), Budget::new(now));
        let mut poll_cx = PollContext::new(cx, &counters, &budget);
        self.read(&mut poll_cx);
        let polled = self.poll_out(&mut poll_cx);
        *due = poll_cx.due;
        polled
    }

    fn poll_out(&mut self, poll_cx: &mut PollContext<'_, '_>) -> Poll<Result<(), EndReason>> {
        let (mut out, mut raw) = (BytesMut::new(), None);
        loop {
            if self.output.poll(&mut self.io, poll_cx, &mut out, raw.take())?.is_pending() {
                let is_late =
                    self.streams.iter_mut().any(|stream| stream.pump.poll_blocked(poll_cx).is_ready());
                return if is_late { Poll::Ready(Err(EndReason::PeerStalled)) } else { Poll::Pending };
            }
            if self.streams.is_empty() {
                return Poll::Ready(Ok(()));
            }
            if poll_cx.budget.is_spent() {
                return poll_cx.yield_now();
            }
            raw = self.fill(poll_cx, &mut out);
            if raw.is_none() && out.is_empty() {
                return Poll::Pending;
            }
        }
    }

    /// Lets the streams frame data in turn, until there is something to send.
    fn fill(&mut self, poll_cx: &mut PollContext<'_, '_>, out: &mut BytesMut) -> Option<RawPiece> {
        for _ in 0..self.streams.len() {
            let mut stream = self.streams.pop_front()?;
            match stream.fill(&self.limits, poll_cx, out) {
                Ok(filled) => {
                    if !stream.has_ended {
                        self.streams.push_back(stream);
                    }
                    if let Filled::Ready(raw) = filled {
                        return raw;
                    }
                }
                // Only this stream has ended.
                Err(_) => out.put_slice(&[RESET, stream.number, 0, 0, 0, 0]),
            }
        }
        None
    }

    /// Reads messages that open windows.
    fn read(&mut self, poll_cx: &mut PollContext<'_, '_>) {
        let mut bytes = [0; 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = self.io.poll_read(poll_cx.cx, &mut buffer);
            if read.is_pending() || buffer.filled().is_empty() {
                return;
            }
            self.input.extend_from_slice(buffer.filled());
            while let Some((&[number, ref more @ ..], _)) = self.input.split_first_chunk::<5>() {
                if let Some(stream) = self.streams.iter_mut().find(|stream| stream.number == number) {
                    stream.window += u64::from(u32::from_be_bytes(*more));
                }
                self.input.drain(..5);
            }
        }
    }
}
