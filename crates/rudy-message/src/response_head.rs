//! The head of a response, in whatever form it is.

use bytes::BytesMut;
use http::{HeaderMap, StatusCode, header};

use crate::text::{put_head, put_status_line};
use crate::{DateLine, PreparedHead, ReceivedHead};

/// The head of a response.
#[derive(Debug, Clone, Copy)]
pub enum ResponseHead<'a> {
    /// A status and fields, which are encoded when the response begins.
    Fields(StatusCode, &'a HeaderMap),
    /// An encoded head.
    Prepared(&'a PreparedHead),
    /// A head that was received.
    Received(&'a ReceivedHead),
}

impl ResponseHead<'_> {
    /// Returns the status of the response.
    #[must_use]
    #[inline]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Fields(status, _) => *status,
            Self::Prepared(prepared) => prepared.status(),
            Self::Received(received) => received.status(),
        }
    }

    /// Returns the date that the connection adds: none if the head has that of its origin, which a proxy does not change, and which caches
    /// compute the age from (RFC 9110 §6.6.1).
    #[must_use]
    #[inline]
    pub fn missing_date<'d>(&self, now: &'d DateLine) -> Option<&'d DateLine> {
        let has_date = match self {
            Self::Fields(_, headers) => headers.contains_key(header::DATE),
            Self::Prepared(prepared) => prepared.has_date(),
            Self::Received(received) => received.has_date(),
        };
        (!has_date).then_some(now)
    }

    /// Appends the status line and the field lines, without the lines that the connection adds.
    #[inline]
    pub fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Fields(status, headers) => put_head(*status, headers, out),
            Self::Prepared(prepared) => out.extend_from_slice(prepared.text()),
            Self::Received(received) => {
                put_status_line(received.status(), out);
                out.extend_from_slice(received.lines());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn the_date_of_the_origin_is_kept() {
        let origin = "Sun, 06 Nov 1994 08:49:37 GMT";
        let fields = HeaderMap::from_iter([(header::DATE, header::HeaderValue::from_static(origin))]);
        let prepared = PreparedHead::new(StatusCode::OK, fields.clone());
        let mut received = crate::ReceivedFields::default();
        received.push(b"Date", origin.as_bytes());
        let received = received.with_status(StatusCode::OK);
        let with_nothing = PreparedHead::with(&prepared.clone().into(), []);
        let now = DateLine::new(SystemTime::UNIX_EPOCH);
        for head in [
            ResponseHead::Prepared(&with_nothing),
            ResponseHead::Fields(StatusCode::OK, &fields),
            ResponseHead::Prepared(&prepared),
            ResponseHead::Received(&received),
        ] {
            let mut out = BytesMut::new();
            head.encode(&mut out);
            assert_eq!(out, format!("HTTP/1.1 200 OK\r\ndate: {origin}\r\n"));
            assert!(head.missing_date(&now).is_none(), "{head:?}");
        }
        let added = || [(header::AGE, header::HeaderValue::from(7))];
        let aged = PreparedHead::with(&prepared.into(), added());
        let mut all = fields;
        all.extend(added());
        assert_eq!(aged.headers(), &all);
        let mut out = BytesMut::new();
        ResponseHead::Prepared(&aged).encode(&mut out);
        assert_eq!(out, format!("HTTP/1.1 200 OK\r\ndate: {origin}\r\nage: 7\r\n"));
        let (none, nothing) = (HeaderMap::new(), PreparedHead::new(StatusCode::OK, HeaderMap::new()));
        for head in [ResponseHead::Fields(StatusCode::OK, &none), ResponseHead::Prepared(&nothing)] {
            assert!(head.missing_date(&now).is_some(), "{head:?}");
        }
    }
}
