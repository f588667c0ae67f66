//! Property tests: any frames in any split, and any order of calls, cause no panic, exceed no window and leave a consistent state.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use rudy_message::Rejection;

use super::client_view::ClientView;
use super::memory::HEAP_BYTES_MAX;
use super::*;
use crate::progress::Receiving;

/// What a client sends, and the calls that a caller may make, in any order. A number of a stream counts back from the newest.
#[derive(Debug, Clone)]
enum Call {
    /// Frames, and the sizes of the pieces in which they arrive.
    Receive(Vec<Input>, Vec<usize>),
    PassOn(u32),
    Continue(u32),
    Interim(u32),
    Begin(u32, u16, Option<u64>),
    Data(u32, u64),
    Piece(u32, usize),
    Finish(u32, bool),
    Close(u32),
    Reset(u32),
    Reject(u32),
    Wait(u64),
    ShutDown,
    StopAccepting,
}

/// What a client sends.
#[derive(Debug, Clone)]
enum Input {
    Frame { choice: u8, stream: u32, increment: u32, setting: (u16, u32), body: usize },
    Garbage(Vec<u8>),
}

const LARGE: [u8; 16_384] = [0; 16_384];

impl Input {
    /// Returns the bytes. `newest` is the newest stream of the client.
    fn bytes(self, newest: &mut u32) -> Vec<u8> {
        let (choice, stream, increment, setting, body) = match self {
            Self::Frame { choice, stream, increment, setting, body } => {
                (choice, stream, increment, setting, body)
            }
            Self::Garbage(bytes) => return bytes,
        };
        // Mostly a stream that exists, or a new one for a request.
        let stream = match stream {
            0..8 if choice <= 16 => *newest + 2,
            0..8 => newest.saturating_sub(2 * stream).max(1),
            _ => stream - 8,
        };
        if choice <= 16 {
            *newest = (*newest).max(stream);
        }
        match choice {
            0..=5 => get(stream),
            6..=11 => post(stream, &[]),
            12 => post(stream, &[("content-length", "20")]),
            13 => post(stream, &[("expect", "100-continue")]),
            14 => headers(stream, &[&[(":method", "HEAD")], &GET[1..]].concat()),
            15 => {
                let (first, rest) = (frame(kind::HEADERS, 1, stream, &block(&GET[..2])), block(&GET[2..]));
                [first, frame(kind::CONTINUATION, flag::END_HEADERS, stream, &rest)].concat()
            }
            16 => headers(stream, &GET[1..]),
            17..=23 => data(stream, &LARGE[..body]),
            24 | 25 => last_data(stream, &LARGE[..body]),
            26 => frame(kind::DATA, flag::PADDED, stream, &[&[3][..], &LARGE[..3 + body.min(200)]].concat()),
            27..=32 => window_update(stream, increment),
            33..=35 => window_update(0, increment),
            36 => reset_frame(stream, ErrorCode::CANCEL),
            37 | 38 => settings_frame(&[setting]),
            39 => frame(kind::PING, 0, 0, &[1; 8]),
            40 | 41 => frame(kind::PING, flag::ACK, 0, b"rudy bdp"),
            42 => frame(kind::PING, flag::ACK, 0, b"rudy end"),
            43 => priority(stream, increment),
            44 => priority_update(stream, "u=2"),
            _ => headers(stream, &[("a", "b")]),
        }
    }
}

fn input() -> impl Strategy<Value = Input> {
    let stream = prop_oneof![60 => 0..8_u32, 1 => 8..40_u32];
    let increment = prop_oneof![
        40 => 1..300_u32,
        20 => 1..100_000_u32,
        1 => Just(0x7fff_0000),
        1 => Just(0),
    ];
    let setting = prop_oneof![
        5 => (0..40_u32).prop_map(|size| (4, size)),
        10 => (0..1_000_000_u32).prop_map(|size| (4, size)),
        5 => (0..5000_u32).prop_map(|size| (1, size)),
        1 => Just((4, 0x7fff_ffff)),
        2 => Just((0x99, 1)),
    ];
    let body = prop_oneof![3 => 0..20_usize, 1 => 0..16_385_usize];
    let frame = (0..46_u8, stream, increment, setting, body).prop_map(
        |(choice, stream, increment, setting, body)| Input::Frame {
            choice,
            stream,
            increment,
            setting,
            body,
        },
    );
    let garbage = proptest::collection::vec(any::<u8>(), 0..40).prop_map(Input::Garbage);
    prop_oneof![200 => frame, 1 => garbage]
}

fn call() -> impl Strategy<Value = Call> {
    let stream = || 0..5_u32;
    let status = proptest::sample::select(vec![200, 200, 200, 204, 304, 404]);
    let length = prop_oneof![3 => Just(None), 2 => (0..12_u64).prop_map(Some), 1 => Just(Some(100_000))];
    let inputs = (proptest::collection::vec(input(), 1..4), proptest::collection::vec(1..40_usize, 0..4));
    prop_oneof![
        12 => inputs.prop_map(|(inputs, pieces)| Call::Receive(inputs, pieces)),
        4 => stream().prop_map(Call::PassOn),
        1 => stream().prop_map(Call::Continue),
        1 => stream().prop_map(Call::Interim),
        5 => (stream(), status, length).prop_map(|(stream, status, length)| Call::Begin(stream, status, length)),
        5 => (stream(), 0..100_000_u64).prop_map(|(stream, bytes)| Call::Data(stream, bytes)),
        3 => (stream(), 0..12_u64).prop_map(|(stream, bytes)| Call::Data(stream, bytes)),
        2 => (stream(), 0..12_usize).prop_map(|(stream, bytes)| Call::Piece(stream, bytes)),
        2 => (stream(), any::<bool>()).prop_map(|(stream, trailers)| Call::Finish(stream, trailers)),
        2 => stream().prop_map(Call::Close),
        1 => stream().prop_map(Call::Reset),
        1 => stream().prop_map(Call::Reject),
        1 => (0..80_u64).prop_map(Call::Wait),
        1 => prop_oneof![9 => Just(Call::Wait(1)), 2 => Just(Call::ShutDown), 1 => Just(Call::StopAccepting)],
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn no_order_of_frames_and_calls_breaks_the_protocol(
        window in proptest::sample::select(vec![100, 65_535, 1 << 20]),
        calls in proptest::collection::vec(call(), 0..80),
    ) {
        let mut driver = Driver::new(window);
        for call in calls {
            driver.call(call);
            driver.check();
        }
    }
}

/// What the events have shown of a request.
#[derive(Default)]
struct Request {
    has_ended: bool,
    /// Bytes that were received and not passed on.
    stored: usize,
}

struct Driver {
    client: Client,
    view: ClientView,
    /// The requests that are neither reset nor closed.
    requests: HashMap<u32, Request>,
    newest: u32,
    /// The newest stream of the client.
    opened: u32,
    has_failed: bool,
    had_final_goaway: bool,
}

impl Driver {
    fn new(window: u32) -> Self {
        let mut limits = Limits { body_bytes: 60_000, ..Limits::default() };
        limits.http2.streams = 4;
        limits.http2.stream_window_bytes_max = 200_000;
        let mut driver = Self {
            client: Client::connected(limits),
            view: ClientView::new(),
            requests: HashMap::new(),
            newest: 0,
            opened: 1,
            has_failed: false,
            had_final_goaway: false,
        };
        driver.receive(&[&PREFACE[..], &settings_frame(&[(4, window)])].concat());
        driver
    }

    fn call(&mut self, call: Call) {
        let newest = self.opened;
        let id = |back: u32| newest.saturating_sub(2 * back).max(1);
        let Client { connection, now, out, .. } = &mut self.client;
        match call {
            Call::Receive(inputs, pieces) => {
                let bytes: Vec<u8> =
                    inputs.into_iter().flat_map(|input| input.bytes(&mut self.opened)).collect();
                let mut rest = &bytes[..];
                for piece in pieces {
                    let (piece, after) = rest.split_at(piece.min(rest.len()));
                    rest = after;
                    self.receive(piece);
                }
                self.receive(rest);
            }
            Call::PassOn(stream) => {
                if let Some(request) = self.requests.get_mut(&id(stream)) {
                    connection.pass_on(id(stream), std::mem::take(&mut request.stored), out);
                }
            }
            Call::Continue(stream) => connection.encode_continue(id(stream), out),
            Call::Interim(stream) => {
                let _ =
                    connection.encode_interim(id(stream), StatusCode::EARLY_HINTS, &HeaderMap::new(), out);
            }
            Call::Begin(stream, status, length) => self.client.begin(id(stream), status, length),
            Call::Data(stream, bytes) => {
                let mut rest = bytes;
                while let Ok(framed @ 1..) = connection.begin_data(id(stream), rest, out) {
                    out.put_bytes(0, usize::try_from(framed).unwrap());
                    rest -= framed;
                }
                assert!(rest == 0 || connection.window(id(stream)) == 0 || rest == bytes);
            }
            Call::Piece(stream, bytes) => {
                let fits = connection.window(id(stream)) >= bytes as u64;
                let has_body = connection.is_in_body(id(stream));
                // What exceeds a window is an error of the caller.
                if fits && has_body {
                    let _ = connection.encode_piece(id(stream), &LARGE[..bytes], out);
                }
            }
            Call::Finish(stream, with_trailers) => {
                let mut trailers = HeaderMap::new();
                trailers.insert("a", http::HeaderValue::from_static("b"));
                let _ = connection.finish(id(stream), with_trailers.then_some(&trailers), out);
            }
            Call::Close(stream) => connection.close(id(stream), *now),
            Call::Reset(stream) => connection.reset(id(stream), ErrorCode::CANCEL, *now, out),
            Call::Reject(stream) => {
                connection.reject(id(stream), Rejection::BadHost, (&date(), *now), out);
                let state = connection.core.streams.get(id(stream));
                assert!(state.is_none_or(|stream| stream.draining.is_some()));
            }
            Call::Wait(seconds) => *now += Duration::from_secs(seconds),
            Call::ShutDown => connection.shut_down(out),
            Call::StopAccepting => {
                connection.stop_accepting(out);
                self.had_final_goaway = true;
            }
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.flush();
        if self.has_failed {
            return;
        }
        self.view.send(bytes);
        let (mut input, mut buffers) = (bytes, HeadBuffers::default());
        loop {
            let Client { connection, limits, now, out, .. } = &mut self.client;
            match connection.receive(&mut input, &mut buffers, *now, limits, out) {
                Ok(Some(event)) => Self::note(&mut self.requests, &mut self.newest, &event),
                Ok(None) => break,
                Err(error) => {
                    connection.fail(error, out);
                    self.has_failed = true;
                    self.view.receive(&self.client.out.split());
                    return;
                }
            }
        }
        assert_eq!(input, b"", "all of the input is used");
        self.flush();
    }

    fn note(requests: &mut HashMap<u32, Request>, newest: &mut u32, event: &Event<'_>) {
        match event {
            Event::Request { stream, head, .. } => {
                assert!(*stream > *newest && stream % 2 == 1, "streams are new");
                *newest = *stream;
                let has_ended = head.body_length() == rudy_message::BodyLength::Known(0);
                requests.insert(*stream, Request { has_ended, stored: 0 });
            }
            Event::Rejected { stream, .. } if *stream > *newest => {
                *newest = *stream;
                requests.insert(*stream, Request::default());
            }
            Event::Data { stream, data, ends } => {
                let request = requests.get_mut(stream).expect("the request is open");
                assert!(!request.has_ended && !data.is_empty());
                request.has_ended = *ends;
                request.stored += data.len();
                assert!(request.stored <= 200_000);
            }
            Event::End { stream, .. } => {
                let request = requests.get_mut(stream).expect("the request is open");
                assert!(!std::mem::replace(&mut request.has_ended, true), "a body ends once");
            }
            Event::Reset { stream, reason, .. } => {
                let was_open = requests.remove(stream).is_some();
                assert!(was_open || reason.is_some());
                *newest = (*newest).max(*stream);
            }
            Event::Window { stream: 0 } => {}
            Event::Rejected { stream, .. } | Event::Priority { stream, .. } | Event::Window { stream } => {
                assert!(requests.contains_key(stream));
            }
        }
    }

    /// Passes the output to the client. After an error, the caller closes the connection.
    fn flush(&mut self) {
        let out = self.client.out.split();
        if !self.has_failed {
            self.view.receive(&out);
        }
        let streams = &self.client.connection.core.streams;
        self.requests.retain(|stream, _| streams.get(*stream).is_some());
    }

    fn check(&mut self) {
        self.flush();
        let connection = &self.client.connection;
        assert!(connection.core.heap_bytes() <= HEAP_BYTES_MAX);
        let streams: Vec<_> = connection.core.streams.iter().collect();
        assert!(streams.len() <= 4 && streams.is_sorted_by(|a, b| a.id < b.id));
        assert_eq!(connection.is_idle(), streams.is_empty());
        assert!(!connection.is_over() || streams.is_empty() && connection.is_shutting_down());
        assert!(!self.had_final_goaway || connection.is_over() == streams.is_empty());
        assert!(connection.deadline(&self.client.limits).is_some() || !connection.is_idle());
        if self.has_failed {
            return;
        }
        for stream in streams {
            assert!(stream.id <= self.newest && stream.id % 2 == 1);
            assert_eq!(stream.progress.is_in_body(), self.view.is_in_response(stream.id));
            let request = self.requests.get(&stream.id).expect("a stream has a request");
            let is_receiving = stream.progress.receiving == Receiving::Body;
            assert!(!request.has_ended || !is_receiving);
        }
    }
}
