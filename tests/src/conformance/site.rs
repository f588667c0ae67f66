//! The site of the conformance cases, the same for every runner. Each target does one thing.
//!
//! | target | response |
//! |---|---|
//! | `/hello` | `hello`; other methods than GET, HEAD and POST get 405 |
//! | `/stream` | `one` and `two` as pieces, with the trailer `x-pieces: 2` |
//! | `/echo` | the complete body of the request, with its trailers as fields |
//! | `/early` | `early`, without reading the body of the request |
//! | `/inspect` | the version (1.1 also for HTTP/2), target and fields of the request, one per line |
//! | `/empty`, `/unchanged` | 204, 304, both with a body that must not be sent |
//! | `/short`, `/long` | bodies shorter and longer than their Content-Length |
//! | `/upgrade` | 101, then all input in upper case |
//! | `*` | 204 with `Allow` |
//! | others | 404; unknown methods get 501 |

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header, request};
use rudy_message::RawTarget;

/// The date of every response.
pub const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// [`DATE`] in seconds since 1970.
pub const DATE_SECONDS: u64 = 784_111_777;

/// The complete body of a request.
#[derive(Debug, Clone, Default)]
pub struct WholeBody {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its trailers.
    pub trailers: HeaderMap,
}

/// A response, for any runner to send.
#[derive(Debug, Clone)]
pub struct SiteResponse {
    /// The status.
    pub status: StatusCode,
    /// The fields.
    pub fields: HeaderMap,
    /// The body.
    pub body: ResponseBody,
}

/// The body of a response.
#[derive(Debug, Clone)]
pub enum ResponseBody {
    /// Bytes of known length.
    Whole(Bytes),
    /// Bytes with a Content-Length, which may be wrong.
    Declared(u64, Bytes),
    /// Pieces of unknown total length, then trailers.
    Pieces(Vec<Bytes>, HeaderMap),
    /// No body: another protocol follows.
    Upgrade,
}

/// Whether the site reads the body of a request before it responds.
pub fn reads_body(request: &request::Parts) -> bool {
    request.uri.path() == "/echo"
}

/// Formats a request for `saw` lines, with its original target. A target that a URI cannot hold is escaped.
pub fn describe(request: &request::Parts) -> String {
    match request.extensions.get::<RawTarget>() {
        Some(raw) => format!("{} {}", request.method, raw.as_bytes().escape_ascii()),
        None => format!("{} {}", request.method, request.uri),
    }
}

/// Formats a body for `saw` lines: `body hello`, then `trailer x-a: b` for each trailer.
pub fn describe_body(body: &WholeBody) -> Vec<String> {
    let bytes = format!("body {}", body.bytes.escape_ascii());
    let trailers = body.trailers.iter().map(|(name, value)| format!("trailer {name}: {}", text(value)));
    std::iter::once(bytes).chain(trailers).collect()
}

/// Returns the response to a request.
pub fn respond(request: &request::Parts, body: &WholeBody) -> SiteResponse {
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
        ("/short", _) => declared(10, "short"),
        ("/long", _) => declared(3, "long"),
        ("/upgrade", _) => SiteResponse { body: ResponseBody::Upgrade, ..upgrade() },
        _ => plain(StatusCode::NOT_FOUND, "not found"),
    }
}

/// Returns the output of the protocol after an upgrade for these bytes.
pub fn upgraded(bytes: &[u8]) -> Vec<u8> {
    bytes.to_ascii_uppercase()
}

fn is_known(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS].contains(method)
}

fn plain(status: StatusCode, body: impl Into<Bytes>) -> SiteResponse {
    SiteResponse { status, fields: HeaderMap::new(), body: ResponseBody::Whole(body.into()) }
}

fn with_field(mut response: SiteResponse, name: HeaderName, value: &'static str) -> SiteResponse {
    response.fields.insert(name, HeaderValue::from_static(value));
    response
}

fn declared(length: u64, body: &'static str) -> SiteResponse {
    SiteResponse { body: ResponseBody::Declared(length, Bytes::from(body)), ..plain(StatusCode::OK, "") }
}

fn stream() -> SiteResponse {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-pieces", HeaderValue::from_static("2"));
    let pieces = vec![Bytes::from("one"), Bytes::new(), Bytes::from("two")];
    SiteResponse { body: ResponseBody::Pieces(pieces, trailers), ..plain(StatusCode::OK, "") }
}

fn echo(body: &WholeBody) -> SiteResponse {
    SiteResponse { fields: body.trailers.clone(), ..plain(StatusCode::OK, body.bytes.clone()) }
}

fn upgrade() -> SiteResponse {
    with_field(plain(StatusCode::SWITCHING_PROTOCOLS, ""), header::UPGRADE, "shout")
}

/// Formats a parsed request: one line for the request line, and one for each field.
fn inspect(request: &request::Parts) -> String {
    let version = if request.version == Version::HTTP_10 { "1.0" } else { "1.1" };
    let fields = request.headers.iter().map(|(name, value)| format!("{name}: {}\n", text(value)));
    std::iter::once(format!("{version} {} {}\n", request.method, request.uri)).chain(fields).collect()
}

fn text(value: &HeaderValue) -> String {
    value.as_bytes().escape_ascii().to_string()
}
