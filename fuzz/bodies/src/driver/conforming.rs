//! A client that keeps to the protocol. Its requests and the network are chosen by the input.

use bytes::BytesMut;
use rudy_message::BodyLength;

use super::exchange::Exchange;
use super::server::{Server, patient_limits};
use super::task::{Kind, Task};

/// The requests of a connection at most: more find nothing new, and cost time.
const REQUESTS_MAX: usize = 24;

/// Sizes of bodies. They are around the sizes of buffers, frames, windows and the bytes of a poll.
const BODY_BYTES: [usize; 12] =
    [0, 1, 10, 1000, 16_383, 16_384, 16_385, 40_000, 65_536, 131_073, 300_000, 530_000];

/// Sizes of what arrives at once.
const PIECE_BYTES: [usize; 8] = [1, 9, 100, 1000, 5000, 16_384, 65_536, usize::MAX];

/// The client's side of a protocol.
pub(super) trait Client {
    /// A listener whose connections speak the protocol.
    const ADDRESS: &str;

    /// Whether responses arrive after the client has closed its write side: it may have to open windows for them.
    const IS_SERVED_AFTER_ITS_END: bool;

    fn new(has_small_windows: bool) -> Self;

    /// Encodes the next request. Returns `false` if none is possible now.
    fn request(&mut self, exchange: &Exchange) -> bool;

    /// Encodes at most `bytes` of the body of a request, and its end behind the last one.
    fn send(&mut self, number: usize, exchange: &mut Exchange, bytes: usize);

    /// Cancels a request, if the protocol can.
    fn cancel(&mut self, number: usize) -> bool;

    /// Opens the windows by what was received in the oldest pieces.
    fn consume(&mut self, pieces: usize);

    /// Sends something that belongs to no request, or changes a priority.
    fn interrupt(&mut self, number: usize, urgency: u8);

    /// Receives bytes of the server.
    fn receive(&mut self, bytes: &[u8], exchanges: &mut [Exchange]);

    /// The server has closed the connection.
    fn end_of_input(&mut self, exchanges: &mut [Exchange]);

    /// What is encoded, but not delivered.
    fn out(&mut self) -> &mut BytesMut;

    /// Whether the connection may end with the response to this request.
    fn may_close(exchange: &Exchange) -> bool;
}

/// Runs a connection. The first byte of the input is about the connection, the others are operations.
pub(super) fn run<C: Client>(input: &[u8]) {
    let [options, operations @ ..] = input else { return };
    let mut run = Run::<C>::new(*options);
    let mut operations = operations.iter().copied();
    while let Some(operation) = operations.next() {
        let mut next = || operations.next().unwrap_or(0);
        run.operate(operation, &mut next);
        run.server.settle();
    }
    run.finish();
}

struct Run<C> {
    server: Server,
    client: C,
    exchanges: Vec<Exchange>,
    /// Whether the client has closed its write side.
    has_ended: bool,
    /// Whether the connection was broken, by the client or by the end of the server.
    is_broken: bool,
    /// Whether the server stops.
    is_stopping: bool,
}

impl<C: Client> Run<C> {
    fn new(options: u8) -> Self {
        let server = Server::open(C::ADDRESS, options & 1 != 0, &patient_limits());
        let room = if options & 2 == 0 { usize::MAX } else { 0 };
        server.client.wire().make_room(room);
        let client = C::new(options & 4 != 0);
        let (has_ended, is_broken, is_stopping) = (false, false, false);
        let mut run = Self { server, client, exchanges: Vec::new(), has_ended, is_broken, is_stopping };
        run.server.settle();
        run
    }

    fn operate(&mut self, operation: u8, next: &mut impl FnMut() -> u8) {
        let argument = operation >> 4;
        match operation & 15 {
            0..=2 => self.request(argument, next(), next()),
            3 | 4 => self.send(next(), size(&PIECE_BYTES, argument)),
            5 => self.cancel(next()),
            6 => self.client.consume(usize::from(argument) + 1),
            7 | 8 => self.deliver(size(&PIECE_BYTES, argument)),
            9 | 10 => self.receive(size(&PIECE_BYTES, argument)),
            11 | 12 => self.server.log.end_pause(usize::from(argument)),
            13 => self.server.client.wire().make_room(size(&PIECE_BYTES, argument)),
            14 => self.client.interrupt(usize::from(next()), argument),
            _ => self.disturb(argument),
        }
    }

    /// Does what happens seldom.
    fn disturb(&mut self, argument: u8) {
        match argument {
            0 => {
                self.deliver(usize::MAX);
                self.end();
            }
            1 => {
                self.is_broken = true;
                self.server.client.reset();
            }
            2 => {
                self.is_stopping = true;
                self.server.worker.stop();
            }
            3 => {
                self.is_broken = true;
                self.server.abort();
            }
            // A report of what the connection waits for.
            4..=7 => {
                let worker = self.server.worker.clone();
                let question = worker.ask();
                self.server.settle();
                drop(question);
            }
            _ => self.check_sleep(),
        }
    }

    /// While the server reads nothing, a timer makes it look whether the connection is broken.
    fn check_sleep(&mut self) {
        if !self.is_broken {
            self.server.check_sleep();
        }
    }

    fn request(&mut self, kind: u8, bytes: u8, upload: u8) {
        let number = self.exchanges.len();
        if self.has_ended || number == REQUESTS_MAX {
            return;
        }
        let kind = Kind::ALL[usize::from(kind) % Kind::ALL.len()];
        let task = Task { kind, bytes: size(&BODY_BYTES, bytes), number };
        let has_upload = upload & 1 != 0;
        let exchange =
            Exchange::new(task, has_upload.then(|| size(&BODY_BYTES, upload >> 1)), bytes >> 4 ^ upload >> 5);
        if self.client.request(&exchange) {
            self.exchanges.push(exchange);
        }
    }

    /// Sends a piece of the body of one of the requests whose bodies are not complete.
    fn send(&mut self, choice: u8, bytes: usize) {
        let uploads = self.exchanges.iter().enumerate().filter(|(_, exchange)| exchange.uploads());
        let uploads: Vec<_> = uploads.map(|(number, _)| number).collect();
        if !self.has_ended && !uploads.is_empty() {
            let number = uploads[usize::from(choice) % uploads.len()];
            self.client.send(number, &mut self.exchanges[number], bytes);
        }
    }

    fn cancel(&mut self, number: u8) {
        let number = usize::from(number);
        if let Some(exchange) = self.exchanges.get_mut(number).filter(|exchange| exchange.end.is_none())
            && self.client.cancel(number)
        {
            exchange.is_cancelled = true;
        }
    }

    /// Delivers bytes to the server.
    fn deliver(&mut self, bytes: usize) {
        let out = self.client.out();
        let bytes = out.split_to(bytes.min(out.len()));
        if !bytes.is_empty() && !self.has_ended {
            self.server.client.wire().arrive(&bytes);
        }
    }

    /// Delivers bytes to the client.
    fn receive(&mut self, bytes: usize) {
        let bytes = self.server.client.wire().take(bytes);
        self.client.receive(&bytes, &mut self.exchanges);
    }

    /// Closes the write side of the client.
    fn end(&mut self) {
        if !self.has_ended && !self.is_broken {
            self.server.client.end();
        }
        self.has_ended = true;
    }

    /// Lets everything happen that can, and checks the result.
    fn finish(mut self) {
        let has_ended_early = self.has_ended;
        self.server.log.hurry();
        self.server.client.wire().make_room(usize::MAX);
        self.exchange_all();
        self.check_sleep();
        if self.server.client.wire().is_shut_down || !has_ended_early {
            self.end();
            self.exchange_all();
        }
        let has_closed = self.server.is_over();
        if !has_closed {
            // The server may wait for windows, or for the rest of a body.
            assert!(has_ended_early, "the client has closed the connection, but the server has not");
            self.server.client.reset();
            self.server.settle();
            self.server.poll();
        }
        self.client.end_of_input(&mut self.exchanges);
        let is_served = C::IS_SERVED_AFTER_ITS_END && !self.exchanges.iter().any(Exchange::uploads);
        self.check(has_closed && (!has_ended_early || is_served));
    }

    /// Sends and receives until nothing changes.
    fn exchange_all(&mut self) {
        loop {
            let before = self.server.steps();
            self.receive(usize::MAX);
            for number in 0..self.exchanges.len() {
                self.send(u8::try_from(number).expect("a few"), usize::MAX);
            }
            self.client.consume(usize::MAX);
            self.deliver(usize::MAX);
            self.server.settle();
            if self.server.steps() == before {
                return;
            }
        }
    }

    fn check(&self, is_whole: bool) {
        self.server.check_end();
        let log = &self.server.log;
        assert_eq!(
            log.rejections(),
            Vec::<String>::new(),
            "rejections of a client that keeps to the protocol"
        );
        let mut may_be_refused = self.is_stopping;
        for exchange in &self.exchanges {
            exchange.check_upload(log);
            if is_whole && !self.is_broken {
                exchange.check(may_be_refused, log);
            }
            may_be_refused |= C::may_close(exchange);
        }
        log.each(|(number, seen)| {
            let is_sent =
                self.exchanges.get(*number).is_some_and(|exchange| exchange.length != BodyLength::Known(0));
            assert!(is_sent || seen.body.is_empty(), "request {number}: a body that was not sent");
        });
    }
}

/// Chooses one of the sizes.
fn size(sizes: &[usize], choice: u8) -> usize {
    sizes[usize::from(choice) % sizes.len()]
}
