//! What a client can conclude from the bytes of both directions: the windows, and the state of each response. A fuzz target uses
//! this module too, so that it depends on nothing but the standard library.

use std::collections::HashMap;

const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

const WINDOW_BYTES_MAX: i64 = 0x7fff_ffff;

/// The view of a client.
pub(crate) struct ClientView {
    sent: Vec<u8>,
    received: Vec<u8>,
    has_preface: bool,
    send: Windows,
    receive: Windows,
    /// The responses that have begun; whether they have ended.
    responses: HashMap<u32, bool>,
    /// The block that continues.
    block: Option<u32>,
    /// Whether GOAWAY has an error, after which nothing follows.
    has_failed: bool,
}

/// The windows of one direction.
struct Windows {
    connection: i64,
    initial: i64,
    /// What updates and DATA have changed since the stream was opened.
    changes: HashMap<u32, i64>,
}

impl Windows {
    fn new() -> Self {
        Self { connection: 65_535, initial: 65_535, changes: HashMap::new() }
    }

    fn change(&mut self, stream: u32, by: i64) -> i64 {
        if stream == 0 {
            self.connection += by;
            return self.connection;
        }
        let change = self.changes.entry(stream).or_default();
        *change += by;
        self.initial + *change
    }
}

impl ClientView {
    pub(crate) fn new() -> Self {
        Self {
            sent: Vec::new(),
            received: Vec::new(),
            has_preface: false,
            send: Windows::new(),
            receive: Windows::new(),
            responses: HashMap::new(),
            block: None,
            has_failed: false,
        }
    }

    /// Records bytes that the client sends.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.sent.extend_from_slice(bytes);
        if !self.has_preface && self.sent.len() >= PREFACE_BYTES {
            self.has_preface = true;
            self.sent.drain(..PREFACE_BYTES);
        }
        while self.has_preface
            && let Some((kind, flags, stream, payload)) = take_frame(&mut self.sent)
        {
            match kind {
                SETTINGS if flags & 1 == 0 => {
                    for parameter in payload.chunks_exact(6).filter(|parameter| parameter[..2] == [0, 4]) {
                        self.receive.initial = number(&parameter[2..]).into();
                    }
                }
                WINDOW_UPDATE if payload.len() == 4 => {
                    self.receive.change(stream, i64::from(number(&payload) & 0x7fff_ffff));
                }
                DATA => {
                    let length = i64::try_from(payload.len()).expect("a frame is short");
                    self.send.change(stream, -length);
                    self.send.change(0, -length);
                }
                _ => {}
            }
        }
    }

    /// Records bytes of the server, which must end with a whole frame, and checks them.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
        while let Some(frame) = take_frame(&mut self.received) {
            self.check(&frame);
        }
        assert!(self.received.is_empty(), "a frame of the server is incomplete");
    }

    /// Whether a response has begun, and not ended.
    pub(crate) fn is_in_response(&self, stream: u32) -> bool {
        self.responses.get(&stream) == Some(&false)
    }

    fn check(&mut self, (kind, flags, stream, payload): &Frame) {
        let (stream, has_ended) = (*stream, flags & END_STREAM != 0);
        assert!(payload.len() <= 16_384, "a frame has at most the default size");
        assert!(!self.has_failed, "a frame follows an error");
        assert_eq!(*kind == CONTINUATION, self.block.is_some(), "a block is not interrupted");
        match *kind {
            DATA => {
                assert_eq!(flags & PADDED, 0);
                assert!(self.is_in_response(stream), "DATA outside of a response");
                let length = i64::try_from(payload.len()).expect("a frame is short");
                for stream in [0, stream] {
                    let window = self.receive.change(stream, -length);
                    assert!(window >= 0 || length == 0, "{length} bytes exceed a window by {}", -window);
                }
                self.responses.insert(stream, has_ended);
            }
            HEADERS => {
                assert!(
                    stream % 2 == 1 && self.responses.get(&stream) != Some(&true),
                    "HEADERS after the end"
                );
                // A status of 1xx is the only one that is written without the static table: `:status`, three digits.
                let is_update = payload.first() == Some(&0x20);
                let is_interim = payload.get(usize::from(is_update)).is_some_and(|first| *first == 0x08)
                    && is_interim(&payload[usize::from(is_update)..]);
                if !is_interim {
                    self.responses.insert(stream, has_ended);
                }
                assert!(!is_interim || !has_ended, "an interim response is not the end");
                self.block = (flags & END_HEADERS == 0).then_some(stream);
            }
            CONTINUATION => {
                assert_eq!(self.block, Some(stream));
                self.block = (flags & END_HEADERS == 0).then_some(stream);
            }
            RST_STREAM => {
                self.responses.insert(stream, true);
            }
            WINDOW_UPDATE => {
                let increment = i64::from(number(payload));
                let window = self.send.change(stream, increment);
                assert!(
                    increment > 0 && window <= WINDOW_BYTES_MAX,
                    "an increment of {increment} to {window}"
                );
            }
            GOAWAY => self.has_failed = number(&payload[4..]) != 0,
            _ => {}
        }
    }
}

/// Whether a block begins with a literal `:status` of 1xx. Digits have 5 bits in the Huffman code, 1 is `00001`.
fn is_interim(block: &[u8]) -> bool {
    match block {
        [0x08, 3, b'1', ..] => true,
        [0x08, length, first, ..] if length & 0x80 != 0 => first >> 3 == 1,
        _ => false,
    }
}

/// The type, flags, stream and payload.
type Frame = (u8, u8, u32, Vec<u8>);

fn take_frame(bytes: &mut Vec<u8>) -> Option<Frame> {
    let head = bytes.get(..HEAD_BYTES)?;
    let length = number(&[0, head[0], head[1], head[2]]) as usize;
    let (kind, flags, stream) = (head[3], head[4], number(&head[5..]) & 0x7fff_ffff);
    let payload = bytes.get(HEAD_BYTES..HEAD_BYTES + length)?.to_vec();
    bytes.drain(..HEAD_BYTES + length);
    Some((kind, flags, stream, payload))
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte))
}
