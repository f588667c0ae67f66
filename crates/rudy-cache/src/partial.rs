//! Incomplete responses and their parts (RFC 9111 §3.3, §3.4).

use http::header::RANGE;
use http::{Method, Request, Response, StatusCode};
use rudy_message::semantics::conditional::Verdict;
use rudy_message::semantics::etag::Comparison;
use rudy_message::semantics::range::{self, Ranges, Span};

use crate::lookup::Coverage;
use crate::policy::{Exchange, Policy};
use crate::stored::{Content, Stored};
use crate::storing::{NotStored, part};

/// The maximum number of parts that do not touch. Players that seek leave a few dozen gaps, and each part costs 16 bytes.
const PARTS_MAX: usize = 256;

impl Stored {
    /// Returns how much of a GET or HEAD request the response can satisfy. §3.3: an incomplete one MUST NOT be used except for a
    /// range that is wholly within it.
    pub(crate) fn coverage<B>(&self, request: &Request<B>) -> Coverage {
        let Content::Parts { size, spans } = &self.content else { return Coverage::Enough };
        let mut lines = request.headers().get_all(RANGE).iter();
        let requested = match (lines.next(), lines.next()) {
            (line, None) => line.map(|line| range::parse(line.as_bytes(), *size)),
            _ => Some(Ranges::Ignored),
        };
        match (self.verdict(request), requested) {
            // Neither has content.
            (Verdict::NotModified, _) => Coverage::Enough,
            _ if request.method() == Method::HEAD => Coverage::Enough,
            (Verdict::Proceed, Some(Ranges::One(span))) => {
                let is_stored = spans.iter().any(|stored| stored.contains(span));
                if is_stored { Coverage::Enough } else { Coverage::Extensible }
            }
            // §3.3: a response whose transfer failed MAY be completed.
            (Verdict::Proceed, None) if self.missing_end().is_some() => Coverage::Extensible,
            // The whole, several parts, or a part of another representation (`If-Range`).
            _ => Coverage::Other,
        }
    }

    /// Returns the start of the missing part, if it is the end and nothing else is missing.
    pub(crate) fn missing_end(&self) -> Option<u64> {
        match &self.content {
            Content::Parts { spans, .. } if spans.len() == 1 && spans[0].start == 0 => Some(spans[0].end()),
            _ => None,
        }
    }
}

impl Policy {
    /// Adds the part in a 206 to an incomplete response, and returns the position of its content. The response is complete when
    /// [`Stored::content`] is [`Content::Whole`].
    ///
    /// §3.4: parts are combined only with the same strong validator. After [`NotStored::OtherRepresentation`], discard what is stored
    /// if it matches the request: the part is of a newer version, and can be stored by itself. After another error, the part is not
    /// stored.
    pub fn combine<B, C>(
        &self,
        request: &Request<B>,
        response: &Response<C>,
        stored: &mut Stored,
        exchange: Exchange,
    ) -> Result<Span, NotStored> {
        // The part has to be storable by itself.
        let newer = self.store(request, response, exchange)?;
        let (span, size) = part(response.headers()).ok_or(NotStored::Partial)?;
        let tags = newer.validators.strong_tag().zip(stored.validators.strong_tag());
        let suits = stored.suits(request.headers());
        let is_same = tags.is_some_and(|(newer, stored)| newer.matches(stored, Comparison::Strong));
        let Content::Parts { size: stored_size, spans } = &mut stored.content else {
            return Err(NotStored::OtherRepresentation);
        };
        let is_part = response.status() == StatusCode::PARTIAL_CONTENT && is_same && size == *stored_size;
        if !is_part || !suits {
            return Err(NotStored::OtherRepresentation);
        }
        let mut combined = spans.clone();
        range::insert(&mut combined, span);
        if combined.len() > PARTS_MAX {
            return Err(NotStored::Partial);
        }
        combined.sort_unstable_by_key(|span| span.start);
        let is_whole = combined == [Span { start: 0, length: size }];
        stored.content = if is_whole { Content::Whole } else { Content::Parts { size, spans: combined } };
        self.update(stored, request.headers(), response.headers(), exchange)?;
        Ok(span)
    }
}
