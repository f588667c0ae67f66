//! A client that performs random actions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::request::{BodyCheck, Request};
use super::stream::Address;
use super::tally::{SentRequest, Tally};
use super::wire::{Head, RequestError, Wire};
use crate::random::Random;

/// How long a silent client does not read: longer than `send_stall_timeout` (4 s) and `idle_timeout` (5 s).
const SILENT_TIME: Duration = Duration::from_secs(6);
/// Maximum time that a client subscribes to a topic.
const SUBSCRIBED_MS_MAX: usize = 3000;
/// Maximum pause of a slow client: shorter than `send_stall_timeout` and `rate_grace`.
const PAUSE_MAX_MS: usize = 1500;

type Action = fn(&mut Client) -> Result<(), Unusable>;

/// The actions of clients and their weights.
const ACTIONS: &[(usize, Action)] = &[
    (40, |client| client.keep_alive()),
    (8, |client| client.pipeline()),
    (10, |client| client.upload_slowly()),
    (10, |client| client.read_slowly()),
    (14, |client| client.disconnect_early()),
    (6, |client| client.half_close()),
    (8, |client| client.follow_events()),
    (4, |client| client.subscribe()),
    (6, |client| client.publish()),
    (20, |client| client.multiplex()),
    (10, |client| client.over_http3()),
];

/// A client.
pub(super) struct Client<'a> {
    pub(super) address: Address,
    pub(super) tally: &'a Tally,
    pub(super) random: Random,
}

/// The connection cannot be used any more. The tally has the reason.
pub(super) struct Unusable;

impl Client<'_> {
    pub(super) fn run(&mut self, is_over: &AtomicBool) {
        let all = ACTIONS.iter().map(|(weight, _)| weight).sum();
        while !is_over.load(Ordering::Relaxed) {
            let mut number = self.random.below(all);
            let action = ACTIONS.iter().find(|(weight, _)| {
                let is_chosen = number < *weight;
                number = number.saturating_sub(*weight);
                is_chosen
            });
            if let Some((_, action)) = action {
                // The tally has the result.
                let _ = action(self);
            }
        }
    }

    /// Sends one request after another on a connection.
    fn keep_alive(&mut self) -> Result<(), Unusable> {
        let mut wire = self.open()?;
        for number in 0..self.random.within(1..30) {
            let request = Request::quick(&mut self.random);
            let sent_request = SentRequest { name: &request.name, at: Instant::now(), reused: number > 0 };
            self.send(&mut wire, sent_request, &[&request.head[..], &request.body].concat())?;
            self.receive(&mut wire, &request, sent_request)?;
            if self.random.chance(1) {
                // Close to `idle_timeout` (5 s), so that the server may close the connection as the next request arrives.
                thread::sleep(Duration::from_millis(self.random.within(4900..5100) as u64));
            }
        }
        Ok(())
    }

    /// Sends several requests at once.
    fn pipeline(&mut self) -> Result<(), Unusable> {
        let mut wire = self.open()?;
        let requests: Vec<_> =
            (0..self.random.within(2..6)).map(|_| Request::quick(&mut self.random)).collect();
        let bytes: Vec<_> = requests.iter().flat_map(|request| [&request.head[..], &request.body]).collect();
        let sent_request = SentRequest { name: "pipelined", at: Instant::now(), reused: false };
        self.send(&mut wire, sent_request, &bytes.concat())?;
        for request in &requests {
            // Not reused: a connection with pending requests is not idle. Only `Connection: close` cancels the others.
            self.receive(&mut wire, request, SentRequest { name: &request.name, ..sent_request })?;
        }
        Ok(())
    }

    fn upload_slowly(&mut self) -> Result<(), Unusable> {
        let request = Request::upload(&mut self.random, 50_000..3_000_000);
        let is_chunked = self.random.chance(30);
        let mut wire = self.open()?;
        let sent_request = SentRequest { name: &request.name, at: Instant::now(), reused: false };
        let head = if is_chunked { &request.chunked_head() } else { &request.head };
        self.send(&mut wire, sent_request, head)?;
        let pieces = self.random.within(2..40);
        let cancels_at = self.random.chance(40).then(|| self.random.below(pieces));
        for (number, piece) in request.body.chunks(request.body.len().div_ceil(pieces)).enumerate() {
            if cancels_at == Some(number) {
                self.tally.cancelled();
                self.disconnect(wire);
                return Ok(());
            }
            self.pause(100);
            // A response before the end of the body (503 or 507), after which the server soon stops reading.
            if wire.has_input() {
                return self.receive(&mut wire, &request, sent_request).and(Err(Unusable));
            }
            self.send(&mut wire, sent_request, &if is_chunked { chunk(piece) } else { piece.to_vec() })?;
        }
        if is_chunked {
            self.send(&mut wire, sent_request, b"0\r\n\r\n")?;
        }
        self.receive(&mut wire, &request, sent_request)
    }

    fn read_slowly(&mut self) -> Result<(), Unusable> {
        let request = Request::large(&mut self.random);
        let mut wire = self.open()?;
        wire.shrink_receive_buffer();
        let sent_request = SentRequest { name: &request.name, at: Instant::now(), reused: false };
        self.send(&mut wire, sent_request, &request.head)?;
        let cancels_at = self.random.chance(40).then(|| self.random.below(2_000_000));
        let mut random = self.random.fork();
        let result = read(&mut wire, &request, |read| {
            if cancels_at.is_some_and(|at| read >= at) {
                return Err(RequestError::Cancelled);
            }
            if random.chance(5) {
                let pause = if random.chance(2) { PAUSE_MAX_MS } else { 30 };
                thread::sleep(Duration::from_millis(random.below(pause) as u64));
            }
            Ok(())
        });
        let outcome = self.record_result(sent_request, result);
        if cancels_at.is_some() {
            self.disconnect(wire);
        }
        outcome
    }

    /// Disconnects at a random point of a request.
    fn disconnect_early(&mut self) -> Result<(), Unusable> {
        let request = match self.random.below(4) {
            0 => Request::quick(&mut self.random),
            1 => Request::large(&mut self.random),
            2 => Request::upload(&mut self.random, 1_000..300_000),
            _ => Request::events(&mut self.random),
        };
        let mut wire = self.open()?;
        let sent_request = SentRequest { name: &request.name, at: Instant::now(), reused: false };
        let bytes = [&request.head[..], &request.body].concat();
        // Before the request, in its head, anywhere in it, after it, and after a part of its response.
        let phase = self.random.below(5);
        let sent = match phase {
            0 => 0,
            1 => request.head.len() / 2,
            2 => self.random.within(1..bytes.len() + 1),
            _ => bytes.len(),
        };
        self.send(&mut wire, sent_request, &bytes[..sent])?;
        if phase == 4 {
            let most = self.random.below(100_000);
            let result =
                read(
                    &mut wire,
                    &request,
                    |read| if read >= most { Err(RequestError::Cancelled) } else { Ok(()) },
                );
            if !matches!(result, Err(RequestError::Cancelled)) {
                return self.record_result(sent_request, result);
            }
        } else {
            self.pause(50);
        }
        self.tally.cancelled();
        self.disconnect(wire);
        Ok(())
    }

    /// Closes the sending side after the request, and waits for the response.
    fn half_close(&mut self) -> Result<(), Unusable> {
        let request = match self.random.below(3) {
            0 => Request::quick(&mut self.random),
            1 => Request::upload(&mut self.random, 1_000..1_000_000),
            _ => Request::large(&mut self.random),
        };
        let mut wire = self.open()?;
        let sent_request = SentRequest { name: &request.name, at: Instant::now(), reused: false };
        self.send(&mut wire, sent_request, &[&request.head[..], &request.body].concat())?;
        wire.half_close();
        self.receive(&mut wire, &request, sent_request)?;
        wire.wait_for_end().or_else(|error| self.record_result(sent_request, Err(error)))
    }

    fn follow_events(&mut self) -> Result<(), Unusable> {
        let request = Request::events(&mut self.random);
        let mut wire = self.open()?;
        let sent_request = SentRequest { name: &request.name, at: Instant::now(), reused: false };
        self.send(&mut wire, sent_request, &request.head)?;
        self.receive(&mut wire, &request, sent_request)
    }

    fn publish(&mut self) -> Result<(), Unusable> {
        let request = Request::publish(&mut self.random);
        let mut wire = self.open()?;
        let sent_request = SentRequest { name: &request.name, at: Instant::now(), reused: false };
        self.send(&mut wire, sent_request, &[&request.head[..], &request.body].concat())?;
        self.receive(&mut wire, &request, sent_request)
    }

    /// Subscribes to a topic for a while.
    fn subscribe(&mut self) -> Result<(), Unusable> {
        let request = Request::subscribe(&mut self.random);
        let mut wire = self.open()?;
        let sent_request = SentRequest { name: &request.name, at: Instant::now(), reused: false };
        self.send(&mut wire, sent_request, &request.head)?;
        let end = sent_request.at + Duration::from_millis(self.random.below(SUBSCRIBED_MS_MAX) as u64);
        // The heartbeat of each second triggers this check.
        let result = read(&mut wire, &request, |_| {
            if Instant::now() > end { Err(RequestError::Cancelled) } else { Ok(()) }
        });
        match self.record_result(sent_request, result) {
            // Close instead of going silent: a client that reads may stay subscribed forever.
            Err(Unusable) => self.close(wire),
            Ok(()) => self.tally.failure("a subscription ended"),
        }
        Ok(())
    }

    fn open(&self) -> Result<Wire, Unusable> {
        let sent_request = SentRequest { name: "connect", at: Instant::now(), reused: false };
        Wire::open(&self.address)
            .or_else(|error| self.record_result(sent_request, Err(error)).and(Err(Unusable)))
    }

    fn send(&self, wire: &mut Wire, sent_request: SentRequest, bytes: &[u8]) -> Result<(), Unusable> {
        wire.send(bytes).or_else(|error| self.record_result(sent_request, Err(error)))
    }

    /// Reads the complete response.
    fn receive(&self, wire: &mut Wire, request: &Request, sent_request: SentRequest) -> Result<(), Unusable> {
        let result = read(wire, request, |_| Ok(()));
        self.record_result(sent_request, result)
    }

    /// Records the result of a request. Returns `Ok` if the connection can be reused.
    fn record_result(
        &self,
        sent_request: SentRequest,
        result: Result<Head, RequestError>,
    ) -> Result<(), Unusable> {
        match result {
            Ok(head) => {
                self.tally.response(sent_request, head.status);
                if head.closes { Err(Unusable) } else { Ok(()) }
            }
            Err(error) => {
                self.tally.request_error(sent_request, &error);
                Err(Unusable)
            }
        }
    }

    /// Disconnects early: with a FIN, with a reset, or by going silent until the server closes the connection.
    fn disconnect(&mut self, mut wire: Wire) {
        if self.random.chance(80) {
            return self.close(wire);
        }
        thread::sleep(SILENT_TIME);
        let sent_request = SentRequest { name: "a silent client", at: Instant::now(), reused: true };
        if let Err(error) = wire.wait_for_end() {
            self.tally.request_error(sent_request, &error);
        }
    }

    fn close(&mut self, wire: Wire) {
        if self.random.chance(50) {
            wire.reset();
        }
    }

    fn pause(&mut self, max_ms: usize) {
        thread::sleep(Duration::from_millis(self.random.below(max_ms) as u64));
    }
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// Reads a response and checks the body of a 200. Calls `each` before each piece of the body with the number of bytes read.
fn read(
    wire: &mut Wire,
    request: &Request,
    mut each: impl FnMut(usize) -> Result<(), RequestError>,
) -> Result<Head, RequestError> {
    let head = wire.head()?;
    let mut check = BodyCheck::new(&request.expected);
    wire.body(&head, &mut |piece| {
        each(check.bytes_received())?;
        if head.status == 200 { check.check_piece(piece) } else { Ok(()) }
    })?;
    if head.status == 200 {
        check.check_end()?;
    }
    Ok(head)
}
