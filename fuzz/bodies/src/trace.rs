//! What other programs write about traces: the fields of requests, and the responses of collectors.

use rudy_trace::otlp::{Accepted, error_message};
use rudy_trace::{Parent, tracestate};

/// A `traceparent`, the lines of a `tracestate`, and the body of a response. What is passed on is received as it was sent.
pub(crate) fn run(data: &[u8]) {
    if let Some(parent) = Parent::parse(data) {
        assert_eq!(Parent::parse(&parent.value()), Some(parent));
        assert_eq!(&data.trim_ascii()[3..52], &parent.value()[3..52], "the ids stay");
    }
    if let Some(state) = tracestate::join(data.split(|byte| *byte == b'\n')) {
        assert!(state.len() <= tracestate::BYTES_MAX, "{state}");
        assert_eq!(tracestate::join([state.as_bytes()].into_iter()).as_deref(), Some(&*state));
    }
    let _ = (Accepted::decode(data), error_message(data));
}
