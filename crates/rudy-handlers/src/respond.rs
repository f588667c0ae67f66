//! The `respond` handler: always sends the same response.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use rudy_config::{Fields, FilePath, Int, Invalid, Location, Problem, Setting, Shape, Table, Value};
use rudy_message::PreparedHead;
use rudy_message::semantics::media_type;
use rudy_message::semantics::negotiation::Coding;
use rudy_pipeline::field_changes::CONNECTION_FIELDS;
use rudy_pipeline::methods::{reject_unknown_method, respond_unless_read};
use rudy_pipeline::{BuildContext, Call, Handler, HandlerConfig, pages};
use rudy_service::{Body, Reply, Request, Response};

use super::{Status, status_code};

/// Maximum size of a body file, which is kept in memory.
const BODY_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Sends a fixed response: a table, or the status or body alone.
#[derive(Debug, Clone, Table)]
#[setting(default, short = StatusOrBody, what = "a status (404), a text or a table", example = { status = 404, body = "Gone." })]
pub struct RespondTable {
    /// Status of the response. 444 sends nothing and ends the connection, or the stream of HTTP/2, as in nginx: for scanners and unknown hosts.
    #[setting(default = ok())]
    pub status: Status,
    /// Body of the response, as text. An error (400 or more) without `body` and `body_file` has the page of the server, and with
    /// `body = ""` none.
    #[setting(example = "pong")]
    pub body: Option<String>,
    /// File to send as the body, relative to the configuration file. It is kept in memory, and can be at most 1 MiB.
    #[setting(example = "sorry.html")]
    pub body_file: Option<FilePath>,
    /// Header fields of the response. The default `Content-Type` is `text/plain; charset=utf-8`, or the media type of
    /// `body_file`.
    #[setting(default, example = { "X-Frame-Options" = "DENY" })]
    pub headers: Fields,
}

/// The short form of the table.
enum StatusOrBody {
    Status(Status),
    Body(String),
}

impl Setting for StatusOrBody {
    const SHAPE: Shape = Shape::Either(&[&Status::SHAPE, &String::SHAPE]);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        match value.as_text() {
            Some(body) => Ok(Self::Body(body.to_owned())),
            None => Status::read(value).map(Self::Status),
        }
    }
}

impl From<StatusOrBody> for RespondTable {
    fn from(short: StatusOrBody) -> Self {
        match short {
            StatusOrBody::Status(status) => Self { status, ..Self::default() },
            StatusOrBody::Body(body) => Self { body: Some(body), ..Self::default() },
        }
    }
}

/// The status of nginx for no response.
const SILENCE: Status = Int(444);

/// Returns the default status.
pub(super) fn ok() -> Status {
    Int(200)
}

impl HandlerConfig for RespondTable {
    fn describe(&self) -> String {
        let body = match (&self.body, &self.body_file) {
            (_, Some(file)) => format!(" with {}", file.display()),
            (Some(text), None) => format!(" with {} bytes of text", text.len()),
            (None, None) => String::new(),
        };
        format!("{}{body}", self.status.0)
    }

    fn paths_read(&self) -> Vec<PathBuf> {
        self.body_file.iter().map(|file| file.0.clone()).collect()
    }

    fn build(&self, route: &BuildContext<'_>) -> Result<Box<dyn Handler>, Vec<Problem>> {
        Ok(Box::new(Respond::new(self, route.location)?))
    }
}

impl Handler for Respond {
    fn call(&self, request: Request<'_>, _: Call<'_>) -> Reply {
        self.respond(&request).into()
    }
}

/// A prepared response.
#[derive(Debug)]
pub(crate) struct Respond {
    head: Arc<PreparedHead>,
    body: Bytes,
    /// The fields of an error that has no body of its own, and gets the page of the server.
    page_fields: Option<HeaderMap>,
}

impl Respond {
    /// Reads the body file and encodes the head.
    pub(crate) fn new(table: &RespondTable, location: &Location) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let status = status_code(table.status);
        for (key, _) in table.headers.names().filter(|(_, name)| CONNECTION_FIELDS.contains(name)) {
            let problem =
                Problem::key(&location.key("headers").key(key), format!("the server sets {key} itself"));
            problems.push(problem.label("remove this field"));
        }
        let mut fields = table.headers.to_map();
        let body = body(table, location, &mut problems);
        if !body.is_empty() && matches!(status.as_u16(), 204 | 205 | 304) {
            // RFC 9110 §15.3.5, §15.3.6, §15.4.5: these statuses have no body.
            let problem = Problem::value(
                &location.key("status"),
                format!("a response with status {} has no body", status.as_str()),
            );
            problems.push(problem.label("remove the body, or use another status"));
        }
        if !body.is_empty() && !fields.contains_key(header::CONTENT_TYPE) {
            let name = table.body_file.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
            let text = HeaderValue::from_static("text/plain; charset=utf-8");
            fields.insert(header::CONTENT_TYPE, name.map_or(text, media_type::of_name));
            let coding = name.map_or(Coding::Identity, media_type::coding_of_name);
            if coding != Coding::Identity && !fields.contains_key(header::CONTENT_ENCODING) {
                fields.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
            }
        }
        let has_body = table.body.is_some() || table.body_file.is_some();
        let is_silent = table.status == SILENCE;
        if is_silent && (has_body || !fields.is_empty()) {
            let problem =
                Problem::value(&location.key("status"), "444 ends the connection without a response");
            problems.push(problem.label("remove the body and the headers, or use another status"));
        }
        let page_fields = (is_error(status) && !has_body && !is_silent).then(|| {
            let mut fields = fields.clone();
            fields.remove(header::CONTENT_TYPE);
            fields
        });
        if problems.is_empty() {
            Ok(Self { head: Arc::new(PreparedHead::new(status, fields)), body, page_fields })
        } else {
            Err(problems)
        }
    }

    /// Responds to a request. A success is a read-only resource; any other status applies to all registered methods, because a page
    /// that is gone is gone for POST too.
    pub(crate) fn respond(&self, request: &Request<'_>) -> Response {
        let rejection = if self.is_silent() {
            None
        } else if self.head.status().is_success() {
            respond_unless_read(request)
        } else {
            reject_unknown_method(request)
        };
        rejection.unwrap_or_else(|| {
            let Some(fields) = &self.page_fields else { return self.response() };
            let mut response = pages::error(self.head.status(), request.headers(), "");
            response.headers_mut().extend(fields.clone());
            response
        })
    }

    /// Returns the response to GET and HEAD.
    pub(crate) fn response(&self) -> Response {
        let body = match () {
            () if self.is_silent() => Body::Silence,
            () if self.body.is_empty() => Body::Empty,
            () => Body::Bytes(self.body.clone()),
        };
        Response::prepared(self.head.clone(), body)
    }

    fn is_silent(&self) -> bool {
        self.head.status().as_u16() == SILENCE.as_u16()
    }
}

fn is_error(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

fn body(table: &RespondTable, location: &Location, problems: &mut Vec<Problem>) -> Bytes {
    match (&table.body, &table.body_file) {
        (Some(_), Some(_)) => {
            let problem =
                Problem::key(&location.key("body_file"), "`body` and `body_file` exclude each other");
            problems.push(problem.label("the second").also(&location.key("body"), "the first"));
            Bytes::new()
        }
        (Some(text), None) => text.clone().into(),
        (None, Some(path)) => read(path).unwrap_or_else(|why| {
            let title = format!("cannot read the body from {}: {why}", path.display());
            problems.push(Problem::value(&location.key("body_file"), title));
            Bytes::new()
        }),
        (None, None) => Bytes::new(),
    }
}

fn read(path: &Path) -> Result<Bytes, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    if !file.metadata().map_err(|error| error.to_string())?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut body = Vec::new();
    file.take(BODY_FILE_BYTES_MAX + 1).read_to_end(&mut body).map_err(|error| error.to_string())?;
    if body.len() as u64 > BODY_FILE_BYTES_MAX {
        return Err("it is larger than 1 MiB (serve it with `files`)".to_owned());
    }
    Ok(body.into())
}

#[cfg(test)]
mod tests {
    use rudy_service::RequestBody;

    use super::*;
    use rudy_config::from_text;

    fn respond(table: &str) -> Result<Respond, Vec<Problem>> {
        from_text(table).and_then(|table| Respond::new(&table, &Location::none()))
    }

    fn status(respond: &Respond, method: &str) -> u16 {
        let request =
            http::Request::builder().method(method).body(RequestBody::empty()).map(Request::from).unwrap();
        respond.respond(&request).status().as_u16()
    }

    #[test]
    fn a_text_is_sent_with_the_configured_fields() {
        let respond =
            respond("body = 'pong'\nheaders = { X-Pool = 'a', Content-Type = 'text/x-pong' }").unwrap();
        let request = http::Request::get("/").body(RequestBody::empty()).map(Request::from).unwrap();
        let response = respond.respond(&request);
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["x-pool"], "a");
        assert_eq!(response.headers()["content-type"], "text/x-pong");
        assert_eq!(response.body.length(), Some(4));
    }

    #[test]
    fn an_error_without_a_body_has_the_page_of_the_server() {
        for (table, expected) in [
            ("status = 403\nheaders = { X-Pool = 'a' }", Some("403 Forbidden\n")),
            ("status = 403\nbody = ''\nheaders = { X-Pool = 'a' }", None),
            ("status = 302\nheaders = { X-Pool = 'a' }", None),
        ] {
            let request = http::Request::get("/").body(RequestBody::empty()).map(Request::from).unwrap();
            let response = respond(table).unwrap().respond(&request);
            assert_eq!(response.headers()["x-pool"], "a");
            match (&response.body, expected) {
                (Body::Bytes(page), Some(expected)) => assert_eq!(page, expected, "{table}"),
                (body, expected) => assert_eq!((body.length(), expected), (Some(0), None), "{table}"),
            }
        }
    }

    #[test]
    fn a_body_file_is_read_at_the_start_and_typed_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sorry.html");
        std::fs::write(&file, "<p>Sorry").unwrap();
        let respond = respond(&format!("status = 503\nbody_file = '{}'", file.display())).unwrap();
        std::fs::remove_file(&file).unwrap();
        let request = http::Request::get("/").body(RequestBody::empty()).map(Request::from).unwrap();
        let response = respond.respond(&request);
        assert_eq!(response.headers()["content-type"], "text/html; charset=utf-8");
        assert_eq!(response.body.length(), Some(8));
    }

    #[test]
    fn a_success_is_read_only_and_other_statuses_apply_to_every_method() {
        let pong = respond("body = 'pong'").unwrap();
        let gone = respond("status = 410").unwrap();
        for (method, of_pong, of_gone) in [
            ("GET", 200, 410),
            ("HEAD", 200, 410),
            ("OPTIONS", 204, 410),
            ("POST", 405, 410),
            ("BREW", 501, 501),
        ] {
            assert_eq!((status(&pong, method), status(&gone, method)), (of_pong, of_gone), "{method}");
        }
    }

    #[test]
    fn invalid_tables_are_rejected_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let large = folder.path().join("large");
        std::fs::write(&large, vec![b'x'; 1024 * 1024 + 1]).unwrap();
        for (table, errors) in [
            ("body = 'a'\nbody_file = 'b'", 1),
            ("body_file = '/nowhere'", 1),
            ("body_file = '/'", 1),
            (&format!("body_file = '{}'", large.display()), 1),
            ("status = 204\nbody = 'a'", 1),
            ("headers = { Content-Length = '1', 'a b' = 'x', X = \"a\\nb\" }", 2),
            ("headers = { X = 'a', x = 'b' }", 1),
            ("headers = { Content-Length = '1' }", 1),
        ] {
            assert_eq!(respond(table).unwrap_err().len(), errors, "{table}");
        }
    }
}
