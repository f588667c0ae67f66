//! Response heads that are encoded once and sent repeatedly.

use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::Compression;
use crate::compression::Compressed;
use crate::text::{CONNECTION_FIELDS, put_field, put_head};

/// A response head with an encoded status line and encoded fields.
///
/// It never contains `Connection`, `Content-Length` or `Transfer-Encoding`: the connection adds these fields, and `Date` if it is missing.
#[derive(Debug, Clone)]
pub struct PreparedHead {
    status: StatusCode,
    has_date: bool,
    headers: OnceLock<HeaderMap>,
    /// The status line and the field lines, each with its CRLF.
    text: Bytes,
    /// The same in other versions of the protocol, unless there is a base.
    compressed: Compressed,
    base: Option<Base>,
}

/// The head with which another begins, and the fields that follow.
#[derive(Debug, Clone)]
struct Base {
    head: Arc<PreparedHead>,
    added: Box<[(HeaderName, HeaderValue)]>,
}

impl PreparedHead {
    /// Encodes `status` and `headers` for HTTP/1.1. Drops the fields that the connection adds.
    #[must_use]
    pub fn new(status: StatusCode, mut headers: HeaderMap) -> Self {
        for name in &CONNECTION_FIELDS {
            headers.remove(name);
        }
        let mut text = BytesMut::with_capacity(32 + headers.len() * 48);
        put_head(status, &headers, &mut text);
        let has_date = headers.contains_key(header::DATE);
        let (text, compressed) = (text.freeze(), Compressed::default());
        Self { status, has_date, headers: headers.into(), text, compressed, base: None }
    }

    /// Returns a head with further fields, which are not those of the connection, nor `Date`. It costs much less than another one: an age
    /// changes every second.
    #[must_use]
    pub fn with(head: &Arc<Self>, added: impl Into<Box<[(HeaderName, HeaderValue)]>>) -> Self {
        let added = added.into();
        let mut text = BytesMut::with_capacity(head.text.len() + added.len() * 48);
        text.extend_from_slice(&head.text);
        for (name, value) in &added {
            put_field(name.as_str().as_bytes(), value.as_bytes(), &mut text);
        }
        Self {
            status: head.status,
            has_date: head.has_date,
            headers: OnceLock::new(),
            text: text.freeze(),
            compressed: Compressed::default(),
            base: Some(Base { head: head.clone(), added }),
        }
    }

    /// Returns the status of the response.
    #[must_use]
    #[inline]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the fields before encoding.
    #[must_use]
    #[inline]
    pub fn headers(&self) -> &HeaderMap {
        self.headers.get_or_init(|| {
            let Some(Base { head, added }) = &self.base else { return HeaderMap::new() };
            let mut headers = head.headers().clone();
            for (name, value) in added {
                headers.append(name, value.clone());
            }
            headers
        })
    }

    /// Returns the status line and field lines, each with its CRLF, without the empty line that ends a head.
    #[inline]
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether it has a `Date`.
    #[inline]
    pub(crate) fn has_date(&self) -> bool {
        self.has_date
    }

    /// Returns the head whose compressed form comes first, and the fields that follow.
    #[inline]
    #[must_use]
    pub fn parts(&self) -> (&Self, &[(HeaderName, HeaderValue)]) {
        match &self.base {
            Some(base) => (&base.head, &base.added),
            None => (self, &[]),
        }
    }

    /// Returns the compressed status and fields of a head of [`Self::parts`], which `encode` makes in the first call.
    #[inline]
    pub fn compressed(&self, compression: Compression, encode: impl FnOnce(&Self) -> Bytes) -> &[u8] {
        self.compressed.get(compression, || encode(self))
    }
}
