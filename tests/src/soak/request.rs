//! Requests with known responses.

use super::pattern::{Fnv, Pattern, sum};
use super::site::FILES;
use super::stream::HOST;
use super::wire::RequestError;
use crate::random::Random;

/// The number of responses that are requested through the cache.
const CACHED: usize = 4_000;

/// A request and its expected response.
pub(super) struct Request {
    /// Method and target.
    pub(super) name: String,
    /// The head, including the empty line.
    pub(super) head: Vec<u8>,
    pub(super) body: Vec<u8>,
    pub(super) expected: ExpectedBody,
}

/// The expected body of a response.
#[derive(Debug, Clone)]
pub(super) enum ExpectedBody {
    /// The first `length` bytes of a pattern.
    Pattern {
        seed: u32,
        length: usize,
    },
    Text(String),
    /// The `data` of each server-sent event.
    Events(Vec<String>),
}

impl Request {
    /// Returns the method.
    pub(super) fn method(&self) -> &str {
        self.name.split_once(' ').expect("a name is a method and a target").0
    }

    /// Returns the target.
    pub(super) fn target(&self) -> &str {
        self.name.split_once(' ').expect("a name is a method and a target").1
    }

    /// Returns a request with a fast response.
    pub(super) fn quick(random: &mut Random) -> Self {
        match random.below(12) {
            10 | 11 => Self::cached(random),
            0..3 => Self::blob(random, 0..20_000),
            3..6 => Self::upload(random, 0..20_000),
            6 | 7 => Self::file(random, FILES[0]),
            8 => {
                let way = way(random);
                Self::get(&format!("{way}/delay"), ExpectedBody::Text("late\n".into()))
            }
            _ => Self::wait(random),
        }
    }

    /// Returns a request for up to several megabytes, generated or from a file.
    pub(super) fn large(random: &mut Random) -> Self {
        if random.chance(20) {
            return Self::file(random, FILES[1]);
        }
        Self::blob(random, 200_000..6_000_000)
    }

    /// Returns an upload. The response is the body or its hash.
    pub(super) fn upload(random: &mut Random, lengths: std::ops::Range<usize>) -> Self {
        let (seed, length) = (seed(random), random.within(lengths));
        let body = Pattern::new(seed).take(length);
        let (action, expected) = if random.chance(50) {
            ("echo", ExpectedBody::Pattern { seed, length })
        } else {
            let mut hash = Fnv::new();
            hash.update(&body);
            ("sum", ExpectedBody::Text(sum(length, &hash)))
        };
        let target = format!("{}?do={action}", application(random));
        let fields = format!("Content-Type: application/octet-stream\r\nContent-Length: {length}\r\n");
        Self::new("POST", &target, &fields, body, expected)
    }

    /// Returns the request head with `Transfer-Encoding: chunked`.
    pub(super) fn chunked_head(&self) -> Vec<u8> {
        let head = String::from_utf8_lossy(&self.head);
        let length = format!("Content-Length: {}", self.body.len());
        head.replace(&length, "Transfer-Encoding: chunked").into_bytes()
    }

    /// Returns a request for a finite event stream from an application or from the server.
    pub(super) fn events(random: &mut Random) -> Self {
        if random.chance(30) {
            let numbers = (1..=20).map(|n| n.to_string()).collect();
            return Self::get(&format!("{}/ticks", way(random)), ExpectedBody::Events(numbers));
        }
        let (seed, count) = (seed(random), random.within(1..20));
        let target = format!("{}?do=events&seed={seed:08x}&count={count}", application(random));
        let events = (0..count).map(|n| format!("{seed:08x} {n}")).collect();
        Self::get(&target, ExpectedBody::Events(events))
    }

    /// Returns a request that publishes lines to a topic.
    pub(super) fn publish(random: &mut Random) -> Self {
        let (topic, seed) = (random.below(4), seed(random));
        let lines: Vec<_> = (0..random.within(1..6)).map(|n| format!("{seed:08x} {n}\n")).collect();
        let lines = lines.concat();
        let fields = format!("Content-Length: {}\r\n", lines.len());
        let target = format!("/topics/{topic}");
        Self::new("POST", &target, &fields, lines.into_bytes(), ExpectedBody::Text(String::new()))
    }

    /// Returns a subscription to a topic. Its response does not end.
    pub(super) fn subscribe(random: &mut Random) -> Self {
        Self::get(&format!("/topics/{}", random.below(4)), ExpectedBody::Text(String::new()))
    }

    fn file(random: &mut Random, (name, length): (&str, u32)) -> Self {
        let target = format!("{}/files/{name}", way(random));
        Self::get(&target, ExpectedBody::Pattern { seed: length, length: length as usize })
    }

    fn blob(random: &mut Random, lengths: std::ops::Range<usize>) -> Self {
        let (seed, length) = (seed(random), random.within(lengths));
        let framing = if random.chance(50) { "&length=1" } else { "" };
        let target = format!("{}?do=blob&seed={seed:08x}&count={length}{framing}", application(random));
        Self::get(&target, ExpectedBody::Pattern { seed, length })
    }

    /// Returns a request for one of the responses that the cache may have: together some 80 MB. Half of the requests are for a tenth of them.
    fn cached(random: &mut Random) -> Self {
        let count = if random.chance(50) { CACHED / 10 } else { CACHED };
        let seed = random.below(count);
        let (length, seed) = (10 + seed * 17 % 40_000, u32::try_from(seed).expect("a few thousand"));
        let application = random.pick::<&str>(&["/php/work.php", "/app"]);
        let target = format!("/cached{application}?do=blob&seed={seed:08x}&count={length}&length=1");
        Self::get(&target, ExpectedBody::Pattern { seed, length })
    }

    fn wait(random: &mut Random) -> Self {
        let (seed, time) = (seed(random), random.below(200));
        let target = format!("{}?do=wait&seed={seed:08x}&count={time}", application(random));
        Self::get(&target, ExpectedBody::Text(format!("{seed:08x}\n")))
    }

    fn get(target: &str, expected: ExpectedBody) -> Self {
        Self::new("GET", target, "", Vec::new(), expected)
    }

    fn new(method: &str, target: &str, fields: &str, body: Vec<u8>, expected: ExpectedBody) -> Self {
        let name = format!("{method} {target}");
        let head = format!("{name} HTTP/1.1\r\nHost: {HOST}\r\n{fields}\r\n").into_bytes();
        Self { name, head, body, expected }
    }
}

fn application(random: &mut Random) -> &'static str {
    random.pick::<&str>(&["/php/work.php", "/app", "/through/php/work.php", "/through/app"])
}

/// The begin of a path: to the server at once, or through its proxy.
fn way(random: &mut Random) -> &'static str {
    random.pick::<&str>(&["", "/through"])
}

fn seed(random: &mut Random) -> u32 {
    u32::try_from(random.below(1 << 32)).expect("less than 2^32")
}

/// Compares a body with the expected one as it arrives.
pub(super) struct BodyCheck {
    expected: ExpectedBody,
    pattern: Pattern,
    received: usize,
    text: Vec<u8>,
}

impl BodyCheck {
    pub(super) fn new(expected: &ExpectedBody) -> Self {
        let seed = if let ExpectedBody::Pattern { seed, .. } = expected { *seed } else { 0 };
        Self { expected: expected.clone(), pattern: Pattern::new(seed), received: 0, text: Vec::new() }
    }

    /// Returns the number of bytes received so far.
    pub(super) fn bytes_received(&self) -> usize {
        self.received
    }

    pub(super) fn check_piece(&mut self, piece: &[u8]) -> Result<(), RequestError> {
        let begin = self.received;
        self.received += piece.len();
        match self.expected {
            ExpectedBody::Pattern { .. } if !self.pattern.check(piece) => {
                let excerpt = &piece[..piece.len().min(80)];
                Err(RequestError::Invalid(format!(
                    "unexpected body from byte {begin}: {}",
                    excerpt.escape_ascii()
                )))
            }
            ExpectedBody::Pattern { .. } => Ok(()),
            ExpectedBody::Text(_) | ExpectedBody::Events(_) => {
                self.text.extend_from_slice(piece);
                Ok(())
            }
        }
    }

    pub(super) fn check_end(&self) -> Result<(), RequestError> {
        let text = String::from_utf8_lossy(&self.text);
        let (is_expected, actual) = match &self.expected {
            ExpectedBody::Pattern { length, .. } => {
                (self.received == *length, format!("{} bytes", self.received))
            }
            ExpectedBody::Text(expected) => (text == *expected, format!("{text:?}")),
            ExpectedBody::Events(expected) => {
                let data: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
                (data == *expected, format!("{data:?}"))
            }
        };
        if is_expected {
            Ok(())
        } else {
            Err(RequestError::Invalid(format!("unexpected body: {actual}, expected {:?}", self.expected)))
        }
    }
}
