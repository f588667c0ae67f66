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
pub fn evaluate(method: &Method, fields: &impl FieldLines, current: &Validators) -> Verdict {
    let reads = *method == Method::GET || *method == Method::HEAD;
    if let Some(failed) = step_1_and_2(fields, current) {
        return failed;
    }
    if fields.has(KnownField::IfNoneMatch) {
        // Step 3. "*" is false for every existing representation (§13.1.2).
        if etag::list_matches(fields.lines(KnownField::IfNoneMatch), &current.tag, Comparison::Weak) {
            return if reads { Verdict::NotModified } else { Verdict::PreconditionFailed };
        }
    } else if reads
        && single_date(fields, KnownField::IfModifiedSince).is_some_and(|since| current.modified <= since)
    {
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
fn step_1_and_2(fields: &impl FieldLines, current: &Validators) -> Option<Verdict> {
    let holds = if fields.has(KnownField::IfMatch) {
        etag::list_matches(fields.lines(KnownField::IfMatch), &current.tag, Comparison::Strong)
    } else {
        // §13.1.4: MUST be ignored with If-Match, or if it is not a date.
        single_date(fields, KnownField::IfUnmodifiedSince).is_none_or(|since| current.modified <= since)
    };
    (!holds).then_some(Verdict::PreconditionFailed)
}

/// Whether `If-Range` matches, so that the client can combine the range with the part that it has.
fn if_range_holds(fields: &impl FieldLines, current: &Validators) -> bool {
    let mut lines = fields.lines(KnownField::IfRange);
    let Some(value) = lines.next() else { return true };
    if lines.next().is_some() {
        return false;
    }
    match etag::single_matches(value, &current.tag) {
        Some(matches) => matches,
        // §13.1.5: the date must be equal, not later, and a strong validator (§8.8.2.2): the file must not have changed twice
        // in that second. A weak tag means that this is still unknown.
        None => !current.tag.is_weak() && HttpDate::parse(value) == Some(current.modified),
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
