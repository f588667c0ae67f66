//! A connection from a web server, whose requests run concurrently and share it for their responses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use rudy_fastcgi::application::Event;
use rudy_fastcgi::pairs::Params;
use rudy_fastcgi::record::{encode_end, encode_unknown_type};
use rudy_fastcgi::{Fault, ProtocolStatus, RequestId, Role};
use rudy_message::syntax::parse_digits;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::body::Piece;
use crate::context::{AbortSignal, Context, Log};
use crate::exchange::Exchange;
use crate::listen::{Halves, Reader};
use crate::request::from_params;
use crate::shared::{OpenRequest, RequestKey, Shared, State, Stream};
use crate::{App, Body, Handler};

/// How long to wait for the rest of unread bodies before closing a connection. Closing with unread input would reset the
/// connection, and the client might lose the response.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves one connection until it is closed and all its requests have ended.
pub(super) async fn serve<H: Handler>(
    (mut reader, writer): Halves,
    app: Arc<App<H>>,
    mut stop: watch::Receiver<bool>,
) {
    let shared = Arc::new(Shared::new(writer));
    let mut connection = Connection { shared: shared.clone(), app, out: BytesMut::new(), is_stopping: false };
    let mut buffer = BytesMut::new();
    let mut has_ended = false;
    let mut drained_by = None;
    loop {
        if let Err(fault) = connection.handle_input(&mut buffer, &reader).await {
            crate::log(&format!("closing a connection: {fault}"));
            has_ended = true;
        }
        match connection.phase(has_ended) {
            Phase::Serving => {}
            Phase::Draining => drained_by = drained_by.or(Some(Instant::now() + DRAIN_TIMEOUT)),
            Phase::Over => return,
        }
        if buffer.is_empty() {
            buffer = BytesMut::new();
        }
        tokio::select! {
            read = reader.read(&mut buffer), if !has_ended => has_ended = !matches!(read, Ok(1..)),
            () = shared.ended.notified() => {}
            // The sender outlives this future.
            _ = stop.wait_for(|is_stopping| *is_stopping), if !connection.is_stopping => connection.is_stopping = true,
            // The web server sends no more, so closing may reset the connection.
            () = sleep_until(drained_by.unwrap_or_else(Instant::now)), if drained_by.is_some() => return,
        }
    }
}

/// The phase of a connection.
enum Phase {
    /// Serving requests.
    Serving,
    /// Reading the rest of bodies of ended requests, or writing the last output, before closing.
    Draining,
    /// Finished.
    Over,
}

/// The reading side of a connection.
struct Connection<H> {
    shared: Arc<Shared>,
    app: Arc<App<H>>,
    /// Replies to management records, and rejections.
    out: BytesMut,
    /// Whether the app is stopping and rejects new requests.
    is_stopping: bool,
}

/// The work left after an event, independent of the input buffer.
enum Action {
    Nothing,
    Params(RequestId, Params),
    Piece(RequestId, Stream, Piece),
}

impl<H: Handler> Connection<H> {
    /// Decodes and handles all input in the buffer.
    async fn handle_input(&mut self, buffer: &mut BytesMut, reader: &Reader) -> Result<(), Fault> {
        loop {
            let (used, action) = {
                let mut state = self.shared.state();
                let (used, event) = state.protocol.decode(buffer, &self.app.limits)?;
                if event == Event::More {
                    buffer.advance(used);
                    return Ok(());
                }
                (used, handle_event(&mut state, event, &self.app, self.is_stopping, &mut self.out))
            };
            buffer.advance(used);
            match action {
                Action::Nothing => {}
                Action::Params(id, params) => self.begin(id, params),
                Action::Piece(id, stream, piece) => self.forward(id, stream, piece, reader).await,
            }
            // A web server that sends queries without reading the replies blocks here.
            self.shared.write(&mut self.out).await;
        }
    }

    /// Starts a request whose parameters are complete.
    fn begin(&self, id: RequestId, params: Params) {
        let mut state = self.shared.state();
        let Some(open_request) = state.requests.get_mut(&id) else { return };
        open_request.has_params = true;
        let parsed = from_params(&params);
        let expected = parsed.as_ref().ok().and_then(|(_, length)| *length);
        let body = match open_request.role {
            // Section 6.3: an authorizer gets no body.
            Role::Authorizer => Body::empty(),
            Role::Responder | Role::Filter => open_request.open_stream(Stream::Stdin, expected),
        };
        let data = (open_request.role == Role::Filter)
            .then(|| open_request.open_stream(Stream::Data, data_length(&params)));
        let aborted = AbortSignal::new(open_request.abort.subscribe());
        let log = Log::default();
        let context = Context {
            params,
            role: open_request.role,
            aborted: aborted.clone(),
            log: log.clone(),
            data: Arc::new(Mutex::new(data)),
        };
        let (parts, error) = match parsed {
            Ok((request, _)) => (request, None),
            Err(wrong) => (http::Request::new(()), Some(wrong.to_string())),
        };
        let mut request = parts.map(|()| body);
        request.extensions_mut().insert(context);
        let exchange =
            Exchange { connection: self.shared.clone(), key: open_request.key, request, aborted, log };
        drop(state);
        match error {
            None => self.app.clone().spawn(exchange),
            Some(error) => drop(tokio::spawn(async move { exchange.reject(&error).await })),
        }
    }

    /// Forwards a piece of a body to the handler. Waits while the handler is slower, without reading the connection.
    async fn forward(&mut self, id: RequestId, stream: Stream, piece: Piece, reader: &Reader) {
        let is_end = matches!(piece, Piece::End);
        let sender = {
            let mut state = self.shared.state();
            if is_end && stream == Stream::Stdin {
                state.draining.retain(|other| *other != id);
            }
            let Some(open_request) = state.requests.get_mut(&id) else { return };
            open_request.stdin_ended |= is_end && stream == Stream::Stdin;
            let sender = open_request.stream(stream);
            // The stream ends after this piece.
            if is_end { sender.take() } else { sender.clone() }
        };
        let Some(sender) = sender else { return };
        // An error means that the body was dropped.
        if let Err(TrySendError::Full(piece)) = sender.try_send(piece)
            && !self.reject_waiting(id)
        {
            tokio::select! {
                _ = sender.send(piece) => {}
                () = reader.closed_by_peer() => self.shared.state().abort_all(),
            }
        }
    }

    /// Rejects a waiting request whose body blocks others on the connection: the permit that it waits for may be theirs.
    fn reject_waiting(&mut self, id: RequestId) -> bool {
        let mut state = self.shared.state();
        let is_shared = state.requests.len() > 1;
        let Some(open_request) =
            state.requests.get(&id).filter(|open_request| is_shared && !open_request.has_permit)
        else {
            return false;
        };
        open_request.abort.send_replace(true);
        state.end(id, 0, ProtocolStatus::Overloaded, &mut self.out);
        true
    }

    fn phase(&self, has_ended: bool) -> Phase {
        let mut state = self.shared.state();
        if has_ended {
            state.abort_all();
        }
        match (state.requests.is_empty(), state.closes_when_idle) {
            (true, _) if has_ended => Phase::Over,
            // A stop ends the process with its last connection, unless the web server does not read.
            (true, _) if state.unwritten > 0 && self.is_stopping => Phase::Draining,
            (true, _) if state.unwritten > 0 => Phase::Serving,
            (true, true) if state.drains_rejected || !state.draining.is_empty() => Phase::Draining,
            (true, closes_when_idle) if closes_when_idle || self.is_stopping => Phase::Over,
            _ => Phase::Serving,
        }
    }
}

/// Handles an event, and returns the work that is left.
fn handle_event<H>(
    state: &mut State,
    event: Event<'_>,
    app: &App<H>,
    is_stopping: bool,
    out: &mut BytesMut,
) -> Action {
    match event {
        Event::Begin { id, role, keep_connection } => {
            state.serial += 1;
            let open_request = OpenRequest {
                key: RequestKey::new(id, state.serial),
                keep_connection,
                role,
                has_params: false,
                has_permit: false,
                stdin_ended: false,
                stdin: None,
                data: None,
                abort: watch::Sender::new(false),
            };
            state.requests.insert(id, open_request);
            if !app.roles.contains(&role) {
                state.end(id, 0, ProtocolStatus::UnknownRole, out);
            } else if is_stopping {
                state.end(id, 0, ProtocolStatus::Overloaded, out);
            }
        }
        Event::Rejected { id, status, keep_connection } => {
            encode_end(id, 0, status, out);
            if !keep_connection {
                state.closes_when_idle = true;
                state.drains_rejected = true;
            }
        }
        Event::Abort { id } => {
            if let Some(open_request) = state.requests.get(&id) {
                open_request.abort.send_replace(true);
                if !open_request.has_params {
                    state.end(id, 0, ProtocolStatus::RequestComplete, out);
                }
            }
        }
        Event::GetValues(query) => app.values().encode_result(&query, out),
        Event::UnknownType(number) => encode_unknown_type(number, out),
        Event::Params { id, params } => return Action::Params(id, params),
        Event::Stdin { id, data } => return piece(id, Stream::Stdin, data),
        Event::Data { id, data } => return piece(id, Stream::Data, data),
        Event::StdinEnd { id } => return Action::Piece(id, Stream::Stdin, Piece::End),
        Event::DataEnd { id } => return Action::Piece(id, Stream::Data, Piece::End),
        Event::More => {}
    }
    Action::Nothing
}

/// Copies a piece, because a slice would keep the whole input buffer in memory.
fn piece(id: RequestId, stream: Stream, data: &[u8]) -> Action {
    Action::Piece(id, stream, Piece::Data(Bytes::copy_from_slice(data)))
}

/// The length of the file to filter (section 6.4).
fn data_length(params: &Params) -> Option<u64> {
    parse_digits(params.get("FCGI_DATA_LENGTH")?)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use http::Response;

    use rudy_fastcgi::record::encode_begin;
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::{Concurrency, Server};

    #[test]
    fn rejected_requests_use_no_memory() {
        let server = Server::new(Concurrency::Tasks { at_most: 1 });
        let handler = |_: http::Request<Body>| async { Response::new(String::new()) };
        let app = App::new(&server, handler);
        let shared = Shared::new(Box::new(tokio::io::sink()));
        let (mut state, mut out) = (shared.state(), BytesMut::new());
        for number in (1..=u16::MAX).cycle().take(100_000) {
            let id = RequestId::new(number).expect("the number is not 0");
            let rejected = Event::Rejected { id, status: ProtocolStatus::Overloaded, keep_connection: false };
            handle_event(&mut state, rejected, &app, false, &mut out);
            assert_eq!((out.len(), state.requests.len(), state.draining.len()), (16, 0, 0));
            out.clear();
        }
        assert!(state.closes_when_idle);
    }

    #[tokio::test]
    async fn a_connection_stays_until_its_last_output_is_written() {
        let app =
            App::new(&Server::new(Concurrency::Tasks { at_most: 1 }), async |_: http::Request<Body>| {
                Response::new(String::new())
            });
        // The peer has space for less than the output.
        let (socket, mut peer) = tokio::io::duplex(16);
        let shared = Arc::new(Shared::new(Box::new(socket)));
        let (mut input, mut out) = (BytesMut::new(), BytesMut::new());
        let id = RequestId::MIN;
        encode_begin(id, Role::Responder, true, &mut input);
        let key = {
            let mut state = shared.state();
            let (_, event) = state.protocol.decode(&input, &app.limits).expect("the record is valid");
            handle_event(&mut state, event, &app, false, &mut out);
            state.requests[&id].key
        };
        let connection = Connection {
            shared: shared.clone(),
            app: Arc::new(app),
            out: BytesMut::new(),
            is_stopping: true,
        };
        out.extend_from_slice(&[0; 20]);
        let mut end = pin!(shared.end(&key, 0, &mut out));
        tokio::select! {
            biased;
            () = &mut end => panic!("the peer has not read the output"),
            () = std::future::ready(()) => {}
        }
        assert!(matches!(connection.phase(false), Phase::Draining));
        let mut received = [0; 20 + 16];
        let (read, ()) = tokio::join!(peer.read_exact(&mut received), end);
        assert_eq!(read.expect("the output is complete"), received.len());
        assert!(matches!(connection.phase(false), Phase::Over));
    }

    #[test]
    fn the_number_of_draining_requests_is_limited() {
        let app =
            App::new(&Server::new(Concurrency::Tasks { at_most: 1 }), async |_: http::Request<Body>| {
                Response::new(String::new())
            });
        let shared = Shared::new(Box::new(tokio::io::sink()));
        let (mut state, mut input, mut out) = (shared.state(), BytesMut::new(), BytesMut::new());
        for id in (1..=u16::MAX).filter_map(RequestId::new) {
            // The app does not have this role, so the request ends as soon as it begins.
            encode_begin(id, Role::Filter, false, &mut input);
            let (used, event) = state.protocol.decode(&input, &app.limits).expect("the record is valid");
            handle_event(&mut state, event, &app, false, &mut out);
            input.advance(used);
        }
        assert_eq!(out.len(), 16 * usize::from(u16::MAX), "each request has ended");
        assert_eq!(state.draining.len(), usize::from(app.limits.open_requests));
        assert!(state.requests.is_empty() && state.drains_rejected);
    }
}
