//! Runs a case against the state machine alone. Time is virtual and passes only in `wait` steps.

use std::time::{Duration, Instant, UNIX_EPOCH};

use bytes::BytesMut;
use http::request;
use rudy_http::Limits;
use rudy_http::Pace;
use rudy_http::h1::{Event, Phase, ServerConnection, Timeout};
use rudy_message::{BodyLength, DateLine, LengthError, Rejection, ResponseHead};

use super::site::{self, ResponseBody, SiteResponse, WholeBody};
use super::{Case, End, Step, Transcript};

/// Runs `case` with input in pieces of at most `piece_bytes`; the first piece has at most `first_bytes`.
pub fn run(case: &Case, first_bytes: usize, piece_bytes: usize) -> Transcript {
    let mut run = Run::new(&case.limits);
    let mut left_of_first = first_bytes;
    for step in &case.steps {
        match step {
            Step::Send(bytes) => {
                let (first, rest) = bytes.split_at(left_of_first.min(bytes.len()));
                left_of_first -= first.len();
                first
                    .chunks(piece_bytes)
                    .chain(rest.chunks(piece_bytes))
                    .for_each(|piece| run.receive(piece));
            }
            Step::Wait(time) => run.wait(*time),
            Step::EndOfInput => run.end_of_input(),
        }
    }
    run.into_transcript()
}

/// A caller of the state machine without sockets. Its service responds as soon as the request is complete.
struct Run<'a> {
    connection: ServerConnection,
    limits: &'a Limits,
    now: Instant,
    date: DateLine,
    output: BytesMut,
    saw: Vec<String>,
    /// The request whose body the service reads.
    reading: Option<(request::Parts, WholeBody)>,
    pace: Pace,
    end: End,
}

impl<'a> Run<'a> {
    fn new(limits: &'a Limits) -> Self {
        let now = Instant::now();
        Self {
            connection: ServerConnection::new(now),
            limits,
            now,
            date: DateLine::new(UNIX_EPOCH + Duration::from_secs(site::DATE_SECONDS)),
            output: BytesMut::new(),
            saw: Vec::new(),
            reading: None,
            pace: Pace::default(),
            end: End::Open,
        }
    }

    fn into_transcript(self) -> Transcript {
        Transcript { output: self.output.to_vec(), saw: self.saw, end: self.end }
    }

    fn receive(&mut self, bytes: &[u8]) {
        match self.end {
            End::Open => {
                self.pace.record_bytes(bytes.len() as u64, self.now);
                self.advance(bytes);
            }
            End::Upgraded => self.output.extend(site::upgraded(bytes)),
            End::Closed | End::Cut => {}
        }
    }

    fn advance(&mut self, mut bytes: &[u8]) {
        loop {
            match self.connection.receive(std::mem::take(&mut bytes), self.now, self.limits) {
                Ok(Some(event)) => self.handle(event),
                Ok(None) => break,
                Err(rejection) => self.reject(rejection),
            }
            if self.end != End::Open {
                return;
            }
        }
        assert!(self.connection.wants_input(self.limits), "all usable input was consumed");
        if self.connection.phase() == Phase::Close {
            self.end = End::Closed;
        }
    }

    fn handle(&mut self, event: Event<'_>) {
        match event {
            Event::Request(head) => {
                let (request, length) = head.into_request().into_parts();
                self.saw.push(site::describe(&request));
                if site::reads_body(&request) && length != BodyLength::Known(0) {
                    self.connection.encode_continue(&mut self.output);
                    self.reading = Some((request, WholeBody::default()));
                    self.pace = Pace::default();
                } else {
                    self.connection.ignore_body();
                    self.respond(&request, &WholeBody::default());
                }
            }
            Event::Body(piece) => {
                let (_, body) = self.reading.as_mut().expect("a body event follows a request that reads it");
                body.bytes.extend_from_slice(&piece);
            }
            Event::BodyEnd(trailers) => {
                let (request, mut body) =
                    self.reading.take().expect("the end of a body follows a request that reads it");
                body.trailers = trailers.unwrap_or_default();
                self.saw.extend(site::describe_body(&body));
                self.respond(&request, &body);
            }
        }
    }

    fn respond(&mut self, request: &request::Parts, body: &WholeBody) {
        let response = site::respond(request, body);
        if self.send(&response).is_err() {
            self.end = End::Cut;
        } else if self.connection.phase() == Phase::Upgrade {
            let fresh = ServerConnection::new(self.now);
            let unread = std::mem::replace(&mut self.connection, fresh).into_unread();
            self.output.extend(site::upgraded(&unread));
            self.end = End::Upgraded;
        }
    }

    fn send(&mut self, response: &SiteResponse) -> Result<(), LengthError> {
        let head = ResponseHead::Fields(response.status, &response.fields);
        let (length, pieces, trailers) = match &response.body {
            ResponseBody::Whole(bytes) => (Some(bytes.len() as u64), vec![bytes.clone()], None),
            ResponseBody::Declared(length, bytes) => (Some(*length), vec![bytes.clone()], None),
            ResponseBody::Pieces(pieces, trailers) => (None, pieces.clone(), Some(trailers)),
            ResponseBody::Upgrade => (Some(0), Vec::new(), None),
        };
        self.connection.begin(head, length, self.limits, &self.date, &mut self.output);
        for piece in &pieces {
            self.connection.encode_piece(piece, &mut self.output)?;
        }
        self.connection.finish(trailers, self.now, &mut self.output)
    }

    fn reject(&mut self, rejection: Rejection) {
        self.connection.reject(rejection, &self.date, &mut self.output);
        self.end = End::Closed;
    }

    /// Lets time pass, and handles each timeout at its deadline.
    fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        if self.reading.is_some() {
            self.pace.start_waiting(self.now);
        }
        while self.end == End::Open {
            let body = self.pace.rate_deadline(self.limits.rate_grace, self.limits.body_rate_min);
            let body = body.filter(|_| self.reading.is_some());
            let due = self.connection.deadline(self.limits).or(body).filter(|due| *due <= until);
            let Some(due) = due else { break };
            self.now = due;
            match self.connection.timeout(due, self.limits) {
                Timeout::NotYet if self.reading.is_some() => self.reject(Rejection::BodyTooSlow),
                Timeout::NotYet => unreachable!("the deadline has passed"),
                Timeout::Close => self.end = End::Closed,
                Timeout::Reject(rejection) => self.reject(rejection),
            }
        }
        self.now = until;
    }

    fn end_of_input(&mut self) {
        match self.end {
            End::Open => {
                self.connection.end_of_input();
                self.end = End::Closed;
            }
            End::Upgraded => self.end = End::Closed,
            End::Closed | End::Cut => {}
        }
    }
}
