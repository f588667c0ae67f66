//! A request and its response on one stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method};
use rudy_http::Limits;
use rudy_http::Pace;
use rudy_http::h2::Priority;
use rudy_message::{BodyLength, Rejection, RequestHead};
use rudy_service::{BodySender, RequestBody, RequestBodyError, Response, ServiceSource};

use super::multiplex::{Multiplex, StreamId};
use super::schedule::Entry;
use super::wakes::StreamWaker;
use crate::ExchangePhase;
use crate::driver::connection::{Connection, Endpoint};
use crate::driver::poll_context::PollContext;
use crate::driver::pump::Pump;
use crate::driver::record::{Record, Unobserved};

/// An exchange whose response is not sent.
pub(super) struct Exchange {
    pub(super) stream: StreamId,
    pub(super) priority: Priority,
    /// The turn in which the exchange was served last, among those of its urgency.
    pub(super) served: u64,
    /// Wakes the exchange, once it is stored.
    pub(super) waker: Option<Arc<StreamWaker>>,
    /// When the service or the body is polled without a wake-up.
    pub(super) due: Option<Instant>,
    /// Whether the service is polled next.
    pub(super) is_scheduled: bool,
    /// Whether the body is among those that are sent next.
    pub(super) is_queued: bool,
    /// Whether the exchange has changed in this poll.
    pub(super) is_changed: bool,
    /// Whether the body has been polled since it could not be sent.
    pub(super) reads_ahead: bool,
    pub(super) phase: Phase,
    pub(super) upload: Option<Box<Upload>>,
    pub(super) record: Option<Record>,
    pub(super) unobserved: Option<Unobserved>,
    /// Measures how long the client takes to open its window.
    pub(super) pace: Pace,
}

/// The future of a response.
pub(super) type HandlerFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

pub(super) enum Phase {
    /// Waits for the service.
    Handler(HandlerFuture),
    /// The response has not begun, because the client does not read.
    Response(Box<Response>),
    /// Sends the body.
    Body(Pump),
    /// The response is encoded.
    Sent,
}

impl Exchange {
    pub(super) fn new(
        stream: StreamId,
        priority: Priority,
        phase: Phase,
        upload: Option<Box<Upload>>,
        mut record: Record,
    ) -> Self {
        let unobserved = record.unobserved.take();
        let record = Some(record).filter(|record| record.observer.is_some());
        let (served, waker, due, pace) = (0, None, None, Pace::default());
        let (is_scheduled, is_queued, is_changed, reads_ahead) = (false, false, false, false);
        Self {
            stream,
            priority,
            served,
            waker,
            due,
            is_scheduled,
            is_queued,
            is_changed,
            reads_ahead,
            phase,
            upload,
            record,
            unobserved,
            pace,
        }
    }

    /// Shows the exchange in reports, because one is made or its response takes time.
    pub(super) fn observe<S: ServiceSource, L: Endpoint>(&mut self, connection: &Connection<S, L>) {
        if let Some(unobserved) = self.unobserved.take() {
            self.record = unobserved.observe(connection);
        }
    }

    /// Returns the place of the body among those that are sent next.
    pub(super) fn entry(&self) -> Entry {
        Entry::new(self.stream, self.priority, self.served)
    }

    /// Returns the waker of the exchange.
    pub(super) fn waker(&self) -> Waker {
        self.waker.clone().map_or_else(|| Waker::noop().clone(), Waker::from)
    }

    /// Returns what the exchange waits for.
    pub(super) fn waits_for(&self) -> ExchangePhase {
        let upload = self.upload.as_deref().filter(|upload| !upload.is_finished());
        match &self.phase {
            Phase::Handler(_) if upload.is_some_and(Upload::arrives) => ExchangePhase::Receiving,
            Phase::Handler(_) | Phase::Response(_) => ExchangePhase::Waiting,
            // The pace of a tunnel is not limited.
            Phase::Body(_) if upload.is_some_and(|upload| upload.pace.is_none()) => ExchangePhase::Tunnel,
            Phase::Body(_) | Phase::Sent => ExchangePhase::Sending,
        }
    }

    /// Shows other threads what the exchange waits for.
    pub(super) fn show<S: ServiceSource, L: Endpoint>(&mut self, connection: &Connection<S, L>) {
        let phase = self.waits_for();
        if let Some(record) = &mut self.record {
            record.wait(phase, &connection.context.worker, &connection.timer);
        }
    }

    /// Takes the response that is ready. Its body comes next.
    pub(super) fn take_response(&mut self) -> Option<Response> {
        let body = Phase::Body(Pump::default());
        match std::mem::replace(&mut self.phase, body) {
            Phase::Response(response) => Some(*response),
            phase => {
                self.phase = phase;
                None
            }
        }
    }

    /// Whether the response that is ready takes time.
    pub(super) fn response_takes_time(&self) -> bool {
        matches!(&self.phase, Phase::Response(response) if response.takes_time())
    }

    /// Whether an operator has ended the exchange.
    pub(super) fn is_killed(&self) -> bool {
        self.record.as_ref().is_some_and(Record::is_killed)
    }

    /// Returns when the client is too slow in opening its window.
    pub(super) fn window_deadline(&self, limits: &Limits) -> Option<Instant> {
        let rate = self.pace.rate_deadline(limits.rate_grace, limits.send_rate_min);
        let stall = self.pace.stall_deadline(limits.send_stall_timeout);
        rate.into_iter().chain(stall).min()
    }

    /// Returns when the client is too slow in sending the body.
    pub(super) fn upload_deadline(&self, limits: &Limits) -> Option<Instant> {
        self.upload.as_ref().and_then(|upload| upload.deadline(limits))
    }

    /// Returns when the exchange goes on without a wake-up.
    pub(super) fn next_due(&self, limits: &Limits) -> Option<Instant> {
        let deadlines = [self.due, self.window_deadline(limits), self.upload_deadline(limits)];
        deadlines.into_iter().flatten().min()
    }
}

/// How far a request body is.
enum Progress {
    /// The client sends it.
    Arrives,
    /// Its end has arrived, behind what is stored.
    HasEnded(Option<HeaderMap>),
    /// The service has dropped it, or has all of it.
    IsFinished,
}

/// A request body that arrives.
pub(super) struct Upload {
    sender: BodySender,
    /// What the service has not requested yet. The windows bound it.
    received: BytesMut,
    /// The size of the piece that the service has. It counts as stored until the service requests the next one.
    given_bytes: usize,
    progress: Progress,
    /// `None` for a tunnel, which may be silent.
    pace: Option<Pace>,
}

impl Upload {
    /// Attaches the body that a request announces.
    pub(super) fn attach(head: &RequestHead<'_>) -> (RequestBody, Option<Box<Self>>) {
        let pace = (*head.method() != Method::CONNECT).then(Pace::default);
        match head.body_length() {
            BodyLength::Known(0) => (RequestBody::empty(), None),
            BodyLength::Known(length) => Self::pair(Some(length), pace),
            BodyLength::Chunked => Self::pair(None, pace),
        }
    }

    fn pair(length: Option<u64>, pace: Option<Pace>) -> (RequestBody, Option<Box<Self>>) {
        let (body, sender) = RequestBody::pair(length);
        let received = BytesMut::new();
        let upload = Self { sender, received, given_bytes: 0, progress: Progress::Arrives, pace };
        (body, Some(Box::new(upload)))
    }

    /// Whether the service has dropped the body, or has all of it.
    pub(super) fn is_finished(&self) -> bool {
        matches!(self.progress, Progress::IsFinished)
    }

    /// Whether the service waits for more of the body from the client.
    fn arrives(&self) -> bool {
        self.received.is_empty() && matches!(self.progress, Progress::Arrives) && self.sender.is_awaited()
    }

    /// Stores a piece of the body.
    pub(super) fn receive(&mut self, data: &[u8], now: Instant) {
        self.record_bytes(data.len() as u64, now);
        self.received.extend_from_slice(data);
    }

    /// Stores the end of the body.
    pub(super) fn receive_end(&mut self, trailers: Option<HeaderMap>, now: Instant) {
        self.record_bytes(0, now);
        self.progress = Progress::HasEnded(trailers);
    }

    /// Gives the service what it requests, and then waits for the service or for the client. Returns the number of bytes that
    /// are no longer stored. `reads` is whether the connection reads what the client sends.
    pub(super) fn poll(
        &mut self,
        stream: StreamId,
        reads: bool,
        protocol: &mut impl Multiplex,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> usize {
        let mut passed_on = 0;
        while !self.is_finished() {
            match self.sender.poll_ready(poll_cx.cx) {
                Poll::Pending => break,
                Poll::Ready(true) => {
                    protocol.encode_continue(stream, out);
                    passed_on += std::mem::take(&mut self.given_bytes);
                }
                Poll::Ready(false) => {
                    self.progress = Progress::IsFinished;
                    passed_on += std::mem::take(&mut self.received).len();
                    passed_on += std::mem::take(&mut self.given_bytes);
                    break;
                }
            }
            if !self.received.is_empty() {
                let piece: Bytes = std::mem::take(&mut self.received).freeze();
                self.given_bytes = piece.len();
                self.sender.send(piece);
            } else if let Progress::HasEnded(trailers) = &mut self.progress {
                let trailers = trailers.take();
                self.finish(Ok(trailers));
            } else {
                if let Some(pace) = self.pace.as_mut().filter(|_| reads) {
                    pace.start_waiting(poll_cx.now);
                }
                break;
            }
        }
        passed_on
    }

    /// Returns how much is stored, because the service has not requested it or what follows it.
    pub(super) fn stored_bytes(&self) -> usize {
        self.received.len() + self.given_bytes
    }

    /// The connection no longer reads: the client has to wait.
    pub(super) fn stop_waiting(&mut self, now: Instant) {
        if let Some(pace) = self.pace.as_mut().filter(|pace| pace.is_waiting()) {
            pace.record_bytes(0, now);
        }
    }

    fn record_bytes(&mut self, bytes: u64, now: Instant) {
        if let Some(pace) = &mut self.pace {
            pace.record_bytes(bytes, now);
        }
    }

    /// Ends the body with an error.
    pub(super) fn fail(&mut self, error: RequestBodyError) {
        if !self.is_finished() {
            self.finish(Err(error));
        }
    }

    fn finish(&mut self, end: Result<Option<HeaderMap>, RequestBodyError>) {
        self.progress = Progress::IsFinished;
        self.sender.finish(end);
    }

    /// Returns when the client is too slow in sending the body.
    fn deadline(&self, limits: &Limits) -> Option<Instant> {
        if self.is_finished() {
            None
        } else {
            self.pace.as_ref()?.rate_deadline(limits.rate_grace, limits.body_rate_min)
        }
    }
}

/// The error of a body whose request is rejected.
pub(super) fn body_error(rejection: Rejection) -> RequestBodyError {
    match rejection {
        Rejection::BodyTooLarge => RequestBodyError::TooLarge,
        Rejection::BodyTooSlow => RequestBodyError::TooSlow,
        other => RequestBodyError::Malformed(other.to_string()),
    }
}
