//! Begins exchanges, and gives them what arrives on their streams.

use http::{HeaderMap, StatusCode};
use rudy_http::h2::Priority;
use rudy_message::RequestHead;
use rudy_runtime::is_planted;
use rudy_service::{EndReason, Reply, RequestBodyError, ServiceSource};

use super::exchange::{Exchange, Phase, Upload};
use super::{Multiplex, StreamId, Streams, Turn};
use crate::driver::connection::{Connection, Endpoint};
use crate::driver::internal_error;
use crate::driver::record::{Record, report_closed};

impl<M: Multiplex> Streams<M> {
    fn upload(&mut self, stream: StreamId) -> Option<&mut Upload> {
        self.exchanges.get_mut(stream)?.upload.as_deref_mut().filter(|upload| !upload.is_finished())
    }

    /// Passes a request to the service, and begins its response if that is there.
    pub(in crate::driver) fn begin_exchange<S: ServiceSource, L: Endpoint>(
        &mut self,
        connection: &mut Connection<S, L>,
        (stream, priority): (StreamId, Priority),
        head: &RequestHead<'_>,
        turn: &mut Turn<'_>,
    ) {
        connection.context.worker.counters.requests.add(1);
        let service = connection.load_service();
        let place = (self.protocol.requests(), turn.now);
        let (body, upload) = Upload::attach(head);
        let (reply, record) = connection.dispatch(&*service, head, body, place);
        let phase = match reply.unwrap_or_else(|| internal_error().into()) {
            Reply::Later(future) => Phase::Handler(future),
            Reply::Now(response) => Phase::Response(Box::new(response)),
        };
        self.add(Exchange::new(stream, priority, phase, upload, record), turn);
    }

    /// Adds an exchange. If its response is known, begins it.
    pub(super) fn add(&mut self, mut exchange: Exchange, turn: &mut Turn<'_>) {
        // While the client does not read, responses do not accumulate.
        let is_sent = self.may_encode(turn.out) && self.begin_response(&mut exchange, turn);
        if !is_sent {
            self.exchanges.insert(exchange);
        }
    }

    /// Stores a piece of a body for its service.
    pub(in crate::driver) fn receive_body(
        &mut self,
        stream: StreamId,
        data: &[u8],
        ends: bool,
        turn: &mut Turn<'_>,
    ) {
        let Some(upload) = self.upload(stream) else {
            // The service does not read it.
            return self.protocol.pass_on(stream, data.len(), turn.out);
        };
        upload.receive(data, turn.now);
        if ends {
            upload.receive_end(None, turn.now);
        }
        self.exchanges.schedule(stream);
    }

    /// Returns how many bytes of a body are stored for its service.
    pub(in crate::driver) fn stored_of(&mut self, stream: StreamId) -> usize {
        self.upload(stream).map_or(0, |upload| upload.stored_bytes())
    }

    /// Stores the end of a body for its service.
    pub(in crate::driver) fn receive_end(
        &mut self,
        stream: StreamId,
        trailers: Option<HeaderMap>,
        turn: &mut Turn<'_>,
    ) {
        if let Some(upload) = self.upload(stream) {
            upload.receive_end(trailers, turn.now);
            self.exchanges.schedule(stream);
        }
    }

    /// The client accepts more of the body on a stream; of all, without a stream.
    pub(in crate::driver) fn open_window(&mut self, stream: Option<StreamId>) {
        if let Some(stream) = stream {
            return self.exchanges.queue_waiting(stream);
        }
        for stream in self.exchanges.streams(|exchange| exchange.pace.is_waiting()) {
            self.exchanges.queue_waiting(stream);
        }
    }

    /// The client has changed the priority of a response.
    pub(in crate::driver) fn change_priority(&mut self, stream: StreamId, priority: Priority) {
        self.exchanges.reorder(stream, |exchange| exchange.priority = priority);
    }

    /// Drops an exchange whose stream has been reset. `reason` is what the client did wrong.
    pub(in crate::driver) fn drop_exchange<S: ServiceSource, L: Endpoint>(
        &mut self,
        connection: &mut Connection<S, L>,
        stream: StreamId,
        reason: Option<&str>,
        turn: &mut Turn<'_>,
    ) {
        if is_planted("a request that a reset does not end") {
            return;
        }
        let exchange = self.exchanges.remove(stream);
        if let Some(reason) = reason {
            connection.context.worker.counters.rejected.add(1);
            if exchange.is_none() {
                let service = connection.load_service();
                let client = connection.client(self.protocol.requests());
                report_closed(&*service, &client, &format!("{}: {reason}", M::NAME), turn.now);
            }
        }
        let Some(mut exchange) = exchange else { return };
        if let Some(upload) = &mut exchange.upload {
            let malformed = |reason: &str| RequestBodyError::Malformed(reason.to_owned());
            upload.fail(reason.map_or(RequestBodyError::PeerGone, malformed));
        }
        self.drop_upload(&mut exchange, turn.out);
        if let Some(record) = &mut exchange.record {
            record.finish(if reason.is_some() { EndReason::Aborted } else { EndReason::PeerGone });
        }
    }

    /// Records the status of the response that begins.
    pub(super) fn record_begin(record: Option<&mut Record>, status: StatusCode) {
        if let Some(record) = record {
            record.begin(status);
        }
    }
}
