//! Polls a resource of another service, politely: for programs that show what it returns.
//!
//! [`poll`] sends conditional requests over one kept connection. It backs off when the service asks for it or fails, varies its pauses, and
//! has a budget per day. It never follows a redirect: a service that has moved is for the operator to decide.
//!
//! ```no_run
//! use rudy_poll::{Options, Outcome, Stop, poll};
//! # fn show(_: &[u8]) {}
//! let options = Options::new("https://example.org/status.json".parse()?);
//! let (stop, stopped) = Stop::new()?;
//! let thread = std::thread::spawn(move || {
//!     poll(&options, stopped, &mut |poll| {
//!         if let Outcome::Changed(body) = &poll.outcome {
//!             show(body);
//!         }
//!     })
//! });
//! // Ends the wait, or the request in progress.
//! stop.stop();
//! thread.join().expect("it does not panic");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod schedule;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue, header};
pub use rudy_request::{Access, Stop, Stopped, Url, UrlError};
use rudy_request::{Error, Head, Memory, Session, Template, Waiter};

use self::schedule::{Event, Schedule};

/// What is polled, and how often.
#[derive(Debug, Clone)]
pub struct Options {
    /// The resource.
    pub url: Url,
    /// More header fields of each request.
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// The trusted certificates, or a Unix socket.
    pub access: Access,
    /// The pause between polls, which varies by a tenth.
    pub interval: Duration,
    /// Maximum number of polls in 24 hours.
    pub per_day: u32,
    /// Timeout of a poll, from the name lookup to the end of the response.
    pub timeout: Duration,
    /// Maximum size of a response body in bytes.
    pub body_bytes: usize,
}

impl Options {
    /// Polls `url` every 15 minutes: 96 times a day, of at most 200. A poll may take 30 s, and return 1 MiB.
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self {
            url,
            fields: Vec::new(),
            access: Access::default(),
            interval: Duration::from_mins(15),
            per_day: 200,
            timeout: Duration::from_secs(30),
            body_bytes: 1024 * 1024,
        }
    }
}

/// A poll that has ended.
#[derive(Debug, Clone)]
pub struct Poll {
    /// When it began.
    pub began: SystemTime,
    /// How long it took.
    pub duration: Duration,
    /// What it returned.
    pub outcome: Outcome,
    /// Whether it used the connection of the poll before.
    pub has_reused: bool,
    /// How many polls the budget of the day has left.
    pub left_today: u32,
    /// The pause until the next poll.
    pub pause: Duration,
}

/// What a poll returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A new representation.
    Changed(Vec<u8>),
    /// The representation is the one of before (304).
    Unchanged,
    /// The service asks for fewer requests: 429, 503 or 999.
    Rejected(u16),
    /// Another status, which has no representation.
    Status(u16),
    /// No complete response, and why.
    Failed(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed(body) => write!(f, "changed, {} bytes", body.len()),
            Self::Unchanged => f.write_str("unchanged"),
            Self::Rejected(status) => write!(f, "status {status}: the service asks for fewer requests"),
            Self::Status(status @ 300..=399) => {
                write!(f, "status {status}: the resource has moved, and redirects are not followed")
            }
            Self::Status(status) => write!(f, "status {status}"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

/// Polls until `stopped`, on the current thread, and calls `on_poll` after each poll.
pub fn poll(options: &Options, stopped: Stopped, on_poll: &mut dyn FnMut(Poll)) {
    let requests = rudy_request::Options {
        timeout: Some(options.timeout),
        access: options.access.clone(),
        ..rudy_request::Options::default()
    };
    let waiter = Waiter::stoppable(stopped);
    let mut session = Session::new(&requests, &waiter);
    let mut schedule = Schedule::new(options.interval, options.per_day);
    let mut validators = HeaderMap::new();
    loop {
        let began = SystemTime::now();
        let left_today = schedule.count(since_1970(began));
        let template = template(options, &validators);
        let mut body = Memory::new(options.body_bytes);
        let (report, error) = session.send(&options.url, &template, false, &mut body);
        if matches!(error, Some(Error::Interrupted(_))) {
            return;
        }
        let event = match (&report.head, &error) {
            (Some(head), None) => {
                Event::Response { status: head.status, retry_after: head.get(header::RETRY_AFTER) }
            }
            _ => Event::Failure,
        };
        let pause = schedule.pause(event, since_1970(SystemTime::now()), random());
        let outcome = outcome(report.head.as_ref(), error.as_ref(), body.into_bytes());
        if let (Outcome::Changed(_), Some(head)) = (&outcome, &report.head) {
            validators = conditions(head);
        }
        let duration = report.phases.total;
        let has_reused = report.connection.new_reason.is_none();
        on_poll(Poll { began, duration, outcome, has_reused, left_today, pause });
        if session.rest(Instant::now().checked_add(pause)).is_err() {
            return;
        }
    }
}

fn outcome(head: Option<&Head>, error: Option<&Error>, body: Vec<u8>) -> Outcome {
    match (head.map(|head| head.status), error) {
        (_, Some(error)) => Outcome::Failed(error.to_string()),
        (None, None) => Outcome::Failed("no response".into()),
        (Some(200..=299), None) => Outcome::Changed(body),
        (Some(304), None) => Outcome::Unchanged,
        (Some(status @ (429 | 503 | 999)), None) => Outcome::Rejected(status),
        (Some(status), None) => Outcome::Status(status),
    }
}

/// The request, with the conditions of the last representation.
fn template(options: &Options, conditions: &HeaderMap) -> Template {
    let mut fields = conditions.clone();
    for (name, value) in &options.fields {
        fields.append(name, value.clone());
    }
    Template { fields, ..Template::default() }
}

/// The conditions under which a representation is unchanged (RFC 9110 §13.1).
fn conditions(head: &Head) -> HeaderMap {
    let pairs = [(header::IF_NONE_MATCH, header::ETAG), (header::IF_MODIFIED_SINCE, header::LAST_MODIFIED)];
    let values = pairs.into_iter();
    values
        .filter_map(|(condition, validator)| Some((condition, head.fields.get(validator)?.clone())))
        .collect()
}

fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A number between 0 and 1 from the random keys of the standard library.
#[expect(clippy::cast_precision_loss, reason = "32 bits are exact in an f64")]
fn random() -> f64 {
    (RandomState::new().hash_one(0) >> 32) as f64 / f64::from(u32::MAX)
}
