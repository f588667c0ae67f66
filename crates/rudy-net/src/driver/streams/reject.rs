//! Responds to requests that the connection rejects, on their streams.

use std::sync::Arc;
use std::task::Poll;

use rudy_http::h2::Priority;
use rudy_message::Rejection;
use rudy_service::{EndReason, Response, ServiceSource};

use super::exchange::{Exchange, HandlerFuture, Phase, body_error};
use super::{Multiplex, Reset, StreamId, Streams, Turn};
use crate::driver::connection::{Connection, Endpoint};
use crate::driver::internal_error;
use crate::driver::poll_context::PollContext;
use crate::driver::record::Record;
use crate::scratch::Scratch;

impl<M: Multiplex> Streams<M> {
    /// Responds to a request that the service does not have, with a page of the service or with a text.
    pub(in crate::driver) fn reject_head<S: ServiceSource, L: Endpoint>(
        &mut self,
        connection: &mut Connection<S, L>,
        (stream, rejection): (StreamId, Rejection),
        head: &[u8],
        turn: &mut Turn<'_>,
    ) {
        connection.context.worker.counters.rejected.add(1);
        let service = connection.load_service();
        let number = self.protocol.requests();
        match connection.rejection_response(&service, rejection, head, number) {
            Some(response) => {
                let (phase, record) = (Phase::Response(Box::new(response)), Record::new(None, turn.now));
                self.add(Exchange::new(stream, Priority::default(), phase, None, record), turn);
            }
            None => {
                self.reject_with_text(stream, rejection, turn);
            }
        }
        connection.report_rejected(rejection, number, turn.now);
    }

    /// Rejects the body of a request. The service knows it, and its response is used if it is there at once and has the status of the
    /// rejection.
    pub(in crate::driver) fn reject_body<S: ServiceSource, L: Endpoint>(
        &mut self,
        connection: &mut Connection<S, L>,
        (stream, rejection): (StreamId, Rejection),
        poll_cx: &mut PollContext<'_, '_>,
        turn: &mut Turn<'_>,
    ) {
        // Without an upload, this is more of a body that is rejected already.
        let upload = self.exchanges.get_mut(stream).and_then(|exchange| exchange.upload.take());
        let Some(mut upload) = upload else { return };
        connection.context.worker.counters.rejected.add(1);
        upload.fail(body_error(rejection));
        self.protocol.pass_on(stream, upload.stored_bytes(), turn.out);
        let Some(mut exchange) = self.exchanges.remove(stream) else { return };
        let response = match exchange.phase {
            Phase::Handler(future) => self.response_to_rejected(connection, future, rejection, poll_cx),
            Phase::Response(response) => Some(response),
            Phase::Body(_) | Phase::Sent => {
                self.protocol.reset(stream, Reset::Cancelled, turn.now, turn.out);
                if let Some(mut record) = exchange.record {
                    record.finish(EndReason::Aborted);
                }
                return;
            }
        };
        if exchange.record.is_none() {
            connection.report_rejected(rejection, self.protocol.requests(), turn.now);
        }
        if let Some(response) = response {
            exchange.phase = Phase::Response(response);
            return self.add(exchange, turn);
        }
        let sent_bytes = self.reject_with_text(stream, rejection, turn);
        if let Some(mut record) = exchange.record {
            record.sent_bytes += sent_bytes;
            record.begin(rejection.status());
            self.encoded.push(record);
        }
    }

    /// Responds with the text of a rejection. Returns the size of the response.
    fn reject_with_text(&mut self, stream: StreamId, rejection: Rejection, turn: &mut Turn<'_>) -> u64 {
        let before = turn.out.len();
        self.protocol.reject(stream, rejection, (turn.date, turn.now), turn.out);
        let sent_bytes = (turn.out.len() - before) as u64;
        self.protocol.take_output(stream, turn.out, None);
        sent_bytes
    }

    /// Polls the service of a rejected body for the last time.
    fn response_to_rejected<S: ServiceSource, L: Endpoint>(
        &self,
        connection: &mut Connection<S, L>,
        mut future: HandlerFuture,
        rejection: Rejection,
        poll_cx: &mut PollContext<'_, '_>,
    ) -> Option<Box<Response>> {
        let polled = poll_cx.poll_handler(false, None, |cx| future.as_mut().poll(cx)).0;
        let response = match polled {
            Ok(Poll::Ready(response)) if response.is_for_status(rejection.status()) => response,
            Ok(_) => {
                let (service, number) = (connection.load_service(), self.protocol.requests());
                connection.rejection_response(&service, rejection, &[], number)?
            }
            Err(_) => internal_error(),
        };
        Some(Box::new(response))
    }

    /// Rejects requests whose bodies are too slow.
    pub(super) fn reject_slow_uploads<S: ServiceSource, L: Endpoint>(
        &mut self,
        connection: &mut Connection<S, L>,
        limits: &Arc<rudy_service::Limits>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) {
        let now = poll_cx.now;
        let is_slow = |exchange: &Exchange| {
            exchange.upload_deadline(&limits.http).is_some_and(|deadline| deadline <= now)
        };
        let slow = self.exchanges.streams(is_slow);
        let Scratch { out, date, .. } = scratch;
        for stream in slow {
            let rejected = (stream, Rejection::BodyTooSlow);
            self.reject_body(
                connection,
                rejected,
                poll_cx,
                &mut Turn { now, date, budget: poll_cx.budget, out },
            );
        }
    }
}
