//! The clients, whose requests are sent before the frames that are compared.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Method, Request, Version, header};
use rudy_http::Limits;
use rudy_http::h2::client::{self as h2_client, ClientConnection, Event, HeadBuffers};
use rudy_message::BodyLength;
use rudy_message::client::RequestHead;

use super::pipe::{Pipe, add_reset, read_body};
use super::{HEAD_BYTES, MANY, Outcome, Side, describe_fields, limits};

/// The methods of the requests. That with POST has a body, which never ends.
const REQUESTS: [Method; 4] = [Method::GET, Method::HEAD, Method::POST, Method::GET];

fn add_head<'f>(
    stream: u32,
    status: u16,
    fields: impl Iterator<Item = (&'f str, &'f [u8])>,
    outcome: &mut Outcome,
) {
    outcome.accepted.push(format!("{stream} {status} {:?}", describe_fields(fields)));
}

/// The state machine of this project.
pub(super) struct Ours {
    connection: ClientConnection,
    limits: Limits,
    buffers: HeadBuffers,
    now: Instant,
    out: BytesMut,
}

impl Ours {
    pub(super) fn new() -> Self {
        let (now, limits, mut out) = (Instant::now(), limits(), BytesMut::new());
        let mut connection = ClientConnection::new(now, &limits, &mut out);
        let mut fields = HeaderMap::new();
        fields.insert(header::HOST, HeaderValue::from_static("a"));
        for method in &REQUESTS {
            let body = if method == Method::POST { BodyLength::Chunked } else { BodyLength::Known(0) };
            let head = RequestHead {
                method,
                target: "/",
                version: Version::HTTP_11,
                fields: (&fields).into(),
                body,
            };
            let request = h2_client::Request::new(&head, "http").expect("a valid request");
            connection.request(&request, &mut out).expect("a stream is available");
        }
        Self { connection, limits, buffers: HeadBuffers::default(), now, out }
    }
}

impl Side for Ours {
    fn receive(&mut self, mut input: &[u8]) -> Outcome {
        let (mut outcome, connection) = (Outcome::default(), &mut self.connection);
        loop {
            let received =
                connection.receive(&mut input, &mut self.buffers, self.now, &self.limits, &mut self.out);
            match received {
                Ok(None) => return outcome,
                Err(error) => {
                    outcome.fail(&error.reason);
                    return outcome;
                }
                Ok(Some(event)) => {
                    if let Event::Data { stream, data, .. } = event {
                        connection.pass_on(stream, data.len(), &mut self.out);
                    }
                    add(event, &mut outcome);
                }
            }
        }
    }
}

fn add(event: Event<'_>, outcome: &mut Outcome) {
    match event {
        Event::Informational { stream, head } => add_head(stream, head.status(), head.fields(), outcome),
        Event::Head { stream, head, ends } => {
            add_head(stream, head.status(), head.fields(), outcome);
            if ends {
                outcome.end(stream, None);
            }
        }
        Event::Data { stream, data, ends } => {
            outcome.data(stream, data);
            if ends {
                outcome.end(stream, None);
            }
        }
        Event::End { stream, trailers } => outcome.end(stream, trailers.as_ref()),
        Event::Reset { reason: Some(reason), .. } => outcome.refused = Some(reason.to_owned()),
        Event::Reset { stream, code, reason: None } => outcome.reset(stream, code.0),
        Event::GoAway { .. } | Event::Settings => {}
    }
}

/// A request whose stream remains open.
struct Exchange {
    stream: u32,
    request: SendStream<Bytes>,
    /// Until the head of the response.
    response: Option<ResponseFuture>,
    /// Until the end of the response.
    body: Option<RecvStream>,
    is_reset: bool,
}

/// The client of the crate `h2`.
pub(super) struct Theirs {
    pipe: Pipe,
    connection: Connection<Pipe, Bytes>,
    exchanges: Vec<Exchange>,
    /// Without it, the connection ends with the last response.
    _sender: SendRequest<Bytes>,
}

impl Theirs {
    pub(super) fn new() -> Self {
        let (pipe, mut builder) = (Pipe::default(), Builder::new());
        builder
            .enable_push(false)
            .max_header_list_size(HEAD_BYTES)
            .max_concurrent_reset_streams(MANY as usize)
            .max_pending_accept_reset_streams(MANY as usize)
            .max_local_error_reset_streams(None)
            .data_frame_budget(MANY as usize);
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(Ok((mut sender, mut connection))) =
            pin!(builder.handshake(pipe.clone())).poll(&mut context)
        else {
            panic!("a client does not wait for the server");
        };
        let exchanges = REQUESTS.map(|method| {
            let has_body = method == Method::POST;
            let request = Request::builder().method(method).uri("http://a/").body(()).expect("a request");
            let (response, request) = sender.send_request(request, !has_body).expect("a stream is available");
            assert!(Pin::new(&mut connection).poll(&mut context).is_pending());
            let stream = request.stream_id().as_u32();
            Exchange { stream, request, response: Some(response), body: None, is_reset: false }
        });
        pipe.take_refusal(&mut Outcome::default());
        Self { pipe, connection, exchanges: exchanges.into(), _sender: sender }
    }
}

impl Exchange {
    fn read(&mut self, context: &mut Context<'_>, frame: &[u8], outcome: &mut Outcome) {
        if !self.is_reset
            && outcome.refused.is_none()
            && let Poll::Ready(Ok(code)) = self.request.poll_reset(context)
        {
            (self.response, self.body, self.is_reset) = (None, None, true);
            add_reset(frame, self.stream, code, outcome);
        }
        self.read_head(context, outcome);
        read_body(self.stream, &mut self.body, context, outcome);
    }

    fn read_head(&mut self, context: &mut Context<'_>, outcome: &mut Outcome) {
        let Some(response) = &mut self.response else { return };
        let mut add = |status: u16, fields: &HeaderMap| {
            let fields = fields.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
            add_head(self.stream, status, fields, outcome);
        };
        while let Poll::Ready(Some(Ok(head))) = response.poll_informational(context) {
            add(head.status().as_u16(), head.headers());
        }
        match Pin::new(response).poll(context) {
            Poll::Ready(Ok(head)) => {
                add(head.status().as_u16(), head.headers());
                (self.response, self.body) = (None, Some(head.into_body()));
            }
            Poll::Ready(Err(_)) => self.response = None,
            Poll::Pending => {}
        }
    }
}

impl Side for Theirs {
    fn receive(&mut self, frame: &[u8]) -> Outcome {
        self.pipe.send(frame);
        let (mut outcome, mut context) = (Outcome::default(), Context::from_waker(Waker::noop()));
        // Windows are opened in the second round.
        for _ in 0..2 {
            if !outcome.has_ended
                && let Poll::Ready(end) = Pin::new(&mut self.connection).poll(&mut context)
            {
                outcome.has_ended = true;
                // The GOAWAY of the server is an error, too.
                if let Err(error) = end
                    && !error.is_remote()
                {
                    outcome.fail(&error);
                }
            }
            // A GOAWAY ends the newest first.
            for exchange in self.exchanges.iter_mut().rev() {
                exchange.read(&mut context, frame, &mut outcome);
            }
        }
        self.pipe.take_refusal(&mut outcome);
        outcome
    }
}
