//! A client of HTTP/2: the state machine of this project.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::{BufMut, BytesMut};
use rudy_http::Limits;
use rudy_http::h2::ErrorCode;
use rudy_http::h2::client::{ClientConnection, Event, HeadBuffers, Request};

use super::conforming::Client;
use super::exchange::{End, Exchange};

/// The type of a frame that changes a priority (RFC 9218 §7.1).
const PRIORITY_UPDATE: u8 = 16;

pub(super) struct Http2 {
    connection: ClientConnection,
    buffers: HeadBuffers,
    limits: Limits,
    now: Instant,
    out: BytesMut,
    /// Streams by request.
    streams: Vec<u32>,
    /// Data that counts as stored: its stream, and its size.
    stored: VecDeque<(u32, usize)>,
}

impl Http2 {
    fn request_of(&self, stream: u32) -> usize {
        self.streams.iter().position(|other| *other == stream).expect("the stream of a request")
    }

    fn handle(&mut self, event: Event<'_>, exchanges: &mut [Exchange]) {
        match event {
            Event::Informational { stream, head } => {
                exchanges[self.request_of(stream)].receive_interim(head.status());
            }
            Event::Head { stream, head, ends } => {
                let exchange = &mut exchanges[self.request_of(stream)];
                exchange.receive_head(head.status());
                if ends {
                    exchange.receive_end(None);
                }
            }
            Event::Data { stream, data, ends } => {
                let exchange = &mut exchanges[self.request_of(stream)];
                exchange.receive(data);
                if ends {
                    exchange.receive_end(None);
                }
                self.stored.push_back((stream, data.len()));
            }
            Event::End { stream, trailers } => exchanges[self.request_of(stream)].receive_end(trailers),
            Event::Reset { stream, code, reason } => {
                assert_eq!(reason, None, "{stream}: the response is malformed");
                let end = if code == ErrorCode::REFUSED_STREAM { End::Refused } else { End::Aborted };
                let exchange = &mut exchanges[self.request_of(stream)];
                exchange.abort(end);
                // Nothing more of the body is wanted.
                exchange.has_ended = true;
            }
            Event::GoAway { code, reason, .. } => {
                assert_eq!(code, ErrorCode::NO_ERROR, "{}", reason.escape_ascii());
            }
            Event::Settings => {}
        }
    }
}

impl Client for Http2 {
    const ADDRESS: &str = "127.0.0.1:0,h2c";
    const IS_SERVED_AFTER_ITS_END: bool = false;

    fn new(has_small_windows: bool) -> Self {
        let (now, mut limits, mut out) = (Instant::now(), Limits::for_responses(), BytesMut::new());
        if has_small_windows {
            let windows = &mut limits.http2;
            (windows.stream_window_bytes, windows.connection_window_bytes) = (5000, 70_000);
            windows.stream_window_bytes_max = 5000;
        }
        let connection = ClientConnection::new(now, &limits, &mut out);
        let (buffers, streams, stored) = (HeadBuffers::default(), Vec::new(), VecDeque::new());
        Self { connection, buffers, limits, now, out, streams, stored }
    }

    fn request(&mut self, exchange: &Exchange) -> bool {
        let request = exchange.with_head(|head| Request::new(head, "http").expect("a valid request"));
        let stream = self.connection.request(&request, &mut self.out);
        self.streams.extend(stream);
        stream.is_some()
    }

    fn send(&mut self, number: usize, exchange: &mut Exchange, bytes: usize) {
        let stream = self.streams[number];
        let room = usize::try_from(self.connection.window(stream)).unwrap_or(usize::MAX);
        let piece = exchange.next_piece(bytes.min(room));
        if !piece.is_empty() {
            self.connection
                .encode_piece(stream, &piece, &mut self.out)
                .expect("within the body and the window");
        }
        if exchange.sent == exchange.upload_bytes {
            let trailers = exchange.trailers();
            self.connection.finish(stream, trailers.as_ref(), &mut self.out).expect("the body is complete");
            exchange.has_ended = true;
        }
    }

    fn cancel(&mut self, number: usize) -> bool {
        self.connection.cancel(self.streams[number], &mut self.out);
        true
    }

    fn consume(&mut self, pieces: usize) {
        for (stream, bytes) in self.stored.drain(..pieces.min(self.stored.len())) {
            self.connection.pass_on(stream, bytes, &mut self.out);
        }
    }

    fn interrupt(&mut self, number: usize, urgency: u8) {
        let Some(stream) = self.streams.get(number) else { return self.connection.ping(&mut self.out) };
        let value = format!("u={}", urgency % 8);
        self.out.put_slice(&[
            0,
            0,
            4 + u8::try_from(value.len()).expect("short"),
            PRIORITY_UPDATE,
            0,
            0,
            0,
            0,
            0,
        ]);
        self.out.put_u32(*stream);
        self.out.put_slice(value.as_bytes());
    }

    fn receive(&mut self, mut bytes: &[u8], exchanges: &mut [Exchange]) {
        let mut buffers = std::mem::take(&mut self.buffers);
        loop {
            let Self { connection, limits, now, out, .. } = self;
            let event = connection.receive(&mut bytes, &mut buffers, *now, limits, out);
            match event.expect("the server keeps to the protocol") {
                Some(event) => self.handle(event, exchanges),
                None => break,
            }
        }
        self.buffers = buffers;
    }

    fn end_of_input(&mut self, exchanges: &mut [Exchange]) {
        for exchange in exchanges {
            exchange.abort(if exchange.has_begun() { End::Aborted } else { End::Refused });
        }
    }

    fn out(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    fn may_close(_: &Exchange) -> bool {
        false
    }
}
