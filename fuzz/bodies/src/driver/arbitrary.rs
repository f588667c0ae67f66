//! A client that sends arbitrary bytes. The service must see what the pure state machine of the server makes of them.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};

use bytes::BytesMut;
use http::{HeaderMap, StatusCode};
use rudy_http::h1::{self, Phase};
use rudy_http::h2::{self, HeadBuffers, PREFACE};
use rudy_message::{BodyLength, DateLine, LazyHead, RequestHead, ResponseHead};
use rudy_service::{Limits, Request, RequestBody};

use super::server::{Server, patient_limits};
use super::service::{UploadSeen, describe, describe_end};
use super::task::Task;
use crate::h1::small_limits;

/// What a service sees of a connection.
#[derive(Debug, Default, PartialEq, Eq)]
struct Transcript {
    heads: Vec<String>,
    /// The bodies, by the number of the request from 1.
    uploads: BTreeMap<usize, UploadSeen>,
    /// Why requests that the service does not see are rejected, and why the connection ends.
    rejections: Vec<String>,
}

/// Runs a connection. The first byte of the input is the size of the pieces, the second how much the socket accepts with each.
pub(super) fn run_http1(input: &[u8]) {
    let [piece_bytes, room, bytes @ ..] = input else { return };
    let limits = small();
    let pieces: Vec<_> = bytes.chunks(usize::from(*piece_bytes) + 1).collect();
    let transcript = serve("127.0.0.1:0", &limits, &pieces, *room);
    if is_comparable(&transcript) {
        assert_eq!(transcript, Http1::receive(bytes, &limits.http));
    }
}

/// Runs a connection behind its preface. The first byte of the input is the size of the pieces.
pub(super) fn run_http2(input: &[u8]) {
    let [piece_bytes, bytes @ ..] = input else { return };
    let mut limits = small();
    limits.http.requests_per_connection = None;
    let start = [&PREFACE[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    let pieces: Vec<_> =
        [&start[..]].into_iter().chain(bytes.chunks(usize::from(*piece_bytes) + 1)).collect();
    // With less, the responses would end later, and frames for streams that have ended are errors.
    let transcript = serve("127.0.0.1:0,h2c", &limits, &pieces, u8::MAX);
    if is_comparable(&transcript) {
        let mut machine = Http2::new(&limits.http);
        for piece in pieces {
            machine.receive(piece, &limits.http);
        }
        assert_eq!(transcript, machine.transcript);
    }
}

/// Limits that short inputs reach.
fn small() -> Limits {
    let (mut limits, small) = (patient_limits(), small_limits());
    let http = &mut limits.http;
    (http.head_bytes, http.head_fields, http.target_bytes) =
        (small.head_bytes, small.head_fields, small.target_bytes);
    (http.body_bytes, http.drain_bytes) = (small.body_bytes, small.drain_bytes);
    http.chunk_extension_bytes = small.chunk_extension_bytes;
    http.requests_per_connection = small.requests_per_connection;
    limits
}

/// A service that does not read a body, or responds later, changes what the connection reads.
fn is_comparable(transcript: &Transcript) -> bool {
    let path = |head: &str| head.split(' ').nth(1).map(|path| Task::of_path(path.as_bytes()).is_some());
    !transcript.heads.iter().any(|head| path(head) == Some(true))
}

/// Sends the pieces to the driver. The socket accepts `room` bytes with each, or everything if it is [`u8::MAX`].
fn serve(address: &str, limits: &Limits, pieces: &[&[u8]], room: u8) -> Transcript {
    let mut server = Server::open(address, false, limits);
    for piece in pieces {
        let room = if room == u8::MAX { usize::MAX } else { room.into() };
        server.client.wire().make_room(room);
        server.client.wire().arrive(piece);
        server.check_sleep();
    }
    server.log.hurry();
    server.client.wire().make_room(usize::MAX);
    server.check_sleep();
    let transcript = Transcript {
        heads: server.log.heads(),
        uploads: server.log.uploads(),
        rejections: server.log.rejections(),
    };
    server.client.end();
    server.settle();
    // A body may be incomplete.
    server.client.reset();
    server.settle();
    server.poll();
    server.check_end();
    transcript
}

impl Transcript {
    fn request(&mut self, head: &RequestHead<'_>) -> usize {
        self.heads.push(describe(&Request::new(LazyHead::new(head), RequestBody::empty())));
        let number = self.heads.len();
        if head.body_length() != BodyLength::Known(0) {
            self.uploads.insert(number, UploadSeen::default());
        }
        number
    }

    fn upload(&mut self, number: usize) -> &mut UploadSeen {
        self.uploads.get_mut(&number).expect("a request with a body")
    }
}

/// The state machine of HTTP/1.1.
struct Http1<'l> {
    connection: h1::ServerConnection,
    limits: &'l rudy_http::Limits,
    now: Instant,
    out: BytesMut,
    transcript: Transcript,
}

impl Http1<'_> {
    /// Returns what a service sees of a connection with these bytes.
    fn receive(mut bytes: &[u8], limits: &rudy_http::Limits) -> Transcript {
        let now = Instant::now();
        let (connection, transcript) = (h1::ServerConnection::new(now), Transcript::default());
        let mut machine = Http1 { connection, limits, now, out: BytesMut::new(), transcript };
        while machine.connection.phase() != Phase::Close {
            match machine.connection.receive(std::mem::take(&mut bytes), now, limits) {
                Ok(Some(event)) => {
                    let event = event.into_owned();
                    machine.handle(event);
                }
                Ok(None) => break,
                Err(rejection) => {
                    let is_in_body = machine.transcript.uploads.values().any(|upload| upload.1.is_none());
                    if !is_in_body {
                        machine.transcript.rejections.push(rejection.to_string());
                    }
                    break;
                }
            }
        }
        machine.transcript
    }

    fn handle(&mut self, event: h1::Event<'_>) {
        let number = self.transcript.heads.len();
        match event {
            h1::Event::Request(head) => {
                let number = self.transcript.request(&head);
                if self.transcript.uploads.contains_key(&number) {
                    self.connection.encode_continue(&mut self.out);
                } else {
                    self.respond();
                }
            }
            h1::Event::Body(piece) => self.transcript.upload(number).0.extend_from_slice(&piece),
            h1::Event::BodyEnd(trailers) => {
                self.transcript.upload(number).1 = Some(describe_end(trailers.as_ref()));
                self.respond();
            }
        }
    }

    fn respond(&mut self) {
        let Self { connection, limits, out, .. } = self;
        let date = DateLine::new(SystemTime::UNIX_EPOCH);
        let head = ResponseHead::Fields(StatusCode::OK, &HeaderMap::new());
        connection.begin(head, Some(0), limits, &date, out);
        connection.finish(None, self.now, out).expect("a body without bytes");
    }
}

/// The state machine of HTTP/2.
struct Http2 {
    connection: h2::ServerConnection,
    buffers: HeadBuffers,
    now: Instant,
    date: DateLine,
    out: BytesMut,
    /// The numbers of the requests without a response, by stream.
    open: BTreeMap<u32, usize>,
    has_failed: bool,
    transcript: Transcript,
}

impl Http2 {
    fn new(limits: &rudy_http::Limits) -> Self {
        let (now, mut out) = (Instant::now(), BytesMut::new());
        Self {
            connection: h2::ServerConnection::new(now, false, limits, &mut out),
            buffers: HeadBuffers::default(),
            now,
            date: DateLine::new(SystemTime::UNIX_EPOCH),
            out,
            open: BTreeMap::new(),
            has_failed: false,
            transcript: Transcript::default(),
        }
    }

    /// Receives a piece, and then responds to requests whose bodies have become complete, as a connection does after a read.
    fn receive(&mut self, mut piece: &[u8], limits: &rudy_http::Limits) {
        let mut buffers = std::mem::take(&mut self.buffers);
        let uploads_before = self.transcript.uploads.clone();
        while !self.has_failed {
            match self.connection.receive(&mut piece, &mut buffers, self.now, limits, &mut self.out) {
                Ok(Some(event)) => self.handle(event),
                Ok(None) => break,
                Err(error) => {
                    self.has_failed = true;
                    // A connection that fails ends its exchanges at once: no service gets what was read with the error.
                    self.transcript.uploads.clone_from(&uploads_before);
                    self.transcript.rejections.push(error.to_string());
                }
            }
        }
        self.buffers = buffers;
        let uploads = &self.transcript.uploads;
        let complete = |number: &usize| uploads.get(number).is_some_and(|upload| upload.1.is_some());
        let complete: Vec<_> =
            self.open.iter().filter(|(_, number)| complete(number)).map(|(stream, _)| *stream).collect();
        for stream in complete {
            self.respond(stream);
        }
    }

    fn handle(&mut self, event: h2::Event<'_>) {
        match event {
            h2::Event::Request { stream, head, .. } => {
                let number = self.transcript.request(&head);
                self.open.insert(stream, number);
                if self.transcript.uploads.contains_key(&number) {
                    self.connection.encode_continue(stream, &mut self.out);
                } else {
                    self.respond(stream);
                }
            }
            h2::Event::Rejected { stream, rejection, head } => {
                if head.is_some() {
                    self.transcript.rejections.push(rejection.to_string());
                } else if self.open.remove(&stream).is_none() {
                    return;
                }
                self.connection.reject(stream, rejection, (&self.date, self.now), &mut self.out);
            }
            h2::Event::Data { stream, data, ends } => {
                if let Some(number) = self.open.get(&stream) {
                    let upload = self.transcript.upload(*number);
                    upload.0.extend_from_slice(data);
                    upload.1 = ends.then(|| describe_end(None));
                }
                self.connection.pass_on(stream, data.len(), &mut self.out);
            }
            h2::Event::End { stream, trailers } => {
                if let Some(number) = self.open.get(&stream) {
                    self.transcript.upload(*number).1 = Some(describe_end(trailers.as_ref()));
                }
            }
            h2::Event::Reset { stream, reason, .. } => {
                if self.open.remove(&stream).is_none() {
                    self.transcript.rejections.extend(reason.map(|reason| format!("HTTP/2: {reason}")));
                }
            }
            h2::Event::Window { .. } | h2::Event::Priority { .. } => {}
        }
    }

    fn respond(&mut self, stream: u32) {
        let head = ResponseHead::Fields(StatusCode::OK, &HeaderMap::new());
        self.connection.begin(stream, head, Some(0), &self.date, &mut self.out);
        self.connection.close(stream, self.now);
        self.open.remove(&stream);
    }
}
