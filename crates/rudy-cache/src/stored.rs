//! The metadata of a stored response.

use std::time::Duration;

use http::header::{AGE, CONTENT_LENGTH, DATE, ETAG, LAST_MODIFIED};
use http::{HeaderMap, Method, Request, StatusCode};
use rudy_message::semantics::conditional::{self, Current, Verdict};
use rudy_message::semantics::date::HttpDate;
use rudy_message::semantics::etag::EntityTag;
use rudy_message::semantics::field::FieldLines;
use rudy_message::semantics::range::Span;
use rudy_message::syntax::parse_digits;

use crate::freshness::{Freshness, age_field, date_of};
use crate::seconds::Seconds;
use crate::vary::Variant;

/// A stored response without its content.
///
/// It is made by [`Policy::store`](crate::Policy::store) and can be written to a file with [`Stored::encode`]. The times in it are
/// dates, not instants of a process, so it keeps its age across restarts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub(crate) status: StatusCode,
    /// With a valid `Date`, and without the fields of §3.1.
    pub(crate) fields: HeaderMap,
    /// Parsed once from the fields: a hit needs them.
    pub(crate) validators: Validators,
    pub(crate) variant: Variant,
    pub(crate) content: Content,
    pub(crate) received_at: HttpDate,
    /// `corrected_initial_age` (§4.2.3).
    pub(crate) initial_age: Seconds,
    pub(crate) freshness: Freshness,
    /// Whether a request with `Authorization` led to this response or to an update of it (§3.5).
    pub(crate) is_authorized: bool,
    /// Whether it needs a validation before its next use (§4.4).
    pub(crate) is_invalid: bool,
}

/// The part of the content that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// All of it.
    Whole,
    /// Some of it: an incomplete response (§3.3), which always has a strong entity tag.
    Parts {
        /// The size of the whole content.
        size: u64,
        /// The stored parts. They do not touch each other.
        spans: Vec<Span>,
    },
}

impl Stored {
    /// Returns the status: that of the whole response also if the content is incomplete.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the stored fields, as the origin sent them. A response needs `Age` too: see [`Stored::fields_at`].
    #[must_use]
    pub fn fields(&self) -> &HeaderMap {
        &self.fields
    }

    /// Returns the fields of a response that is `age` old. §4: it MUST have an `Age`.
    #[must_use]
    pub fn fields_at(&self, age: Seconds) -> HeaderMap {
        let mut fields = self.fields.clone();
        fields.insert(AGE, age_field(age));
        fields
    }

    /// Returns the part of the content that is stored.
    #[must_use]
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Returns the number of bytes that the content has if its transfer is complete, as far as the response declares it. Other content
    /// is not that of this response, and must not be stored with it.
    #[must_use]
    pub fn declared_length(&self) -> Option<u64> {
        match &self.content {
            Content::Parts { spans, .. } => Some(spans.iter().map(|span| span.length).sum()),
            // RFC 9110 §8.6: it must not have the field.
            Content::Whole if self.status == StatusCode::NO_CONTENT => None,
            Content::Whole => self.content_length(),
        }
    }

    fn content_length(&self) -> Option<u64> {
        self.fields.get(CONTENT_LENGTH).and_then(|length| parse_digits(length.as_bytes()))
    }

    /// Returns the part of the request on which the response depends.
    #[must_use]
    pub fn variant(&self) -> &Variant {
        &self.variant
    }

    /// Whether a request has the values by which the response was selected (§4.1).
    #[must_use]
    pub fn suits(&self, request: &HeaderMap) -> bool {
        self.variant.suits(request, &self.fields)
    }

    /// Returns `current_age` (§4.2.3). A clock that was set back does not make a response younger than it was on arrival.
    #[must_use]
    pub fn age(&self, now: HttpDate) -> Seconds {
        self.initial_age.plus(Seconds::between(self.received_at, now))
    }

    /// Requires a validation before the next use (§4.4): after a purge, or a change that the cache knows of.
    pub fn invalidate(&mut self) {
        self.is_invalid = true;
    }

    /// Records that a transfer ended after `received` bytes of a whole response. Returns whether they are of any use (§3.3): the
    /// size is known, and a strong entity tag proves later that further parts belong to it (§3.4).
    #[must_use]
    pub fn truncate(&mut self, received: u64) -> bool {
        let Some(size) = self.content_length().filter(|size| (1..*size).contains(&received)) else {
            return false;
        };
        if self.status != StatusCode::OK
            || self.content != Content::Whole
            || self.validators.strong_tag().is_none()
        {
            return false;
        }
        self.content = Content::Parts { size, spans: vec![Span { start: 0, length: received }] };
        true
    }

    /// Evaluates the preconditions of a GET or HEAD request for this response (§4.3.2).
    #[must_use]
    pub fn verdict<B>(&self, request: &Request<B>) -> Verdict {
        self.verdict_of(request.method(), request.headers())
    }

    /// As [`Stored::verdict`], for a request of which only the method and the fields are known.
    #[must_use]
    pub fn verdict_of(&self, method: &Method, fields: &impl FieldLines) -> Verdict {
        // RFC 9110 §13.2.1: conditions are ignored if the response without them is not successful.
        if self.status != StatusCode::OK {
            return Verdict::Proceed;
        }
        let Validators { tag, modified, date, modified_is_strong } = &self.validators;
        let current = Current {
            tag: tag.as_ref(),
            // §4.3.2: without Last-Modified, the date of the response is compared with If-Modified-Since.
            modified: modified.or(*date),
            modified_is_strong: *modified_is_strong,
        };
        conditional::evaluate(method, fields, current)
    }

    /// Returns the age and the remaining freshness if the response needs no validation and is complete. That is enough for a GET
    /// or HEAD without `Cache-Control`, `Pragma`, `If-Match` and `If-Unmodified-Since`: [`Policy::lookup`](crate::Policy::lookup)
    /// would select it too.
    #[must_use]
    pub fn fresh_at(&self, now: HttpDate) -> Option<(Seconds, Seconds)> {
        let age = self.age(now);
        let may_be_used = !self.is_invalid && !self.freshness.validate_always;
        let is_hit = may_be_used && self.freshness.lifetime > age && self.content == Content::Whole;
        is_hit.then(|| (age, self.freshness.lifetime.minus(age)))
    }

    /// Whether a request may have the response to another one, which was sent this long before it: then it is as good as a stored one of
    /// that age. One that needs a validation may be shared for a second, the resolution of all times of a cache, so that a crowd asks the
    /// origin once.
    ///
    /// ```
    /// # use http::{Request, Response};
    /// # use rudy_cache::{Exchange, HttpDate, Policy};
    /// # use std::time::Duration;
    /// # let time = HttpDate::from_unix_seconds(0);
    /// let stored = |control: &str| {
    ///     let fields = Response::builder().header("cache-control", control).header("etag", "\"1\"");
    ///     let response = fields.body(()).unwrap();
    ///     let exchange = Exchange { requested_at: time, received_at: time };
    ///     Policy::default().store(&Request::new(()), &response, exchange).unwrap()
    /// };
    /// let second = Duration::from_secs(1);
    /// assert!(stored("max-age=5").may_be_shared_after(5 * second));
    /// assert!(!stored("max-age=5").may_be_shared_after(6 * second));
    /// assert!(stored("no-cache, max-age=5").may_be_shared_after(second));
    /// assert!(!stored("no-cache, max-age=5").may_be_shared_after(2 * second));
    /// ```
    #[must_use]
    pub fn may_be_shared_after(&self, behind: Duration) -> bool {
        let Freshness { lifetime, stale_while_revalidate, validate_always, .. } = self.freshness;
        let seconds = if validate_always { Seconds::ZERO } else { lifetime.plus(stale_while_revalidate) };
        behind <= Duration::from_secs(seconds.get().max(1).into())
    }

    /// Returns the time of receipt, or of the last validation.
    #[must_use]
    pub fn received_at(&self) -> HttpDate {
        self.received_at
    }

    /// Orders responses by their time (§4): by `Date`, and by the time of receipt if that is equal.
    pub(crate) fn recency(&self) -> (Option<HttpDate>, HttpDate) {
        (self.validators.date, self.received_at)
    }
}

/// For lists of what contains a stored response.
impl AsRef<Stored> for Stored {
    fn as_ref(&self) -> &Stored {
        self
    }
}

/// The validators in the fields of a response (RFC 9110 §8.8), and its date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Validators {
    pub(crate) tag: Option<EntityTag>,
    pub(crate) modified: Option<HttpDate>,
    pub(crate) date: Option<HttpDate>,
    /// RFC 9110 §8.8.2.2: the response was sent at least one second after the modification.
    pub(crate) modified_is_strong: bool,
}

impl Validators {
    pub(crate) fn of(fields: &HeaderMap) -> Self {
        let mut tags = fields.get_all(ETAG).iter();
        let tag = tags.next().and_then(EntityTag::parse).filter(|_| tags.next().is_none());
        let (modified, date) = (date_of(fields, &LAST_MODIFIED), date_of(fields, &DATE));
        let modified_is_strong = modified.zip(date).is_some_and(|(modified, date)| modified < date);
        Self { tag, modified, date, modified_is_strong }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tag.is_none() && self.modified.is_none()
    }

    pub(crate) fn strong_tag(&self) -> Option<&EntityTag> {
        self.tag.as_ref().filter(|tag| !tag.is_weak())
    }
}
