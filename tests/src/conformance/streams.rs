//! Runs a case over HTTP/2 without TLS, against an engine.
//!
//! The requests of the case become header blocks, bodies and trailers. Each has its own stream, and is sent after the response to
//! the previous one, so that the service sees them in order. After a response that closes an HTTP/1.1 connection, the rest is not
//! sent.

use std::net::{Shutdown, SocketAddr};

use super::check::check_responses;
use super::request::{Field, PlainRequest, read_requests};
use super::site::DATE;
use super::socket::EngineServer;
use super::wire::{WireResponse, read_responses};
use super::{Case, End, Expected, ExpectedResponse, Http2, Step};
use crate::Http2Response;
use crate::http2::{END, END_HEADERS, Http2Connection, block, kind};

/// PROTOCOL_ERROR (RFC 9113 §7).
const PROTOCOL_ERROR: u32 = 1;

/// The largest frame that a server must accept (RFC 9113 §6.5.2).
const FRAME_BYTES: usize = 16_384;

/// The first windows of a server (RFC 9113 §6.9.2).
const WINDOW_BYTES: usize = 65_535;

/// Fields that describe an HTTP/1.1 connection (RFC 9113 §8.2.2).
const OF_CONNECTION: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// Runs a case on a server with [`Listen::H2c`](super::socket::Listen). The error describes the first difference.
pub fn run(server: &EngineServer, case: &Case) -> Result<(), String> {
    let expected = expected_responses(case)?;
    let site = server.open(case);
    let mut client = Client::open(server.address());
    let mut responses = Vec::new();
    let requests = read_requests(&sent_bytes(case)).map_err(|wrong| format!("needs `http1 …`: {wrong}"))?;
    if requests.iter().any(|request| request.body.as_ref().is_some_and(|body| body.len() >= WINDOW_BYTES)) {
        return Err("needs `http1 …`: the runner has no flow control".into());
    }
    let is_final = |response: &&ExpectedResponse| response.status >= 200;
    let count = expected.iter().filter(is_final).count();
    if count > requests.len() {
        return Err(format!("{count} responses to {} requests", requests.len()));
    }
    for (at, request) in requests.iter().take(count).enumerate() {
        let awaits = expected.get(at).is_some_and(|response| response.status == 100);
        let ends_input = at + 1 == count && case.steps.contains(&Step::EndOfInput);
        responses.push(client.exchange(request, awaits, ends_input));
    }
    check_all(case, &expected, &responses)?;
    if let Some(saw) = &case.saw
        && *saw != site.saw()
    {
        return Err(format!("the service saw {:#?}, expected {saw:#?}", site.saw()));
    }
    client.check_end(case.steps.contains(&Step::EndOfInput))
}

fn sent_bytes(case: &Case) -> Vec<u8> {
    let sent = case.steps.iter().filter_map(|step| match step {
        Step::Send(bytes) => Some(&bytes[..]),
        Step::Wait(_) | Step::EndOfInput => None,
    });
    sent.collect::<Vec<_>>().concat()
}

/// Returns the expected responses, without the fields that HTTP/2 does not have.
fn expected_responses(case: &Case) -> Result<Vec<ExpectedResponse>, String> {
    let mut responses = match &case.expected {
        Expected::Responses(responses) => responses.clone(),
        Expected::Bytes(bytes) => {
            let is_head = sent_bytes(case).starts_with(b"HEAD ");
            let responses = read_responses(bytes, if is_head { &["HEAD"] } else { &[] })?;
            responses.into_iter().map(exactly).collect()
        }
    };
    for response in &mut responses {
        response.fields.retain(|(name, _)| !OF_CONNECTION.contains(&&**name));
    }
    Ok(responses)
}

fn exactly(response: WireResponse) -> ExpectedResponse {
    let WireResponse { status, mut fields, body, trailers, .. } = response;
    fields.extend(trailers);
    ExpectedResponse { status, fields, body: Some(body), ..ExpectedResponse::default() }
}

fn check_all(case: &Case, expected: &[ExpectedResponse], responses: &[Http2Response]) -> Result<(), String> {
    let (mut expected, mut responses) = (expected, responses);
    if case.http2 == Http2::Malformed {
        match responses.split_last() {
            Some((last, before)) if last.status == 0 && last.reset == Some(PROTOCOL_ERROR) => {
                responses = before;
                expected = &expected[..expected.len() - 1];
            }
            last => return Err(format!("the request is not malformed: {last:?}")),
        }
    }
    for (at, response) in responses.iter().enumerate() {
        let is_cut = case.end == End::Cut && at + 1 == responses.len();
        if response.reset.is_some() != is_cut {
            return Err(format!("a stream is reset with {:?}", response.reset));
        }
        if let Some((name, _)) = response.fields.iter().find(|(name, _)| OF_CONNECTION.contains(&&**name)) {
            return Err(format!("has `{name}` (RFC 9113 §8.2.2)"));
        }
    }
    let plain: Vec<_> = responses.iter().flat_map(plain_responses).collect();
    check_responses(expected, &plain)
}

/// Returns the interim responses and the response, as if they had arrived over HTTP/1.1.
fn plain_responses(response: &Http2Response) -> Vec<WireResponse> {
    let Http2Response { status, body, trailers, interim, .. } = response.clone();
    let date = |(name, value): (String, String)| {
        let value = if name == "date" { DATE.to_owned() } else { value };
        (name, value)
    };
    let fields = response.fields.iter().cloned().map(date).collect();
    let of = |status| WireResponse {
        status,
        fields: Vec::new(),
        body: Vec::new(),
        trailers: Vec::new(),
        complete: true,
    };
    let last = WireResponse { fields, body, trailers, ..of(status) };
    interim.into_iter().map(of).chain([last]).collect()
}

/// The client of a case.
struct Client {
    connection: Http2Connection,
    stream: u32,
}

impl Client {
    fn open(address: SocketAddr) -> Self {
        Self { connection: Http2Connection::open(address, &[]), stream: 1 }
    }

    /// Sends a request and reads its response. Waits for an interim response before the body if it `awaits` one.
    fn exchange(&mut self, request: &PlainRequest, awaits: bool, ends_input: bool) -> Http2Response {
        let (mut response, stream) = (Http2Response::default(), self.stream);
        let parts = std::slice::from_mut(&mut response);
        self.stream += 2;
        self.send_block(stream, &pseudo_fields(request), request.body.is_none());
        while awaits && parts[0].interim.is_empty() && self.connection.read_part(&[stream], parts) {}
        if let Some(body) = &request.body {
            let ends = request.is_complete && request.trailers.is_empty();
            self.send_body(stream, body, ends);
            if !request.trailers.is_empty() {
                self.send_block(stream, &request.trailers, true);
            }
        }
        if ends_input {
            self.shut_down();
        }
        while !parts[0].is_over && self.connection.read_part(&[stream], parts) {}
        response
    }

    fn send_block(&mut self, stream: u32, fields: &[Field], ends: bool) {
        let block = block(fields);
        let mut pieces = block.chunks(FRAME_BYTES).peekable();
        let (mut kind, mut flags) = (kind::HEADERS, if ends { END } else { 0 });
        while let Some(piece) = pieces.next() {
            flags |= if pieces.peek().is_none() { END_HEADERS } else { 0 };
            self.connection.frame(kind, flags, stream, piece);
            (kind, flags) = (kind::CONTINUATION, 0);
        }
    }

    /// Sends a body that fits into the first windows.
    fn send_body(&mut self, stream: u32, body: &[u8], ends: bool) {
        for piece in body.chunks(FRAME_BYTES) {
            self.connection.frame(kind::DATA, 0, stream, piece);
        }
        if ends {
            self.connection.frame(kind::DATA, END, stream, &[]);
        }
    }

    fn shut_down(&self) {
        // Fails only if the server has already closed the connection.
        let _ = self.connection.socket().shutdown(Shutdown::Write);
    }

    /// Checks that the connection is open, or that it ends if the client has closed its side. Neither is an error.
    fn check_end(&mut self, is_half_closed: bool) -> Result<(), String> {
        self.connection.frame(kind::PING, 0, 0, b"any more");
        loop {
            let Some(frame) = self.connection.next_frame() else {
                return if is_half_closed { Ok(()) } else { Err("the connection has ended".into()) };
            };
            match frame.kind {
                kind::GOAWAY if frame.payload[4..8] != [0; 4] => {
                    return Err(format!("GOAWAY {}", frame.payload.escape_ascii()));
                }
                kind::PING if frame.flags & END > 0 => return Ok(()),
                _ => {}
            }
        }
    }
}

/// Returns the fields of a request in HTTP/2. A Host that can be an authority is one (RFC 9113 §8.3.1).
fn pseudo_fields(request: &PlainRequest) -> Vec<Field> {
    let PlainRequest { method, target, .. } = request;
    let is_host = |field: &&Field| field.0 == b"host";
    let host = match &request.fields.iter().filter(is_host).collect::<Vec<_>>()[..] {
        [(_, host)] if !host.is_empty() => Some(host),
        _ => None,
    };
    let pseudo = if method == b"CONNECT" {
        vec![(":method", &method[..]), (":authority", target)]
    } else {
        let authority = host.map(|host| (":authority", &host[..]));
        let others = [(":method", &method[..]), (":scheme", b"http"), (":path", target)];
        others.into_iter().chain(authority).collect()
    };
    let pseudo = pseudo.into_iter().map(|(name, value)| (name.as_bytes().to_vec(), value.to_vec()));
    let others = request.fields.iter().filter(|field| host.is_none() || !is_host(field)).cloned();
    pseudo.chain(others).collect()
}
