//! Requests with known responses.

use super::pattern::{Fnv, Pattern, sum};
use super::site::FILES;
use super::wire::RequestError;
use crate::random::Random;

/// A request and its expected response.
pub(super) struct Request {
    /// Method and target.
    pub(super) name: String,
    /// The head, including the empty line.
    pub(super) head: Vec<u8>,
    pub(super) body: Vec<u8>,
    pub(super) expected: Expected,
}

/// The body of the response.
#[derive(Debug, Clone)]
pub(super) enum Expected {
    /// A number of bytes of a pattern.
    Pattern {
        seed: u32,
        length: usize,
    },
    Text(String),
    /// The `data` of each server-sent event.
    Events(Vec<String>),
}

impl Request {
    /// Returns a request with a fast response.
    pub(super) fn quick(random: &mut Random) -> Self {
        match random.below(10) {
            0..3 => Self::blob(random, 0..20_000),
            3..6 => Self::upload(random, 0..20_000),
            6 | 7 => {
                let (name, length) = FILES[0];
                Self::get(
                    &format!("/files/{name}"),
                    Expected::Pattern { seed: length, length: length as usize },
                )
            }
            8 => Self::get("/delay", Expected::Text("late\n".into())),
            _ => Self::wait(random),
        }
    }

    /// Returns a request for several megabytes, generated or from a file.
    pub(super) fn large(random: &mut Random) -> Self {
        if random.chance(20) {
            let (name, length) = FILES[1];
            return Self::get(
                &format!("/files/{name}"),
                Expected::Pattern { seed: length, length: length as usize },
            );
        }
        Self::blob(random, 200_000..6_000_000)
    }

    /// Returns an upload, to which the response is its hash or its body.
    pub(super) fn upload(random: &mut Random, lengths: std::ops::Range<usize>) -> Self {
        let (seed, length) = (seed(random), random.within(lengths));
        let body = Pattern::new(seed).take(length);
        let (action, expected) = if random.chance(50) {
            ("echo", Expected::Pattern { seed, length })
        } else {
            let mut hash = Fnv::new();
            hash.update(&body);
            ("sum", Expected::Text(sum(length, &hash)))
        };
        let target = format!("{}?do={action}", application(random));
        let fields = format!("Content-Type: application/octet-stream\r\nContent-Length: {length}\r\n");
        Self::new("POST", &target, &fields, body, expected)
    }

    /// Returns the head for a chunked body.
    pub(super) fn chunked_head(&self) -> Vec<u8> {
        let head = String::from_utf8_lossy(&self.head);
        let length = format!("Content-Length: {}", self.body.len());
        head.replace(&length, "Transfer-Encoding: chunked").into_bytes()
    }

    /// Returns a request for an event stream that ends, from an application or from the server.
    pub(super) fn events(random: &mut Random) -> Self {
        if random.chance(30) {
            let numbers = (1..=20).map(|n| n.to_string()).collect();
            return Self::get("/ticks", Expected::Events(numbers));
        }
        let (seed, count) = (seed(random), random.within(1..20));
        let target = format!("{}?do=events&seed={seed:08x}&count={count}", application(random));
        let events = (0..count).map(|n| format!("{seed:08x} {n}")).collect();
        Self::get(&target, Expected::Events(events))
    }

    /// Returns a request that publishes lines to a topic.
    pub(super) fn publish(random: &mut Random) -> Self {
        let (topic, seed) = (random.below(4), seed(random));
        let lines: Vec<_> = (0..random.within(1..6)).map(|n| format!("{seed:08x} {n}\n")).collect();
        let lines = lines.concat();
        let fields = format!("Content-Length: {}\r\n", lines.len());
        let target = format!("/topics/{topic}");
        Self::new("POST", &target, &fields, lines.into_bytes(), Expected::Text(String::new()))
    }

    /// Returns a subscription to a topic, which does not end.
    pub(super) fn subscribe(random: &mut Random) -> Self {
        Self::get(&format!("/topics/{}", random.below(4)), Expected::Text(String::new()))
    }

    fn blob(random: &mut Random, lengths: std::ops::Range<usize>) -> Self {
        let (seed, length) = (seed(random), random.within(lengths));
        let framing = if random.chance(50) { "&length=1" } else { "" };
        let target = format!("{}?do=blob&seed={seed:08x}&count={length}{framing}", application(random));
        Self::get(&target, Expected::Pattern { seed, length })
    }

    fn wait(random: &mut Random) -> Self {
        let (seed, time) = (seed(random), random.below(200));
        let target = format!("{}?do=wait&seed={seed:08x}&count={time}", application(random));
        Self::get(&target, Expected::Text(format!("{seed:08x}\n")))
    }

    fn get(target: &str, expected: Expected) -> Self {
        Self::new("GET", target, "", Vec::new(), expected)
    }

    fn new(method: &str, target: &str, fields: &str, body: Vec<u8>, expected: Expected) -> Self {
        let name = format!("{method} {target}");
        let head = format!("{name} HTTP/1.1\r\nHost: soak\r\n{fields}\r\n").into_bytes();
        Self { name, head, body, expected }
    }
}

fn application(random: &mut Random) -> &'static str {
    random.pick::<&str>(&["/php/work.php", "/app"])
}

fn seed(random: &mut Random) -> u32 {
    u32::try_from(random.below(1 << 32)).expect("less than 2^32")
}

/// Compares a body with the expected one as it arrives.
pub(super) struct Check {
    expected: Expected,
    pattern: Pattern,
    read: usize,
    text: Vec<u8>,
}

impl Check {
    pub(super) fn new(expected: &Expected) -> Self {
        let seed = if let Expected::Pattern { seed, .. } = expected { *seed } else { 0 };
        Self { expected: expected.clone(), pattern: Pattern::new(seed), read: 0, text: Vec::new() }
    }

    /// Number of bytes so far.
    pub(super) fn read(&self) -> usize {
        self.read
    }

    pub(super) fn piece(&mut self, piece: &[u8]) -> Result<(), RequestError> {
        let begin = self.read;
        self.read += piece.len();
        match self.expected {
            Expected::Pattern { .. } if !self.pattern.check(piece) => {
                let shown = &piece[..piece.len().min(80)];
                Err(RequestError::Invalid(format!("wrong body from byte {begin}: {}", shown.escape_ascii())))
            }
            Expected::Pattern { .. } => Ok(()),
            Expected::Text(_) | Expected::Events(_) => {
                self.text.extend_from_slice(piece);
                Ok(())
            }
        }
    }

    pub(super) fn end(&self) -> Result<(), RequestError> {
        let text = String::from_utf8_lossy(&self.text);
        let (is_expected, actual) = match &self.expected {
            Expected::Pattern { length, .. } => (self.read == *length, format!("{} bytes", self.read)),
            Expected::Text(expected) => (text == *expected, format!("{text:?}")),
            Expected::Events(expected) => {
                let data: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
                (data == *expected, format!("{data:?}"))
            }
        };
        if is_expected {
            Ok(())
        } else {
            Err(RequestError::Invalid(format!("wrong body: {actual}, expected {:?}", self.expected)))
        }
    }
}
