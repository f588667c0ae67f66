//! The server side of HTTP/2 and that of the crate `h2`, which receive the same frames in lockstep, for the fuzz target.
//!
//! Neither responds. After each frame, both must have accepted the same requests, bodies and resets, or both have refused
//! something: with a reset, a rejection, or the end of the connection. [`explained`] lists where they may differ.

mod theirs;

use std::time::Instant;

use bytes::BytesMut;
use http::{HeaderMap, Request, header};
use rudy_http::h1::BodyLength;
use rudy_http::h2::{Event, HeadBuffers, PREFACE, ServerConnection};
use rudy_http::{Limits, RawTarget};

use self::theirs::Theirs;

/// What a frame led to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// Requests, bodies, trailers, and resets of the client.
    accepted: Vec<String>,
    /// Why a stream, a request or the connection was refused.
    refused: Option<String>,
    has_ended: bool,
}

/// Runs both with the preface, empty settings, and then the frames in `input`, whose lengths are cut to what is left.
pub fn run(input: &[u8]) {
    let (mut ours, mut theirs) = (Ours::new(), Theirs::new());
    let start = [&PREFACE[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    assert_eq!((ours.receive(&start), theirs.receive(&start)), Default::default());
    let mut rest = input;
    while let Some(frame) = take_frame(&mut rest) {
        let (of_ours, of_theirs) = (ours.receive(&frame), theirs.receive(&frame));
        let is_same = of_ours.accepted == of_theirs.accepted
            && of_ours.refused.is_some() == of_theirs.refused.is_some();
        if !is_same {
            assert!(
                explained(&of_ours, &frame),
                "after {}:\nours   {of_ours:?}\ntheirs {of_theirs:?}",
                frame.escape_ascii()
            );
        }
        // Later differences can follow from this one, or from a refusal: this server still discards the body of a rejected request.
        if !is_same || of_ours.refused.is_some() || of_ours.has_ended || of_theirs.has_ended {
            return;
        }
    }
}

/// Takes the next frame, with the length that it really has.
fn take_frame(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let (head, after) = rest.split_first_chunk::<9>()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]).min(after.len() as u32);
    let (payload, after) = after.split_at(length as usize);
    *rest = after;
    Some([&length.to_be_bytes()[1..], &head[3..], payload].concat())
}

/// The differences that are intended.
fn explained(ours: &Outcome, frame: &[u8]) -> bool {
    let refused = ours.refused.as_deref().unwrap_or_default();
    // Checks that HTTP/1.1 and FastCGI need: `h2` leaves them to its caller.
    if STRICTER.iter().any(|reason| refused.starts_with(reason)) {
        return true;
    }
    match frame[3] {
        // The fault of a block is known at its end; `h2` may find it in the first frame.
        HEADERS | CONTINUATION if frame[4] & END_HEADERS == 0 => ours.accepted.is_empty(),
        HEADERS | CONTINUATION => ours.accepted.iter().any(|text| text.contains(RAW)),
        // A server still serves the streams that are open; `h2` also ends.
        GOAWAY => true,
        // A priority for a stream that is not open, which `h2` resets if the stream depends on itself.
        PRIORITY => ours.accepted.is_empty(),
        // `h2` does not know RFC 9218 §7.1, and ignores what only a server may send.
        PRIORITY_UPDATE | PUSH_PROMISE => true,
        _ => false,
    }
}

const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const PUSH_PROMISE: u8 = 5;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const PRIORITY_UPDATE: u8 = 16;
const END_HEADERS: u8 = 4;

/// What only this project refuses.
const STRICTER: &[&str] = &[
    "rejected",
    "Host differs from :authority",
    "a pseudo-field is empty, or has a space or a control character",
    ":path is not a path",
    "a pseudo-field is missing, or one too many",
    "TE is not trailers (RFC 9113 §8.2.2)",
    "the value of a field has a line break, NUL, or white space around it",
    "a field is not allowed as a trailer",
    "a pseudo-field in a trailer section",
];

/// Marks a target that the crate `http`, which `h2` uses, cannot represent.
const RAW: &str = " raw ";

/// Describes a request. The host is that of `:authority`, or of Host without it; `h2` leaves the parts of a cookie as they are.
fn describe<T>(stream: u32, request: &Request<T>, ends: bool) -> String {
    let fields = request.headers();
    let authority = request.uri().authority();
    let authority = authority.map(|authority| authority.as_str().as_bytes().escape_ascii().to_string());
    let host = fields.get(header::HOST).map(|host| host.as_bytes().escape_ascii().to_string());
    let raw = request.extensions().get::<RawTarget>().map_or("", |_| RAW);
    let target = request.uri().path_and_query().map_or("", |target| target.as_str());
    // Empty parts have no meaning, and some of them are lost in the joined field.
    let cookies = fields.get_all(header::COOKIE).iter().map(|value| value.as_bytes());
    let cookies: Vec<_> = cookies.flat_map(|value| value.split(|byte| b"; ".contains(byte))).collect();
    let cookies: Vec<_> = cookies.into_iter().filter(|part| !part.is_empty()).collect();
    let mut others = describe_fields(fields);
    others.retain(|(name, _)| name != "host" && name != "cookie");
    format!(
        "{stream} {} {target}{raw} {:?} {others:?} {} {ends}",
        request.method(),
        authority.or(host),
        cookies.join(&b"; "[..]).escape_ascii()
    )
}

fn describe_fields(fields: &HeaderMap) -> Vec<(String, String)> {
    let fields = fields.iter();
    let mut fields: Vec<_> =
        fields.map(|(name, value)| (name.to_string(), value.as_bytes().escape_ascii().to_string())).collect();
    // The values of one name keep their order.
    fields.sort_by(|one, other| one.0.cmp(&other.0));
    fields
}

/// The state machine of this project.
struct Ours {
    connection: ServerConnection,
    limits: Limits,
    buffers: HeadBuffers,
    now: Instant,
    out: BytesMut,
}

impl Ours {
    fn new() -> Self {
        let (now, mut out) = (Instant::now(), BytesMut::new());
        let mut limits = Limits { head_fields: 10_000, ..Limits::default() };
        limits.http2.streams = theirs::STREAMS;
        limits.http2.control_frames = theirs::MANY;
        limits.http2.resets = theirs::MANY;
        let connection = ServerConnection::new(now, false, &limits, &mut out);
        Self { connection, limits, buffers: HeadBuffers::default(), now, out }
    }

    fn receive(&mut self, mut input: &[u8]) -> Outcome {
        let (mut outcome, connection) = (Outcome::default(), &mut self.connection);
        loop {
            let received =
                connection.receive(&mut input, &mut self.buffers, self.now, &self.limits, &mut self.out);
            match received {
                Ok(None) => return outcome,
                Err(error) => {
                    outcome.refused = Some(error.reason.to_owned());
                    outcome.has_ended = true;
                    return outcome;
                }
                Ok(Some(event)) => {
                    if let Event::Data { stream, data, .. } = event {
                        connection.pass_on(stream, data.len(), &mut self.out);
                    }
                    outcome.add(event);
                }
            }
        }
    }
}

impl Outcome {
    fn add(&mut self, event: Event<'_>) {
        match event {
            Event::Request { stream, head, .. } => {
                let request = head.into_request();
                let ends = *request.body() == BodyLength::Known(0);
                self.accepted.push(describe(stream, &request, ends));
            }
            Event::Rejected { rejection, .. } => self.refused = Some(format!("rejected: {rejection}")),
            Event::Reset { reason: Some(reason), .. } => self.refused = Some(reason.to_owned()),
            Event::Reset { stream, code, reason: None } => {
                self.accepted.push(format!("{stream} reset {}", code.0));
            }
            Event::Data { stream, data, ends } => {
                self.accepted.push(format!("{stream} {}", data.escape_ascii()));
                if ends {
                    self.accepted.push(format!("{stream} end"));
                }
            }
            Event::End { stream, trailers } => {
                let trailers = trailers.map(|trailers| format!(" {:?}", describe_fields(&trailers)));
                self.accepted.push(format!("{stream} end{}", trailers.unwrap_or_default()));
            }
            Event::Priority { .. } => {}
        }
    }
}
