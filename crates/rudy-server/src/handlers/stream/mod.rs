//! Answers with a stream that ticks: a welcome, then a chunk at each interval, for ever or so many.
//!
//! It takes no thread, timer or system call beyond the write of each chunk: a stream says when it is due, and the connection
//! has its worker's timer wheel wake it.

mod spread;
mod template;
mod ticks;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use rudy_http::h1::Prepared;
use rudy_http::semantics::path::RequestPath;
use rudy_http::syntax::parse_digits;
use rudy_net::{Body, Request, Response};

use self::spread::Spread;
use self::template::Template;
use self::ticks::Ticks;
use crate::config::{Place, Problem, StreamFormat, StreamTable, Time, out_of_bounds};
use crate::methods::answer_unless_read;
use crate::pages;

/// The interval's bounds: oftener is no chunk at a time any more but a download, less often than hourly no stream.
const INTERVAL_MIN: Duration = Duration::from_millis(10);
const INTERVAL_MAX: Duration = Duration::from_hours(1);

/// The longest path that a stream shows: it is kept as long as the stream lasts, and should not be what decides how much
/// memory ten thousand of them take.
const PATH_BYTES_MAX: usize = 256;

/// Streams of one kind.
#[derive(Debug)]
pub(crate) struct Stream {
    head: Arc<Prepared>,
    settings: Arc<Settings>,
    spread: Spread,
    /// Whether the path is shown, and so has to be kept.
    keeps_path: bool,
    /// Whether a client that comes back may say what it has had already.
    has_ids: bool,
}

/// What all streams of one kind share.
#[derive(Debug)]
struct Settings {
    /// In nanoseconds, which 64 bits hold: this is reckoned with at every chunk.
    interval_ns: u64,
    text: Template,
    welcome: Option<Template>,
    count: Option<u64>,
    queue: u64,
}

impl Stream {
    /// Makes streams ready for a route.
    pub(crate) fn new(table: &StreamTable, place: &Place) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&table.interval.0) {
            let place = place.key("interval");
            problems.push(out_of_bounds(&place, &table.interval, &Time(INTERVAL_MIN), &Time(INTERVAL_MAX)));
        }
        let mut template = |key, text| {
            let template = Template::new(text, table.format);
            let wrong = |(title, label)| Problem::value(&place.key(key), title).label(label);
            template.map_err(|error| problems.push(wrong(error))).ok()
        };
        let text = template("text", &table.text);
        let welcome = if table.welcome.is_empty() { None } else { template("welcome", &table.welcome) };
        let (Some(text), []) = (text, problems.as_slice()) else { return Err(problems) };
        let settings = Settings {
            interval_ns: u64::try_from(table.interval.0.as_nanos()).unwrap_or(u64::MAX),
            text,
            welcome,
            count: table.count,
            queue: table.queue.into(),
        };
        let shows_path = settings.welcome.as_ref().is_some_and(Template::shows_path);
        Ok(Self {
            head: Arc::new(Prepared::new(StatusCode::OK, fields(table.format))),
            spread: Spread::new(Instant::now(), settings.interval_ns),
            keeps_path: shows_path || settings.text.shows_path(),
            settings: Arc::new(settings),
            has_ids: table.format == StreamFormat::Sse,
        })
    }

    /// Answers a request with a stream of its own.
    pub(crate) fn answer(&self, request: &Request, path: &RequestPath<'_>) -> Response {
        if let Some(answer) = answer_unless_read(request) {
            return answer;
        }
        let path = if self.keeps_path { path.encoded_from(0) } else { String::default() };
        if path.len() > PATH_BYTES_MAX {
            let explanation = format!("The path of a stream has {PATH_BYTES_MAX} bytes at most.");
            return pages::error(StatusCode::URI_TOO_LONG, request.headers(), &explanation);
        }
        let had = if self.has_ids { last_event_id(request) } else { 0 };
        if self.settings.count.is_some_and(|count| had >= count) {
            // The one answer that keeps an `EventSource` from coming back (HTML §9.2.2).
            return Response::new(StatusCode::NO_CONTENT);
        }
        let ticks = Ticks::new(self.settings.clone(), &path, self.spread.first(Instant::now()), had);
        Response::prepared(self.head.clone(), Body::Stream(Box::new(ticks)))
    }
}

/// The fields of every answer that goes on and on.
pub(super) fn fields(format: StreamFormat) -> HeaderMap {
    let content_type = match format {
        StreamFormat::Plain => "text/plain; charset=utf-8",
        StreamFormat::Sse => "text/event-stream",
    };
    HeaderMap::from_iter([
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // Browsers hold back the beginning of a plain text to guess what it is.
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        // nginx in front would gather chunks before it hands them on.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ])
}

/// The last chunk that a client had before its connection broke; 0 where it had none, or one that was not ours.
fn last_event_id(request: &Request) -> u64 {
    let id = request.headers().get("last-event-id");
    id.and_then(|id| parse_digits(id.as_bytes())).unwrap_or(0)
}

#[cfg(test)]
mod tests;
