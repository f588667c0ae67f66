//! One connection of a web server: its requests are told apart and handed out, and share it when they answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use rudy_fastcgi::application::{ApplicationConnection, Event};
use rudy_fastcgi::pairs::Params;
use rudy_fastcgi::record::{encode_end, encode_unknown_type};
use rudy_fastcgi::{Fault, ProtocolStatus, RequestId, Role};
use rudy_http::syntax::parse_digits;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::{Sender, error::TrySendError};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use crate::body::Piece;
use crate::context::{AbortSignal, Context, Log};
use crate::exchange::Exchange;
use crate::listen::{Halves, Reader};
use crate::request::from_params;
use crate::{Body, BodyError, Handler, Responder};

/// How long a connection that is to be closed waits for the rest of a body that nobody reads: closing before it has come
/// would reset the connection, and the answer with it.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// What the requests of one connection share.
pub(super) struct Shared {
    state: Mutex<State>,
    /// Whoever waits longest writes next, so that answers take turns record by record.
    writer: tokio::sync::Mutex<Box<dyn AsyncWrite + Send + Unpin>>,
    /// A request has ended.
    ended: Notify,
}

struct State {
    machine: ApplicationConnection,
    incoming: BTreeMap<RequestId, Incoming>,
    /// How many requests there were.
    serial: u64,
    /// A request has ended that the connection was not to be kept for.
    closes: bool,
    /// Of those, whose bodies had not come as a whole: not more than may be open, because the machine still reads them.
    draining: Vec<RequestId>,
    /// One was refused that the connection was not to be kept for. The machine passes over its body without a word, so that
    /// only the web server's close or [`DRAIN_TIME`] ends the wait for it. Not its number: a peer may have any number of requests
    /// refused while another is served.
    drains_refused: bool,
}

/// A request, as far as something may still come for it.
struct Incoming {
    ticket: Ticket,
    keep_connection: bool,
    role: Role,
    /// They have come, so there is somebody who ends it.
    has_params: bool,
    /// It has had its turn.
    has_begun: bool,
    stdin_ended: bool,
    stdin: Option<Sender<Piece>>,
    data: Option<Sender<Piece>>,
    abort: watch::Sender<bool>,
}

/// Which request it is: numbers are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    id: RequestId,
    serial: u64,
}

impl Ticket {
    pub(super) fn id(&self) -> RequestId {
        self.id
    }
}

impl Shared {
    fn new(writer: Box<dyn AsyncWrite + Send + Unpin>) -> Self {
        let state = State {
            machine: ApplicationConnection::new(),
            incoming: BTreeMap::new(),
            serial: 0,
            closes: false,
            draining: Vec::new(),
            drains_refused: false,
        };
        Self { state: Mutex::new(state), writer: tokio::sync::Mutex::new(writer), ended: Notify::new() }
    }

    /// Writes whole records. If that fails, nobody waits for any answer any more.
    pub(super) async fn write(&self, out: &mut BytesMut) {
        if out.is_empty() {
            return;
        }
        if self.writer.lock().await.write_all(out).await.is_err() {
            self.state().abort_all();
        }
        out.clear();
    }

    /// Ends a request: `out` is what it has still to say.
    pub(super) async fn end(&self, ticket: &Ticket, app_status: u32, out: &mut BytesMut) {
        {
            // Before it is written: the web server may use the number again as soon as it has read that.
            let mut state = self.state();
            if state.incoming.get(&ticket.id).is_some_and(|incoming| incoming.ticket == *ticket) {
                state.end(ticket.id, app_status, ProtocolStatus::RequestComplete, out);
            } else {
                out.clear();
            }
        }
        self.write(out).await;
        self.ended.notify_one();
    }

    /// The request has its turn.
    pub(super) fn begin(&self, ticket: &Ticket) {
        if let Some(incoming) = self.state().incoming.get_mut(&ticket.id)
            && incoming.ticket == *ticket
        {
            incoming.has_begun = true;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Ends a request. If the connection is not kept its number is not used again, and the machine goes on telling what comes
    /// for it, because the end of that has to be waited for.
    fn end(&mut self, id: RequestId, app_status: u32, status: ProtocolStatus, out: &mut BytesMut) {
        let Some(incoming) = self.incoming.remove(&id) else { return };
        if incoming.keep_connection {
            self.machine.end(id, app_status, status, out);
            return;
        }
        encode_end(id, app_status, status, out);
        self.closes = true;
        // An authorizer is sent no body (section 6.3).
        if !incoming.stdin_ended && incoming.role != Role::Authorizer {
            self.draining.push(id);
        }
    }

    /// Nobody waits for answers any more.
    fn abort_all(&mut self) {
        self.incoming.retain(|_, incoming| {
            incoming.abort.send_replace(true);
            // Whoever reads a body hears that no more of it comes.
            incoming.stdin = None;
            incoming.data = None;
            incoming.has_params
        });
    }
}

/// Serves one connection to its end. Its requests end before it does.
pub(super) async fn serve<H: Handler>(
    (mut reader, writer): Halves,
    responder: Arc<Responder<H>>,
    mut stop: watch::Receiver<bool>,
) {
    let shared = Arc::new(Shared::new(writer));
    let mut connection = Connection { shared: shared.clone(), responder, out: BytesMut::new(), stops: false };
    let mut buffer = BytesMut::new();
    let mut has_ended = false;
    let mut drained_by = None;
    loop {
        if let Err(fault) = connection.take(&mut buffer, &reader).await {
            crate::say(&format!("a connection was dropped: {fault}"));
            has_ended = true;
        }
        match connection.phase(has_ended) {
            Phase::Serving => {}
            Phase::Draining => drained_by = drained_by.or(Some(Instant::now() + DRAIN_TIME)),
            Phase::Over => return,
        }
        if buffer.is_empty() {
            buffer = BytesMut::new();
        }
        tokio::select! {
            read = reader.read(&mut buffer), if !has_ended => has_ended = !matches!(read, Ok(1..)),
            () = shared.ended.notified() => {}
            // Its sender outlives us.
            _ = stop.wait_for(|stops| *stops), if !connection.stops => connection.stops = true,
            // Then it is a reset after all.
            () = sleep_until(drained_by.unwrap_or_else(Instant::now)), if drained_by.is_some() => return,
        }
    }
}

/// What a connection is about.
enum Phase {
    /// Requests.
    Serving,
    /// What still comes for one that is over.
    Draining,
    /// Nothing.
    Over,
}

/// The reading side of one connection.
struct Connection<H> {
    shared: Arc<Shared>,
    responder: Arc<Responder<H>>,
    /// Answers that are about the connection, and refusals.
    out: BytesMut,
    /// No more requests are taken.
    stops: bool,
}

/// What an event amounts to, without the buffer that it lies in.
enum Action {
    Nothing,
    Params(RequestId, Params),
    Piece(RequestId, Stream, Piece),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Stdin,
    Data,
}

impl<H: Handler> Connection<H> {
    /// Takes what has come.
    async fn take(&mut self, buffer: &mut BytesMut, reader: &Reader) -> Result<(), Fault> {
        loop {
            let (used, action) = {
                let mut state = self.shared.state();
                let (used, event) = state.machine.decode(buffer, &self.responder.limits)?;
                if event == Event::More {
                    buffer.advance(used);
                    return Ok(());
                }
                (used, note(&mut state, event, &self.responder, self.stops, &mut self.out))
            };
            buffer.advance(used);
            match action {
                Action::Nothing => {}
                Action::Params(id, params) => self.begin(id, params),
                Action::Piece(id, stream, piece) => self.pass_on(id, stream, piece, reader).await,
            }
            // Whoever asks much without reading the answers waits here.
            self.shared.write(&mut self.out).await;
        }
    }

    /// All is known of a request but its body: it waits for its turn.
    fn begin(&self, id: RequestId, params: Params) {
        let mut state = self.shared.state();
        let Some(incoming) = state.incoming.get_mut(&id) else { return };
        incoming.has_params = true;
        let parsed = from_params(&params);
        let expected = parsed.as_ref().ok().and_then(|(_, length)| *length);
        let body = match incoming.role {
            // Section 6.3: it is asked without the body.
            Role::Authorizer => Body::empty(),
            Role::Responder | Role::Filter => incoming.open(Stream::Stdin, expected),
        };
        let data = (incoming.role == Role::Filter).then(|| incoming.open(Stream::Data, data_length(&params)));
        let aborted = AbortSignal::new(incoming.abort.subscribe());
        let log = Log::default();
        let context = Context {
            params,
            role: incoming.role,
            aborted: aborted.clone(),
            log: log.clone(),
            data: Arc::new(Mutex::new(data)),
        };
        let (parts, why) = match parsed {
            Ok((request, _)) => (request, None),
            Err(wrong) => (http::Request::new(()), Some(wrong.to_string())),
        };
        let mut request = parts.map(|()| body);
        request.extensions_mut().insert(context);
        let exchange =
            Exchange { connection: self.shared.clone(), ticket: incoming.ticket, request, aborted, log };
        drop(state);
        match why {
            None => self.responder.clone().spawn(exchange),
            Some(why) => drop(tokio::spawn(async move { exchange.refuse(&why).await })),
        }
    }

    /// Passes a piece of a body on, and waits where the handler is slower: then nothing is read of the connection.
    async fn pass_on(&mut self, id: RequestId, stream: Stream, piece: Piece, reader: &Reader) {
        let is_end = matches!(piece, Piece::End);
        let sender = {
            let mut state = self.shared.state();
            if is_end && stream == Stream::Stdin {
                state.draining.retain(|other| *other != id);
            }
            let Some(incoming) = state.incoming.get_mut(&id) else { return };
            incoming.stdin_ended |= is_end && stream == Stream::Stdin;
            let slot = incoming.stream(stream);
            // Nothing comes behind the end.
            if is_end { slot.take() } else { slot.clone() }
        };
        let Some(sender) = sender else { return };
        // If it fails, nobody wants the body any more.
        if let Err(TrySendError::Full(piece)) = sender.try_send(piece)
            && !self.refuse_waiting(id)
        {
            tokio::select! {
                _ = sender.send(piece) => {}
                () = reader.hung_up() => self.shared.state().abort_all(),
            }
        }
    }

    /// Refuses a request that has not had its turn and whose body would keep others from coming, who may be what it waits for.
    fn refuse_waiting(&mut self, id: RequestId) -> bool {
        let mut state = self.shared.state();
        let shares = state.incoming.len() > 1;
        let Some(incoming) = state.incoming.get(&id).filter(|incoming| shares && !incoming.has_begun) else {
            return false;
        };
        incoming.abort.send_replace(true);
        state.end(id, 0, ProtocolStatus::Overloaded, &mut self.out);
        true
    }

    fn phase(&self, has_ended: bool) -> Phase {
        let mut state = self.shared.state();
        if has_ended {
            state.abort_all();
        }
        match (state.incoming.is_empty(), state.closes) {
            (true, _) if has_ended => Phase::Over,
            (true, true) if state.drains_refused || !state.draining.is_empty() => Phase::Draining,
            (true, closes) if closes || self.stops => Phase::Over,
            _ => Phase::Serving,
        }
    }
}

/// Does at once what an event asks for, and says what is left to do.
fn note<H>(
    state: &mut State,
    event: Event<'_>,
    responder: &Responder<H>,
    stops: bool,
    out: &mut BytesMut,
) -> Action {
    match event {
        Event::Begin { id, role, keep_connection } => {
            state.serial += 1;
            let incoming = Incoming {
                ticket: Ticket { id, serial: state.serial },
                keep_connection,
                role,
                has_params: false,
                has_begun: false,
                stdin_ended: false,
                stdin: None,
                data: None,
                abort: watch::Sender::new(false),
            };
            state.incoming.insert(id, incoming);
            if !responder.roles.contains(&role) {
                state.end(id, 0, ProtocolStatus::UnknownRole, out);
            } else if stops {
                state.end(id, 0, ProtocolStatus::Overloaded, out);
            }
        }
        Event::Rejected { id, status, keep_connection } => {
            encode_end(id, 0, status, out);
            if !keep_connection {
                state.closes = true;
                state.drains_refused = true;
            }
        }
        Event::Abort { id } => {
            if let Some(incoming) = state.incoming.get(&id) {
                incoming.abort.send_replace(true);
                if !incoming.has_params {
                    state.end(id, 0, ProtocolStatus::RequestComplete, out);
                }
            }
        }
        Event::GetValues(asked) => responder.values().encode_result(&asked, out),
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

/// A copy: pieces that were kept would each keep the buffer that it lies in.
fn piece(id: RequestId, stream: Stream, data: &[u8]) -> Action {
    Action::Piece(id, stream, Piece::Data(Bytes::copy_from_slice(data)))
}

impl Incoming {
    /// Begins to pass a stream on.
    fn open(&mut self, stream: Stream, expected: Option<u64>) -> Body {
        let (sender, body) = Body::pieces(expected, BodyError::Aborted);
        *self.stream(stream) = Some(sender);
        body
    }

    fn stream(&mut self, stream: Stream) -> &mut Option<Sender<Piece>> {
        match stream {
            Stream::Stdin => &mut self.stdin,
            Stream::Data => &mut self.data,
        }
    }
}

/// How much a filter is to filter (section 6.4).
fn data_length(params: &Params) -> Option<u64> {
    parse_digits(params.get("FCGI_DATA_LENGTH")?)
}

#[cfg(test)]
mod tests {
    use http::Response;

    use rudy_fastcgi::record::encode_begin;

    use super::*;
    use crate::{Concurrency, Server};

    #[test]
    fn refused_requests_leave_nothing_behind() {
        let server = Server::new(Concurrency::Tasks { at_most: 1 });
        let handler = |_: http::Request<Body>| async { Response::new(String::new()) };
        let responder = Responder::new(&server, handler);
        let shared = Shared::new(Box::new(tokio::io::sink()));
        let (mut state, mut out) = (shared.state(), BytesMut::new());
        for number in (1..=u16::MAX).cycle().take(100_000) {
            let id = RequestId::new(number).expect("it is not 0");
            let refused = Event::Rejected { id, status: ProtocolStatus::Overloaded, keep_connection: false };
            note(&mut state, refused, &responder, false, &mut out);
            assert_eq!((out.len(), state.incoming.len(), state.draining.len()), (16, 0, 0));
            out.clear();
        }
        assert!(state.closes);
    }

    #[test]
    fn no_more_requests_are_drained_than_may_be_open() {
        let responder = Responder::new(
            &Server::new(Concurrency::Tasks { at_most: 1 }),
            async |_: http::Request<Body>| Response::new(String::new()),
        );
        let shared = Shared::new(Box::new(tokio::io::sink()));
        let (mut state, mut input, mut out) = (shared.state(), BytesMut::new(), BytesMut::new());
        for id in (1..=u16::MAX).filter_map(RequestId::new) {
            // The app has no such role, so the request ends as soon as it begins.
            encode_begin(id, Role::Filter, false, &mut input);
            let (used, event) = state.machine.decode(&input, &responder.limits).expect("it is FastCGI");
            note(&mut state, event, &responder, false, &mut out);
            input.advance(used);
        }
        assert_eq!(out.len(), 16 * usize::from(u16::MAX), "each is ended");
        assert_eq!(state.draining.len(), usize::from(responder.limits.open_requests));
        assert!(state.incoming.is_empty() && state.drains_refused);
    }
}
