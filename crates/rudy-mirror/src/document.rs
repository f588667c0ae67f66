//! Metadata whose links lead to the mirror.

use std::borrow::Cow;
use std::future::poll_fn;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use rudy_caching::read;
use rudy_client::HeadOnlyBody;
use rudy_message::semantics::conditional::{Current, Verdict, evaluate};
use rudy_message::semantics::date::HttpDate;
use rudy_message::semantics::etag::EntityTag;
use rudy_pipeline::compression::pool;
use rudy_pipeline::pages;
use rudy_pipeline::request_state::HasResponseState;
use rudy_service::{Body, BodyPiece, Response, poll_time};

use super::fields::{self, CHECKSUMS};
use super::memory::{Counted, Memory, SMALL_BYTES, Text};
use super::preset::Format;
use super::tags::{Place, Rewritten};
use super::{html, json, references};

/// Fields of the original that are wrong for the rewritten document.
const FIELDS_OF_ORIGINAL: [header::HeaderName; 6] = [
    header::ACCEPT_RANGES,
    header::CONTENT_LENGTH,
    header::CONTENT_LOCATION,
    header::HeaderName::from_static("content-digest"),
    header::HeaderName::from_static("content-md5"),
    header::HeaderName::from_static("repr-digest"),
];

/// How many bytes of a hash are in an entity tag.
const TAG_BYTES: usize = 16;

/// The method and the fields of the request of the client.
pub(super) struct ClientRequest {
    pub(super) method: Method,
    pub(super) fields: HeaderMap,
}

/// The space for a document.
#[derive(Debug)]
pub(super) struct Space {
    /// The maximum size of the original.
    pub(super) bytes_max: u64,
    /// Where large documents are while they are sent. Without it, they are in memory.
    pub(super) folder: Option<PathBuf>,
}

/// Replaces the links in a successful response, each by what `link` returns for it and the URL to which it is relative, if the document
/// declares one. The entity tag is that of the new content, which the conditions of the client are about. A document that is too large
/// or damaged becomes 502. `place` remembers the tag.
pub(super) async fn rewrite(
    mut response: Response,
    format: Format,
    space: Space,
    of_client: &ClientRequest,
    place: Option<Place<'_>>,
    link: impl Fn(&str, Option<&str>) -> Option<String> + Send + 'static,
) -> Response {
    let Space { bytes_max: max, folder } = space;
    if let Format::Checksum(_) = format {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    }
    let failed = |why: &str| {
        let explanation = format!("The repository has sent metadata that cannot be rewritten: {why}.");
        pages::error(StatusCode::BAD_GATEWAY, &of_client.fields, &explanation)
    };
    if response.headers().contains_key(header::CONTENT_ENCODING) {
        return failed("it is compressed, which the request did not allow");
    }
    if let Some(Rewritten { tag, length, text }) = place.as_ref().and_then(Place::get) {
        let head_only = || Body::Stream(Box::new(HeadOnlyBody { length: Some(length) }));
        let needs_content = needs_content(&response, &tag, of_client);
        let known = if needs_content { text.upgrade().map(Counted::body) } else { Some(head_only()) };
        if let Some(body) = known {
            return with_content(response, Some(&tag), body, of_client);
        }
    }
    let (body, mut memory) = (std::mem::replace(&mut response.body, Body::Empty), Memory::default());
    let content = match collect(body, max, &mut memory).await {
        Ok(content) => content,
        Err(NotReceived::TooLong) => return failed(&format!("it is larger than `metadata_bytes`, {max}")),
        Err(NotReceived::Incomplete) => return failed("it ended early"),
        Err(NotReceived::NoMemory) => return too_many(&of_client.fields),
    };
    let document = if content.len() as u64 <= SMALL_BYTES {
        Document::rewritten(&content, format, None, link)
    } else {
        let rewrite = move || Ok(Document::rewritten(&content, format, folder.as_deref(), link));
        pool::run(rewrite).await.ok().flatten()
    };
    match document {
        Some(Document { text, tag }) => {
            let text = memory.keep_for(text);
            if let (Some(place), Some(tag)) = (place, tag.clone()) {
                place.set(Rewritten { tag, length: text.length(), text: Arc::downgrade(&text) });
            }
            with_content(response, tag.as_ref(), text.body(), of_client)
        }
        None => failed("it is malformed"),
    }
}

fn too_many(fields: &HeaderMap) -> Response {
    let explanation = "The mirror rewrites too many large documents at the moment. Try again later.";
    let mut response = pages::error(StatusCode::SERVICE_UNAVAILABLE, fields, explanation);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
    response
}

/// A rewritten document.
struct Document {
    text: Text,
    tag: Option<EntityTag>,
}

impl Document {
    /// Rewrites a document, which is in a file of this folder if it is large. `None` if it is malformed.
    fn rewritten(
        content: &[u8],
        format: Format,
        folder: Option<&Path>,
        link: impl Fn(&str, Option<&str>) -> Option<String>,
    ) -> Option<Self> {
        let text = match format {
            Format::Checksum(algorithm) => algorithm.checksum(content),
            Format::Html => replace_in_html(str::from_utf8(content).ok()?, link),
            Format::Json(paths) => {
                replace_in_json(str::from_utf8(content).ok()?, paths, |reference| link(reference, None))?
            }
        };
        let hash = digest(&SHA256, text.as_bytes());
        let tag = format!("\"{}\"", URL_SAFE_NO_PAD.encode(&hash.as_ref()[..TAG_BYTES]));
        // Base64 in quotes.
        let tag = HeaderValue::try_from(tag).ok().and_then(|value| EntityTag::parse(&value));
        Some(Self { text: Text::new(text, folder), tag })
    }
}

/// Returns JSON with other links at these paths. `None` if it is malformed.
fn replace_in_json(
    text: &str,
    paths: &[&[Option<&str>]],
    link: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let found = json::find(text, paths)?;
    let of_json = |quoted: &str| {
        let reference: Cow<'_, str> = serde_json::from_str(quoted).ok()?;
        serde_json::to_string(&link(&reference)?).ok()
    };
    Some(replace(text, &found, of_json))
}

/// Returns a page with other links, and with another base: the links that remain are relative to it.
fn replace_in_html(text: &str, link: impl Fn(&str, Option<&str>) -> Option<String>) -> String {
    let html::Found { base, links } = html::find(text);
    let declared = base.as_ref().and_then(|range| url(&text[range.clone()]));
    let mut found: Vec<_> = links.into_iter().map(|range| (range, declared.as_deref())).collect();
    found.extend(base.map(|range| (range, None)));
    found.sort_by_key(|(range, _)| range.start);
    let mut bases = found.iter().map(|(_, base)| *base);
    let ranges: Vec<_> = found.iter().map(|(range, _)| range.clone()).collect();
    replace(text, &ranges, |value| {
        let base = bases.next().flatten();
        // Without a value, a link leads to its page.
        let reference = url(value).filter(|reference| !reference.is_empty())?;
        Some(references::encode(&link(&reference, base)?))
    })
}

/// Returns the URL in the value of an attribute, as a browser reads it. `None` if it has unknown references.
fn url(value: &str) -> Option<String> {
    let decoded = references::decode(value)?;
    let is_outside = |character: char| character.is_control() || character == ' ';
    Some(decoded.trim_matches(is_outside).replace(['\t', '\n', '\r'], ""))
}

fn replace(text: &str, found: &[Range<usize>], mut new: impl FnMut(&str) -> Option<String>) -> String {
    let (mut replaced, mut at) = (String::with_capacity(text.len()), 0);
    for range in found {
        let old = &text[range.clone()];
        replaced.push_str(&text[at..range.start]);
        replaced.push_str(new(old).as_deref().unwrap_or(old));
        at = range.end;
    }
    replaced.push_str(&text[at..]);
    replaced
}

/// Whether the response to a client has the content of a document with this tag.
fn needs_content(response: &Response, tag: &EntityTag, of_client: &ClientRequest) -> bool {
    let verdict = verdict(response, Some(tag), of_client);
    of_client.method != Method::HEAD && matches!(verdict, Verdict::Proceed | Verdict::IgnoreRange)
}

/// Evaluates the conditions of a client for a document with this tag.
fn verdict(response: &Response, tag: Option<&EntityTag>, of_client: &ClientRequest) -> Verdict {
    let modified = response.headers().get(header::LAST_MODIFIED);
    let modified = modified.and_then(|value| HttpDate::parse_ignoring_case(value.as_bytes()));
    let current = Current { tag, modified, modified_is_strong: false };
    evaluate(&of_client.method, &of_client.fields, current)
}

/// Returns the response with its new content, or 304 or 412 by the conditions of the client.
fn with_content(
    mut response: Response,
    tag: Option<&EntityTag>,
    body: Body,
    of_client: &ClientRequest,
) -> Response {
    response.body = Body::Empty;
    // Its compressed copies are those of the original.
    response.take(|state| &mut state.content);
    let fields = response.headers_mut();
    fields::remove(fields, |name| FIELDS_OF_ORIGINAL.contains(name) || name.as_str().starts_with(CHECKSUMS));
    if let Some(tag) = tag {
        fields.insert(header::ETAG, tag.value().clone());
    }
    match verdict(&response, tag, of_client) {
        Verdict::NotModified => {
            response.headers_mut().remove(header::CONTENT_TYPE);
            response.set_status(StatusCode::NOT_MODIFIED);
        }
        Verdict::PreconditionFailed => {
            let explanation = "The condition of the request is not met.";
            return pages::error(StatusCode::PRECONDITION_FAILED, &of_client.fields, explanation);
        }
        // Ranges are not supported: metadata is short.
        Verdict::Proceed | Verdict::IgnoreRange => response.body = body,
    }
    response
}

/// Why a body is not received.
#[derive(Debug)]
pub(super) enum NotReceived {
    /// It has more bytes than the limit.
    TooLong,
    /// It ended early.
    Incomplete,
    /// Other documents use the memory.
    NoMemory,
}

/// Receives a whole body of at most `max` bytes, and extends `memory` for it.
pub(super) async fn collect(body: Body, max: u64, memory: &mut Memory) -> Result<Bytes, NotReceived> {
    let length = body.length();
    if length.is_some_and(|length| length > max) {
        return Err(NotReceived::TooLong);
    }
    if !memory.extend(length.unwrap_or(0)).await {
        return Err(NotReceived::NoMemory);
    }
    let mut stream = match body {
        Body::Empty | Body::Silence => return Ok(Bytes::new()),
        Body::Bytes(bytes) => return Ok(bytes),
        Body::File(range) => return read(range).await.map_err(|_| NotReceived::Incomplete),
        Body::Stream(stream) => stream,
    };
    let mut content = BytesMut::with_capacity(usize::try_from(length.unwrap_or(0)).unwrap_or(0));
    while let Some(piece) = poll_fn(|cx| stream.poll_piece(cx, poll_time(), max.max(1))).await {
        let piece = piece.map_err(|_| NotReceived::Incomplete)?;
        let end = content.len() as u64 + piece.length();
        if end > max {
            return Err(NotReceived::TooLong);
        }
        // Without a length, for the longest: documents that extend what they have would wait for each other.
        let reserved = length.unwrap_or(if end > SMALL_BYTES { max } else { 0 });
        if !memory.extend(reserved).await {
            return Err(NotReceived::NoMemory);
        }
        match piece {
            BodyPiece::Data(bytes) => content.extend_from_slice(&bytes),
            BodyPiece::File(range) => {
                content.extend_from_slice(&read(range).await.map_err(|_| NotReceived::Incomplete)?);
            }
            BodyPiece::Trailers(_) => break,
        }
    }
    memory.reduce(content.len() as u64);
    Ok(content.freeze())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::super::checksum::Algorithm;
    use super::super::tags::Tags;
    use super::*;

    #[test]
    fn a_large_document_is_rewritten_on_another_thread_and_a_small_one_on_this() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        for (padding, is_other) in [(10, false), (usize::try_from(SMALL_BYTES).unwrap(), true)] {
            let mut response = Response::new(StatusCode::OK);
            let text = format!(r#"{{"u":"a","x":"{}"}}"#, "x".repeat(padding));
            response.body = Body::Bytes(text.into());
            let of_client = ClientRequest { method: Method::GET, fields: HeaderMap::new() };
            let worker = thread::current().id();
            let link = move |reference: &str, _: Option<&str>| {
                Some(format!("{reference} {}", thread::current().id() != worker))
            };
            let format = Format::Json(&[&[Some("u")]]);
            let response =
                runtime.block_on(rewrite(response, format, space(1 << 20), &of_client, None, link));
            let Body::Bytes(content) = &response.body else { panic!("it is in memory") };
            let start = format!(r#"{{"u":"a {is_other}","x""#);
            assert!(content.starts_with(start.as_bytes()), "{}", content.len());
        }
    }

    #[test]
    fn a_known_document_is_not_rewritten_for_head_and_304_or_while_it_is_sent() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (tags, count) = (Tags::default(), Arc::new(AtomicUsize::new(0)));
        let respond = |method: Method, condition: Option<&HeaderValue>| {
            let mut response = Response::new(StatusCode::OK);
            response.body = Body::Bytes(r#"{"u":"a"}"#.into());
            let fields = condition.map(|tag| (header::IF_NONE_MATCH, tag.clone())).into_iter().collect();
            let (of_client, count) = (ClientRequest { method, fields }, count.clone());
            let link = move |reference: &str, _: Option<&str>| {
                count.fetch_add(1, Ordering::Relaxed);
                Some(reference.repeat(3))
            };
            let (format, place) = (Format::Json(&[&[Some("u")]]), Some(tags.at(1)));
            runtime.block_on(rewrite(response, format, space(100), &of_client, place, link))
        };
        let first = respond(Method::GET, None);
        let tag = first.headers().get(header::ETAG);
        assert_eq!(first.body.length(), Some(11));
        for (method, condition, status, length) in [
            (Method::HEAD, None, StatusCode::OK, 11),
            (Method::GET, tag, StatusCode::NOT_MODIFIED, 0),
            (Method::HEAD, tag, StatusCode::NOT_MODIFIED, 0),
        ] {
            let response = respond(method, condition);
            assert_eq!((response.status(), response.body.length()), (status, Some(length)));
            assert_eq!(response.headers().get(header::ETAG), tag);
        }
        assert_eq!(count.load(Ordering::Relaxed), 1);
        let other = HeaderValue::from_static("\"x\"");
        assert_eq!(respond(Method::GET, Some(&other)).body.length(), Some(11));
        assert_eq!(count.load(Ordering::Relaxed), 1, "it is being sent");
        drop(first);
        assert_eq!(respond(Method::GET, Some(&other)).body.length(), Some(11));
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }

    fn space(bytes_max: u64) -> Space {
        Space { bytes_max, folder: None }
    }

    fn marked(reference: &str) -> Option<String> {
        (!reference.contains("stay")).then(|| format!("m:{reference}"))
    }

    #[test]
    fn links_are_replaced_in_the_spelling_of_the_document() {
        let json = r#"{"x" : 1.0, "u":"http:\/\/a\"", "u" : "stay"}"#;
        let expected = r#"{"x" : 1.0, "u":"m:http://a\"", "u" : "stay"}"#;
        let paths: &[&[Option<&str>]] = &[&[Some("u")]];
        assert_eq!(replace_in_json(json, paths, marked).as_deref(), Some(expected));
        assert_eq!(replace_in_json("{", paths, marked), None);
    }

    #[test]
    fn links_of_a_page_are_those_that_a_browser_follows() {
        for (html, expected) in [
            ("<a href=\"a?b&amp;c\">a</a> <a href='stay'>", "<a href=\"m:a?b&amp;c\">a</a> <a href='stay'>"),
            ("<a href=a&#43;b&#x3D;c&#35;d=&equals;>&#43;</a>", "<a href=m:a+b=c#d==>&#43;</a>"),
            ("<A HREF=' \n a\tb '>", "<A HREF='m:ab'>"),
            ("<a href=a&#32;b&gt;c&#39;>", "<a href=m:a&#32;b&#62;c&#39;>"),
            ("<a href=&unknown;><a href><a href=''>", "<a href=&unknown;><a href><a href=''>"),
        ] {
            assert_eq!(replace_in_html(html, |reference, _| marked(reference)), expected, "{html}");
        }
    }

    #[test]
    fn links_are_relative_to_the_base_of_their_page_and_the_base_to_the_page() {
        let link = |reference: &str, base: Option<&str>| {
            (reference != "stay").then(|| format!("{reference}@{}", base.unwrap_or("page")))
        };
        for (html, expected) in [
            (
                "<a href=a><base href=b&amp;c><a href=d>",
                "<a href=a@b&amp;c><base href=b&amp;c@page><a href=d@b&amp;c>",
            ),
            ("<base href=stay><a href=a><a href=stay>", "<base href=stay><a href=a@stay><a href=stay>"),
            ("<base target=x><a href=a>", "<base target=x><a href=a@page>"),
        ] {
            assert_eq!(replace_in_html(html, link), expected, "{html}");
        }
    }

    #[test]
    fn a_checksum_is_that_of_the_metadata_that_is_sent() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut response = Response::new(StatusCode::OK);
        response.headers_mut().insert("x-checksum-sha1", HeaderValue::from_static("that of the metadata"));
        // Not UTF-8.
        response.body = Body::Bytes(Bytes::from_static(b"<metadata>\xff"));
        let of_client = ClientRequest { method: Method::GET, fields: HeaderMap::new() };
        let (format, none) = (Format::Checksum(Algorithm::Sha1), |_: &str, _: Option<&str>| None);
        let response = runtime.block_on(rewrite(response, format, space(100), &of_client, None, none));
        let Body::Bytes(content) = &response.body else { panic!("it is in memory") };
        assert_eq!(*content, Algorithm::Sha1.checksum(b"<metadata>\xff"));
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/plain");
        assert!(!response.headers().contains_key("x-checksum-sha1"));
    }
}
