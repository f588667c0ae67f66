//! Conversions to and from the types of the `http` crate.

use std::sync::OnceLock;

use http::header::HeaderMap;
use http::{Request, request};

use super::added::AddedFields;
use crate::LazyHead;
use crate::semantics::field::KnownFields;

impl From<request::Parts> for LazyHead<'static> {
    /// Creates the head of a request that was not received. Its extensions are lost.
    fn from(parts: request::Parts) -> Self {
        let request::Parts { method, uri, version, headers, .. } = parts;
        Self {
            received: None,
            method,
            version,
            has_received_target: false,
            uri: OnceLock::from(Box::new(uri)),
            map: OnceLock::from(Box::new(headers)),
            removed: KnownFields::default(),
            removed_others: Vec::new(),
            added: AddedFields::default(),
        }
    }
}

impl From<HeaderMap> for LazyHead<'static> {
    /// Creates the head of a GET of `/`.
    fn from(fields: HeaderMap) -> Self {
        Self { map: OnceLock::from(Box::new(fields)), ..Self::default() }
    }
}

impl From<LazyHead<'_>> for request::Parts {
    /// Creates a head in which a [`RawTarget`](crate::RawTarget) is an extension.
    fn from(head: LazyHead<'_>) -> Self {
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.headers = std::mem::take(head.clone().headers_mut());
        if let Some(received) = head.received_target() {
            let (uri, raw) = received.to_uri();
            raw.map(|raw| parts.extensions.insert(raw));
            parts.uri = uri;
        } else {
            parts.uri = head.uri().clone();
        }
        (parts.method, parts.version) = (head.method, head.version);
        parts
    }
}
