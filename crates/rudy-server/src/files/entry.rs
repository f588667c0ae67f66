//! What is known of one path: its content in every coding, with the heads of the answers already encoded.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, LAST_MODIFIED, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use rudy_http::h1::PreparedHead;
use rudy_http::semantics::conditional::Validators;
use rudy_http::semantics::date::HttpDate;
use rudy_http::semantics::etag::EntityTag;
use rudy_http::semantics::field::{FieldLines, KnownField};
use rudy_http::semantics::negotiation::{AcceptedCodings, Coding};
use rudy_http::semantics::path::RequestPath;
use rudy_http::semantics::range::Span;
use rudy_net::{Body, BodyPiece, FileRange, Response};

use super::access::{Access, WouldBlock};
use super::find::OtherRoutes;
use super::root::{Opened, Root, Stat};

/// What a path was found to lead to. Immutable but for the time of its last check: a change makes a new one.
#[derive(Debug)]
pub(super) struct Entry {
    /// The file's path below the root: that of its index for a folder.
    pub(super) path: Arc<str>,
    pub(super) plain: Representation,
    /// In the order of [`Coding::COMPRESSED`].
    pub(super) coded: [Coded; 3],
    /// All that was looked at on the way here, so that a check can see whether the way still leads here.
    pub(super) evidence: Arc<[Evidence]>,
    /// The file without a coding.
    pub(super) stat: Stat,
    /// Whether no file here was changed so lately that equal times could hide another change.
    pub(super) settled: bool,
    pub(super) checked_ms: AtomicU64,
}

/// A path that was looked at, and what was there.
#[derive(Debug)]
pub(super) struct Evidence {
    pub(super) path: String,
    pub(super) seen: Option<Stat>,
}

/// What is known of one compressed coding.
#[derive(Debug, Clone)]
pub(super) enum Coded {
    /// It is not offered.
    No,
    /// A file beside the plain one holds it.
    Sibling(Representation),
    /// It can be made, and was not yet.
    OnTheFly,
    /// It was made, and is kept.
    Made(Representation),
}

/// One coding of a file, ready to be sent.
#[derive(Debug, Clone)]
pub(super) struct Representation {
    pub(super) content: Content,
    pub(super) validators: Validators,
    pub(super) whole: Arc<PreparedHead>,
    pub(super) not_modified: Arc<PreparedHead>,
}

/// Where the bytes are.
#[derive(Debug, Clone)]
pub(super) enum Content {
    Memory(Bytes),
    File(FileRange),
}

/// Which representation answers a request.
pub(super) enum Choice<'a> {
    Ready(&'a Representation),
    Make(Coding),
}

impl Entry {
    /// The representation for a request with these fields. What is made on the fly has no ranges: those are cut from what
    /// lies on the disk.
    pub(super) fn choose(&self, fields: &impl FieldLines, wants_range: bool) -> Choice<'_> {
        if !self.varies() || !fields.has(KnownField::AcceptEncoding) {
            return Choice::Ready(&self.plain);
        }
        let accepted = AcceptedCodings::parse(fields.lines(KnownField::AcceptEncoding));
        // A sibling costs nothing and was made with more patience than we have, so it goes before what we make.
        let sibling = accepted.choose(|coding| matches!(self.coded(coding), Coded::Sibling(_)));
        let chosen = if sibling == Coding::Identity && !wants_range {
            accepted.choose(|coding| matches!(self.coded(coding), Coded::Made(_) | Coded::OnTheFly))
        } else {
            sibling
        };
        match self.coded(chosen) {
            Coded::Sibling(ready) | Coded::Made(ready) => Choice::Ready(ready),
            Coded::OnTheFly => Choice::Make(chosen),
            Coded::No => Choice::Ready(&self.plain),
        }
    }

    /// The same with one coding more, or with the knowledge that it is not worth having.
    pub(super) fn with(&self, coding: Coding, coded: Coded) -> Self {
        let mut all = self.coded.clone();
        if let Some(index) = position(coding) {
            all[index] = coded;
        }
        Self {
            path: self.path.clone(),
            plain: self.plain.clone(),
            coded: all,
            evidence: self.evidence.clone(),
            stat: self.stat,
            settled: self.settled,
            checked_ms: AtomicU64::new(self.checked_ms.load(Ordering::Relaxed)),
        }
    }

    /// The path of the site that the file has, if it is not the one that was asked for and another route takes it.
    pub(super) fn path_on_other_route(
        &self,
        requested: &str,
        other_routes: OtherRoutes<'_>,
    ) -> Option<RequestPath<'static>> {
        if *self.path == *requested { None } else { other_routes(&self.path) }
    }

    /// Whether every path that led here still shows what it did.
    pub(super) fn holds(&self, root: &Root, access: Access) -> Result<bool, WouldBlock> {
        if !self.settled {
            return Ok(false);
        }
        for Evidence { path, seen } in &*self.evidence {
            if root.stat(path, access)? != *seen {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Every representation there is.
    pub(super) fn representations(&self) -> impl Iterator<Item = &Representation> {
        let coded = self.coded.iter().filter_map(|coded| match coded {
            Coded::Sibling(ready) | Coded::Made(ready) => Some(ready),
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
    /// The representation without a coding. `common` are the fields that a 304 has too.
    pub(super) fn plain(
        content: Content,
        stat: &Stat,
        now_ns: i128,
        media_type: HeaderValue,
        common: &HeaderMap,
    ) -> Self {
        let validators = validators(stat, "", now_ns);
        let mut headers = common.clone();
        headers.insert(CONTENT_TYPE, media_type);
        headers.entry(X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        Self::new(content, validators, headers, common.clone())
    }

    /// The representation that a sibling file holds.
    pub(super) fn sibling(&self, content: Content, stat: &Stat, now_ns: i128, coding: Coding) -> Self {
        let mut headers = self.whole.headers().clone();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
        let common = self.not_modified.headers().clone();
        Self::new(content, validators(stat, coding.name(), now_ns), headers, common)
    }

    /// The representation that is made on the fly. Its tag is weak: another level or another version of the encoder makes
    /// other bytes of the same file.
    pub(super) fn made(&self, content: Content, stat: &Stat, coding: Coding) -> Self {
        let mut headers = self.whole.headers().clone();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
        headers.remove(ACCEPT_RANGES);
        let tag = EntityTag::of_file(&stat.identity(), coding.name(), true);
        let validators = Validators { tag, modified: self.validators.modified };
        Self::new(content, validators, headers, self.not_modified.headers().clone())
    }

    /// The 200.
    pub(super) fn answer_whole(&self) -> Response {
        Response::prepared(self.whole.clone(), self.content.all())
    }

    /// The 304.
    pub(super) fn answer_not_modified(&self) -> Response {
        Response::prepared(self.not_modified.clone(), Body::Empty)
    }

    /// `common` goes into the 304 as well. `Last-Modified` does not: beside an entity tag it says nothing new
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
    // RFC 9110 §8.8.2.1: a date in the future MUST be replaced by that of the answer.
    let seconds = stat.modified_ns.min(now_ns).div_euclid(1_000_000_000);
    Validators {
        tag: EntityTag::of_file(&identity, coding, !identity.is_mtime_stable(now_ns)),
        modified: HttpDate::from_unix_seconds(i64::try_from(seconds).unwrap_or(0)),
    }
}

/// The fields that both a 200 and a 304 have (RFC 9110 §15.4.5), without the tag. A rule for these files goes before what
/// holds for all.
pub(super) fn common_fields(
    varies: bool,
    cache_control: Option<&HeaderValue>,
    extra: &HeaderMap,
) -> HeaderMap {
    let mut fields = extra.clone();
    if varies {
        fields.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    if let Some(value) = cache_control {
        fields.insert(CACHE_CONTROL, value.clone());
    }
    fields
}

/// Adds the operator's fields to an answer that is no file. `Vary` is a list that both may add to; what else is already there gives way.
pub(super) fn add_extra(fields: &mut HeaderMap, extra: &HeaderMap) {
    for name in extra.keys() {
        if name != VARY {
            fields.remove(name);
        }
        for value in extra.get_all(name) {
            fields.append(name, value.clone());
        }
    }
}

impl Content {
    /// What an open file holds, in memory if `in_memory` and if it stands still while it is read.
    pub(super) fn of(opened: Opened, in_memory: bool, access: Access) -> Result<Self, WouldBlock> {
        let Opened { file, stat } = opened;
        // An empty file takes no memory, and no descriptor then.
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

    /// A part of it, which must lie within.
    pub(super) fn part(&self, span: Span) -> BodyPiece {
        match self {
            Self::Memory(bytes) => BodyPiece::Data(slice(bytes, span)),
            Self::File(range) => BodyPiece::File(FileRange {
                start: range.start + span.start,
                length: span.length,
                ..range.clone()
            }),
        }
    }
}

fn slice(bytes: &Bytes, span: Span) -> Bytes {
    // What does not fit a usize lies beyond the end of whatever is in memory.
    let position = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    bytes.slice(position(span.start)..position(span.end()))
}

/// The whole content, if the file was the same before and after.
fn read_all(file: &File, stat: &Stat, access: Access) -> Result<Option<Bytes>, WouldBlock> {
    let Ok(size) = usize::try_from(stat.size) else { return Ok(None) };
    let mut bytes = vec![0; size];
    match access.read(file, &mut bytes) {
        Err(error) if access.must_wait(&error) => Err(WouldBlock),
        Ok(()) if Stat::of(file).is_ok_and(|now| now == *stat) => Ok(Some(bytes.into())),
        Ok(()) | Err(_) => Ok(None),
    }
}
