//! Distributed traces as values: what HTTP requests say of the trace that they belong to, and spans as collectors read them.
//!
//! - [`Parent`] is `traceparent`, and [`tracestate`] the field beside it (W3C Trace Context).
//! - [`otlp`] encodes spans as protobuf (OTLP), and decodes the response of a collector.
//!
//! The crate has no clock and no chance: the caller passes times and random bits.
//!
//! # Example
//!
//! ```
//! use rudy_trace::{Parent, SpanId};
//!
//! let received = Parent::parse(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
//! assert!(received.is_sampled());
//! let sent = received.with_span(SpanId::from_bits(0x1f));
//! assert_eq!(&sent.value(), b"00-4bf92f3577b34da6a3ce929d0e0e4736-000000000000001f-01");
//! ```

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

mod context;
mod ids;
pub mod otlp;
mod protobuf;
pub mod tracestate;

pub use self::context::{Parent, VALUE_BYTES};
pub use self::ids::{SpanId, TraceId};
