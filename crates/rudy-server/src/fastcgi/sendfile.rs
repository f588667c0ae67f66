//! `X-Sendfile` and `X-Accel-Redirect`: an app has decided who may have a file, and the server sends it, with conditions and
//! ranges, while the app serves others.

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
use crate::error_log::ErrorLog;
use crate::files::{Files, FilesError, FilesOptions, Folders};

/// nginx's, whose value is a URI's path; Apache's and old lighttpd's, whose value is a path of the file system.
const NAMES: [HeaderName; 3] = [
    HeaderName::from_static("x-accel-redirect"),
    HeaderName::from_static("x-sendfile"),
    HeaderName::from_static("x-lighttpd-send-file"),
];

/// What an app says of a file and cannot know: how many bytes of it are sent, and in which version.
const OF_THE_FILE: [HeaderName; 6] =
    [ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, LAST_MODIFIED];

/// The folder whose files an app may have sent.
#[derive(Debug)]
pub(super) struct Sendfile {
    root: PathBuf,
    files: Files,
}

/// Which file an app wants sent.
#[derive(Debug)]
pub(super) struct Wanted {
    name: HeaderName,
    value: HeaderValue,
}

impl Sendfile {
    pub(super) fn open(root: &Path, table: &FastcgiTable, folders: &Folders) -> Result<Self, FilesError> {
        let options = FilesOptions {
            index: Vec::new(),
            // The app says what may be sent, and of which type it is.
            serve_hidden: true,
            serve_source: true,
            precompressed: false,
            compression: None,
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

    /// Sends the file to whoever asked the app, with the app's fields.
    pub(super) async fn send(
        &self,
        asked: &Parts,
        answer: Head,
        wanted: &Wanted,
    ) -> Result<Response, Failure> {
        let outside = || wanted.failure(StatusCode::BAD_GATEWAY, OUTSIDE);
        let path = self.path(wanted).ok_or_else(outside)?;
        let path = RequestPath::parse(&path).map_err(|_| outside())?.into_owned();
        let status = match answer.kind {
            ResponseKind::Document(status) => status,
            ResponseKind::LocalRedirect(_) => StatusCode::OK,
        };
        let response = self.files.send(request(asked, status), path).await;
        match response.status() {
            StatusCode::NOT_FOUND => Err(wanted.failure(StatusCode::NOT_FOUND, MISSING)),
            StatusCode::FORBIDDEN => Err(wanted.failure(StatusCode::FORBIDDEN, FORBIDDEN)),
            _ => Ok(dress(response, status, &answer.fields)),
        }
    }

    /// The path below the root, encoded, with a slash before it; `None` if it is not below.
    fn path(&self, wanted: &Wanted) -> Option<String> {
        let text = wanted.value.to_str().ok()?;
        let path = if wanted.name == NAMES[0] {
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

const OUTSIDE: &str = "which is no path of a file beneath `sendfile_root`";
const MISSING: &str = "which is not there beneath `sendfile_root`";
const FORBIDDEN: &str = "which the user that rudy runs as may not read";
const OF_AUTHORIZER: &str = "and an authorizer has no files sent: it lets a request in, or answers it itself";
const OFF: &str = "and `sendfile_root` does not say beneath which folder that may be";

impl Wanted {
    /// Takes what names a file out of an answer's fields, so that no client sees it.
    pub(super) fn take(fields: &mut HeaderMap) -> Option<Self> {
        let all = NAMES.map(|name| fields.remove(&name).map(|value| Self { name, value }));
        all.into_iter().flatten().next()
    }

    /// No folder was set up.
    pub(super) fn off(&self) -> Failure {
        self.failure(StatusCode::BAD_GATEWAY, OFF)
    }

    /// Whoever names it says who may come in.
    pub(super) fn for_authorizer(&self) -> Failure {
        self.failure(StatusCode::BAD_GATEWAY, OF_AUTHORIZER)
    }

    fn failure(&self, status: StatusCode, why: &'static str) -> Failure {
        let value = String::from_utf8_lossy(self.value.as_bytes()).into_owned();
        Failure::Sendfile { status, name: self.name.clone(), value, why }
    }
}

/// What the files handler is asked: the file, by GET or HEAD, with the conditions and the range of whoever asked the app.
///
/// An answer that is no 200 (a page for an error, say) has neither. Nor has a request for several ranges ranges: their parts
/// would have the type that the file's name tells and not the one that the app says.
fn request(asked: &Parts, status: StatusCode) -> Request {
    let mut request = Request::new(RequestBody::empty());
    let is_read = matches!(asked.method, Method::GET | Method::HEAD);
    *request.method_mut() = if is_read { asked.method.clone() } else { Method::GET };
    *request.headers_mut() = asked.headers.clone();
    let has_several = asked.headers.get(RANGE).is_some_and(|range| range.as_bytes().contains(&b','));
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

/// Puts the app's fields and status into the answer with the file.
fn dress(mut response: Response, status: StatusCode, fields: &HeaderMap) -> Response {
    let is_whole = response.status() == StatusCode::OK;
    let is_page = response.status().is_client_error() || response.status().is_server_error();
    if is_page {
        // 412, 416, 503: our own words.
        return response;
    }
    let is_sent = response.status() != StatusCode::NOT_MODIFIED;
    let headers = response.headers_mut();
    for name in fields.keys() {
        // A 304 has no content, and so no type of it (RFC 9110 §15.4.5).
        if !OF_THE_FILE.contains(name) && (is_sent || name != CONTENT_TYPE) {
            headers.remove(name);
            for value in fields.get_all(name) {
                headers.append(name, value.clone());
            }
        }
    }
    if is_whole && let rudy_net::Head::Fields(of_file, _) = &mut response.head {
        *of_file = status;
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
            let wanted = Wanted::take(&mut fields).unwrap();
            assert!(fields.is_empty());
            assert_eq!(sendfile.path(&wanted).as_deref(), expected, "{name}: {value}");
        }
    }
}
