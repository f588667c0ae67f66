//! Runs a case over a version of HTTP with streams, against an engine.
//!
//! The requests of the case become heads, bodies and trailers. Each has its own stream, and is sent after the response to
//! the previous one, so that the service sees them in order. After a response that closes an HTTP/1.1 connection, the rest is not
//! sent.

use super::check::check_responses;
use super::request::{Field, PlainRequest, read_requests};
use super::site::DATE;
use super::socket::{EngineServer, Listen};
use super::wire::{WireResponse, read_responses};
use super::{Case, End, Expected, ExpectedResponse, Http2, Step, http2, http3};
use crate::Http2Response;

/// Fields that describe an HTTP/1.1 connection (RFC 9113 §8.2.2).
const OF_CONNECTION: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// A client of a case.
pub(super) trait Client {
    /// The largest body that the client can send.
    fn body_bytes_max(&self) -> usize;

    /// The code with which a server resets the stream of a malformed request.
    fn malformed(&self) -> u32;

    /// Whether the head of a response may be lost if its stream is reset.
    fn may_lose_head(&self) -> bool;

    /// Sends a request and reads its response. Waits for an interim response before the body if it `awaits` one.
    fn exchange(&mut self, request: &PlainRequest, awaits: bool, ends_input: bool) -> Http2Response;

    /// Checks that the connection is open, or that it ends if the client has closed its side. Neither is an error.
    fn check_end(&mut self, is_half_closed: bool) -> Result<(), String>;
}

/// Runs a case over HTTP/2 or, on a server with [`Listen::Quic`], over HTTP/3. The error describes the first difference.
pub fn run(server: &EngineServer, listen: Listen<'_>, case: &Case) -> Result<(), String> {
    let expected = expected_responses(case)?;
    let site = server.open(case);
    let mut client: Box<dyn Client> = match listen {
        Listen::Quic(tls) => Box::new(http3::Client::open(server.address(), tls)),
        _ => Box::new(http2::Client::open(server.address())),
    };
    let mut responses = Vec::new();
    let requests = read_requests(&sent_bytes(case)).map_err(|wrong| format!("needs `http1 …`: {wrong}"))?;
    if requests
        .iter()
        .any(|request| request.body.as_ref().is_some_and(|body| body.len() > client.body_bytes_max()))
    {
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
    check_all(case, &expected, &responses, &*client)?;
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

/// Returns the expected responses, without the fields that belong to a connection.
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

fn check_all(
    case: &Case,
    expected: &[ExpectedResponse],
    responses: &[Http2Response],
    client: &dyn Client,
) -> Result<(), String> {
    let (mut expected, mut responses) = (expected, responses);
    if case.http2 == Http2::Malformed {
        match responses.split_last() {
            Some((last, before)) if last.status == 0 && last.reset == Some(client.malformed()) => {
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
        if is_cut && response.status == 0 && client.may_lose_head() {
            (responses, expected) = (&responses[..at], &expected[..expected.len() - 1]);
            break;
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

/// Returns the fields of a request. A Host that can be an authority is one (RFC 9113 §8.3.1, RFC 9114 §4.3.1).
pub(super) fn pseudo_fields(request: &PlainRequest, scheme: &[u8]) -> Vec<Field> {
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
        let others = [(":method", &method[..]), (":scheme", scheme), (":path", target)];
        others.into_iter().chain(authority).collect()
    };
    let pseudo = pseudo.into_iter().map(|(name, value)| (name.as_bytes().to_vec(), value.to_vec()));
    let others = request.fields.iter().filter(|field| host.is_none() || !is_host(field)).cloned();
    pseudo.chain(others).collect()
}
