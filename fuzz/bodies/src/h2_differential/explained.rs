//! The differences between this project and the crate `h2` that are intended.

use super::Outcome;
use super::server::RAW;

const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const PUSH_PROMISE: u8 = 5;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const PRIORITY_UPDATE: u8 = 16;
const END_HEADERS: u8 = 4;

/// What only this project refuses: HTTP/1.1 and FastCGI need these checks, which `h2` leaves to its caller.
const STRICTER: &[&str] = &[
    "rejected",
    "Host differs from :authority",
    "the scheme has an invalid character",
    "a pseudo-field is empty, or has a space or a control character",
    ":path is not a path",
    "a pseudo-field is missing, or one too many",
    "TE is not trailers (RFC 9113 §8.2.2)",
    "the value of a field has a line break, NUL, or white space around it",
    "a field is not allowed as a trailer",
    "a pseudo-field in a trailer section",
];

/// What only the client of this project refuses.
const STRICTER_CLIENT: &[&str] = &[
    "a pseudo-field other than :status",
    "a response with status 101",
    "an interim response ends the stream",
    "the response has more than one Content-Length",
    "the value of a field has a control character",
    "a server sent SETTINGS_ENABLE_PUSH with 1",
];

pub(super) fn of_servers(ours: &Outcome, frame: &[u8]) -> bool {
    of_both(ours, frame)
        || match frame[3] {
            HEADERS | CONTINUATION => ours.accepted.iter().any(|text| text.contains(RAW)),
            // A server still serves the streams that are open; `h2` also ends. And `h2` ignores what only a server may send.
            GOAWAY | PUSH_PROMISE => true,
            _ => false,
        }
}

pub(super) fn of_clients(ours: &Outcome, frame: &[u8]) -> bool {
    of_both(ours, frame)
        || is_refused_for(ours, STRICTER_CLIENT)
        // It is refused before its block is complete.
        || (frame[3] == PUSH_PROMISE && frame[4] & END_HEADERS == 0)
}

fn of_both(ours: &Outcome, frame: &[u8]) -> bool {
    is_refused_for(ours, STRICTER)
        || match frame[3] {
            // The fault of a block is known at its end; `h2` may find it in the first frame.
            HEADERS | CONTINUATION => frame[4] & END_HEADERS == 0 && ours.accepted.is_empty(),
            // A priority for a stream that is not open, which `h2` resets if the stream depends on itself.
            PRIORITY => ours.accepted.is_empty(),
            // `h2` ignores that it must have no stream (RFC 9113 §6.8).
            GOAWAY => frame[5..9] != [0; 4],
            // `h2` does not know RFC 9218 §7.1.
            PRIORITY_UPDATE => true,
            _ => false,
        }
}

fn is_refused_for(ours: &Outcome, reasons: &[&str]) -> bool {
    let refused = ours.refused.as_deref().unwrap_or_default();
    reasons.iter().any(|reason| refused.starts_with(reason))
}
