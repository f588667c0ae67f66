//! The HTTP/2 of this project and that of the crate `h2`, which receive the same frames in lockstep, for the fuzz targets.
//!
//! The servers do not respond, and the clients only send their `REQUESTS`. After each frame, both must have
//! accepted the same heads, bodies and resets, or both have refused something: with a reset, a rejection, or the end of the
//! connection. [`explained`] lists where they may differ.

mod client;
mod explained;
mod pipe;
mod server;

use http::HeaderMap;
use rudy_http::Limits;
use rudy_http::h2::PREFACE;

/// Limits that no input reaches: `h2` and this project count different things.
const STREAMS: u32 = 10_000;
const MANY: u32 = 1 << 24;

/// The maximum size of a header list for both.
const HEAD_BYTES: u32 = 16 * 1024;

const EMPTY_SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

/// An implementation of one side of a connection.
trait Side {
    /// Handles one frame.
    fn receive(&mut self, frame: &[u8]) -> Outcome;
}

/// What a frame led to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// Heads, bodies, trailers, and resets of the peer.
    accepted: Vec<String>,
    /// Why a stream, a request or the connection was refused.
    refused: Option<String>,
    has_ended: bool,
}

impl Outcome {
    fn data(&mut self, stream: u32, data: &[u8]) {
        self.accepted.push(format!("{stream} {}", data.escape_ascii()));
    }

    /// Adds the end of a body. A trailer section without fields is none.
    fn end(&mut self, stream: u32, trailers: Option<&HeaderMap>) {
        self.accepted.push(format!("{stream} end {:?}", trailers.map(describe_map).unwrap_or_default()));
    }

    fn reset(&mut self, stream: u32, code: u32) {
        self.accepted.push(format!("{stream} reset {code}"));
    }

    /// Ends the connection.
    fn fail(&mut self, reason: &impl ToString) {
        (self.refused, self.has_ended) = (Some(reason.to_string()), true);
    }
}

/// Runs both servers with the preface, empty settings, and then the frames in `input`.
pub(crate) fn run_servers(input: &[u8]) {
    let (mut ours, mut theirs) = (server::Ours::new(), server::Theirs::new());
    let start = [&PREFACE[..], &EMPTY_SETTINGS].concat();
    assert_eq!((ours.receive(&start), theirs.receive(&start)), Default::default());
    compare(&mut ours, &mut theirs, input, explained::of_servers);
}

/// Runs both clients with empty settings, and then the frames in `input`.
pub(crate) fn run_clients(input: &[u8]) {
    let (mut ours, mut theirs) = (client::Ours::new(), client::Theirs::new());
    assert_eq!((ours.receive(&EMPTY_SETTINGS), theirs.receive(&EMPTY_SETTINGS)), Default::default());
    compare(&mut ours, &mut theirs, input, explained::of_clients);
}

/// Passes the frames in `input` to both. The lengths of the frames are cut to what is left.
fn compare(
    ours: &mut impl Side,
    theirs: &mut impl Side,
    input: &[u8],
    is_explained: fn(&Outcome, &[u8]) -> bool,
) {
    let mut rest = input;
    while let Some(frame) = take_frame(&mut rest) {
        let (of_ours, of_theirs) = (ours.receive(&frame), theirs.receive(&frame));
        let is_same = of_ours.accepted == of_theirs.accepted
            && of_ours.refused.is_some() == of_theirs.refused.is_some();
        if !is_same {
            assert!(
                is_explained(&of_ours, &frame),
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
    let rest_bytes = u32::try_from(after.len()).unwrap_or(u32::MAX);
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]).min(rest_bytes);
    let (payload, after) = after.split_at(length as usize);
    *rest = after;
    Some([&length.to_be_bytes()[1..], &head[3..], payload].concat())
}

/// Returns the limits of this project.
fn limits() -> Limits {
    let mut limits = Limits {
        head_bytes: HEAD_BYTES as usize,
        head_fields: 10_000,
        body_bytes: u64::MAX,
        ..Limits::default()
    };
    limits.http2.streams = STREAMS;
    limits.http2.control_frames = MANY;
    limits.http2.resets = MANY;
    limits
}

fn describe_map(fields: &HeaderMap) -> Vec<(String, String)> {
    describe_fields(fields.iter().map(|(name, value)| (name.as_str(), value.as_bytes())))
}

fn describe_fields<'f>(fields: impl Iterator<Item = (&'f str, &'f [u8])>) -> Vec<(String, String)> {
    let mut fields: Vec<_> =
        fields.map(|(name, value)| (name.to_owned(), value.escape_ascii().to_string())).collect();
    // The values of one name keep their order.
    fields.sort_by(|one, other| one.0.cmp(&other.0));
    fields
}
