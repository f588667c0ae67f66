//! The `stream` handler: a welcome, then a chunk at each interval, endlessly or a fixed number of times.
//!
//! A stream needs no thread or timer, and only one system call per chunk: it returns when it is due, and the
//! timer wheel of the worker wakes its connection.

mod spread;
mod template;
mod ticks;

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use rudy_config::{Int, Location, Problem, Table, Words};
use rudy_message::PreparedHead;
use rudy_message::semantics::path::RequestPath;
use rudy_message::syntax::parse_digits;
use rudy_pipeline::methods::respond_unless_read;
use rudy_pipeline::{BuildContext, Call, Handler, HandlerConfig, pages};
use rudy_runtime::clock;
use rudy_service::{Body, Reply, Request, Response};
use rudy_units::Time;

use self::spread::Spread;
use self::template::Template;
use self::ticks::Ticks;

/// The limits of the interval, in milliseconds. Shorter would be a download, and longer would hardly be a
/// stream.
type Interval = Time<10, 3_600_000>;

/// The maximum length of a path in a stream, in bytes. A stream stores its path, which should not dominate
/// the memory of ten thousand streams.
const PATH_BYTES_MAX: usize = 256;

/// Streams generated chunks at an interval, for tests of clients and proxies.
#[derive(Debug, Clone, Table)]
#[setting(default, example = { interval = "5s", format = "sse" })]
pub struct StreamTable {
    /// Time between two chunks, from 10 ms to 1 h. Rudy spreads the chunks of different streams over the interval.
    #[setting(default = Time(Duration::from_secs(1)))]
    pub interval: Interval,
    /// Content of a chunk. `{n}` is its number, from 1; `{path}` is the path of the request. Other braces are plain
    /// text.
    #[setting(default = "Chunk {n} for id {path}".to_owned())]
    pub text: String,
    /// First chunk, sent immediately. It can contain `{path}`; `{n}` is 0. `""` omits it.
    #[setting(default = "Goconntest welcomes you! Your Id: {path}".to_owned())]
    pub welcome: String,
    /// Number of chunks after which the stream ends. The default is an endless stream.
    #[setting(example = 10)]
    pub count: Option<Int<1, { u64::MAX }>>,
    /// Format of the stream.
    pub format: StreamFormat,
    /// Maximum number of chunks queued for a client that does not read. Beyond it, the connection is closed.
    #[setting(default = Int(16), reason = "At one chunk per second, half of `send_stall_timeout`: so this limit applies first and is counted, and a phone may lose its network for this long.")]
    pub queue: Int<1, 1_000_000>,
}

/// The format of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Words)]
pub enum StreamFormat {
    /// Lines of text.
    #[default]
    Plain,
    /// Server-Sent Events, for `EventSource` in browsers. The id of an event is the number of its chunk.
    Sse,
}

impl HandlerConfig for StreamTable {
    fn describe(&self) -> String {
        let what = self.format.describe();
        match self.count {
            Some(Int(count)) => format!("{count} {what}, {} apart", self.interval),
            None => format!("{what}, {} apart, forever", self.interval),
        }
    }

    fn build(&self, route: &BuildContext<'_>) -> Result<Box<dyn Handler>, Vec<Problem>> {
        Ok(Box::new(Stream::new(self, route.location)?))
    }

    fn is_endless(&self) -> bool {
        self.count.is_none()
    }
}

impl StreamFormat {
    /// Returns a description for `rudy check`.
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::Plain => "lines of text",
            Self::Sse => "Server-Sent Events",
        }
    }
}

impl Handler for Stream {
    fn call(&self, request: Request<'_>, call: Call<'_>) -> Reply {
        self.respond(&request, call.path).into()
    }
}

/// The handler of one route.
#[derive(Debug)]
pub struct Stream {
    head: Arc<PreparedHead>,
    settings: Arc<Settings>,
    spread: Spread,
    /// Whether the stream shows its path and must store it.
    stores_path: bool,
    /// Whether a client that reconnects may name the last chunk that it received.
    has_ids: bool,
}

/// The settings that all streams of a route share.
#[derive(Debug)]
struct Settings {
    /// The interval in nanoseconds, as 64 bits because it is used for every chunk.
    interval_ns: u64,
    text: Template,
    welcome: Option<Template>,
    count: Option<u64>,
    queue: u64,
}

impl Stream {
    /// Creates the handler of a route.
    pub fn new(table: &StreamTable, location: &Location) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut template = |key, text| {
            let template = Template::new(text, table.format);
            let problem = |(title, label)| Problem::value(&location.key(key), title).label(label);
            template.map_err(|error| problems.push(problem(error))).ok()
        };
        let text = template("text", &table.text);
        let welcome = if table.welcome.is_empty() { None } else { template("welcome", &table.welcome) };
        let (Some(text), []) = (text, problems.as_slice()) else { return Err(problems) };
        let settings = Settings {
            interval_ns: u64::try_from(table.interval.0.as_nanos()).unwrap_or(u64::MAX),
            text,
            welcome,
            count: table.count.map(|count| count.0),
            queue: table.queue.0,
        };
        let shows_path = settings.welcome.as_ref().is_some_and(Template::shows_path);
        Ok(Self {
            head: Arc::new(PreparedHead::new(StatusCode::OK, fields(table.format))),
            spread: Spread::new(clock::now(), settings.interval_ns),
            stores_path: shows_path || settings.text.shows_path(),
            settings: Arc::new(settings),
            has_ids: table.format == StreamFormat::Sse,
        })
    }

    /// Responds to a request with a new stream.
    pub fn respond(&self, request: &Request<'_>, path: &RequestPath<'_>) -> Response {
        if let Some(response) = respond_unless_read(request) {
            return response;
        }
        let path = if self.stores_path { path.encoded_from(0) } else { String::default() };
        if path.len() > PATH_BYTES_MAX {
            let explanation = format!("The path of a stream may have at most {PATH_BYTES_MAX} bytes.");
            return pages::error(StatusCode::URI_TOO_LONG, request.headers(), &explanation);
        }
        let received = if self.has_ids { last_event_id(request) } else { 0 };
        if self.settings.count.is_some_and(|count| received >= count) {
            // The only status that stops an `EventSource` from reconnecting (HTML §9.2.2).
            return Response::new(StatusCode::NO_CONTENT);
        }
        let ticks = Ticks::new(self.settings.clone(), &path, self.spread.first(clock::now()), received);
        Response::prepared(self.head.clone(), Body::Stream(Box::new(ticks)))
    }
}

/// The header fields of endless responses.
pub(super) fn fields(format: StreamFormat) -> HeaderMap {
    let content_type = match format {
        StreamFormat::Plain => "text/plain; charset=utf-8",
        StreamFormat::Sse => "text/event-stream",
    };
    HeaderMap::from_iter([
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // Browsers buffer the start of a plain text to guess its type.
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        // nginx as a proxy would buffer chunks.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ])
}

/// Returns the last chunk that a client received before it reconnected; 0 if there is none, or its id is
/// invalid.
fn last_event_id(request: &Request<'_>) -> u64 {
    let id = request.headers().get("last-event-id");
    id.and_then(|id| parse_digits(id.as_bytes())).unwrap_or(0)
}

#[cfg(test)]
mod tests;
