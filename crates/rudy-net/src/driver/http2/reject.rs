//! Responds to requests that the connection rejects, on their streams.

use std::sync::Arc;
use std::task::Poll;

use rudy_http::h2::{ErrorCode, Priority};
use rudy_message::Rejection;
use rudy_service::{EndReason, Response, ServiceSource};

use super::Http2;
use super::exchange::{Exchange, HandlerFuture, Phase, body_error};
use super::input::Turn;
use crate::driver::poll_context::PollContext;
use crate::driver::record::Record;
use crate::driver::{Connection, internal_error};
use crate::scratch::Scratch;

impl Http2 {
    /// Responds to a request that the service does not have, with a page of the service or with a text.
    pub(super) fn reject_head<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S>,
        (stream, rejection): (u32, Rejection),
        head: &[u8],
        turn: &mut Turn<'_>,
    ) {
        connection.context.worker.counters.rejected.add(1);
        let service = connection.load_service();
        let number = self.machine.requests();
        match connection.rejection_response(&service, rejection, head, number) {
            Some(response) => {
                let (phase, record) = (Phase::Response(Box::new(response)), Record::new(None, turn.now));
                self.add(Exchange::new(stream, Priority::default(), phase, None, record), turn);
            }
            None => self.machine.reject(stream, rejection, (turn.date, turn.now), turn.out),
        }
        connection.report_rejected(rejection, number, turn.now);
    }

    /// Rejects the body of a request. The service knows it, and its response is used if it is there at once and has the status of the
    /// rejection.
    pub(super) fn reject_body<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S>,
        (stream, rejection): (u32, Rejection),
        poll_cx: &mut PollContext<'_, '_>,
        turn: &mut Turn<'_>,
    ) {
        // Without an upload, this is more of a body that is rejected already.
        let upload = self.exchanges.get_mut(stream).and_then(|exchange| exchange.upload.take());
        let Some(mut upload) = upload else { return };
        connection.context.worker.counters.rejected.add(1);
        upload.fail(body_error(rejection));
        self.machine.pass_on(stream, upload.stored_bytes(), turn.out);
        let Some(mut exchange) = self.exchanges.remove(stream) else { return };
        let response = match exchange.phase {
            Phase::Handler(future) => self.response_to_rejected(connection, future, rejection, poll_cx),
            Phase::Response(response) => Some(response),
            Phase::Body(_) | Phase::Sent => {
                self.machine.reset(stream, ErrorCode::CANCEL, turn.now, turn.out);
                if let Some(mut record) = exchange.record {
                    record.finish(EndReason::Aborted);
                }
                return;
            }
        };
        if exchange.record.is_none() {
            connection.report_rejected(rejection, self.machine.requests(), turn.now);
        }
        if let Some(response) = response {
            exchange.phase = Phase::Response(response);
            return self.add(exchange, turn);
        }
        let before = turn.out.len();
        self.machine.reject(stream, rejection, (turn.date, turn.now), turn.out);
        if let Some(mut record) = exchange.record {
            record.sent_bytes += (turn.out.len() - before) as u64;
            record.begin(rejection.status());
            self.encoded.push(record);
        }
    }

    /// Polls the service of a rejected body for the last time.
    fn response_to_rejected<S: ServiceSource>(
        &self,
        connection: &mut Connection<S>,
        mut future: HandlerFuture,
        rejection: Rejection,
        poll_cx: &mut PollContext<'_, '_>,
    ) -> Option<Box<Response>> {
        let polled = poll_cx.poll_handler(false, None, |cx| future.as_mut().poll(cx)).0;
        let response = match polled {
            Ok(Poll::Ready(response)) if response.is_for_status(rejection.status()) => response,
            Ok(_) => {
                let (service, number) = (connection.load_service(), self.machine.requests());
                connection.rejection_response(&service, rejection, &[], number)?
            }
            Err(_) => internal_error(),
        };
        Some(Box::new(response))
    }

    /// Rejects requests whose bodies are too slow.
    pub(super) fn reject_slow_uploads<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S>,
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
