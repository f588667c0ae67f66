//! Verification of files by the checksums that their repository declares: `.sha1` of Maven, and `integrity` of npm.
//!
//! The last piece of a file follows its verification, so no client takes a wrong file for a whole one, and the cache does not store it.

use std::task::{Context, Poll, ready};
use std::time::Instant;

use aws_lc_rs::digest::{
    Algorithm, Context as Hasher, SHA1_FOR_LEGACY_USE_ONLY as SHA1, SHA256, SHA384, SHA512, digest,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use rudy_log::ErrorLog;
use rudy_pipeline::pages;
use rudy_service::{Body, BodyError, BodyPiece, BodyStream, Response};
use serde_json::Value;

use super::memory::Memory;
use super::{Preset, Resource, document};

/// The maximum size of a document with a checksum. That of a version in npm has some 10 kB.
const DOCUMENT_BYTES_MAX: u64 = 1 << 20;

/// The algorithms of `integrity`.
static ALGORITHMS: [(&str, &Algorithm); 4] =
    [("sha512", &SHA512), ("sha384", &SHA384), ("sha256", &SHA256), ("sha1", &SHA1)];

const WRONG: &str = "The file does not have the checksum that its repository declares.";

/// A file to verify.
pub(super) struct Verification {
    preset: Preset,
    /// The target of the document with its checksum.
    pub(super) document: String,
    /// The URL of the file, for the log.
    url: String,
    log: Option<ErrorLog>,
    /// What the document declares. `None` before it was read, and if there is none.
    declared: Option<Checksum>,
}

/// How an immutable file is verified.
pub(super) enum Check {
    /// By a document with its checksum.
    ByDocument(Verification),
    /// Clients verify it, or it is a checksum itself.
    Unnecessary,
    /// Its path does not show where its checksum is, so it is not stored.
    Impossible,
}

impl Check {
    /// Returns how to verify a file; `index` is the path of the URL of the repository.
    pub(super) fn of(preset: Preset, resource: &Resource, index: &str, log: Option<&ErrorLog>) -> Self {
        let url = format!("{}{}", resource.origin, resource.target);
        match document_of(preset, resource, index) {
            Document::At(document) => {
                Self::ByDocument(Verification { preset, document, url, log: log.cloned(), declared: None })
            }
            Document::Unnecessary => Self::Unnecessary,
            Document::Unknown => {
                let what = "its path does not have the form PACKAGE/-/NAME-VERSION.tgz";
                log_file(log, "cannot verify, not stored", &url, what);
                Self::Impossible
            }
        }
    }
}

impl Verification {
    /// Whether the host of the index has the document, also for a file of another host.
    pub(super) fn is_at_index(&self) -> bool {
        self.preset == Preset::Npm
    }

    /// Reads the document with the checksum, which a repository need not have.
    ///
    /// # Errors
    ///
    /// The response to the client, whose request has these fields: the repository failed, or sent something else.
    pub(super) async fn read(&mut self, document: Response, fields: &HeaderMap) -> Result<(), Response> {
        let status = document.status();
        if matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE) {
            return Ok(());
        }
        let content = document::collect(document.body, DOCUMENT_BYTES_MAX, &mut Memory::default()).await.ok();
        let content = content.filter(|_| status == StatusCode::OK);
        self.declared = content.and_then(|content| parse(self.preset, &content));
        if self.declared.is_some() {
            return Ok(());
        }
        let what =
            format!("no checksum in the response with status {} to {}", status.as_u16(), self.document);
        self.log("cannot verify", &what);
        let explanation =
            "The repository has sent no checksum for the file, which is necessary to verify it.";
        Err(pages::error(StatusCode::BAD_GATEWAY, fields, explanation))
    }

    /// Verifies the content of a response: a wrong one becomes 502, or ends with an error. `fields` are those of the request.
    pub(super) fn apply(self, mut response: Response, fields: &HeaderMap) -> Response {
        let Some(checksum) = &self.declared else {
            self.log("not verified", &format!("the repository has no {}", self.document));
            return response;
        };
        weaken_tag(response.headers_mut());
        let content = match std::mem::replace(&mut response.body, Body::Empty) {
            Body::Empty | Body::Silence => Bytes::new(),
            Body::Bytes(bytes) => bytes,
            // The head of an empty response is all of it: an error after it comes too late.
            Body::Stream(inner) if inner.length() == Some(0) => Bytes::new(),
            Body::Stream(inner) => {
                let hasher = Some(Hasher::new(checksum.algorithm));
                response.body = Body::Stream(Box::new(Verified { inner, held: None, hasher, file: self }));
                return response;
            }
            // A response that was not buffered is no file.
            Body::File(_) => return pages::error(StatusCode::BAD_GATEWAY, fields, WRONG),
        };
        if !self.is_right(digest(checksum.algorithm, &content).as_ref()) {
            return pages::error(StatusCode::BAD_GATEWAY, fields, WRONG);
        }
        response.body = Body::Bytes(content);
        response
    }

    /// Whether the declared checksum is this one. If not, the log has both.
    fn is_right(&self, hash: &[u8]) -> bool {
        let Some(checksum) = self.declared.as_ref().filter(|checksum| checksum.hash != hash) else {
            return true;
        };
        let (received, declared) = (checksum.text(hash), checksum.text(&checksum.hash));
        let what = format!("its checksum is {received}, but the repository declares {declared}");
        self.log("wrong file, not stored", &what);
        false
    }

    fn log(&self, kind: &str, what: &str) {
        log_file(self.log.as_ref(), kind, &self.url, what);
    }
}

fn log_file(log: Option<&ErrorLog>, kind: &str, url: &str, what: &str) {
    if let Some(log) = log {
        log.recurring_error((kind, url), &format!("{kind}: {url}: {what}"));
    }
}

/// Where the checksum of an immutable file is.
#[derive(Debug, PartialEq, Eq)]
enum Document {
    /// The target of a document with it.
    At(String),
    /// Clients verify the file, or it is a checksum itself.
    Unnecessary,
    /// The form of the path is unknown.
    Unknown,
}

/// Returns where the checksum of an immutable file is; `index` is the path of the URL of the repository.
fn document_of(preset: Preset, resource: &Resource, index: &str) -> Document {
    match preset {
        Preset::Maven => {
            let endings = [".sha1", ".md5", ".sha256", ".sha512", ".asc"];
            if endings.iter().any(|ending| resource.path.ends_with(ending)) {
                return Document::Unnecessary;
            }
            Document::At(format!("{}.sha1", resource.target.split('?').next().unwrap_or_default()))
        }
        Preset::Npm => match npm_version(&resource.path) {
            Some((package, version)) => Document::At(format!("{index}/{package}/{version}")),
            None => Document::Unknown,
        },
        Preset::Pypi | Preset::Crates | Preset::Apt | Preset::Go => Document::Unnecessary,
    }
}

/// Returns the package, as a part of a URL, and the version of a file of npm by its canonical path: `/a/-/a-1.0.0.tgz` or
/// `/@s/a/-/a-1.0.0.tgz`, or as that of GitLab, `/@s/a/-/@s/a-1.0.0.tgz`.
fn npm_version(path: &str) -> Option<(String, String)> {
    let (folder, file) = path.rsplit_once("/-/")?;
    // A scoped name can be one segment.
    let slash = if folder.contains("%2F") { "%2f" } else { "/" };
    let (folder, file) = (folder.replace("%2F", "/"), file.replace("%2F", "/"));
    let (before, name) = folder.rsplit_once('/')?;
    let scope = before.rsplit('/').next().filter(|scope| scope.starts_with('@'));
    let in_scope = scope.and_then(|scope| file.strip_prefix(scope)?.strip_prefix('/'));
    let version = in_scope.unwrap_or(&file).strip_suffix(".tgz")?.strip_prefix(name)?.strip_prefix('-')?;
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!'()*+@".contains(&byte);
    let parts = [scope.unwrap_or_default(), name, version];
    if version.is_empty() || !parts.iter().all(|part| part.bytes().all(is_safe)) {
        return None;
    }
    let package = scope.map_or_else(|| name.to_owned(), |scope| format!("{scope}{slash}{name}"));
    Some((package, version.to_owned()))
}

/// Returns the strongest known checksum in a document. `None` if it has none.
fn parse(preset: Preset, document: &[u8]) -> Option<Checksum> {
    let sha1 = |text: &str| Checksum::new(&SHA1, from_hex(text)?);
    if preset == Preset::Maven {
        // Some have the name of the file after it.
        return sha1(str::from_utf8(document).ok()?.split_whitespace().next()?);
    }
    let document: Value = serde_json::from_slice(document).ok()?;
    let of_dist = |key| document.get("dist")?.get(key)?.as_str();
    // Subresource Integrity: `sha512-BASE64?OPTIONS`.
    let integrity = of_dist("integrity").unwrap_or_default().split_whitespace();
    let known = integrity.filter_map(|checksum| {
        let (name, hash) = checksum.split('?').next()?.split_once('-')?;
        let (_, algorithm) = ALGORITHMS.iter().find(|(known, _)| *known == name)?;
        Checksum::new(algorithm, STANDARD.decode(hash).ok()?)
    });
    known.max_by_key(|checksum| checksum.hash.len()).or_else(|| sha1(of_dist("shasum")?))
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).ok());
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

/// With a strong entity tag, the cache would store the start of a wrong file, as a part of the file.
fn weaken_tag(fields: &mut HeaderMap) {
    let tag = fields.get(header::ETAG).filter(|tag| !tag.as_bytes().starts_with(b"W/"));
    let weak = tag.and_then(|tag| HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat()).ok());
    weak.map(|weak| fields.insert(header::ETAG, weak));
}

/// A checksum of a file.
#[derive(Debug, PartialEq, Eq)]
struct Checksum {
    algorithm: &'static Algorithm,
    hash: Vec<u8>,
}

impl Checksum {
    /// `None` if the hash has another length than those of the algorithm.
    fn new(algorithm: &'static Algorithm, hash: Vec<u8>) -> Option<Self> {
        (hash.len() == algorithm.output_len()).then_some(Self { algorithm, hash })
    }

    /// Returns a hash of the algorithm as repositories write it.
    fn text(&self, hash: &[u8]) -> String {
        if *self.algorithm == SHA1 {
            return hash.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        }
        let name = ALGORITHMS.iter().find(|(_, known)| *known == self.algorithm).map_or("", |(name, _)| name);
        format!("{name}-{}", STANDARD.encode(hash))
    }
}

/// A body whose last piece follows its verification.
struct Verified {
    inner: Box<dyn BodyStream>,
    held: Option<BodyPiece>,
    /// `None` after the end.
    hasher: Option<Hasher>,
    file: Verification,
}

impl BodyStream for Verified {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        loop {
            let Some(hasher) = &mut self.hasher else { return Poll::Ready(None) };
            match ready!(self.inner.poll_piece(cx, now, max)) {
                Some(Ok(BodyPiece::Data(bytes))) => {
                    hasher.update(&bytes);
                    if let Some(piece) = self.held.replace(BodyPiece::Data(bytes)) {
                        return Poll::Ready(Some(Ok(piece)));
                    }
                }
                Some(Ok(BodyPiece::Trailers(_))) => {}
                Some(Ok(BodyPiece::File(_))) => return Poll::Ready(Some(Err(WRONG.into()))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    let hash = self.hasher.take().map(Hasher::finish);
                    if hash.is_some_and(|hash| self.file.is_right(hash.as_ref())) {
                        return Poll::Ready(self.held.take().map(Ok));
                    }
                    return Poll::Ready(Some(Err(WRONG.into())));
                }
            }
        }
    }

    fn length(&self) -> Option<u64> {
        let held = self.held.as_ref().map_or(0, BodyPiece::length);
        self.inner.length().map(|length| length + held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_document_with_its_checksum() {
        for (preset, path, expected) in [
            (Preset::Maven, "/a/1/a-1.jar", Document::At("/npm/a/1/a-1.jar.sha1".to_owned())),
            (Preset::Maven, "/a/1/a-1.jar.sha1", Document::Unnecessary),
            (Preset::Npm, "/a-b/-/a-b-1.0.0-x.tgz", Document::At("/npm/a-b/1.0.0-x".to_owned())),
            (Preset::Npm, "/other/@s/a/-/a-1.0.0.tgz", Document::At("/npm/@s/a/1.0.0".to_owned())),
            (Preset::Npm, "/@s/a/-/@s/a-1.0.0.tgz", Document::At("/npm/@s/a/1.0.0".to_owned())),
            (Preset::Npm, "/@s%2Fa/-/a-1.0.0.tgz", Document::At("/npm/@s%2fa/1.0.0".to_owned())),
            (Preset::Npm, "/@s%2Fa/-/@s%2Fa-1.0.0.tgz", Document::At("/npm/@s%2fa/1.0.0".to_owned())),
            (Preset::Npm, "/2fa/-/2fa-1.0.0.tgz", Document::At("/npm/2fa/1.0.0".to_owned())),
            (Preset::Npm, "/a/-/b-1.0.0.tgz", Document::Unknown),
            (Preset::Npm, "/@s/a/-/@t/a-1.0.0.tgz", Document::Unknown),
            (Preset::Npm, "/a/-/a-1.0.0?x.tgz", Document::Unknown),
            (Preset::Npm, "/a/-/a-.tgz", Document::Unknown),
            (Preset::Npm, "/a%/-/a-1.0.0.tgz", Document::Unknown),
            (Preset::Npm, "/-/a-1.0.0.tgz", Document::Unknown),
            (Preset::Go, "/a/@v/v1.0.0.zip", Document::Unnecessary),
        ] {
            let (target, origin) = (format!("/npm{path}?x"), String::new());
            let resource = Resource { origin, target, path: path.to_owned(), is_of_index: true };
            assert_eq!(document_of(preset, &resource, "/npm"), expected, "{path}");
        }
    }

    #[test]
    fn the_strongest_checksum_of_a_document_is_used() {
        let sha1 = "da39a3ee5e6b4b0d3255bfef95601890afd80709";
        let of_maven = parse(Preset::Maven, format!("{sha1}  a.jar\n").as_bytes()).unwrap();
        assert_eq!(of_maven.hash, digest(&SHA1, b"").as_ref());
        let sha512 = STANDARD.encode(digest(&SHA512, b""));
        let both = format!(
            r#"{{"dist":{{"integrity":"md5-x sha512-AA== sha512-{sha512}?x sha1-{sha1}","shasum":"{sha1}"}}}}"#
        );
        assert_eq!(parse(Preset::Npm, both.as_bytes()).unwrap().hash, digest(&SHA512, b"").as_ref());
        let old = format!(r#"{{"dist":{{"shasum":"{sha1}"}}}}"#);
        assert_eq!(parse(Preset::Npm, old.as_bytes()), Some(of_maven));
        for (preset, document) in [
            (Preset::Maven, "<html>"),
            (Preset::Maven, "da39"),
            (Preset::Maven, ""),
            (Preset::Npm, "{}"),
            (Preset::Npm, ""),
        ] {
            assert_eq!(parse(preset, document.as_bytes()), None, "{document}");
        }
    }
}
