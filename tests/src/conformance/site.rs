//! What is served in the conformance cases: a few targets that do one thing each, the same for every runner.
//!
//! | target | answer |
//! |---|---|
//! | `/hello` | `hello`; other methods than GET, HEAD and POST get 405 |
//! | `/stream` | `one`, `two`, a piece each, with the trailer `x-pieces: 2` |
//! | `/echo` | the request's body, once all of it is there, with its trailers as fields |
//! | `/early` | `early`, and the request's body is not wanted |
//! | `/inspect` | the request's version, target and fields, a line each |
//! | `/empty`, `/unchanged` | 204, 304, both with a body that must not be sent |
//! | `/short`, `/long` | bodies shorter and longer than their heads promise |
//! | `/upgrade` | 101, then everything that comes is sent back in upper case |
//! | `*` | 204 with `Allow` |
//! | others | 404; a method nobody knows gets 501 |

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header, request};
use rudy_http::RawTarget;

/// The date of every answer in the cases.
pub const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// The same in seconds since 1970.
pub const DATE_SECONDS: u64 = 784_111_777;

/// The request's body, once it has been read.
#[derive(Debug, Clone, Default)]
pub struct WholeBody {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its trailers.
    pub trailers: HeaderMap,
}

/// An answer that any runner can give.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The fields.
    pub fields: HeaderMap,
    /// The body.
    pub body: AnswerBody,
}

/// The body of an answer.
#[derive(Debug, Clone)]
pub enum AnswerBody {
    /// All of it, of known length.
    Whole(Bytes),
    /// A promise of a length, and what comes of it.
    Promised(u64, Bytes),
    /// Pieces whose number nobody knows beforehand, then trailers.
    Pieces(Vec<Bytes>, HeaderMap),
    /// None: another protocol follows.
    Upgrade,
}

/// Whether this request's body is read before it is answered.
#[must_use]
pub fn reads_body(request: &request::Parts) -> bool {
    request.uri.path() == "/echo"
}

/// How a request is written down in `saw` lines: with its target as sent, where a URI cannot hold that with escapes for all
/// but printable characters.
#[must_use]
pub fn describe(request: &request::Parts) -> String {
    match request.extensions.get::<RawTarget>() {
        Some(raw) => format!("{} {}", request.method, raw.as_bytes().escape_ascii()),
        None => format!("{} {}", request.method, request.uri),
    }
}

/// How a body that was read is written down: `body hello`, then `trailer x-a: b` for each.
#[must_use]
pub fn describe_body(body: &WholeBody) -> Vec<String> {
    let bytes = format!("body {}", body.bytes.escape_ascii());
    let trailers = body.trailers.iter().map(|(name, value)| format!("trailer {name}: {}", text(value)));
    std::iter::once(bytes).chain(trailers).collect()
}

/// The answer to a request.
#[must_use]
pub fn answer(request: &request::Parts, body: &WholeBody) -> Answer {
    if !is_known(&request.method) {
        return plain(StatusCode::NOT_IMPLEMENTED, "not implemented");
    }
    match (request.uri.path(), &request.method) {
        ("*", &Method::OPTIONS) => {
            with_field(plain(StatusCode::NO_CONTENT, ""), header::ALLOW, "GET, HEAD, POST")
        }
        ("/hello", &Method::GET | &Method::HEAD | &Method::POST) => plain(StatusCode::OK, "hello"),
        ("/hello", _) => {
            with_field(plain(StatusCode::METHOD_NOT_ALLOWED, "no"), header::ALLOW, "GET, HEAD, POST")
        }
        ("/stream", _) => stream(),
        ("/echo", _) => echo(body),
        ("/early", _) => plain(StatusCode::OK, "early"),
        ("/inspect", _) => plain(StatusCode::OK, inspect(request)),
        ("/empty", _) => plain(StatusCode::NO_CONTENT, "not to be sent"),
        ("/unchanged", _) => {
            with_field(plain(StatusCode::NOT_MODIFIED, "not to be sent"), header::ETAG, "\"1\"")
        }
        ("/short", _) => promised(10, "short"),
        ("/long", _) => promised(3, "long"),
        ("/upgrade", _) => Answer { body: AnswerBody::Upgrade, ..upgrade() },
        _ => plain(StatusCode::NOT_FOUND, "not found"),
    }
}

/// What the protocol after an upgrade says to these bytes.
#[must_use]
pub fn upgraded(bytes: &[u8]) -> Vec<u8> {
    bytes.to_ascii_uppercase()
}

fn is_known(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS].contains(method)
}

fn plain(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    Answer { status, fields: HeaderMap::new(), body: AnswerBody::Whole(body.into()) }
}

fn with_field(mut answer: Answer, name: HeaderName, value: &'static str) -> Answer {
    answer.fields.insert(name, HeaderValue::from_static(value));
    answer
}

fn promised(length: u64, body: &'static str) -> Answer {
    Answer { body: AnswerBody::Promised(length, Bytes::from(body)), ..plain(StatusCode::OK, "") }
}

fn stream() -> Answer {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-pieces", HeaderValue::from_static("2"));
    let pieces = vec![Bytes::from("one"), Bytes::new(), Bytes::from("two")];
    Answer { body: AnswerBody::Pieces(pieces, trailers), ..plain(StatusCode::OK, "") }
}

fn echo(body: &WholeBody) -> Answer {
    Answer { fields: body.trailers.clone(), ..plain(StatusCode::OK, body.bytes.clone()) }
}

fn upgrade() -> Answer {
    with_field(plain(StatusCode::SWITCHING_PROTOCOLS, ""), header::UPGRADE, "shout")
}

/// How the machine understood a request, a line for the request line and each field.
fn inspect(request: &request::Parts) -> String {
    let version = if request.version == Version::HTTP_10 { "1.0" } else { "1.1" };
    let fields = request.headers.iter().map(|(name, value)| format!("{name}: {}\n", text(value)));
    std::iter::once(format!("{version} {} {}\n", request.method, request.uri)).chain(fields).collect()
}

fn text(value: &HeaderValue) -> String {
    value.as_bytes().escape_ascii().to_string()
}
