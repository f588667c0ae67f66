//! `X-Sendfile` and `X-Accel-Redirect`: an app checks access to a file, and Rudy sends it, with conditions
//! and ranges, while the app serves other requests.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_MATCH,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use rudy_fastcgi::cgi::{Head, ResponseKind};
use rudy_files::{Files, FilesError, FilesOptions, Folders};
use rudy_log::ErrorLog;
use rudy_message::semantics::path::RequestPath;
use rudy_pipeline::compression::CompressionSetting;
use rudy_service::{Request, Response};

use super::FastcgiTable;
use super::failure::{AppCause, Failure};

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
        client_request: &Request<'_>,
        kind: &ResponseKind,
        fields: &HeaderMap,
        file: &FileRequest,
    ) -> Result<Response, Failure> {
        let path = self.path(file).ok_or_else(|| file.failure(StatusCode::BAD_GATEWAY, OUTSIDE))?;
        let status = match kind {
            ResponseKind::Document(status) => *status,
            ResponseKind::LocalRedirect(_) => StatusCode::OK,
        };
        let response = self.files.send(file_request(client_request, status), path).await;
        match response.status() {
            StatusCode::NOT_FOUND => Err(file.failure(StatusCode::NOT_FOUND, MISSING)),
            StatusCode::FORBIDDEN => Err(file.failure(StatusCode::FORBIDDEN, FORBIDDEN)),
            _ => Ok(apply_app_fields(response, status, fields)),
        }
    }

    /// Returns the path below the root; `None` if the file is not below it. Names of files are bytes: all are possible. The path of a
    /// URI is decoded, with its slashes, as in nginx; that in the file system is not.
    fn path(&self, file: &FileRequest) -> Option<RequestPath<'static>> {
        let value = file.value.as_bytes();
        if file.name == NAMES[0] {
            let uri = value.split(|byte| *byte == b'?').next().filter(|uri| uri.starts_with(b"/"))?;
            let path = RequestPath::parse(uri).ok()?;
            // Then without empty and dot segments: `/%2Fetc` is `/etc` below the root.
            return Some(path.with_slashes_decoded().ok()?.unwrap_or_else(|| path.into_owned()));
        }
        let path = Path::new(OsStr::from_bytes(value));
        let path = if path.is_absolute() { path.strip_prefix(&self.root).ok()? } else { path };
        let literal = path.as_os_str().as_bytes().split(|byte| *byte == b'%').collect::<Vec<_>>();
        let literal = literal.join(&b"%25"[..]);
        RequestPath::parse(&literal).map(RequestPath::into_owned).ok()
    }
}

const OUTSIDE: &str = "which is not a path below `sendfile_root`";
const MISSING: &str = "which does not exist below `sendfile_root`";
const FORBIDDEN: &str = "which Rudy's user may not read";
const NOT_FOR_AUTHORIZERS: &str = "but an authorizer cannot send files";
const DISABLED: &str = "but `sendfile_root` is not set";

impl FileRequest {
    /// Returns the file that a head names, and its fields without those that name it.
    pub(super) fn of(head: &Head) -> Option<(Self, HeaderMap)> {
        let mut fields = head.has_instructions.then(|| head.fields.to_map())?;
        Self::take_from(&mut fields).map(|file| (file, fields))
    }

    /// Removes the fields that name a file, so that no client sees them.
    fn take_from(fields: &mut HeaderMap) -> Option<Self> {
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
        AppCause::Sendfile { status, name: self.name.clone(), value, why }.into()
    }
}

/// Creates the request for the files handler: GET or HEAD of the file, with the conditions and the range of
/// the client.
///
/// There are neither if the app's status is not 200 (an error page, for instance). There is also no range if
/// the client requests several: their parts would have the type of the file name instead of the app's.
fn file_request(client_request: &Request<'_>, status: StatusCode) -> Request<'static> {
    let mut request = client_request.copy_head().into_owned();
    request.set_uri(Uri::default());
    let is_read = matches!(*client_request.method(), Method::GET | Method::HEAD);
    if !is_read {
        request.set_method(Method::GET);
    }
    let has_several = client_request.get(&RANGE).is_some_and(|range| range.contains(&b','));
    let ignored = match (is_read && status == StatusCode::OK, has_several) {
        (true, false) => &[][..],
        (true, true) => &[RANGE],
        (false, _) => &[RANGE, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE],
    };
    for name in ignored {
        request.remove(name);
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
    response.is_negotiated = false;
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
    if is_whole && let rudy_service::Head::Fields(file_status, _) = &mut response.head {
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
        let latin1 = [root.as_bytes(), b"/caf\xe9.pdf"].concat();
        for (name, value, expected) in [
            ("x-accel-redirect", &b"/caf\xc3\xa9.pdf"[..], Some(&b"/caf\xc3\xa9.pdf"[..])),
            ("x-accel-redirect", b"/caf%C3%A9.pdf", Some(b"/caf\xc3\xa9.pdf")),
            ("x-accel-redirect", b"/caf\xe9%FF", Some(b"/caf\xe9\xff")),
            ("x-accel-redirect", b"/a%2Fb%5Cc\\d", Some(b"/a/b\\c\\d")),
            ("x-accel-redirect", b"/%252F", Some(b"/%2F")),
            ("x-accel-redirect", b"/%2Fetc%2F%2fpasswd", Some(b"/etc/passwd")),
            ("x-accel-redirect", b"/..%2Fa.pdf", None),
            ("x-accel-redirect", b"/a%2F..%2F..%2Fb.pdf", None),
            ("x-accel-redirect", b"/a%00b", None),
            ("x-sendfile", &latin1, Some(b"/caf\xe9.pdf")),
            ("x-sendfile", b"caf\xc3\xa9\\%2F%.pdf", Some(b"/caf\xc3\xa9\\%2F%.pdf")),
            ("x-sendfile", b"a\\../../b.pdf", Some(b"/b.pdf")),
            ("x-sendfile", b"\xff/../../b.pdf", None),
        ] {
            assert_eq!(
                path_of(&sendfile, name, value).as_deref(),
                expected,
                "{name}: {}",
                value.escape_ascii()
            );
        }
        for (name, value, expected) in [
            ("x-accel-redirect", "/a/b%20c.pdf", Some("/a/b c.pdf")),
            ("x-accel-redirect", "/a.pdf?v=1", Some("/a.pdf")),
            ("x-accel-redirect", "a.pdf", None),
            ("x-accel-redirect", "/../a.pdf", None),
            ("x-accel-redirect", "/%2e%2e/a.pdf", None),
            ("x-sendfile", &format!("{root}/a/b c%.pdf"), Some("/a/b c%.pdf")),
            ("x-sendfile", "a/b.pdf", Some("/a/b.pdf")),
            ("x-sendfile", "../a.pdf", None),
            ("x-sendfile", &format!("{root}/../a.pdf"), None),
            ("x-sendfile", &format!("{root}-other/a.pdf"), None),
            ("x-sendfile", "/etc/passwd", None),
            ("x-lighttpd-send-file", &format!("{root}/a.pdf"), Some("/a.pdf")),
        ] {
            let path = path_of(&sendfile, name, value.as_bytes());
            assert_eq!(path.as_deref(), expected.map(str::as_bytes), "{name}: {value}");
        }
    }

    #[test]
    fn files_of_all_names_below_the_root_are_sent_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("private");
        std::fs::create_dir_all(root.join("a")).unwrap();
        let outside = folder.path().join("secret").display().to_string();
        std::fs::write(&outside, "secret").unwrap();
        for name in [&b"caf\xe9"[..], "café".as_bytes(), b"a/b", b"c\\d", b"e%2Ff", b"a/caf\xe9"] {
            std::fs::write(root.join(OsStr::from_bytes(name)), name).unwrap();
        }
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        std::os::unix::fs::symlink(&outside, root.join(OsStr::from_bytes(b"link\xe9"))).unwrap();
        let sendfile = Sendfile::open(&root, &FastcgiTable::default(), &Folders::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let send = |name: &'static str, value: &[u8]| {
            let mut fields = HeaderMap::new();
            fields.insert(name, HeaderValue::from_bytes(value).unwrap());
            let file = FileRequest::take_from(&mut fields).unwrap();
            let kind = ResponseKind::Document(StatusCode::OK);
            let request = Request::default();
            let sent = runtime.block_on(sendfile.send(&request, &kind, &fields, &file));
            match sent.map(|response| response.body) {
                Ok(rudy_service::Body::Bytes(bytes)) => bytes.to_vec(),
                Ok(_) => panic!("a small file is in memory"),
                Err(_) => b"(none)".to_vec(),
            }
        };
        let absolute = [root.as_os_str().as_bytes(), b"/a/caf\xe9"].concat();
        for (name, value, expected) in [
            ("x-accel-redirect", &b"/caf\xe9"[..], &b"caf\xe9"[..]),
            ("x-accel-redirect", b"/caf%E9?v=1", b"caf\xe9"),
            ("x-accel-redirect", "/café".as_bytes(), "café".as_bytes()),
            ("x-accel-redirect", b"/a%2Fb", b"a/b"),
            ("x-accel-redirect", b"/c\\d", b"c\\d"),
            ("x-accel-redirect", b"/e%252Ff", b"e%2Ff"),
            ("x-sendfile", b"caf\xe9", b"caf\xe9"),
            ("x-sendfile", "café".as_bytes(), "café".as_bytes()),
            ("x-sendfile", b"c\\d", b"c\\d"),
            ("x-sendfile", b"e%2Ff", b"e%2Ff"),
            ("x-sendfile", &absolute, b"a/caf\xe9"),
            ("x-accel-redirect", b"/none\xe9", b"(none)"),
            ("x-accel-redirect", b"/a", b"(none)"),
            ("x-accel-redirect", b"/link", b"(none)"),
            ("x-accel-redirect", b"/link%E9", b"(none)"),
            ("x-accel-redirect", b"/..%2Fsecret", b"(none)"),
            ("x-accel-redirect", b"/a%2F..%2F..%2Fsecret", b"(none)"),
            ("x-accel-redirect", &[b"/%2F", outside.as_bytes()].concat(), b"(none)"),
            ("x-sendfile", outside.as_bytes(), b"(none)"),
            ("x-sendfile", b"../secret", b"(none)"),
            ("x-sendfile", b"\xe9/../../secret", b"(none)"),
        ] {
            let sent = send(name, value);
            assert_eq!(
                sent.escape_ascii().to_string(),
                expected.escape_ascii().to_string(),
                "{name}: {}",
                value.escape_ascii()
            );
        }
    }

    fn path_of(sendfile: &Sendfile, name: &'static str, value: &[u8]) -> Option<Vec<u8>> {
        let mut fields = HeaderMap::new();
        fields.insert(HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap());
        let file = FileRequest::take_from(&mut fields).unwrap();
        assert!(fields.is_empty());
        Some(sendfile.path(&file)?.as_bytes().to_vec())
    }
}
