//! The cache entry of a path: its content in every coding, with encoded response heads.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, LAST_MODIFIED, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use rudy_message::PreparedHead;
use rudy_message::semantics::conditional::Validators;
use rudy_message::semantics::date::HttpDate;
use rudy_message::semantics::etag::EntityTag;
use rudy_message::semantics::field::{FieldLines, KnownField};
use rudy_message::semantics::negotiation::{AcceptedCodings, Coding};
use rudy_message::semantics::path::RequestPath;
use rudy_service::{Body, FileRange, Response};
use rudy_system::file_access::{Access, WouldBlock};

use super::find::OtherRoutes;
use super::folders::Root;
use super::stat::{Dependency, Opened, Stat};

/// The file for a requested path. Immutable except for the time of its last check: a change creates a new entry.
#[derive(Debug)]
pub(super) struct Entry {
    /// The path of the file below the root. For a folder, that of its index.
    pub(super) path: Arc<str>,
    pub(super) plain: Representation,
    /// In the order of [`Coding::COMPRESSED`].
    pub(super) coded: [Coded; 3],
    /// The codings to compress the file in, the preferred one first.
    pub(super) on_the_fly: Arc<[Coding]>,
    /// All paths that the lookup examined. The entry is current while none of them changes.
    pub(super) dependencies: Arc<[Dependency]>,
    /// The uncompressed file.
    pub(super) stat: Stat,
    /// Whether a further change would certainly alter the modification times. False if a file changed within the last clock tick.
    pub(super) mtime_is_stable: bool,
    pub(super) checked_ms: AtomicU64,
}

/// The state of a compressed coding.
#[derive(Debug, Clone)]
pub(super) enum Coded {
    /// Not offered.
    No,
    /// A precompressed file.
    Sibling(Representation),
    /// Can be compressed on the fly.
    OnTheFly,
    /// Was compressed on the fly and is cached.
    Cached(Representation),
}

/// A coding of a file with its encoded response heads.
#[derive(Debug, Clone)]
pub(super) struct Representation {
    pub(super) content: Content,
    pub(super) validators: Validators,
    pub(super) whole: Arc<PreparedHead>,
    pub(super) not_modified: Arc<PreparedHead>,
}

/// The bytes of a file, in memory or on disk.
#[derive(Debug, Clone)]
pub(super) enum Content {
    Memory(Bytes),
    File(FileRange),
}

/// The representation selected for a request.
pub(super) enum Selection<'a> {
    Ready(&'a Representation),
    Compress(Coding),
}

impl Entry {
    /// Selects the representation for a request. Ranges are only served from files, not from the output of an encoder.
    pub(super) fn select(&self, fields: &impl FieldLines, wants_range: bool) -> Selection<'_> {
        if !self.varies() || !fields.has(KnownField::AcceptEncoding) {
            return Selection::Ready(&self.plain);
        }
        let accepted = AcceptedCodings::parse(fields.lines(KnownField::AcceptEncoding));
        // A precompressed file costs no CPU and is usually smaller, so it is preferred to compression on the fly.
        let sibling = accepted.choose(|coding| matches!(self.coded(coding), Coded::Sibling(_)));
        let chosen = if sibling == Coding::Identity && !wants_range {
            accepted.choose_from(&self.on_the_fly, |coding| {
                matches!(self.coded(coding), Coded::Cached(_) | Coded::OnTheFly)
            })
        } else {
            sibling
        };
        match self.coded(chosen) {
            Coded::Sibling(ready) | Coded::Cached(ready) => Selection::Ready(ready),
            Coded::OnTheFly => Selection::Compress(chosen),
            Coded::No => Selection::Ready(&self.plain),
        }
    }

    /// Returns a copy of the entry with the state of `coding` replaced.
    pub(super) fn with(&self, coding: Coding, coded: Coded) -> Self {
        let mut all = self.coded.clone();
        if let Some(index) = position(coding) {
            all[index] = coded;
        }
        Self {
            path: self.path.clone(),
            plain: self.plain.clone(),
            coded: all,
            on_the_fly: self.on_the_fly.clone(),
            dependencies: self.dependencies.clone(),
            stat: self.stat,
            mtime_is_stable: self.mtime_is_stable,
            checked_ms: AtomicU64::new(self.checked_ms.load(Ordering::Relaxed)),
        }
    }

    /// Returns the file's path in the site if it differs from the requested one and another route matches it.
    pub(super) fn path_on_other_route(
        &self,
        requested: &str,
        other_routes: OtherRoutes<'_>,
    ) -> Option<RequestPath<'static>> {
        if *self.path == *requested { None } else { other_routes(&self.path) }
    }

    /// Returns whether no dependency has changed.
    pub(super) fn is_unchanged(&self, root: &Root, access: Access) -> Result<bool, WouldBlock> {
        if !self.mtime_is_stable {
            return Ok(false);
        }
        for Dependency { path, seen } in &*self.dependencies {
            let stat = match seen {
                Some(_) => root.stat(path, access)?,
                // Most files have no siblings. Each search for a replacement of the root would take longer than the lookup.
                None => root.stat_sibling(path, access)?,
            };
            if stat != *seen {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Iterates over the representations with content.
    pub(super) fn representations(&self) -> impl Iterator<Item = &Representation> {
        let coded = self.coded.iter().filter_map(|coded| match coded {
            Coded::Sibling(ready) | Coded::Cached(ready) => Some(ready),
            Coded::No | Coded::OnTheFly => None,
        });
        std::iter::once(&self.plain).chain(coded)
    }

    fn varies(&self) -> bool {
        self.coded.iter().any(|coded| !matches!(coded, Coded::No))
    }

    fn coded(&self, coding: Coding) -> &Coded {
        position(coding).map_or(&Coded::No, |index| &self.coded[index])
    }
}

fn position(coding: Coding) -> Option<usize> {
    Coding::COMPRESSED.iter().position(|other| *other == coding)
}

impl Representation {
    /// Returns the representation of the file itself, which has a coding if its type is that of the decoded data. `common` holds the
    /// fields of both the 200 and the 304.
    pub(super) fn plain(
        content: Content,
        stat: &Stat,
        now_ns: i128,
        (media_type, coding): (HeaderValue, Coding),
        common: &HeaderMap,
    ) -> Self {
        let validators = validators(stat, "", now_ns);
        let mut headers = common.clone();
        // Also for clients that do not accept it, as in nginx and Apache: a decoded drawing would have another name.
        if coding != Coding::Identity {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
        }
        headers.insert(CONTENT_TYPE, media_type);
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        Self::new(content, validators, headers, common.clone())
    }

    /// Returns the representation of a precompressed file.
    pub(super) fn sibling(&self, content: Content, stat: &Stat, now_ns: i128, coding: Coding) -> Self {
        let mut headers = self.whole.headers().clone();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
        let common = self.not_modified.headers().clone();
        Self::new(content, validators(stat, coding.name(), now_ns), headers, common)
    }

    /// Returns the representation of a file compressed on the fly. Its entity tag is weak, because the bytes depend on the level
    /// and the version of the encoder.
    pub(super) fn compressed(&self, content: Content, stat: &Stat, coding: Coding) -> Self {
        let mut headers = self.whole.headers().clone();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
        headers.remove(ACCEPT_RANGES);
        let tag = EntityTag::of_file(&stat.identity(), coding.name(), true);
        let validators = Validators { tag, modified: self.validators.modified };
        Self::new(content, validators, headers, self.not_modified.headers().clone())
    }

    /// Returns the 200.
    pub(super) fn ok_response(&self) -> Response {
        Response::prepared(self.whole.clone(), self.content.all())
    }

    /// Returns the 304.
    pub(super) fn not_modified_response(&self) -> Response {
        Response::prepared(self.not_modified.clone(), Body::Empty)
    }

    /// Encodes the heads. `common` holds the fields of the 304, which has no `Last-Modified` because it has an entity tag
    /// (RFC 9110 §15.4.5, SHOULD NOT).
    fn new(content: Content, validators: Validators, mut headers: HeaderMap, mut common: HeaderMap) -> Self {
        headers.insert(ETAG, validators.tag.value().clone());
        headers.insert(LAST_MODIFIED, validators.modified.to_value());
        common.insert(ETAG, validators.tag.value().clone());
        Self {
            content,
            validators,
            whole: Arc::new(PreparedHead::new(StatusCode::OK, headers)),
            not_modified: Arc::new(PreparedHead::new(StatusCode::NOT_MODIFIED, common)),
        }
    }
}

fn validators(stat: &Stat, coding: &str, now_ns: i128) -> Validators {
    let identity = stat.identity();
    // RFC 9110 §8.8.2.1: a date in the future MUST be replaced by the date of the response.
    let seconds = stat.modified_ns.min(now_ns).div_euclid(1_000_000_000);
    Validators {
        tag: EntityTag::of_file(&identity, coding, !identity.is_mtime_stable(now_ns)),
        modified: HttpDate::from_unix_seconds(i64::try_from(seconds).unwrap_or(0)),
    }
}

/// Returns the fields of both a 200 and a 304 (RFC 9110 §15.4.5), without the entity tag.
pub(super) fn common_fields(varies: bool, cache_control: Option<&HeaderValue>) -> HeaderMap {
    let mut fields = HeaderMap::new();
    if varies {
        fields.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    if let Some(value) = cache_control {
        fields.insert(CACHE_CONTROL, value.clone());
    }
    fields
}

impl Content {
    /// Returns the content of an open file. Reads it into memory if `in_memory`, unless it changes meanwhile.
    pub(super) fn of(opened: Opened, in_memory: bool, access: Access) -> Result<Self, WouldBlock> {
        let Opened { file, stat } = opened;
        // An empty file needs no memory, and then no descriptor either.
        let bytes = if in_memory || stat.size == 0 { read_all(&file, &stat, access)? } else { None };
        Ok(match bytes {
            Some(bytes) => Self::Memory(bytes),
            None => Self::File(FileRange {
                file: Arc::new(file),
                start: 0,
                length: stat.size,
                size: stat.size,
                modified_ns: stat.modified_ns,
            }),
        })
    }

    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(range) => range.length,
        }
    }

    pub(super) fn all(&self) -> Body {
        match self {
            Self::Memory(bytes) => Body::Bytes(bytes.clone()),
            Self::File(range) => Body::File(range.clone()),
        }
    }
}

/// Reads the whole file. Returns `None` if it changed meanwhile.
fn read_all(file: &File, stat: &Stat, access: Access) -> Result<Option<Bytes>, WouldBlock> {
    let Ok(size) = usize::try_from(stat.size) else { return Ok(None) };
    let mut bytes = vec![0; size];
    match access.read(file, &mut bytes) {
        Err(error) if access.must_wait(&error) => Err(WouldBlock),
        Ok(()) if Stat::of(file).is_ok_and(|now| now == *stat) => Ok(Some(bytes.into())),
        Ok(()) | Err(_) => Ok(None),
    }
}
