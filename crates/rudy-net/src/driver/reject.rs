//! Responds to requests that the connection rejects before the service has them, or while it receives their bodies.

use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use rudy_http::h1::Phase;
use rudy_message::{DateLine, Rejection, RequestHead};
use rudy_service::{Body, Client, EndReason, Response, Service, ServiceSource};

use super::exchange::Exchange;
use super::record::Record;
use super::{Connection, State};

impl<S: ServiceSource> Connection<S> {
    /// Returns the response of the service to a rejected request, if it has one in memory: a client that breaks the rules must not
    /// cause work. `head` may be incomplete or malformed. `number` counts the requests of the connection.
    pub(super) fn rejection_response(
        &self,
        service: &S::Service,
        rejection: Rejection,
        head: &[u8],
        number: u64,
    ) -> Option<Response> {
        let head = RequestHead::of_rejected(head, &self.info.limits.http.of_message());
        let response = self.call(|| {
            let forwarded = head.as_ref().and_then(|head| service.forwarded(head, &self.info.peer));
            let client = Client { forwarded: forwarded.map(Arc::new), ..self.client(number) };
            service.respond_to_rejected(rejection, head.as_ref(), &client)
        });
        let is_final = |response: &Response| !response.status().is_informational();
        let is_in_memory = |response: &Response| matches!(response.body, Body::Empty | Body::Bytes(_));
        response.flatten().filter(|response| is_final(response) && is_in_memory(response))
    }

    /// Reports the rejection of a request without an observer to the service.
    pub(super) fn report_rejected(&mut self, rejection: Rejection, number: u64, since: Instant) {
        let service = self.load_service();
        let mut record = Record::new(None, since);
        record.status = Some(rejection.status());
        service.rejected(&self.client(number), &rejection.to_string(), &record.outcome(EndReason::Completed));
    }

    /// Responds to a rejected request of HTTP/1.1 with a page of the service or with a text, and reports it. `exchange` is that of the
    /// request if the service has it. `earlier` belongs to the responses in `out`. The connection closes after the response.
    pub(super) fn respond_to_rejected(
        &mut self,
        rejection: Rejection,
        mut exchange: Exchange,
        earlier: Vec<Record>,
        date: &DateLine,
        out: &mut BytesMut,
    ) -> State {
        self.context.worker.counters.rejected.add(1);
        let service = self.load_service();
        let (number, since) = (self.machine.requests(), self.machine.waiting_since());
        let head = match self.machine.phase() {
            Phase::Idle | Phase::Head => self.machine.buffered(),
            // What is buffered belongs to the body.
            _ => &[],
        };
        match self.rejection_response(&service, rejection, head, number) {
            Some(mut response) if self.machine.begin_rejection() => {
                self.begin(&mut response, None, date, out);
                exchange.pump.set_body(if self.machine.sends_body() { response.body } else { Body::Empty });
            }
            _ => self.machine.reject(rejection, date, out),
        }
        if !exchange.begin_record(rejection.status()) {
            self.report_rejected(rejection, number, since);
        }
        exchange.output.push(out, earlier);
        State::Body(Box::new(exchange))
    }
}
