//! A client of HTTP/1.1 that pipelines.

use bytes::BytesMut;
use http::Method;
use rudy_http::Limits;
use rudy_http::h1::client::{ClientConnection, ResponseEvent, encode_chunk, encode_last_chunk};
use rudy_message::BodyLength;
use rudy_message::client::RequestInfo;

use super::conforming::Client;
use super::exchange::{End, Exchange};
use super::task::Kind;

/// A server may close the connection instead of reading a body that its service does not want, and that is larger.
const UNWANTED_BYTES_MAX: usize = 200_000;

pub(super) struct Http1 {
    connection: ClientConnection,
    limits: Limits,
    out: BytesMut,
    /// What is received, but not decoded.
    received: Vec<u8>,
    /// The request whose response is next.
    next: usize,
    /// Whether the body of the last request is complete.
    may_send: bool,
}

impl Http1 {
    /// Decodes an event of the next response. Returns whether there was one.
    fn decode(&mut self, exchanges: &mut [Exchange]) -> bool {
        let Some(exchange) = exchanges.get_mut(self.next) else {
            assert!(self.received.is_empty(), "a response without a request");
            return false;
        };
        if self.connection.is_idle() {
            if self.next > 0 && !self.connection.can_be_reused() {
                assert!(self.received.is_empty(), "a response after the last one");
                return false;
            }
            let is_head = exchange.method == Method::HEAD;
            self.connection.expect_response(RequestInfo { is_head, ..RequestInfo::default() });
        }
        let decoded = self.connection.decode(&self.received, &self.limits);
        let (used, event) = decoded.expect("the server keeps to the protocol");
        let is_event = !matches!(event, ResponseEvent::NeedData);
        match event {
            ResponseEvent::Informational(head) => exchange.receive_interim(head.status()),
            ResponseEvent::Head(head) => exchange.receive_head(head.status()),
            ResponseEvent::Data(data) => exchange.receive(data),
            ResponseEvent::End(trailers) => {
                exchange.receive_end(trailers);
                self.next += 1;
            }
            ResponseEvent::NeedData => {}
        }
        self.received.drain(..used);
        is_event
    }
}

impl Client for Http1 {
    const ADDRESS: &str = "127.0.0.1:0";
    const IS_SERVED_AFTER_ITS_END: bool = true;

    fn new(_: bool) -> Self {
        let (connection, limits) = (ClientConnection::new(), Limits::for_responses());
        Self { connection, limits, out: BytesMut::new(), received: Vec::new(), next: 0, may_send: true }
    }

    fn request(&mut self, exchange: &Exchange) -> bool {
        if self.may_send {
            exchange.with_head(|head| head.encode(&mut self.out).expect("a valid request"));
            self.may_send = exchange.has_ended;
            return true;
        }
        false
    }

    fn send(&mut self, _: usize, exchange: &mut Exchange, bytes: usize) {
        let piece = exchange.next_piece(bytes);
        let is_complete = exchange.sent == exchange.upload_bytes;
        if exchange.length == BodyLength::Chunked {
            encode_chunk(&piece, &mut self.out);
            if is_complete {
                encode_last_chunk(exchange.trailers().as_ref(), &mut self.out);
            }
        } else {
            self.out.extend_from_slice(&piece);
        }
        exchange.has_ended = is_complete;
        self.may_send |= is_complete;
    }

    fn cancel(&mut self, _: usize) -> bool {
        false
    }

    fn consume(&mut self, _: usize) {}

    fn interrupt(&mut self, _: usize, _: u8) {}

    fn receive(&mut self, bytes: &[u8], exchanges: &mut [Exchange]) {
        self.received.extend_from_slice(bytes);
        while self.decode(exchanges) {}
    }

    fn end_of_input(&mut self, exchanges: &mut [Exchange]) {
        while self.decode(exchanges) {}
        let is_open = !self.connection.is_idle();
        for (number, exchange) in exchanges.iter_mut().enumerate().skip(self.next) {
            let is_next = number == self.next && is_open;
            let is_aborted = exchange.has_begun() || exchange.task.kind == Kind::Silence;
            exchange.abort(if is_next && is_aborted { End::Aborted } else { End::Refused });
        }
    }

    fn out(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    fn may_close(Exchange { task, upload_bytes, .. }: &Exchange) -> bool {
        matches!(task.kind, Kind::Failing | Kind::Silence)
            || *upload_bytes > UNWANTED_BYTES_MAX && !task.kind.reads()
    }
}
