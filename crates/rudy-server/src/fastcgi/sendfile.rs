//! `X-Sendfile` and `X-Accel-Redirect`: an app checks access to a file, and Rudy sends it, with conditions
//! and ranges, while the app serves other requests.

use std::path::{Path, PathBuf};

use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_MATCH,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, RANGE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use rudy_fastcgi::cgi::{Head, ResponseKind};
use rudy_http::semantics::path::RequestPath;
use rudy_http::semantics::percent::encode;
use rudy_net::{Request, RequestBody, Response};

use super::FastcgiTable;
use super::failure::Failure;
use crate::compression::{CompressionSetting, Negotiated};
use crate::error_log::ErrorLog;
use crate::files::{Files, FilesError, FilesOptions, Folders};

/// The field of nginx, whose value is the path of a URI; those of Apache and old lighttpd, whose value is a
/// path in the file system.
const NAMES: [HeaderName; 3] = [
    HeaderName::from_static("x-accel-redirect"),
    HeaderName::from_static("x-sendfile"),
    HeaderName::from_static("x-lighttpd-send-file"),
];

/// Fields that depend on the file and its range, which an app cannot know.
const FILE_FIELDS: [HeaderName; 6] =
    [ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, LAST_MODIFIED];

/// The folder whose files an app may send.
#[derive(Debug)]
pub(super) struct Sendfile {
    root: PathBuf,
    files: Files,
}

/// The file that an app requests.
#[derive(Debug)]
pub(super) struct FileRequest {
    name: HeaderName,
    value: HeaderValue,
}

impl Sendfile {
    pub(super) fn open(root: &Path, table: &FastcgiTable, folders: &Folders) -> Result<Self, FilesError> {
        let options = FilesOptions {
            index: Vec::new(),
            // The app decides which files to send, and their types.
            serve_hidden: true,
            serve_source: true,
            precompressed: false,
            compression: Some(CompressionSetting(None)),
            follow_symlinks: table.follow_symlinks,
            ..FilesOptions::default()
        };
        let files = Files::open(root, options, folders)?;
        let root = std::path::absolute(root).map_err(|error| FilesError::Root(root.to_owned(), error))?;
        Ok(Self { root, files })
    }

    pub(super) fn log_to(&self, log: ErrorLog) {
        self.files.log_to(log);
    }

    /// Sends the file to the client, with the app's fields.
    pub(super) async fn send(
        &self,
        client_request: &Parts,
        app_head: Head,
        file: &FileRequest,
    ) -> Result<Response, Failure> {
        let outside = || file.failure(StatusCode::BAD_GATEWAY, OUTSIDE);
        let path = self.path(file).ok_or_else(outside)?;
        let path = RequestPath::parse(&path).map_err(|_| outside())?.into_owned();
        let status = match app_head.kind {
            ResponseKind::Document(status) => status,
            ResponseKind::LocalRedirect(_) => StatusCode::OK,
        };
        let response = self.files.send(file_request(client_request, status), path).await;
        match response.status() {
            StatusCode::NOT_FOUND => Err(file.failure(StatusCode::NOT_FOUND, MISSING)),
            StatusCode::FORBIDDEN => Err(file.failure(StatusCode::FORBIDDEN, FORBIDDEN)),
            _ => Ok(apply_app_fields(response, status, &app_head.fields)),
        }
    }

    /// Returns the encoded path below the root, with a leading slash; `None` if the file is not below it.
    fn path(&self, file: &FileRequest) -> Option<String> {
        let text = file.value.to_str().ok()?;
        let path = if file.name == NAMES[0] {
            text.split('?').next().filter(|path| path.starts_with('/'))?.to_owned()
        } else if text.starts_with('/') {
            encode(Path::new(text).strip_prefix(&self.root).ok()?.to_str()?)
        } else {
            encode(text)
        };
        let path = if path.starts_with('/') { path } else { format!("/{path}") };
        RequestPath::parse(&path).is_ok_and(|path| path.below(0).in_folder().is_ok()).then_some(path)
    }
}

const OUTSIDE: &str = "which is not a path below `sendfile_root`";
const MISSING: &str = "which does not exist below `sendfile_root`";
const FORBIDDEN: &str = "which Rudy's user may not read";
const NOT_FOR_AUTHORIZERS: &str = "but an authorizer cannot send files";
const DISABLED: &str = "but `sendfile_root` is not set";

impl FileRequest {
    /// Removes the fields that name a file, so that no client sees them.
    pub(super) fn take_from(fields: &mut HeaderMap) -> Option<Self> {
        let all = NAMES.map(|name| fields.remove(&name).map(|value| Self { name, value }));
        all.into_iter().flatten().next()
    }

    /// The failure if `sendfile_root` is not set.
    pub(super) fn disabled(&self) -> Failure {
        self.failure(StatusCode::BAD_GATEWAY, DISABLED)
    }

    /// The failure if an authorizer names a file.
    pub(super) fn not_for_authorizers(&self) -> Failure {
        self.failure(StatusCode::BAD_GATEWAY, NOT_FOR_AUTHORIZERS)
    }

    fn failure(&self, status: StatusCode, why: &'static str) -> Failure {
        let value = String::from_utf8_lossy(self.value.as_bytes()).into_owned();
        Failure::Sendfile { status, name: self.name.clone(), value, why }
    }
}

/// Creates the request for the files handler: GET or HEAD of the file, with the conditions and the range of
/// the client.
///
/// There are neither if the app's status is not 200 (an error page, for instance). There is also no range if
/// the client requests several: their parts would have the type of the file name instead of the app's.
fn file_request(client_request: &Parts, status: StatusCode) -> Request {
    let mut request = Request::new(RequestBody::empty());
    let is_read = matches!(client_request.method, Method::GET | Method::HEAD);
    *request.method_mut() = if is_read { client_request.method.clone() } else { Method::GET };
    *request.headers_mut() = client_request.headers.clone();
    let has_several = client_request.headers.get(RANGE).is_some_and(|range| range.as_bytes().contains(&b','));
    let ignored = match (is_read && status == StatusCode::OK, has_several) {
        (true, false) => &[][..],
        (true, true) => &[RANGE],
        (false, _) => &[RANGE, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE],
    };
    for name in ignored {
        request.headers_mut().remove(name);
    }
    request
}

/// Adds the app's fields and status to the response with the file.
fn apply_app_fields(mut response: Response, status: StatusCode, fields: &HeaderMap) -> Response {
    let is_whole = response.status() == StatusCode::OK;
    let is_error_page = response.status().is_client_error() || response.status().is_server_error();
    if is_error_page {
        // 412, 416 and 503 are Rudy's own pages.
        return response;
    }
    // The app decides about the type, and so about compression.
    response.extensions.remove::<Negotiated>();
    let is_sent = response.status() != StatusCode::NOT_MODIFIED;
    let headers = response.headers_mut();
    for name in fields.keys() {
        // A 304 has no content, so it has no type (RFC 9110 §15.4.5).
        if !FILE_FIELDS.contains(name) && (is_sent || name != CONTENT_TYPE) {
            headers.remove(name);
            for value in fields.get_all(name) {
                headers.append(name, value.clone());
            }
        }
    }
    if is_whole && let rudy_net::Head::Fields(file_status, _) = &mut response.head {
        *file_status = status;
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_its_path_or_by_that_of_a_uri() {
        let folder = tempfile::tempdir().unwrap();
        let sendfile = Sendfile::open(folder.path(), &FastcgiTable::default(), &Folders::default()).unwrap();
        let root = folder.path().display().to_string();
        for (name, value, expected) in [
            ("x-accel-redirect", "/a/b%20c.pdf", Some("/a/b%20c.pdf")),
            ("x-accel-redirect", "/a.pdf?v=1", Some("/a.pdf")),
            ("x-accel-redirect", "a.pdf", None),
            ("x-accel-redirect", "/../a.pdf", None),
            ("x-accel-redirect", "/%2e%2e/a.pdf", None),
            ("x-sendfile", &format!("{root}/a/b c%.pdf"), Some("/a/b%20c%25.pdf")),
            ("x-sendfile", "a/b.pdf", Some("/a/b.pdf")),
            ("x-sendfile", "../a.pdf", None),
            ("x-sendfile", &format!("{root}/../a.pdf"), None),
            ("x-sendfile", &format!("{root}-other/a.pdf"), None),
            ("x-sendfile", "/etc/passwd", None),
            ("x-lighttpd-send-file", &format!("{root}/a.pdf"), Some("/a.pdf")),
        ] {
            let mut fields = HeaderMap::new();
            fields.insert(HeaderName::from_static(name), value.parse().unwrap());
            let file = FileRequest::take_from(&mut fields).unwrap();
            assert!(fields.is_empty());
            assert_eq!(sendfile.path(&file).as_deref(), expected, "{name}: {value}");
        }
    }
}
