//! Patterns for the paths of routes.

use std::ffi::OsStr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;

use globset::{GlobBuilder, GlobMatcher};
use regex::bytes::{Regex, RegexBuilder};
use rudy_config::written_as_text;
use rudy_message::semantics::path::RequestPath;

use super::template::is_reserved;
use crate::hosts::has_group;

/// A pattern for the paths of a route.
///
/// 1. Without `*`, `?`, `[` and `{`, it matches exactly this path.
/// 2. With `/*` at its end and none of these characters before it, it matches the path before the `/*`, and all paths below it.
/// 3. Otherwise it is a glob for the whole path: `*` and `?` match anything except a slash, `**` matches anything, `{a,b}` matches
///    a or b, and `[a-z]` one of these characters; `/*` at the end is as in 2. A glob without a slash matches the last segment.
/// 4. After `regex:`, it is a regular expression, which may match any part of the path. Its groups are placeholders.
#[derive(Debug, Clone)]
pub struct PathPattern {
    text: String,
    kind: Kind,
}

impl Eq for PathPattern {}

impl PartialEq for PathPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Hash for PathPattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

#[derive(Debug, Clone)]
enum Kind {
    Exact,
    /// A folder without a slash at its end; empty for all paths.
    Below(String),
    Glob(GlobMatcher),
    /// A glob for the last segment.
    NameGlob(GlobMatcher),
    Regex(Regex),
}

const SPECIAL: [char; 4] = ['*', '?', '[', '{'];

/// The beginning of a regular expression.
const REGEX: &str = "regex:";

/// The maximum size of a compiled regular expression, so that a pattern cannot use up the memory.
const REGEX_BYTES_MAX: usize = 1024 * 1024;

impl PathPattern {
    /// Returns the pattern `/*`.
    #[must_use]
    pub fn everything() -> Self {
        Self { text: "/*".to_owned(), kind: Kind::Below(String::new()) }
    }

    /// Returns whether the pattern matches a path in its canonical spelling (see [`RequestPath`]).
    #[must_use]
    pub fn matches(&self, path: &[u8]) -> bool {
        let glob_matches = |glob: &GlobMatcher, path: &[u8]| glob.is_match(OsStr::from_bytes(path));
        match &self.kind {
            Kind::Exact => path == self.text.as_bytes(),
            Kind::Below(folder) => is_in(folder, path),
            Kind::Glob(glob) => glob_matches(glob, path),
            Kind::NameGlob(glob) => {
                glob_matches(glob, path.rsplit(|byte| *byte == b'/').next().unwrap_or(path))
            }
            Kind::Regex(regex) => regex.is_match(path),
        }
    }

    /// Returns the length of the folder in bytes: 5 for `/docs/*`, 0 if the pattern has no folder.
    #[must_use]
    pub fn mount(&self) -> usize {
        match &self.kind {
            Kind::Below(folder) => folder.len(),
            _ => 0,
        }
    }

    /// Returns whether the pattern only matches paths with this suffix: `*.php`, `/app/**/*.php`.
    #[must_use]
    pub fn matches_only_suffix(&self, suffix: &str) -> bool {
        self.text.ends_with(&format!("*{suffix}"))
    }

    /// Returns the suffix of all paths that a glob matches: `.cgi` for `*.cgi`.
    #[must_use]
    pub fn suffix(&self) -> Option<&str> {
        let (_, suffix) = self.text.rsplit_once('*').filter(|_| !matches!(self.kind, Kind::Regex(_)))?;
        (!suffix.is_empty() && !suffix.contains(|c| SPECIAL.contains(&c) || "/]}".contains(c)))
            .then_some(suffix)
    }

    /// Returns whether the literal start of the pattern names this script and a path below it.
    #[must_use]
    pub fn names_path_info_of(&self, script: &[u8]) -> bool {
        self.literal().as_bytes().strip_prefix(script).is_some_and(|rest| rest.starts_with(b"/"))
    }

    /// Returns the start that all paths have which the pattern matches; empty if it is unknown.
    #[must_use]
    pub fn literal(&self) -> &str {
        match self.kind {
            Kind::Regex(_) | Kind::NameGlob(_) => "",
            _ => self.text.split(SPECIAL).next().unwrap_or_default(),
        }
    }

    /// Returns whether the pattern contains an encoded slash.
    #[must_use]
    pub fn has_encoded_slash(&self) -> bool {
        self.text.contains("%2F")
    }

    /// Returns whether the pattern contains the parameters of a segment.
    #[must_use]
    pub fn has_parameters(&self) -> bool {
        self.text.contains(';')
    }

    /// Returns whether the pattern is a folder with all paths below it, so that `{rest}` is defined.
    #[must_use]
    pub fn is_prefix(&self) -> bool {
        matches!(self.kind, Kind::Below(_))
    }

    /// Returns whether the pattern is a regular expression with this group, by number or by name.
    #[must_use]
    pub fn has_group(&self, name: &str) -> bool {
        matches!(&self.kind, Kind::Regex(regex) if has_group(regex.capture_names(), name))
    }

    /// Returns the part of a path that a group matches, encoded. `None` for a group that takes no part in the match.
    #[must_use]
    pub fn group(&self, path: &RequestPath<'_>, name: &str) -> Option<String> {
        self.group_range(path, name).map(|range| path.encoded(range))
    }

    /// Returns where the part of a path is that a group matches, in its canonical form, as [`Self::group`].
    #[must_use]
    pub fn group_range(&self, path: &RequestPath<'_>, name: &str) -> Option<Range<usize>> {
        let Kind::Regex(regex) = &self.kind else { return None };
        let groups = regex.captures(path.as_bytes())?;
        let group = name.parse().map_or_else(|_| groups.name(name), |number| groups.get(number));
        group.map(|group| group.range())
    }

    /// Returns whether this pattern certainly matches all paths that `other` matches. Compares globs by their text and their literal
    /// prefix, which finds the common mistakes, but not all.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        if self.text == other.text {
            return true;
        }
        match (&self.kind, &other.kind) {
            (_, Kind::Exact) => self.matches(other.text.as_bytes()),
            (Kind::Below(folder), Kind::Below(inner)) => is_in(folder, inner.as_bytes()),
            (Kind::Below(folder), Kind::Glob(_)) => {
                let literal = other.text.split(SPECIAL).next().unwrap_or_default();
                literal.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/'))
            }
            (Kind::Below(folder), Kind::NameGlob(_) | Kind::Regex(_)) => folder.is_empty(),
            _ => false,
        }
    }
}

/// Returns whether a path is a folder or in it.
fn is_in(folder: &str, path: &[u8]) -> bool {
    // Fast path for `/*`. The comparison below would give the same result, but with the dangling pointer of an empty string, the
    // C library's `memcmp` causes a page fault that the processor suppresses in microcode: 70 ns, 1.5 % of a request's CPU.
    folder.is_empty()
        || path.strip_prefix(folder.as_bytes()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

impl FromStr for PathPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(expression) = text.strip_prefix(REGEX) {
            return Ok(Self { text: text.to_owned(), kind: Kind::Regex(regex(expression)?) });
        }
        let special = text.contains(SPECIAL);
        if !text.starts_with('/') && (text.contains('/') || !special) {
            return Err("expected a slash at the beginning (only a pattern for file names such as \"*.php\" has none)".to_owned());
        }
        if let Some(canonical) = other_spelling(text) {
            return Err(format!("paths are decoded before they are matched: write \"{canonical}\""));
        }
        if text.contains("//") || text.split('/').any(|part| part == "." || part == "..") {
            return Err(
                "no request matches this: \".\", \"..\" and empty segments are resolved before paths are matched"
                    .to_owned(),
            );
        }
        let kind = match text.strip_suffix("/*") {
            Some(folder) if !folder.contains(SPECIAL) => Kind::Below(folder.to_owned()),
            Some(folder) => Kind::Glob(glob(&format!("{folder}{{,/**}}"))?),
            None if !special => Kind::Exact,
            None if text.starts_with('/') => Kind::Glob(glob(text)?),
            None => Kind::NameGlob(glob(text)?),
        };
        Ok(Self { text: text.to_owned(), kind })
    }
}

/// Returns the canonical spelling of an encoded pattern. Only `%2F` stays encoded; a percent sign that is no escape is literal.
fn other_spelling(text: &str) -> Option<String> {
    let path = RequestPath::parse(text).ok().filter(|_| text.contains('%'))?;
    let canonical = std::str::from_utf8(path.as_bytes()).ok()?;
    (canonical != text && !canonical.replace("%2F", "").contains('%')).then(|| canonical.to_owned())
}

fn glob(text: &str) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(text).literal_separator(true).empty_alternates(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| error.kind().to_string())
}

fn regex(expression: &str) -> Result<Regex, String> {
    let regex = RegexBuilder::new(expression).size_limit(REGEX_BYTES_MAX).build();
    let regex =
        regex.map_err(|error| error.to_string().lines().last().unwrap_or_default().trim().to_owned())?;
    match regex.capture_names().flatten().find(|name| is_reserved(name)) {
        Some(name) => {
            Err(format!("{{{name}}} cannot be the placeholder of a group: choose another name than `{name}`"))
        }
        None => Ok(regex),
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

written_as_text!(PathPattern, "a path (\"/docs/*\")", {
    doc: "A path, a prefix that ends in `/*`, a pattern, or a regular expression after `regex:`.",
    examples: ["/about", "/docs/*", "*.php", "/a/*/b.{jpg,png}", "regex:^/user/([0-9]+)$"],
});

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> PathPattern {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn patterns_match_as_documented() {
        for (text, matching, others) in [
            ("/about", &["/about"][..], &["/about/", "/abouts", "/About", "/a/about"][..]),
            ("/", &["/"], &["/a"]),
            ("/*", &["/", "/a", "/a/b", "/a/"], &[]),
            ("/docs/*", &["/docs", "/docs/", "/docs/a", "/docs/a/b"], &["/docsx", "/", "/a/docs/b"]),
            ("*.php", &["/a.php", "/x/y/a.php", "/.php"], &["/a.php/b", "/a.phps"]),
            ("/*.php", &["/a.php"], &["/x/a.php"]),
            ("/**/*.php", &["/a.php", "/x/y/a.php"], &["/a.php/b"]),
            ("/a/*/b.{jpg,png}", &["/a/x/b.jpg", "/a/y/b.png"], &["/a/x/y/b.jpg", "/a/x/b.gif", "/a/b.jpg"]),
            ("/a/*/c/*", &["/a/x/c", "/a/x/c/d", "/a/x/c/d/e"], &["/a/c/d", "/a/x/y/c/d"]),
            ("/v[12]/x?", &["/v1/xa", "/v2/xb"], &["/v3/xa", "/v1/x", "/v1/x/"]),
        ] {
            let pattern = pattern(text);
            for path in matching {
                assert!(pattern.matches(path.as_bytes()), "{text} matches {path}");
            }
            for path in others {
                assert!(!pattern.matches(path.as_bytes()), "{text} does not match {path}");
            }
        }
    }

    #[test]
    fn a_prefix_has_a_folder() {
        for (text, mount) in [("/*", 0), ("/docs/*", 5), ("/docs", 0), ("*.php", 0), ("/a/*/c/*", 0)] {
            assert_eq!(pattern(text).mount(), mount, "{text}");
        }
    }

    #[test]
    fn paths_can_be_non_utf8_and_an_encoded_slash_is_no_separator() {
        for (text, path, is_match) in [
            ("/docs/*", &b"/docs/caf\xE9"[..], true),
            ("*.php", b"/caf\xE9.php", true),
            ("/docs/*", b"/docs%2Fa", false),
            ("/a%2Fb", b"/a%2Fb", true),
        ] {
            assert_eq!(pattern(text).matches(path), is_match, "{text} {path:?}");
        }
    }

    #[test]
    fn covered_patterns_are_detected() {
        for (first, second, covers) in [
            ("/*", "/a", true),
            ("/*", "*.php", true),
            ("/*", "/*", true),
            ("/docs/*", "/docs/a", true),
            ("/docs/*", "/docs", true),
            ("/docs/*", "/docs/a/*", true),
            ("/docs/*", "/docs/*.pdf", true),
            ("/docs/*", "/docs*", false),
            ("/docs/*", "*.pdf", false),
            ("/docs/*", "/*", false),
            ("/docs/a", "/docs/*", false),
            ("*.php", "/a.php", true),
            ("*.php", "/a.html", false),
            ("*.php", "*.php", true),
            ("/*", "regex:^/a", true),
            ("/a/*", "regex:^/a/", false),
            ("regex:^/a", "/a/b", true),
            ("regex:^/a", "/a/*", false),
        ] {
            assert_eq!(pattern(first).covers(&pattern(second)), covers, "{first} covers {second}");
        }
    }

    #[test]
    fn the_error_of_an_invalid_pattern_shows_the_expected_syntax() {
        for (text, message) in [
            ("about", "expected a slash"),
            ("docs/*", "expected a slash"),
            ("", "expected a slash"),
            ("/caf%C3%A9", "write \"/café\""),
            ("/a%2fb", "write \"/a%2Fb\""),
            ("/a/../b", "no request matches this"),
            ("/a//b", "no request matches this"),
            ("/a/{b", "unclosed alternate group"),
            ("/a/[b", "unclosed character class"),
            ("regex:^/(a", "unclosed group"),
            ("regex:^/(?<rest>.*)$", "choose another name than `rest`"),
            ("regex:^/(?<header.a>.*)$", "choose another name than `header.a`"),
        ] {
            let error = text.parse::<PathPattern>().unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
