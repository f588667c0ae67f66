//! The deadlines of a connection.

use std::time::Instant;

use rudy_runtime::is_planted;
use rudy_service::{EndReason, ServiceSource};

use super::{Fault, Http2};
use crate::driver::connection::Connection;
use crate::driver::http1::PEER_CHECK_INTERVAL;
use crate::driver::poll_context::PollContext;
use crate::scratch::Scratch;
use crate::wire::{PeerClose, Wire as _};

impl Http2 {
    /// Sends what is encoded, and encodes more as long as the client reads.
    pub(super) fn write<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let sent_before = poll_cx.sent_bytes;
        self.streams.write(&mut connection.io, poll_cx, scratch)?;
        if poll_cx.sent_bytes > sent_before
            && let Some(last_sign) = &mut self.half_closed
        {
            *last_sign = poll_cx.now;
        }
        Ok(())
    }

    /// Checks all deadlines, and sets the time of the next poll.
    pub(super) fn check_deadlines<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let (limits, now) = (connection.info.limits.clone(), poll_cx.now);
        let is_past = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        if self.output().has_stalled(&connection.io, &limits.http, now) {
            return Err(EndReason::PeerStalled.into());
        }
        if is_past(self.half_closed.map(|since| since + limits.http.half_close_timeout)) && !self.is_idle() {
            if !self.output().has_progressed(&connection.io, now) {
                return Err(EndReason::PeerGone.into());
            }
            self.half_closed = Some(now);
        }
        let is_half_closed =
            self.half_closed.is_some() && !is_planted("a client of HTTP/2 that is gone after its end");
        if self.streams.is_paused() || is_half_closed {
            // Nothing is read, so that nothing else finds out that the client has disconnected.
            if connection.io.peer_close() == PeerClose::Both {
                return Err(EndReason::PeerGone.into());
            }
            poll_cx.wake_at([now + PEER_CHECK_INTERVAL]);
        }
        self.streams.end_slow(connection, poll_cx, scratch);
        if is_past(self.shutdown_due) {
            self.shutdown_due = None;
            self.machine_mut().stop_accepting(&mut scratch.out);
        }
        self.machine_mut().expire(now, &limits.http, &mut scratch.out);
        // While nothing is read, the client is not slow, but the connections may store less at any time.
        let frame_deadline =
            (!self.streams.is_paused()).then(|| self.machine().deadline(&limits.http)).flatten();
        if is_past(frame_deadline) {
            return Err(self.machine().timeout().map_or(Fault::Idle, Fault::Protocol));
        }
        if !scratch.out.is_empty() {
            self.write(connection, poll_cx, scratch)?;
        }
        self.streams.settle(connection, poll_cx);
        poll_cx.wake_at(self.half_closed.map(|since| since + limits.http.half_close_timeout));
        poll_cx.wake_at(self.output().deadline(&limits.http));
        poll_cx.wake_at(frame_deadline);
        poll_cx.wake_at(self.shutdown_due);
        Ok(())
    }
}
