//! Conditional requests: the five preconditions of RFC 9110 §13, in the order of §13.2.2.

use http::Method;

use super::date::HttpDate;
use super::etag::{self, Comparison, EntityTag};
use super::field::{FieldLines, KnownField};

/// The validators of an existing representation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validators {
    /// The entity tag.
    pub tag: EntityTag,
    /// The time of the last modification.
    pub modified: HttpDate,
}

/// What is known of the current representation: both [`Validators`], or those that an origin sent to a cache.
#[derive(Debug, Clone, Copy)]
pub struct Current<'a> {
    /// The entity tag.
    pub tag: Option<&'a EntityTag>,
    /// The time of the last modification.
    pub modified: Option<HttpDate>,
    /// Whether the representation did not change twice in the second of `modified` (§8.8.2.2).
    pub modified_is_strong: bool,
}

impl<'a> From<&'a Validators> for Current<'a> {
    /// A file with a weak tag may just be changing.
    #[inline]
    fn from(Validators { tag, modified }: &'a Validators) -> Self {
        Self { tag: Some(tag), modified: Some(*modified), modified_is_strong: !tag.is_weak() }
    }
}

/// The result of evaluating the preconditions of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Respond as without preconditions.
    Proceed,
    /// Send the whole representation: the range was requested for an older one.
    IgnoreRange,
    /// 304 Not Modified.
    NotModified,
    /// 412 Precondition Failed.
    PreconditionFailed,
}

/// Evaluates the preconditions of a request for an existing representation, in the order of RFC 9110 §13.2.2.
#[must_use]
pub fn evaluate<'a>(method: &Method, fields: &impl FieldLines, current: impl Into<Current<'a>>) -> Verdict {
    let current = current.into();
    let reads = *method == Method::GET || *method == Method::HEAD;
    let unchanged_since = |date| current.modified.is_some_and(|modified| modified <= date);
    if let Some(failed) = step_1_and_2(fields, current) {
        return failed;
    }
    if fields.has(KnownField::IfNoneMatch) {
        // Step 3. "*" is false for every existing representation (§13.1.2).
        if etag::list_matches(fields.lines(KnownField::IfNoneMatch), current.tag, Comparison::Weak) {
            return if reads { Verdict::NotModified } else { Verdict::PreconditionFailed };
        }
    } else if reads && single_date(fields, KnownField::IfModifiedSince).is_some_and(unchanged_since) {
        // Step 4. §13.1.3: MUST be ignored with If-None-Match, with another method, or if it is not one date.
        return Verdict::NotModified;
    }
    // Step 5. Only GET has ranges (§14.2), and without Range a recipient MUST ignore If-Range (§13.1.5).
    if *method == Method::GET && fields.has(KnownField::Range) && !if_range_holds(fields, current) {
        return Verdict::IgnoreRange;
    }
    Verdict::Proceed
}

/// Evaluates `If-Match`, or `If-Unmodified-Since` without it.
fn step_1_and_2(fields: &impl FieldLines, current: Current<'_>) -> Option<Verdict> {
    let holds = if fields.has(KnownField::IfMatch) {
        etag::list_matches(fields.lines(KnownField::IfMatch), current.tag, Comparison::Strong)
    } else {
        // §13.1.4: MUST be ignored with If-Match, if it is not a date, or without a modification date.
        let dates = single_date(fields, KnownField::IfUnmodifiedSince).zip(current.modified);
        dates.is_none_or(|(since, modified)| modified <= since)
    };
    (!holds).then_some(Verdict::PreconditionFailed)
}

/// Whether `If-Range` matches, so that the client can combine the range with the part that it has.
fn if_range_holds(fields: &impl FieldLines, current: Current<'_>) -> bool {
    let mut lines = fields.lines(KnownField::IfRange);
    let Some(value) = lines.next() else { return true };
    if lines.next().is_some() {
        return false;
    }
    match etag::single_matches(value, current.tag) {
        Some(matches) => matches,
        // §13.1.5: the date must be equal, not later, and a strong validator.
        None => {
            current.modified_is_strong
                && HttpDate::parse(value).is_some_and(|date| current.modified == Some(date))
        }
    }
}

/// Returns the date of a field. `None` if the field is missing, repeated or not a date.
fn single_date(fields: &impl FieldLines, field: KnownField) -> Option<HttpDate> {
    if !fields.has(field) {
        return None;
    }
    let mut lines = fields.lines(field);
    let date = HttpDate::parse(lines.next()?)?;
    lines.next().is_none().then_some(date)
}

#[cfg(test)]
mod tests {
    use http::header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE};
    use http::{HeaderMap, HeaderName, HeaderValue};

    use super::Verdict::{IgnoreRange, NotModified, PreconditionFailed, Proceed};
    use super::*;
    use crate::semantics::etag::FileIdentity;

    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    const TAG: &str = "\"5-0-1\"";
    const WEAK_TAG: &str = "W/\"5-0-1\"";

    fn verdict(method: &Method, fields: &[(HeaderName, &str)], weak: bool) -> Verdict {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        let file = FileIdentity { size: 5, modified_ns: 0, inode: 1 };
        let modified = HttpDate::from_unix_seconds(784_111_777);
        evaluate(method, &headers, &Validators { tag: EntityTag::of_file(&file, "", weak), modified })
    }

    fn check(rows: &[(&[(HeaderName, &str)], Verdict)]) {
        for (fields, expected) in rows {
            assert_eq!(verdict(&Method::GET, fields, false), *expected, "{fields:?}");
        }
    }

    #[test]
    fn each_condition_works_alone() {
        check(&[
            (&[], Proceed),
            (&[(IF_MATCH, "*")], Proceed),
            (&[(IF_MATCH, TAG)], Proceed),
            (&[(IF_MATCH, "\"a\"")], PreconditionFailed),
            (&[(IF_MATCH, WEAK_TAG)], PreconditionFailed),
            (&[(IF_MATCH, "broken")], PreconditionFailed),
            (&[(IF_UNMODIFIED_SINCE, BEFORE)], PreconditionFailed),
            (&[(IF_UNMODIFIED_SINCE, SAME)], Proceed),
            (&[(IF_UNMODIFIED_SINCE, AFTER)], Proceed),
            (&[(IF_UNMODIFIED_SINCE, "yesterday")], Proceed),
            (&[(IF_NONE_MATCH, "*")], NotModified),
            (&[(IF_NONE_MATCH, TAG)], NotModified),
            (&[(IF_NONE_MATCH, WEAK_TAG)], NotModified),
            (&[(IF_NONE_MATCH, "\"a\"")], Proceed),
            (&[(IF_NONE_MATCH, "broken")], Proceed),
            (&[(IF_MODIFIED_SINCE, BEFORE)], Proceed),
            (&[(IF_MODIFIED_SINCE, SAME)], NotModified),
            (&[(IF_MODIFIED_SINCE, AFTER)], NotModified),
            (&[(IF_MODIFIED_SINCE, "yesterday")], Proceed),
            (&[(IF_MODIFIED_SINCE, AFTER), (IF_MODIFIED_SINCE, AFTER)], Proceed),
        ]);
    }

    #[test]
    fn conditions_are_evaluated_in_order() {
        check(&[
            // If-Match skips step 2, If-None-Match skips step 4.
            (&[(IF_MATCH, TAG), (IF_UNMODIFIED_SINCE, BEFORE)], Proceed),
            (&[(IF_NONE_MATCH, "\"a\""), (IF_MODIFIED_SINCE, AFTER)], Proceed),
            (&[(IF_NONE_MATCH, TAG), (IF_MODIFIED_SINCE, BEFORE)], NotModified),
            // 412 comes before 304.
            (&[(IF_NONE_MATCH, TAG), (IF_MATCH, "\"a\"")], PreconditionFailed),
            (&[(IF_MATCH, TAG), (IF_NONE_MATCH, TAG)], NotModified),
            (&[(IF_MODIFIED_SINCE, AFTER), (IF_UNMODIFIED_SINCE, BEFORE)], PreconditionFailed),
            // 304 comes before the range.
            (&[(IF_NONE_MATCH, TAG), (RANGE, "bytes=0-1"), (IF_RANGE, "\"a\"")], NotModified),
        ]);
    }

    #[test]
    fn if_range_compares_strongly() {
        check(&[
            (&[(RANGE, "bytes=0-1")], Proceed),
            (&[(IF_RANGE, "\"a\"")], Proceed),
            (&[(RANGE, "bytes=0-1"), (IF_RANGE, TAG)], Proceed),
            (&[(RANGE, "bytes=0-1"), (IF_RANGE, WEAK_TAG)], IgnoreRange),
            (&[(RANGE, "bytes=0-1"), (IF_RANGE, "\"a\"")], IgnoreRange),
            (&[(RANGE, "bytes=0-1"), (IF_RANGE, SAME)], Proceed),
            (&[(RANGE, "bytes=0-1"), (IF_RANGE, AFTER)], IgnoreRange),
            (&[(RANGE, "bytes=0-1"), (IF_RANGE, BEFORE)], IgnoreRange),
            (&[(RANGE, "bytes=0-1"), (IF_RANGE, "broken")], IgnoreRange),
            (&[(RANGE, "bytes=0-1"), (IF_RANGE, TAG), (IF_RANGE, TAG)], IgnoreRange),
        ]);
    }

    #[test]
    fn a_file_that_just_changed_has_no_strong_match() {
        for (fields, expected) in [
            ([(IF_MATCH, TAG), (RANGE, "bytes=0-1")], PreconditionFailed),
            ([(IF_RANGE, WEAK_TAG), (RANGE, "bytes=0-1")], IgnoreRange),
            ([(IF_RANGE, SAME), (RANGE, "bytes=0-1")], IgnoreRange),
            ([(IF_NONE_MATCH, WEAK_TAG), (RANGE, "bytes=0-1")], NotModified),
        ] {
            assert_eq!(verdict(&Method::GET, &fields, true), expected, "{fields:?}");
        }
    }

    #[test]
    fn a_representation_may_lack_validators() {
        let nothing = Current { tag: None, modified: None, modified_is_strong: false };
        for (field, expected) in [
            ((IF_MATCH, "*"), Proceed),
            ((IF_MATCH, TAG), PreconditionFailed),
            ((IF_UNMODIFIED_SINCE, BEFORE), Proceed),
            ((IF_NONE_MATCH, "*"), NotModified),
            ((IF_NONE_MATCH, TAG), Proceed),
            ((IF_MODIFIED_SINCE, AFTER), Proceed),
            ((IF_RANGE, TAG), IgnoreRange),
            ((IF_RANGE, SAME), IgnoreRange),
            ((IF_RANGE, "broken"), IgnoreRange),
        ] {
            let range = (RANGE, "bytes=0-1");
            let fields =
                [&field, &range].map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
            let fields = HeaderMap::from_iter(fields);
            assert_eq!(evaluate(&Method::GET, &fields, nothing), expected, "{field:?}");
        }
    }

    #[test]
    fn other_methods_fail_if_get_would_be_not_modified() {
        for (method, fields, expected) in [
            (Method::HEAD, (IF_NONE_MATCH, "*"), NotModified),
            (Method::HEAD, (IF_MODIFIED_SINCE, AFTER), NotModified),
            (Method::PUT, (IF_NONE_MATCH, "*"), PreconditionFailed),
            (Method::PUT, (IF_MODIFIED_SINCE, AFTER), Proceed),
        ] {
            assert_eq!(
                verdict(&method, std::slice::from_ref(&fields), false),
                expected,
                "{method} {fields:?}"
            );
        }
        assert_eq!(verdict(&Method::HEAD, &[(RANGE, "bytes=0-1"), (IF_RANGE, "\"a\"")], false), Proceed);
    }
}
