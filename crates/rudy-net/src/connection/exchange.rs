//! An exchange that has to wait: for a service, for a body in either direction, for a file, for a slow peer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use rudy_http::Limits;
use rudy_http::h1::{Phase, Refusal};
use tokio::io::ReadBuf;

use super::Connection;
use super::live::LiveAnswer;
use super::record::{Record, refused};
use super::sending::{SendFault, Sending};
use super::upload::{Upload, UploadFault};
use crate::close::Ending;
use crate::deadline;
use crate::engine::Source;
use crate::scratch::{Scratch, with_scratch};
use crate::transport::{HangUp, Transport, hang_up};
use crate::{Body, Ended, Live, Response, Upgrade};

/// How often the kernel is asked whether a client has gone, while nothing is read from its connection.
const HANG_UP_INTERVAL: Duration = Duration::from_secs(1);

/// How an exchange ends for its connection.
pub(super) enum Finish {
    /// It goes on with the next request.
    Next,
    End(Ending),
    Upgrade(Upgrade),
    /// The head is encoded, and a body without an end follows.
    Live(Box<LiveAnswer>),
}

/// One exchange on its way; boxed, so that a connection that waits for a request has no room for it.
pub(super) struct Exchange {
    answer: Answer,
    upload: Option<Upload>,
    sending: Sending,
    /// This exchange, last, after others of a pipeline whose answers are not written yet.
    records: Vec<Record>,
    /// The client has closed its sending side.
    half_closed: Option<HalfClose>,
    /// All that the client has sent was read.
    input_ended: bool,
    /// When the service's future is polled again although nothing wakes it.
    due: Option<Instant>,
}

/// A client that has closed its sending side, and may have closed its connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct HalfClose {
    /// When the client was last known to be there: it closed its sending side, or took bytes.
    last_sign: Instant,
}

impl HalfClose {
    /// The client has just closed its sending side.
    pub(super) fn new(now: Instant) -> Self {
        Self { last_sign: now }
    }

    /// Bytes were written.
    pub(super) fn written(&mut self, now: Instant) {
        self.last_sign = now;
    }

    /// When the request is cancelled.
    pub(super) fn deadline(self, limits: &Limits) -> Instant {
        self.last_sign + limits.half_close_timeout
    }
}

/// What a deadline that has passed means.
enum TimeFault {
    /// The request's body is below its minimum rate.
    UploadTooSlow,
    /// The answer is not read, or too slowly.
    PeerStalled,
    /// The client has closed its sending side, and nothing could be written since.
    PeerGone,
}

enum Answer {
    /// The service is at work.
    Waiting(Pin<Box<dyn Future<Output = Response> + Send>>),
    /// The head is encoded, the body follows.
    Sending,
    /// As `Sending`; then the connection changes its protocol.
    Switching(Option<Upgrade>),
    /// The head is encoded; what follows goes on by itself.
    Live(Option<Box<dyn Live>>),
    /// Refused in the middle; the connection ends when the refusal is written.
    Refused,
}

impl Exchange {
    /// Only writes what is encoded.
    pub(super) fn flush(records: Vec<Record>, out: &BytesMut) -> Box<Self> {
        Self::new(Answer::Sending, None, Sending::encoded(out), records)
    }

    /// Waits for the service's answer.
    pub(super) fn waiting(
        future: Pin<Box<dyn Future<Output = Response> + Send>>,
        upload: Option<Upload>,
        records: Vec<Record>,
        out: &BytesMut,
    ) -> Box<Self> {
        Self::new(Answer::Waiting(future), upload, Sending::open(out), records)
    }

    /// Sends an answer whose head is in `out`.
    pub(super) fn sending(
        response: Response,
        upload: Option<Upload>,
        records: Vec<Record>,
        out: &BytesMut,
    ) -> Box<Self> {
        let mut exchange = Self::new(Answer::Sending, upload, Sending::open(out), records);
        exchange.take(response);
        exchange
    }

    fn new(answer: Answer, upload: Option<Upload>, sending: Sending, records: Vec<Record>) -> Box<Self> {
        Box::new(Self { answer, upload, sending, records, half_closed: None, input_ended: false, due: None })
    }

    /// Moves everything that can move. Ready when the exchange is over.
    pub(super) fn poll<T: Transport, S: Source>(
        &mut self,
        connection: &mut Connection<T, S>,
        cx: &mut Context<'_>,
    ) -> Poll<Finish> {
        let now = Instant::now();
        let sent_before = self.sending.sent_bytes;
        let mut result = self.poll_all(connection, cx, now);
        if let Some(half_closed) = &mut self.half_closed
            && self.sending.sent_bytes > sent_before
        {
            half_closed.written(now);
        }
        // Twice at the most: what a deadline leads to may have to wait as well, under a deadline of its own.
        while result.is_pending() {
            match self.fault_of_time(connection, now) {
                None => break,
                Some(TimeFault::UploadTooSlow) => {
                    result = self.refuse(Refusal::BodyTooSlow, connection, cx, now);
                }
                Some(TimeFault::PeerStalled) => result = self.end(Ended::PeerStalled, Ending::Cut),
                Some(TimeFault::PeerGone) => result = self.end(Ended::PeerGone, Ending::Cut),
            }
        }
        connection.context.worker.counters.sent_bytes.add(self.sending.sent_bytes - sent_before);
        if result.is_pending() {
            connection.timer.set(self.deadline(connection, now), cx.waker());
        }
        result
    }

    /// When the exchange is looked at again although nothing wakes it.
    fn deadline<T: Transport, S: Source>(
        &self,
        connection: &Connection<T, S>,
        now: Instant,
    ) -> Option<Instant> {
        let limits = &connection.limits.http;
        let upload = self.upload.as_ref().and_then(|upload| upload.deadline(limits));
        let hang_up = self.reads_nothing(connection).then(|| now + HANG_UP_INTERVAL);
        let half_close = self.half_closed.map(|half_closed| half_closed.deadline(limits));
        let waits = [upload, hang_up, half_close, self.sending.deadline(limits), self.due, self.sending.due];
        waits.into_iter().flatten().min()
    }

    /// Whose time is over, if anybody's.
    fn fault_of_time<T: Transport, S: Source>(
        &mut self,
        connection: &Connection<T, S>,
        now: Instant,
    ) -> Option<TimeFault> {
        let limits = &connection.limits.http;
        if let Some(upload) = &mut self.upload
            && upload.deadline(limits).is_some_and(|deadline| deadline <= now)
        {
            upload.too_slow();
            return Some(TimeFault::UploadTooSlow);
        }
        if let Some(half_closed) = &mut self.half_closed
            && half_closed.deadline(limits) <= now
        {
            if !self.sending.has_progressed(&connection.io, now) {
                return Some(TimeFault::PeerGone);
            }
            half_closed.written(now);
        }
        self.sending.has_stalled(&connection.io, limits, now).then_some(TimeFault::PeerStalled)
    }

    fn poll_all<T: Transport, S: Source>(
        &mut self,
        connection: &mut Connection<T, S>,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<Finish> {
        if let Poll::Ready(finish) = self.poll_input(connection, cx, now) {
            return Poll::Ready(finish);
        }
        if let Answer::Waiting(future) = &mut self.answer {
            // A panic in a handler ends its exchange, not the connection's task, so that the close stays in order.
            let poll = || catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
            let (polled, due) = deadline::collect(now, poll);
            self.due = due.filter(|_| matches!(polled, Ok(Poll::Pending)));
            let response = match polled {
                Ok(Poll::Ready(response)) => response,
                Ok(Poll::Pending) => return self.poll_flush(connection, cx, now),
                Err(_) => connection.panicked(),
            };
            if let Err(fault) = self.begin(response, connection, cx, now) {
                return self.fail(&fault, connection);
            }
        }
        // The answers before this one go first: a fault of this one must not take them with it.
        if self.records.len() > 1 {
            let flushed = match self.sending.poll_flush(&mut connection.io, cx, now) {
                Poll::Pending => self.sending.read_ahead(cx, now),
                flushed @ Poll::Ready(_) => flushed,
            };
            match ready!(flushed) {
                Ok(()) => self.settle_earlier(),
                Err(fault) => return self.fail(&fault, connection),
            }
        }
        if let Answer::Live(live) = &mut self.answer
            && let Some(live) = live.take()
            && connection.machine.sends_body()
        {
            return Poll::Ready(self.go_live(live, connection));
        }
        let sent = self.sending.poll(&mut connection.io, &mut connection.machine, cx, now);
        match sent {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => Poll::Ready(self.finish(connection)),
            Poll::Ready(Err(fault)) => self.fail(&fault, connection),
        }
    }

    /// Moves the request's body, or notices that the peer has gone.
    fn poll_input<T: Transport, S: Source>(
        &mut self,
        connection: &mut Connection<T, S>,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<Finish> {
        // Once the answer is encoded whole, what comes belongs to the next request, or to nobody.
        if connection.machine.phase() != Phase::Exchange {
            return Poll::Pending;
        }
        if let Some(upload) = &mut self.upload {
            match upload.poll(connection, cx, now, &mut self.sending.out) {
                Poll::Ready(Err(UploadFault::Refused(refusal))) => {
                    return self.refuse(refusal, connection, cx, now);
                }
                // An answer that has begun must not pass for a whole one where its end is the close.
                Poll::Ready(Err(UploadFault::PeerGone)) => {
                    let is_waiting = matches!(self.answer, Answer::Waiting(_));
                    return self.end(Ended::PeerGone, if is_waiting { Ending::Quiet } else { Ending::Cut });
                }
                Poll::Pending if !self.reads_nothing(connection) => return Poll::Pending,
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
        }
        if self.reads_nothing(connection) {
            return self.poll_hang_up(connection, now);
        }
        if connection.machine.awaits_answer_only() {
            match connection.poll_read_ahead(cx, now) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => {
                    self.input_ended = true;
                    self.half_closed.get_or_insert(HalfClose::new(now));
                }
                Poll::Ready(Err(_)) => return self.end(Ended::PeerGone, Ending::Cut),
            }
        }
        Poll::Pending
    }

    /// Whether nothing is read that would show that the client has gone: behind a body that the service does not take yet,
    /// behind as many requests as are read ahead, or behind the end of its input.
    fn reads_nothing<T: Transport, S: Source>(&self, connection: &Connection<T, S>) -> bool {
        match &self.upload {
            _ if self.input_ended => true,
            Some(upload) if !upload.is_over() => upload.is_on_hold(),
            _ => connection.machine.phase() == Phase::Exchange && !connection.reads_ahead(),
        }
    }

    /// Notices that the client has gone. Nothing wakes the task then, so this looks once a second ([`Self::deadline`]).
    fn poll_hang_up<T: Transport, S: Source>(
        &mut self,
        connection: &Connection<T, S>,
        now: Instant,
    ) -> Poll<Finish> {
        match hang_up(&connection.io) {
            HangUp::None => {}
            HangUp::SendingSide => {
                self.half_closed.get_or_insert(HalfClose::new(now));
            }
            HangUp::Both => return self.end(Ended::PeerGone, Ending::Cut),
        }
        Poll::Pending
    }

    /// Writes what is encoded while the service is still at work: answers before this one, `100 Continue`.
    fn poll_flush<T: Transport, S: Source>(
        &mut self,
        connection: &mut Connection<T, S>,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<Finish> {
        match self.sending.poll_flush(&mut connection.io, cx, now) {
            Poll::Ready(Err(fault)) => self.fail(&fault, connection),
            Poll::Ready(Ok(())) => {
                self.settle_earlier();
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// The service has answered. A small body leaves in the same write as its head.
    fn begin<T: Transport, S: Source>(
        &mut self,
        mut response: Response,
        connection: &mut Connection<T, S>,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Result<(), SendFault> {
        let Some(record) = self.records.last_mut() else { return Ok(()) };
        with_scratch(now, |scratch| {
            let Scratch { out, date, .. } = scratch;
            connection.begin(&mut response, self.upload.as_ref(), record, date, out);
            if response.upgrade.is_some() || !connection.finish_quickly(&response.body, now, record, out) {
                self.sending.out.extend_from_slice(out);
                return Ok(());
            }
            response.body = Body::Empty;
            self.sending.send_whole(out, &mut connection.io, cx, now)
        })?;
        self.take(response);
        Ok(())
    }

    /// What follows the head of the answer.
    fn take(&mut self, response: Response) {
        self.answer = match (response.upgrade, response.body) {
            (None, Body::Live(live)) => Answer::Live(Some(live)),
            (upgrade, body) => {
                self.sending.set_body(body);
                upgrade.map_or(Answer::Sending, |upgrade| Answer::Switching(Some(upgrade)))
            }
        };
    }

    /// Leaves a live body to itself. Whatever is left of the request's body is not read any more.
    fn go_live<T, S>(&mut self, live: Box<dyn Live>, connection: &mut Connection<T, S>) -> Finish {
        if self.upload.take().is_some_and(|upload| !upload.is_over()) {
            connection.machine.ignore_body();
        }
        let sending = std::mem::take(&mut self.sending);
        Finish::Live(Box::new(LiveAnswer::new(live, sending, self.records.pop(), self.half_closed)))
    }

    /// The peer is refused in the middle of its request: told so if no answer has begun, cut off otherwise.
    fn refuse<T: Transport, S: Source>(
        &mut self,
        refusal: Refusal,
        connection: &mut Connection<T, S>,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<Finish> {
        if !matches!(self.answer, Answer::Waiting(_)) {
            return self.end(Ended::Cut, Ending::Cut);
        }
        connection.context.worker.counters.refused.add(1);
        with_scratch(now, |scratch| {
            connection.machine.refuse(refusal, &scratch.date, &mut scratch.out);
            self.sending.replace(&scratch.out);
        });
        // Drops the service's future, and with it whatever it was doing for this request.
        self.answer = Answer::Refused;
        self.due = None;
        match self.records.last_mut() {
            Some(record) if record.observer.is_some() => record.begin(refusal.status()),
            _ => refused(&*connection.look_up(), &connection.client(), refusal, now),
        }
        self.poll_all(connection, cx, now)
    }

    /// Everything has been handed to the kernel.
    fn finish<T: Transport, S: Source>(&mut self, connection: &mut Connection<T, S>) -> Finish {
        self.tell(Ended::Complete);
        if let Answer::Switching(upgrade) = &mut self.answer
            && connection.machine.phase() == Phase::Upgrade
            && let Some(upgrade) = upgrade.take()
        {
            return Finish::Upgrade(upgrade);
        }
        connection.after_answer(self.input_ended)
    }

    fn fail<T, S>(&mut self, fault: &SendFault, connection: &Connection<T, S>) -> Poll<Finish> {
        match fault {
            SendFault::PeerGone => self.end(Ended::PeerGone, Ending::Cut),
            SendFault::Cut => self.end(Ended::Cut, Ending::Cut),
            SendFault::Panicked => {
                connection.context.worker.counters.panics.add(1);
                self.end(Ended::Cut, Ending::Cut)
            }
        }
    }

    /// The answers before this one have been handed to the kernel.
    fn settle_earlier(&mut self) {
        let earlier = self.records.len().saturating_sub(1);
        self.records.drain(..earlier).for_each(|mut record| record.finish(Ended::Complete));
    }

    fn end(&mut self, ended: Ended, ending: Ending) -> Poll<Finish> {
        self.tell(ended);
        Poll::Ready(Finish::End(ending))
    }

    fn tell(&mut self, ended: Ended) {
        if let Some(record) = self.records.last_mut() {
            record.body_bytes += self.sending.body_bytes;
        }
        self.records.drain(..).for_each(|mut record| record.finish(ended));
    }
}

impl Drop for Exchange {
    /// Dropped in the middle: the server is being stopped.
    fn drop(&mut self) {
        self.tell(Ended::Stopped);
    }
}

impl<T: Transport, S: Source> Connection<T, S> {
    /// What comes after a whole answer.
    pub(super) fn after_answer(&self, input_ended: bool) -> Finish {
        match self.machine.phase() {
            Phase::Close if input_ended => Finish::End(Ending::Quiet),
            // A switch of protocols that nobody takes over has nowhere to go.
            Phase::Close | Phase::Upgrade => Finish::End(Ending::Finished),
            _ => Finish::Next,
        }
    }

    /// Whether there is room for what a client sends ahead of its answer.
    pub(super) fn reads_ahead(&self) -> bool {
        self.machine.awaits_answer_only() && self.machine.wants_input(&self.limits.http)
    }

    /// Reads what a client sends ahead of its answer, as far as there is room, to notice when it goes away. Ready when it
    /// will send nothing more: `Ok` if that may mean that it waits for its answer, `Err` if it is gone.
    pub(super) fn poll_read_ahead(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<std::io::Result<()>> {
        let limits = &self.limits.http;
        with_scratch(now, |scratch| {
            loop {
                let room = self.machine.input_room(limits).min(scratch.input.len());
                if room == 0 {
                    return Poll::Pending;
                }
                let mut buffer = ReadBuf::new(&mut scratch.input[..room]);
                match Pin::new(&mut self.io).poll_read(cx, &mut buffer)? {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) if buffer.filled().is_empty() => {
                        self.machine.end_of_input();
                        return Poll::Ready(Ok(()));
                    }
                    Poll::Ready(()) => {}
                }
                self.context.worker.counters.received_bytes.add(buffer.filled().len() as u64);
                // Waiting for an answer and nothing else, the machine only keeps what came.
                let _ = self.machine.receive(buffer.filled(), now, limits);
            }
        })
    }
}
