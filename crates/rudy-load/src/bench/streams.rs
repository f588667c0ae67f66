//! The streams of HTTP/2 on the connections of one thread.

use std::time::Instant;

use rudy_request::{DriveStatus, Failure};

use super::connections::{Connections, overdue};

impl Connections<'_> {
    /// Sends the requests that wait for a stream, as far as the server allows. `late` is the time, if they have waited since they
    /// were assigned.
    pub(super) fn send_streams(&mut self, index: u32, late: Option<Instant>) {
        let slot = &mut self.slots[index];
        let Some(connection) = &mut slot.connection else { return };
        while let Some(sent) = slot.exchange.in_flight.front()
            && let Some(request) = &self.mix.request(sent.request).http2
            && let Some(stream) = connection.request(request)
        {
            slot.exchange.start_stream(stream, late);
            slot.opened_streams += 1;
        }
        connection.flush();
        if connection.has_write_error() {
            // The socket may have reported an error already.
            self.runnable.push_back(index);
        }
    }

    /// Continues after the events of a connection: sends what waits, or replaces a connection that has ended.
    pub(super) fn handle_streams(&mut self, index: u32, status: DriveStatus) {
        let slot = &mut self.slots[index];
        let Some(connection) = &slot.connection else { return };
        if let allowed @ Some(_) = connection.allowed_streams()
            && slot.allowed_streams != allowed
        {
            slot.allowed_streams = allowed;
            self.recorder.allow_streams(allowed);
        }
        let has_ended_by_server =
            status == DriveStatus::Closed || (connection.is_open() && !connection.can_be_reused());
        if status == DriveStatus::Closed && !connection.is_ready() {
            return self.fail(index, &Failure::Closed(None), Instant::now());
        }
        if has_ended_by_server && slot.exchange.stream_count() == 0 {
            self.recorder.closed_by_server += 1;
            return self.replace(index);
        }
        if status == DriveStatus::Yielded {
            self.runnable.push_back(index);
        }
        let is_used_up = self.plan.requests_per_connection.is_some_and(|limit| slot.sent >= limit.get());
        if is_used_up && slot.exchange.len() == 0 {
            return self.replace(index);
        }
        if connection.is_open() && !slot.exchange.in_flight.is_empty() {
            self.send_streams(index, Some(Instant::now()));
        }
        if self.free_capacity(index) > 0 {
            self.slots.mark_idle(index);
        }
    }

    /// Closes a connection, and opens another one for the requests that wait.
    fn replace(&mut self, index: u32) {
        let (slot, now) = (&self.slots[index], Instant::now());
        if slot.exchange.len() == 0 {
            self.close(index);
            self.slots.mark_idle(index);
        } else if slot.opened_streams == 0 {
            // A server that closes its connections at once would be asked forever.
            self.fail(index, &Failure::Closed(None), now);
        } else {
            self.close(index);
            self.open(index, now);
        }
    }

    /// Cancels the overdue requests of a connection that has others. Returns whether it has.
    pub(super) fn cancel_overdue(&mut self, index: u32, failure: &Failure, now: Instant) -> bool {
        let (plan, slot) = (self.plan, &mut self.slots[index]);
        if !plan.protocols.may_have_streams() || matches!(failure, Failure::Connect(_)) {
            return false;
        }
        let Some(connection) = &mut slot.connection else { return false };
        let count = slot.exchange.len();
        let overdue = slot.exchange.take_if(|sent| overdue(plan, sent, now).is_some());
        for (sent, stream) in &overdue {
            if let Some(stream) = stream {
                connection.cancel(*stream);
            }
            self.in_flight -= 1;
            if sent.due >= self.measurement_start {
                sent.record_failure(failure, now, plan.is_open_loop(), &mut self.recorder);
            }
        }
        if overdue.len() == count {
            self.close(index);
        } else {
            connection.flush();
        }
        if self.free_capacity(index) > 0 {
            self.slots.mark_idle(index);
        }
        true
    }
}
