//! HTTP/2 frames by hand, over a plain socket. Deliberately simple: it has no flow control and no states, so that tests can break
//! any rule.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::BytesMut;
use rudy_http::h2::PREFACE;
use rudy_http::h2::hpack::{Decoder, encode_stateless};

use crate::PATIENCE;

/// The types of frames (RFC 9113 §6).
pub mod kind {
    #![expect(missing_docs, reason = "the names of the RFC")]
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// The flags END_STREAM of DATA and HEADERS, and ACK of SETTINGS and PING.
pub const END: u8 = 1;
/// The flag END_HEADERS.
pub const END_HEADERS: u8 = 4;

/// A received frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The type.
    pub kind: u8,
    /// The flags.
    pub flags: u8,
    /// The stream.
    pub stream: u32,
    /// The payload.
    pub payload: Vec<u8>,
}

/// A response on a stream, of HTTP/2 or HTTP/3.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Http2Response {
    /// The status.
    pub status: u16,
    /// The fields after `:status`.
    pub fields: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// The trailers.
    pub trailers: Vec<(String, String)>,
    /// The statuses of interim responses.
    pub interim: Vec<u16>,
    /// The code with which the server has reset the stream, if the response is incomplete.
    pub reset: Option<u32>,
    /// Whether the stream has ended.
    pub is_over: bool,
}

/// A connection that speaks HTTP/2.
pub struct Http2Connection {
    stream: TcpStream,
    decoder: Decoder,
}

impl Http2Connection {
    /// Connects, and sends the preface and these settings.
    pub fn open(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let mut connection = Self::connect(address);
        connection.send(PREFACE);
        connection.send_settings(settings);
        connection
    }

    /// Sends these settings as a server, and reads the preface of the client. `None` when the connection is closed.
    pub(crate) fn accept(stream: TcpStream, settings: &[(u16, u32)]) -> Option<Self> {
        let mut connection = Self { stream, decoder: Decoder::new(4096) };
        connection.send_settings(settings);
        let mut preface = [0; PREFACE.len()];
        connection.stream.read_exact(&mut preface).ok()?;
        assert_eq!(&preface, PREFACE, "the client speaks HTTP/2");
        Some(connection)
    }

    fn send_settings(&mut self, settings: &[(u16, u32)]) {
        let payload = settings.iter().flat_map(|(id, value)| {
            let value = value.to_be_bytes();
            id.to_be_bytes().into_iter().chain(value)
        });
        self.frame(kind::SETTINGS, 0, 0, &payload.collect::<Vec<_>>());
    }

    /// Connects, and sends nothing.
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("the timeout is not zero");
        stream.set_write_timeout(Some(PATIENCE)).expect("the timeout is not zero");
        stream.set_nodelay(true).expect("TCP supports it");
        Self { stream, decoder: Decoder::new(4096) }
    }

    /// Returns the socket.
    pub fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends bytes. Ignores that the peer has closed the connection, because its frames can still be read.
    pub fn send(&mut self, bytes: &[u8]) {
        match self.stream.write_all(bytes) {
            Err(error) if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                panic!("sending: {error}")
            }
            _ => {}
        }
    }

    /// Sends a frame.
    pub fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.send(&encode(kind, flags, stream, payload));
    }

    /// Sends the head of a request, which ends with it if `ends`.
    pub fn request(&mut self, stream: u32, method: &str, path: &str, more: &[(&str, &str)], ends: bool) {
        let head = [(":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", path)];
        let flags = if ends { END | END_HEADERS } else { END_HEADERS };
        self.frame(kind::HEADERS, flags, stream, &block(&[&head, more].concat()));
    }

    /// Sends a GET.
    pub fn get(&mut self, stream: u32, path: &str) {
        self.request(stream, "GET", path, &[], true);
    }

    /// Opens the window of a stream; 0 is that of the connection.
    pub fn open_window(&mut self, stream: u32, bytes: u32) {
        self.frame(kind::WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
    }

    /// Reads the next frame. `None` at the end of the connection.
    pub fn next_frame(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        if let Err(error) = self.stream.read_exact(&mut head) {
            let is_end = matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset);
            assert!(is_end, "reading: {error}");
            return None;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).expect("a frame is complete");
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// Reads until a frame of this type. Acknowledges SETTINGS and PING.
    pub fn wait_for(&mut self, kind: u8) -> Frame {
        loop {
            let frame = self.next_frame().expect("the connection is open");
            self.acknowledge(&frame);
            if frame.kind == kind {
                return frame;
            }
        }
    }

    pub(crate) fn acknowledge(&mut self, frame: &Frame) {
        if matches!(frame.kind, kind::SETTINGS | kind::PING) && frame.flags & END == 0 {
            let payload = if frame.kind == kind::PING { &frame.payload[..] } else { &[] };
            self.frame(frame.kind, END, 0, payload);
        }
    }

    /// Reads, as a server, until the head of a request. Returns its stream and its path; `None` at the end of the connection.
    pub fn next_request(&mut self) -> Option<(u32, String)> {
        loop {
            let frame = self.next_frame()?;
            self.acknowledge(&frame);
            if frame.kind == kind::HEADERS {
                let mut path = String::new();
                let mut field = |name: &[u8], value: &[u8]| {
                    if name == b":path" {
                        path = String::from_utf8_lossy(value).into_owned();
                    }
                };
                self.decoder.decode(&frame.payload, &mut Vec::new(), &mut field).expect("a valid block");
                return Some((frame.stream, path));
            }
        }
    }

    /// Sends, as a server, a head with this status and these fields.
    pub fn head(&mut self, stream: u32, status: &str, fields: &[(&str, &str)], ends: bool) {
        let flags = if ends { END | END_HEADERS } else { END_HEADERS };
        self.frame(kind::HEADERS, flags, stream, &block(&[&[(":status", status)], fields].concat()));
    }

    /// Sends, as a server, a 200 with this body.
    pub fn respond(&mut self, stream: u32, body: &str) {
        self.head(stream, "200", &[], false);
        self.frame(kind::DATA, END, stream, body.as_bytes());
    }

    /// Reads responses until those of these streams are complete, opens windows for their bodies, and returns them in this order.
    pub fn responses(&mut self, streams: &[u32]) -> Vec<Http2Response> {
        let mut responses = vec![Http2Response::default(); streams.len()];
        while responses.iter().any(|response| !response.is_over) {
            assert!(self.read_part(streams, &mut responses), "the connection is open");
        }
        responses
    }

    /// Reads the next frame, which may be a part of the responses on these streams. Returns whether there is one.
    pub fn read_part(&mut self, streams: &[u32], responses: &mut [Http2Response]) -> bool {
        let Some(frame) = self.next_frame() else { return false };
        self.acknowledge(&frame);
        let at = streams.iter().position(|stream| *stream == frame.stream);
        let Some(response) = at.map(|at| &mut responses[at]) else { return true };
        match frame.kind {
            kind::HEADERS => self.decode(&frame.payload, response),
            kind::DATA => {
                response.body.extend_from_slice(&frame.payload);
                if !frame.payload.is_empty() {
                    let bytes = u32::try_from(frame.payload.len()).expect("a frame is small");
                    self.open_window(0, bytes);
                    self.open_window(frame.stream, bytes);
                }
            }
            kind::RST_STREAM => {
                let code: [u8; 4] = frame.payload[..].try_into().expect("four bytes");
                response.reset = Some(u32::from_be_bytes(code));
                response.is_over = true;
            }
            _ => {}
        }
        response.is_over |= matches!(frame.kind, kind::HEADERS | kind::DATA) && frame.flags & END > 0;
        true
    }

    /// Reads the response on a stream.
    pub fn response(&mut self, stream: u32) -> Http2Response {
        self.responses(&[stream]).remove(0)
    }

    fn decode(&mut self, block: &[u8], response: &mut Http2Response) {
        let mut fields = Vec::new();
        let mut field = |name: &[u8], value: &[u8]| fields.push((name.to_vec(), value.to_vec()));
        self.decoder.decode(block, &mut Vec::new(), &mut field).expect("a valid block");
        response.add_head(&fields);
    }
}

impl Http2Response {
    /// Adds the fields of an interim response, of the response, or of its trailers.
    pub(crate) fn add_head(&mut self, fields: &[(Vec<u8>, Vec<u8>)]) {
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        let is_status = |name: &[u8]| name == b":status";
        let status = fields.iter().find(|field| is_status(&field.0));
        let status = status.map(|(_, status)| text(status).parse().expect("a status is a number"));
        let others = fields.iter().filter(|field| !is_status(&field.0));
        let fields = others.map(|(name, value)| (text(name), text(value))).collect();
        match status {
            Some(interim @ 100..200) => self.interim.push(interim),
            Some(status) => (self.status, self.fields) = (status, fields),
            None => self.trailers = fields,
        }
    }

    /// Returns the status and the body as text.
    pub fn status_and_text(&self) -> (u16, &str) {
        (self.status, self.text())
    }

    /// Returns the value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(given, _)| given == name).map(|(_, value)| &**value)
    }

    /// Returns the body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is UTF-8")
    }
}

/// Encodes a frame.
pub fn encode(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(payload.len()).expect("a frame is small").to_be_bytes();
    [&length[..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Encodes a header block.
pub fn block<T: AsRef<[u8]>>(fields: &[(T, T)]) -> Vec<u8> {
    let mut out = BytesMut::new();
    for (name, value) in fields {
        encode_stateless(name.as_ref(), value.as_ref(), &mut out);
    }
    out.to_vec()
}
