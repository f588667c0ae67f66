//! The directives of a response (RFC 9111 §5.2.2).

use http::header::{CACHE_CONTROL, HeaderName};
use http::{HeaderMap, HeaderValue};
use rudy_message::syntax;

use super::dictionary::{self, Value};
use super::member::{Argument, Member, members};
use super::record;
use crate::Seconds;

/// The directives of an origin for a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResponseDirectives {
    /// Whether they come from a targeted field, so that `Expires` is ignored too (RFC 9213 §2.2).
    pub(crate) is_targeted: bool,
    /// §5.2.2.1.
    pub(crate) max_age: Option<Seconds>,
    /// §5.2.2.2: MUST NOT be used stale.
    pub(crate) must_revalidate: bool,
    /// §5.2.2.3: `no-store` unless the status is understood.
    pub(crate) must_understand: bool,
    /// §5.2.2.4: validate before each use.
    pub(crate) no_cache: Scope,
    /// §5.2.2.5.
    pub(crate) no_store: bool,
    /// §5.2.2.7: not for a shared cache.
    pub(crate) private: Scope,
    /// §5.2.2.8: as `must-revalidate`, for shared caches.
    pub(crate) proxy_revalidate: bool,
    /// §5.2.2.9.
    pub(crate) public: bool,
    /// §5.2.2.10.
    pub(crate) s_maxage: Option<Seconds>,
    /// RFC 5861 §3.
    pub(crate) stale_while_revalidate: Option<Seconds>,
    /// RFC 5861 §4.
    pub(crate) stale_if_error: Option<Seconds>,
    /// RFC 8246.
    pub(crate) immutable: bool,
}

/// The part of a response that `no-cache` or `private` is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The directive is absent.
    #[default]
    Nothing,
    /// The qualified form, `no-cache="Set-Cookie"`: only these fields.
    Fields(Vec<HeaderName>),
    /// The unqualified form, also together with the other one.
    Everything,
}

impl ResponseDirectives {
    /// Parses the first valid and not empty field of `targets`, or else `Cache-Control` (RFC 9213 §2.2).
    pub(crate) fn parse(fields: &HeaderMap, targets: &[HeaderName]) -> Self {
        if let Some(directives) = targets.iter().find_map(|target| Self::parse_targeted(fields, target)) {
            return directives;
        }
        let mut directives = Self::default();
        let lines = fields.get_all(CACHE_CONTROL).iter();
        for Member { name, argument } in lines.flat_map(|line| members(line.as_bytes())) {
            directives.apply(&name.to_ascii_lowercase(), &argument);
        }
        directives
    }

    fn parse_targeted(fields: &HeaderMap, target: &HeaderName) -> Option<Self> {
        // RFC 8941 §4.2: the lines of a field are one dictionary.
        let lines: Vec<_> = fields.get_all(target).iter().map(HeaderValue::as_bytes).collect();
        let text = lines.join(&b", "[..]);
        let members = dictionary::parse(&text).filter(|members| !members.is_empty())?;
        let mut directives = Self { is_targeted: true, ..Self::default() };
        for (name, value) in members {
            directives.apply(name, &argument(name, value)?);
        }
        Some(directives)
    }

    /// §5.2: names are case-insensitive. Unknown directives MUST be ignored (§5.2.3).
    fn apply(&mut self, name: &[u8], argument: &Argument<'_>) {
        let permits = *argument != Argument::Invalid;
        match name {
            b"max-age" => record(&mut self.max_age, argument),
            b"must-revalidate" => self.must_revalidate = true,
            b"must-understand" => self.must_understand |= permits,
            b"no-cache" => self.no_cache.add(argument),
            b"no-store" => self.no_store = true,
            b"private" => self.private.add(argument),
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"public" => self.public |= permits,
            b"s-maxage" => record(&mut self.s_maxage, argument),
            b"stale-while-revalidate" => record(&mut self.stale_while_revalidate, argument),
            b"stale-if-error" => record(&mut self.stale_if_error, argument),
            b"immutable" => self.immutable |= permits,
            _ => {}
        }
    }

    /// §3.5: whether a shared cache may store the response to a request with `Authorization`.
    pub(crate) fn allows_authorized(&self) -> bool {
        self.must_revalidate || self.public || self.s_maxage.is_some()
    }
}

/// Maps a value of the dictionary to an argument (RFC 9213 §2.1). `None` if the type is not that of the directive, which makes the
/// whole field void (RFC 8941 §2): a duration is an integer, field names are in a string, and other directives are true.
fn argument<'a>(name: &[u8], value: Value<'a>) -> Option<Argument<'a>> {
    let is_duration =
        matches!(name, b"max-age" | b"s-maxage" | b"stale-while-revalidate" | b"stale-if-error");
    let has_fields = matches!(name, b"no-cache" | b"private");
    match value {
        Value::Boolean(true) if !is_duration => Some(Argument::None),
        Value::Integer(digits) if is_duration => Some(Argument::Text(digits.into())),
        Value::String(text) if has_fields => Some(Argument::Text(text.into())),
        Value::Token(token) if has_fields => Some(Argument::Text(token.into())),
        _ if is_duration || has_fields || FLAGS.contains(&name) => None,
        // An unknown directive may have any type.
        _ => Some(Argument::None),
    }
}

/// The directives without an argument.
const FLAGS: [&[u8]; 6] =
    [b"must-revalidate", b"must-understand", b"no-store", b"proxy-revalidate", b"public", b"immutable"];

impl Scope {
    /// Adds the field names of an argument. Without valid names, the directive is about everything, as many caches treat it in
    /// any case (§5.2.2.4).
    fn add(&mut self, argument: &Argument<'_>) {
        let names = match argument {
            Argument::Text(text) => names(text).filter(|names| !names.is_empty()),
            Argument::None | Argument::Invalid => None,
        };
        match (&mut *self, names) {
            (Self::Everything, _) | (_, None) => *self = Self::Everything,
            (Self::Nothing, Some(names)) => *self = Self::Fields(names),
            (Self::Fields(known), Some(names)) => known.extend(names),
        }
    }

    /// Returns the fields of the qualified form.
    pub(crate) fn fields(&self) -> &[HeaderName] {
        if let Self::Fields(names) = self { names } else { &[] }
    }
}

/// Parses a list of field names. `None` if one of them is not a token.
fn names(list: &[u8]) -> Option<Vec<HeaderName>> {
    syntax::members(list).map(|name| HeaderName::from_bytes(name).ok()).collect()
}

#[cfg(test)]
mod tests {
    use http::header::SET_COOKIE;

    use super::*;

    const TARGET: HeaderName = HeaderName::from_static("cdn-cache-control");

    fn parse(lines: &[&'static str]) -> ResponseDirectives {
        let lines = lines.iter().map(|line| (CACHE_CONTROL, HeaderValue::from_static(line)));
        ResponseDirectives::parse(&lines.collect(), &[])
    }

    fn seconds(lines: &[&'static str]) -> Option<u32> {
        parse(lines).max_age.map(Seconds::get)
    }

    #[test]
    fn section_4_2_1_invalid_and_conflicting_durations_are_zero() {
        for (lines, expected) in [
            (&[""][..], None),
            (&["max-age=10"], Some(10)),
            (&["Max-Age=\"10\""], Some(10)),
            (&["max-age=99999999999999999999"], Some(1 << 31)),
            (&["max-age=10", "max-age=10"], Some(10)),
            (&["max-age=10, max-age=20"], Some(0)),
            (&["max-age=10", "max-age=20", "max-age=20"], Some(0)),
            (&["max-age"], Some(0)),
            (&["max-age=-1"], Some(0)),
            (&["max-age=1.5"], Some(0)),
            (&["max-age = 10"], Some(0)),
            (&["max-age=10; public"], Some(0)),
            (&["x=\"max-age=5\", max-age=10"], Some(10)),
            (&["x-max-age=10"], None),
        ] {
            assert_eq!(seconds(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn section_4_2_1_a_malformed_directive_restricts_but_does_not_permit() {
        let directives = parse(&["no-store; public, public; x, immutable x, must-understand=\"", "private;"]);
        assert!(directives.no_store && directives.private == Scope::Everything);
        assert!(!directives.public && !directives.immutable && !directives.must_understand);
    }

    #[test]
    fn sections_5_2_2_4_and_5_2_2_7_a_directive_may_name_fields() {
        let fields = |names: &[&'static str]| {
            Scope::Fields(names.iter().map(|name| HeaderName::from_static(name)).collect())
        };
        for (line, expected) in [
            ("max-age=1", Scope::Nothing),
            ("private", Scope::Everything),
            ("private=\"Set-Cookie, x-a\"", fields(&["set-cookie", "x-a"])),
            ("private=set-cookie", fields(&["set-cookie"])),
            ("private=x-a, private=x-b", fields(&["x-a", "x-b"])),
            ("private=x-a, private", Scope::Everything),
            ("private, private=x-a", Scope::Everything),
            ("private=\"\"", Scope::Everything),
            ("private=\"a b\"", Scope::Everything),
            ("private=\"x-a", Scope::Everything),
        ] {
            assert_eq!(parse(&[line]).private, expected, "{line}");
            assert_eq!(
                parse(&[&line.replace("private", "no-cache").leak()[..]]).no_cache,
                expected,
                "{line}"
            );
        }
    }

    #[test]
    fn rfc_9213_section_2_2_the_first_valid_target_replaces_cache_control() {
        let other = HeaderName::from_static("rudy-cache-control");
        for (own, cdn, expected) in [
            ("max-age=1", "max-age=2", Some(1)),
            ("", "max-age=2", Some(2)),
            ("max-age=1,", "max-age=2", Some(2)),
            ("Max-Age=1", "max-age = 2", Some(9)),
            ("no-store", "max-age=2", None),
            ("max-age=\"1\"", "", Some(9)),
            ("max-age=1.5", "", Some(9)),
            ("max-age=-1", "", Some(9)),
            ("max-age", "max-age=2", Some(2)),
            ("max-age=1;x, unknown=(1 2)", "", Some(1)),
            ("public=?0, max-age=1", "", Some(9)),
            ("no-store=1, max-age=1", "", Some(9)),
            ("private=1, max-age=1", "", Some(9)),
        ] {
            let fields = HeaderMap::from_iter([
                (CACHE_CONTROL, HeaderValue::from_static("max-age=9")),
                (other.clone(), HeaderValue::from_static(own)),
                (TARGET, HeaderValue::from_static(cdn)),
            ]);
            let directives = ResponseDirectives::parse(&fields, &[other.clone(), TARGET]);
            assert_eq!(directives.max_age.map(Seconds::get), expected, "{own} | {cdn}");
            assert_eq!(directives.no_store, own == "no-store", "{own} | {cdn}");
        }
    }

    #[test]
    fn rfc_9213_section_2_1_the_lines_of_a_target_are_one_dictionary() {
        let lines = ["max-age=5", "private=\"set-cookie\", max-age=6"];
        let fields = lines.map(|line| (TARGET, HeaderValue::from_static(line)));
        let directives = ResponseDirectives::parse(&HeaderMap::from_iter(fields), &[TARGET]);
        assert_eq!(directives.max_age, Some(Seconds::new(6)), "the last member counts");
        assert_eq!(directives.private.fields(), [SET_COOKIE]);
    }
}
