//! Replacements of responses (`X-Accel-Redirect`, `X-Sendfile`): an app checks access to a file or to a path of the site, and Rudy sends
//! it, with conditions and ranges, while the app serves other requests.

mod response;
mod table;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, StatusCode};
use rudy_config::{FilePath, Location, OneOrMany, Problem};
use rudy_log::ErrorLog;
use rudy_message::semantics::path::RequestPath;
use rudy_message::semantics::percent::{encode_non_ascii, encode_query};
use rudy_message::{Replacement, X_ACCEL_REDIRECT};
use rudy_pipeline::compression::CompressionSetting;
use rudy_pipeline::internal_redirect;
use rudy_pipeline::routing::PathPattern;
use rudy_pipeline::wildcard::Wildcard;
use rudy_pipeline::{Context, Routes};
use rudy_service::{Client, Request, Response};

pub use self::table::ReplacementTable;
use super::{Files, FilesError, FilesOptions, Folders};

/// What an app may name instead of a response of its own.
#[derive(Debug)]
pub struct Replacements {
    folder: Option<SendfileFolder>,
    redirects: Vec<PathPattern>,
    /// Fields of the app that stay after a redirect.
    fields: Vec<Wildcard>,
}

/// The folder whose files an app may send.
#[derive(Debug)]
struct SendfileFolder {
    root: PathBuf,
    files: Files,
}

/// A request of a client whose response an app replaces.
pub struct Replaced<'a> {
    /// The request, as it came to the handler.
    pub request: &'a Request<'static>,
    /// Who has sent it.
    pub client: &'a Client<'static>,
    /// The routes of the configuration.
    pub routes: &'a Arc<Routes>,
}

/// What a replacement names.
enum Target {
    /// A file, by its path below the root.
    File(RequestPath<'static>),
    /// A path of the site, with its query.
    Route(String),
}

/// An app named what cannot be sent.
#[derive(Debug, thiserror::Error)]
#[error("{name} names \"{}\", {why}", rudy_units::visible(.value))]
pub struct ReplacementError {
    /// The status for the client.
    status: StatusCode,
    /// The header field of the app's response.
    name: HeaderName,
    /// The value of the field.
    value: String,
    /// Why not.
    why: &'static str,
}

const OUTSIDE: &str = "which is not a path below `sendfile_root`";
const MISSING: &str = "which does not exist below `sendfile_root`";
const FORBIDDEN: &str = "which Rudy's user may not read";
const DISABLED: &str = "but `sendfile_root` is not set";
const ALL_DISABLED: &str = "but neither `sendfile_root` nor `accel_redirect` is set";
const NOT_LISTED: &str = "which is not among the paths of `accel_redirect`";
const LOOP: &str = "after too many internal redirects";

impl ReplacementError {
    /// `why` is the end of a sentence about what a replacement names. The client gets 502.
    #[must_use]
    pub fn new(replacement: &Replacement, why: &'static str) -> Self {
        Self::with_status(StatusCode::BAD_GATEWAY, replacement, why)
    }

    /// The app may name nothing.
    #[must_use]
    pub fn disabled(replacement: &Replacement) -> Self {
        Self::new(replacement, if replacement.name == X_ACCEL_REDIRECT { ALL_DISABLED } else { DISABLED })
    }

    fn with_status(status: StatusCode, replacement: &Replacement, why: &'static str) -> Self {
        let Replacement { name, value } = replacement;
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        Self { status, name: name.clone(), value, why }
    }

    /// Returns the status for the client, and the explanation if it is not `invalid`, that of an invalid response.
    #[must_use]
    pub fn describe(&self, invalid: &'static str) -> (StatusCode, &'static str) {
        let missing = "The requested URL was not found on this server.";
        (self.status, if self.status == StatusCode::NOT_FOUND { missing } else { invalid })
    }
}

impl Replacements {
    /// Opens the folder of a table.
    ///
    /// # Errors
    ///
    /// The folder is missing.
    pub fn open(
        table: &ReplacementTable,
        follow_symlinks: bool,
        location: &Location,
        folders: &Folders,
    ) -> Result<Self, Vec<Problem>> {
        let open = |root: &FilePath| SendfileFolder::open(root, follow_symlinks, folders);
        let folder = table.sendfile_root.as_ref().map(open).transpose();
        let problem =
            |error: FilesError| vec![Problem::value(&location.key("sendfile_root"), error.to_string())];
        let redirects = table.accel_redirect.as_ref().map_or(&[][..], OneOrMany::as_slice);
        let fields = table.accel_fields.as_ref().map_or(&[][..], OneOrMany::as_slice);
        let fields =
            fields.iter().filter_map(|pattern| pattern.as_str().to_ascii_lowercase().parse().ok()).collect();
        Ok(Self { folder: folder.map_err(problem)?, redirects: redirects.to_vec(), fields })
    }

    /// No replacements are allowed.
    #[must_use]
    pub fn none() -> Self {
        Self { folder: None, redirects: Vec::new(), fields: Vec::new() }
    }

    /// Whether the app may name nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.folder.is_none() && self.redirects.is_empty()
    }

    /// Sets the log for errors of the file system.
    pub fn log_to(&self, log: &ErrorLog) {
        self.folder.iter().for_each(|folder| folder.files.log_to(log.clone()));
    }

    /// Returns the response with what an app names instead of its own, whose status and fields these are.
    ///
    /// # Errors
    ///
    /// The app must not send this, or it is missing.
    pub async fn respond(
        &self,
        replaced: Replaced<'_>,
        replacement: &Replacement,
        status: StatusCode,
        fields: &HeaderMap,
    ) -> Result<Response, ReplacementError> {
        let failure = |status, why| Err(ReplacementError::with_status(status, replacement, why));
        let Replaced { request, client, routes } = replaced;
        match (self.target(replacement)?, &self.folder) {
            (Target::File(path), Some(SendfileFolder { files, .. })) => {
                let response = files.send(response::file_request(request, status), path).await;
                match response.status() {
                    StatusCode::NOT_FOUND => failure(StatusCode::NOT_FOUND, MISSING),
                    StatusCode::FORBIDDEN => failure(StatusCode::FORBIDDEN, FORBIDDEN),
                    _ => Ok(response::of_file(response, status, fields)),
                }
            }
            (Target::File(_), None) => Err(ReplacementError::disabled(replacement)),
            (Target::Route(target), _) => {
                let Some(redirected) = internal_redirect::for_target(request, &target) else {
                    return failure(StatusCode::BAD_GATEWAY, LOOP);
                };
                let redirected = response::without_useless_conditions(redirected, request, status);
                let reply = Context::new(client, routes).reply(redirected);
                Ok(response::of_route(reply.response().await, status, fields, &self.fields))
            }
        }
    }

    /// Returns what a replacement names.
    fn target(&self, replacement: &Replacement) -> Result<Target, ReplacementError> {
        let is_uri = replacement.name == X_ACCEL_REDIRECT;
        if is_uri && let Some(target) = self.route_target(replacement.value.as_bytes()) {
            return Ok(Target::Route(target));
        }
        let error = |why| ReplacementError::new(replacement, why);
        match &self.folder {
            Some(folder) => folder.path(replacement).map(Target::File).ok_or_else(|| error(OUTSIDE)),
            None if is_uri && !self.redirects.is_empty() => Err(error(NOT_LISTED)),
            None => Err(ReplacementError::disabled(replacement)),
        }
    }

    /// Returns the target of a URI, if the app may redirect to its path. The spelling stays, of which an upstream may have a signature:
    /// bytes that are not ASCII are encoded, and `decode_path` of a proxy decodes the rest, as nginx does.
    fn route_target(&self, uri: &[u8]) -> Option<String> {
        let uri = encode_non_ascii(uri.starts_with(b"/").then_some(uri)?);
        let target: PathAndQuery = encode_query(&uri).parse().ok()?;
        let path = RequestPath::parse(target.path()).ok()?;
        let is_listed = self.redirects.iter().any(|pattern| pattern.matches(path.as_bytes()));
        is_listed.then(|| target.as_str().to_owned())
    }
}

impl SendfileFolder {
    fn open(root: &Path, follow_symlinks: bool, folders: &Folders) -> Result<Self, FilesError> {
        let options = FilesOptions {
            index: Vec::new(),
            // The app decides which files to send, and their types.
            serve_hidden: true,
            serve_source: true,
            precompressed: false,
            compression: Some(CompressionSetting(None)),
            follow_symlinks,
            ..FilesOptions::default()
        };
        let files = Files::open(root, options, folders)?;
        let root = std::path::absolute(root).map_err(|error| FilesError::Root(root.to_owned(), error))?;
        Ok(Self { root, files })
    }

    /// Returns the path below the root; `None` if the file is not below it. Names of files are bytes: all are possible. The path of a
    /// URI is decoded, with its slashes, as in nginx; that in the file system is not.
    fn path(&self, file: &Replacement) -> Option<RequestPath<'static>> {
        let value = file.value.as_bytes();
        if file.name == X_ACCEL_REDIRECT {
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
