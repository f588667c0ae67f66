//! A client, which does one thing after another at random.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::request::{Check, Request};
use super::tally::{Asked, Tally};
use super::wire::{Head, Lost, Wire};
use crate::random::Random;

/// How long a client that vanishes reads nothing: longer than `send_stall_timeout` (4 s) and `idle_timeout` (5 s).
const SILENCE: Duration = Duration::from_secs(6);
/// How long a client listens to a topic at most.
const LISTENING_MS: usize = 3000;
/// The longest pause of a slow client, below `send_stall_timeout` and `rate_grace`.
const PAUSE_MAX_MS: usize = 1500;

type Action = fn(&mut Client) -> Result<(), Gone>;

/// What clients do, as often as they do it.
const ACTIONS: &[(usize, Action)] = &[
    (40, |client| client.keep_alive()),
    (8, |client| client.pipeline()),
    (10, |client| client.upload_slowly()),
    (10, |client| client.read_slowly()),
    (14, |client| client.leave()),
    (6, |client| client.half_close()),
    (8, |client| client.follow_events()),
    (4, |client| client.subscribe()),
    (6, |client| client.publish()),
];

/// A client.
pub(super) struct Client<'a> {
    pub(super) address: SocketAddr,
    pub(super) tally: &'a Tally,
    pub(super) random: Random,
}

/// The connection cannot be used any more; the tally knows why.
struct Gone;

impl Client<'_> {
    pub(super) fn run(&mut self, is_over: &AtomicBool) {
        let all = ACTIONS.iter().map(|(weight, _)| weight).sum();
        while !is_over.load(Ordering::Relaxed) {
            let mut number = self.random.below(all);
            let action = ACTIONS.iter().find(|(weight, _)| {
                let is_found = number < *weight;
                number = number.saturating_sub(*weight);
                is_found
            });
            if let Some((_, action)) = action {
                // What has happened is in the tally.
                let _ = action(self);
            }
        }
    }

    /// Sends one request after another on a connection.
    fn keep_alive(&mut self) -> Result<(), Gone> {
        let mut wire = self.open()?;
        for number in 0..self.random.within(1..30) {
            let request = Request::quick(&mut self.random);
            let asked = Asked { what: &request.what, at: Instant::now(), reused: number > 0 };
            self.send(&mut wire, asked, &[&request.head[..], &request.body].concat())?;
            self.receive(&mut wire, &request, asked)?;
            if self.random.chance(1) {
                // Around `idle_timeout` (5 s): the server may close the connection just when the next request comes.
                thread::sleep(Duration::from_millis(self.random.within(4900..5100) as u64));
            }
        }
        Ok(())
    }

    /// Sends several requests at once.
    fn pipeline(&mut self) -> Result<(), Gone> {
        let mut wire = self.open()?;
        let requests: Vec<_> =
            (0..self.random.within(2..6)).map(|_| Request::quick(&mut self.random)).collect();
        let bytes: Vec<_> = requests.iter().flat_map(|request| [&request.head[..], &request.body]).collect();
        let asked = Asked { what: "pipelined", at: Instant::now(), reused: false };
        self.send(&mut wire, asked, &bytes.concat())?;
        for request in &requests {
            // Not reused: a connection with a request in it is not idle. Only `Connection: close` cancels the further ones.
            self.receive(&mut wire, request, Asked { what: &request.what, ..asked })?;
        }
        Ok(())
    }

    fn upload_slowly(&mut self) -> Result<(), Gone> {
        let request = Request::upload(&mut self.random, 50_000..3_000_000);
        let is_chunked = self.random.chance(30);
        let mut wire = self.open()?;
        let asked = Asked { what: &request.what, at: Instant::now(), reused: false };
        let head = if is_chunked { &request.chunked_head() } else { &request.head };
        self.send(&mut wire, asked, head)?;
        let pieces = self.random.within(2..40);
        let gives_up = self.random.chance(40).then(|| self.random.below(pieces));
        for (number, piece) in request.body.chunks(request.body.len().div_ceil(pieces)).enumerate() {
            if gives_up == Some(number) {
                self.tally.give_up();
                self.part(wire);
                return Ok(());
            }
            self.pause(100);
            // A response before the end of the body: 503 or 507. The server soon stops reading the rest.
            if wire.has_input() {
                return self.receive(&mut wire, &request, asked).and(Err(Gone));
            }
            self.send(&mut wire, asked, &if is_chunked { chunk(piece) } else { piece.to_vec() })?;
        }
        if is_chunked {
            self.send(&mut wire, asked, b"0\r\n\r\n")?;
        }
        self.receive(&mut wire, &request, asked)
    }

    fn read_slowly(&mut self) -> Result<(), Gone> {
        let request = Request::large(&mut self.random);
        let mut wire = self.open()?;
        wire.reads_slowly();
        let asked = Asked { what: &request.what, at: Instant::now(), reused: false };
        self.send(&mut wire, asked, &request.head)?;
        let gives_up = self.random.chance(40).then(|| self.random.below(2_000_000));
        let mut random = self.random.fork();
        let result = read(&mut wire, &request, |read| {
            if gives_up.is_some_and(|at| read >= at) {
                return Err(Lost::GivenUp);
            }
            if random.chance(5) {
                let pause = if random.chance(2) { PAUSE_MAX_MS } else { 30 };
                thread::sleep(Duration::from_millis(random.below(pause) as u64));
            }
            Ok(())
        });
        let outcome = self.judge(asked, result);
        if gives_up.is_some() {
            self.part(wire);
        }
        outcome
    }

    /// Leaves at some point of a request.
    fn leave(&mut self) -> Result<(), Gone> {
        let request = match self.random.below(4) {
            0 => Request::quick(&mut self.random),
            1 => Request::large(&mut self.random),
            2 => Request::upload(&mut self.random, 1_000..300_000),
            _ => Request::events(&mut self.random),
        };
        let mut wire = self.open()?;
        let asked = Asked { what: &request.what, at: Instant::now(), reused: false };
        let bytes = [&request.head[..], &request.body].concat();
        // Before the request, in its head, somewhere, after it, and after a part of its response.
        let phase = self.random.below(5);
        let sent = match phase {
            0 => 0,
            1 => request.head.len() / 2,
            2 => self.random.within(1..bytes.len() + 1),
            _ => bytes.len(),
        };
        self.send(&mut wire, asked, &bytes[..sent])?;
        if phase == 4 {
            let most = self.random.below(100_000);
            let result =
                read(&mut wire, &request, |read| if read >= most { Err(Lost::GivenUp) } else { Ok(()) });
            if !matches!(result, Err(Lost::GivenUp)) {
                return self.judge(asked, result);
            }
        } else {
            self.pause(50);
        }
        self.tally.give_up();
        self.part(wire);
        Ok(())
    }

    /// Closes its sending side after the request, and waits for the response.
    fn half_close(&mut self) -> Result<(), Gone> {
        let request = match self.random.below(3) {
            0 => Request::quick(&mut self.random),
            1 => Request::upload(&mut self.random, 1_000..1_000_000),
            _ => Request::large(&mut self.random),
        };
        let mut wire = self.open()?;
        let asked = Asked { what: &request.what, at: Instant::now(), reused: false };
        self.send(&mut wire, asked, &[&request.head[..], &request.body].concat())?;
        wire.half_close();
        self.receive(&mut wire, &request, asked)?;
        wire.wait_for_end().or_else(|lost| self.judge(asked, Err(lost)))
    }

    fn follow_events(&mut self) -> Result<(), Gone> {
        let request = Request::events(&mut self.random);
        let mut wire = self.open()?;
        let asked = Asked { what: &request.what, at: Instant::now(), reused: false };
        self.send(&mut wire, asked, &request.head)?;
        self.receive(&mut wire, &request, asked)
    }

    fn publish(&mut self) -> Result<(), Gone> {
        let request = Request::publish(&mut self.random);
        let mut wire = self.open()?;
        let asked = Asked { what: &request.what, at: Instant::now(), reused: false };
        self.send(&mut wire, asked, &[&request.head[..], &request.body].concat())?;
        self.receive(&mut wire, &request, asked)
    }

    /// Listens to a topic for a while.
    fn subscribe(&mut self) -> Result<(), Gone> {
        let request = Request::subscribe(&mut self.random);
        let mut wire = self.open()?;
        let asked = Asked { what: &request.what, at: Instant::now(), reused: false };
        self.send(&mut wire, asked, &request.head)?;
        let leaves = asked.at + Duration::from_millis(self.random.below(LISTENING_MS) as u64);
        // Heartbeats come every second, so that the time is looked at.
        let result =
            read(&mut wire, &request, |_| if Instant::now() > leaves { Err(Lost::GivenUp) } else { Ok(()) });
        match self.judge(asked, result) {
            // Not by silence: a client that reads may listen for ever.
            Err(Gone) => self.close(wire),
            Ok(()) => self.tally.failure("a topic has ended"),
        }
        Ok(())
    }

    fn open(&self) -> Result<Wire, Gone> {
        let asked = Asked { what: "connect", at: Instant::now(), reused: false };
        Wire::open(self.address).or_else(|lost| self.judge(asked, Err(lost)).and(Err(Gone)))
    }

    fn send(&self, wire: &mut Wire, asked: Asked, bytes: &[u8]) -> Result<(), Gone> {
        wire.send(bytes).or_else(|lost| self.judge(asked, Err(lost)))
    }

    /// Reads the whole response.
    fn receive(&self, wire: &mut Wire, request: &Request, asked: Asked) -> Result<(), Gone> {
        let result = read(wire, request, |_| Ok(()));
        self.judge(asked, result)
    }

    /// Notes what has come of a request; says whether the connection can have another one.
    fn judge(&self, asked: Asked, result: Result<Head, Lost>) -> Result<(), Gone> {
        match result {
            Ok(head) => {
                self.tally.response(asked, head.status);
                if head.closes { Err(Gone) } else { Ok(()) }
            }
            Err(lost) => {
                self.tally.lost(asked, &lost);
                Err(Gone)
            }
        }
    }

    /// Ends a connection before its time: with a FIN, with a reset, or by silence until the server ends it.
    fn part(&mut self, mut wire: Wire) {
        if self.random.chance(80) {
            return self.close(wire);
        }
        thread::sleep(SILENCE);
        let asked = Asked { what: "a silent client", at: Instant::now(), reused: true };
        if let Err(lost) = wire.wait_for_end() {
            self.tally.lost(asked, &lost);
        }
    }

    fn close(&mut self, wire: Wire) {
        if self.random.chance(50) {
            wire.reset();
        }
    }

    fn pause(&mut self, most_ms: usize) {
        thread::sleep(Duration::from_millis(self.random.below(most_ms) as u64));
    }
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// Reads a response and checks a 200. `each` is called before each piece of the body, with the bytes before it.
fn read(
    wire: &mut Wire,
    request: &Request,
    mut each: impl FnMut(usize) -> Result<(), Lost>,
) -> Result<Head, Lost> {
    let head = wire.head()?;
    let mut check = Check::new(&request.expected);
    wire.body(&head, &mut |piece| {
        each(check.read())?;
        if head.status == 200 { check.piece(piece) } else { Ok(()) }
    })?;
    if head.status == 200 {
        check.end()?;
    }
    Ok(head)
}
