//! Drives the state machines for both ends of FastCGI, and records their events.

use bytes::BytesMut;
use rudy_fastcgi::application::{self, ApplicationConnection};
use rudy_fastcgi::cgi::{HeadDecoder, ResponseKind};
use rudy_fastcgi::gateway::{self, GatewayConnection};
use rudy_fastcgi::record::encode_end;
use rudy_fastcgi::{Fault, Limits, ProtocolStatus, Role};

/// Decodes the output of an application, split in several ways, which must give the same result. `requests` have begun on the
/// connection, and all except the last are complete.
pub(crate) fn read_as_gateway(requests: usize, asks: bool, bytes: &[u8], piece_bytes: usize) {
    let new = || {
        let (mut connection, mut out) = (GatewayConnection::new(), BytesMut::new());
        for round in 1..=requests {
            let id = connection.begin(Role::Responder, true, &mut out);
            if round < requests {
                let mut end = BytesMut::new();
                encode_end(id, 0, ProtocolStatus::RequestComplete, &mut end);
                connection.decode(&end, &limits()).expect("the request is in progress");
            }
        }
        if asks {
            connection.query_values(&mut out);
        }
        connection
    };
    let decode = |connection: &mut GatewayConnection, bytes: &[u8], seen: &mut Transcript| {
        use gateway::Event;
        let (used, event) = connection.decode(bytes, &limits())?;
        match event {
            Event::More => return Ok((used, true)),
            Event::Stdout(data) => seen.record("out ", data),
            Event::Stderr(data) => seen.record("err ", data),
            other => seen.events.push(format!("{other:?}")),
        }
        let is_of_a_request = !matches!(event, Event::Values(_) | Event::UnknownType(_));
        assert!(!is_of_a_request || connection.is_idle() == matches!(event, Event::End { .. }));
        Ok((used, false))
    };
    read_at_splits(new, decode, bytes, piece_bytes);
}

/// Decodes the output of a web server, split in several ways, which must give the same result.
pub(crate) fn read_as_application(bytes: &[u8], piece_bytes: usize) {
    let decode = |connection: &mut ApplicationConnection, bytes: &[u8], seen: &mut Transcript| {
        use application::Event;
        let (used, event) = connection.decode(bytes, &limits())?;
        match event {
            Event::More => return Ok((used, true)),
            Event::Stdin { id, data } => seen.record(&format!("{id} in "), data),
            Event::Data { id, data } => seen.record(&format!("{id} data "), data),
            Event::StdinEnd { id } => {
                let (mut out, before) = (BytesMut::new(), connection.open_requests());
                connection.end(id, 0, ProtocolStatus::RequestComplete, &mut out);
                assert_eq!((connection.open_requests(), out.len()), (before - 1, 16));
                seen.events.push(format!("{id} in ends"));
            }
            Event::Params { id, params } => {
                assert_eq!(params.iter().count(), params.len());
                assert!(params.len() <= limits().params_count, "more parameters than the limit");
                let bytes: usize = params.iter().map(|(name, value)| name.len() + value.len()).sum();
                assert!(bytes <= limits().params_bytes, "larger parameters than the limit");
                seen.events.push(format!("{id} {params:?}"));
            }
            other => seen.events.push(format!("{other:?}")),
        }
        assert!(connection.open_requests() <= usize::from(limits().open_requests));
        Ok((used, false))
    };
    read_at_splits(ApplicationConnection::new, decode, bytes, piece_bytes);
}

/// Decodes a response whose head arrives in `pieces`, and describes it.
pub(crate) fn read_head<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut decoder = HeadDecoder::new();
    let mut pieces = pieces.into_iter();
    while let Some(piece) = pieces.next() {
        match decoder.decode(piece, &limits()) {
            Ok(None) => {}
            Err(error) => return name(&error),
            Ok(Some((used, head))) => {
                let fields = head.fields.to_map();
                assert!(fields.len() <= limits().head_fields);
                assert!(!fields.contains_key("connection") && !fields.contains_key("status"));
                if let ResponseKind::LocalRedirect(path) = &head.kind {
                    assert!(path.starts_with('/') && !path.starts_with("//"), "not on this server: {path}");
                }
                let mut body = piece[used..].to_vec();
                pieces.for_each(|piece| body.extend_from_slice(piece));
                return format!("{head:?} {}", body.escape_ascii());
            }
        }
    }
    name(&decoder.end_of_input())
}

/// Returns limits that short inputs reach.
fn limits() -> Limits {
    Limits {
        params_bytes: 64,
        params_count: 4,
        open_requests: 3,
        management_bytes: 64,
        head_bytes: 128,
        head_fields: 5,
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Transcript {
    events: Vec<String>,
}

impl Transcript {
    /// Records data, joined with the previous piece of the same stream.
    fn record(&mut self, what: &str, data: &[u8]) {
        assert!(!data.is_empty(), "a piece is not empty");
        let data = data.escape_ascii().to_string();
        match self.events.last_mut() {
            Some(last) if last.starts_with(what) => last.push_str(&data),
            _ => self.events.push(format!("{what}{data}")),
        }
    }
}

/// Decodes with new state machines. `decode` returns the used bytes, and whether it needs more input.
fn read_at_splits<M>(
    new: impl Fn() -> M,
    decode: impl Fn(&mut M, &[u8], &mut Transcript) -> Result<(usize, bool), Fault>,
    bytes: &[u8],
    piece_bytes: usize,
) {
    let read = |pieces: std::slice::Chunks<'_, u8>| {
        let (mut machine, mut seen, mut pending) = (new(), Transcript::default(), Vec::new());
        for piece in pieces {
            pending.extend_from_slice(piece);
            loop {
                match decode(&mut machine, &pending, &mut seen) {
                    Ok((used, needs_more)) => {
                        pending.drain(..used);
                        if needs_more {
                            break;
                        }
                    }
                    Err(fault) => {
                        seen.events.push(name(&fault));
                        let after = decode(&mut machine, &pending, &mut seen);
                        assert_eq!(after, Ok((0, true)), "nothing is decoded after a fault");
                        return seen;
                    }
                }
            }
            assert!(pending.len() <= usize::from(limits().management_bytes) + 8, "too many bytes are left");
        }
        seen
    };
    let whole = read(bytes.chunks(bytes.len().max(1)));
    assert_eq!(read(bytes.chunks(1)), whole, "byte by byte");
    assert_eq!(read(bytes.chunks(piece_bytes.max(1))), whole, "in pieces of {piece_bytes}");
}

/// Returns the name of an error without its excerpt, which depends on the bytes available.
fn name(error: &impl std::fmt::Debug) -> String {
    let text = format!("{error:?}");
    text.split(['(', '{']).next().unwrap_or_default().to_owned()
}
