//! From a path to the route that takes it.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;

use globset::{GlobBuilder, GlobMatcher};
use rudy_http::semantics::path::RequestPath;

use crate::config::written_as_text;

/// The paths that a route takes.
///
/// 1. Without `*`, `?`, `[` and `{`: that path.
/// 2. With a `/*` at its end and none of these before it: the path before the `/*`, and everything below it.
/// 3. Otherwise a glob over the whole path: `*` and `?` stand for anything but a slash, `**` for anything, `{a,b}` for a
///    or b, `[a-z]` for one of these; a `/*` at the end is as in 2. A glob without a slash is compared with the last
///    part of the path.
#[derive(Debug, Clone)]
pub struct PathPattern {
    text: String,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Exact,
    /// The folder without a slash at its end: empty for everything.
    Below(String),
    Glob(GlobMatcher),
    /// Of the last part.
    NameGlob(GlobMatcher),
}

const SPECIAL: [char; 4] = ['*', '?', '[', '{'];

impl PathPattern {
    /// `/*`
    pub(crate) fn everything() -> Self {
        Self { text: "/*".to_owned(), kind: Kind::Below(String::new()) }
    }

    /// Whether it takes this path, in its canonical spelling (see [`RequestPath`]).
    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        let glob_takes = |glob: &GlobMatcher, path: &[u8]| glob.is_match(OsStr::from_bytes(path));
        match &self.kind {
            Kind::Exact => path == self.text.as_bytes(),
            Kind::Below(folder) => is_in(folder, path),
            Kind::Glob(glob) => glob_takes(glob, path),
            Kind::NameGlob(glob) => {
                glob_takes(glob, path.rsplit(|byte| *byte == b'/').next().unwrap_or(path))
            }
        }
    }

    /// How many bytes of a path that it takes are its folder: 5 of `/docs/a` for `/docs/*`, 0 where it has no folder.
    pub(crate) fn mount(&self) -> usize {
        match &self.kind {
            Kind::Below(folder) => folder.len(),
            _ => 0,
        }
    }

    /// Whether it takes only paths whose last part ends in this: `*.php`, `/app/**/*.php`.
    pub(crate) fn matches_only_suffix(&self, suffix: &str) -> bool {
        self.text.ends_with(&format!("*{suffix}"))
    }

    /// Whether it names an encoded slash.
    pub(crate) fn has_encoded_slash(&self) -> bool {
        self.text.contains("%2F")
    }

    /// Whether it is a folder and everything below it, so that there is a rest.
    pub(crate) fn is_prefix(&self) -> bool {
        matches!(self.kind, Kind::Below(_))
    }

    /// Whether every path that `other` takes is certainly taken by this one. Globs are compared by their text and their
    /// literal beginning: this finds the common mistakes, not all of them.
    pub(crate) fn covers(&self, other: &Self) -> bool {
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
            (Kind::Below(folder), Kind::NameGlob(_)) => folder.is_empty(),
            _ => false,
        }
    }
}

/// Whether a path is that of a folder or of something in it.
fn is_in(folder: &str, path: &[u8]) -> bool {
    // `/*`. The comparison below would do, but the C library's, of nothing with an empty string's dangling pointer, is a page
    // fault that the processor suppresses in microcode: 70 ns, 1.5 % of a request's CPU.
    folder.is_empty()
        || path.strip_prefix(folder.as_bytes()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

impl FromStr for PathPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let special = text.contains(SPECIAL);
        if !text.starts_with('/') && (text.contains('/') || !special) {
            return Err("expected a slash at its beginning (only a pattern for the last part, as \"*.php\", has none)".to_owned());
        }
        if let Some(canonical) = other_spelling(text) {
            return Err(format!("paths are compared decoded: write \"{canonical}\""));
        }
        if text.contains("//") || text.split('/').any(|part| part == "." || part == "..") {
            return Err(
                "no request matches this: paths have no \".\", \"..\" or empty parts when they are compared"
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

/// What an encoded pattern should have been. Only `%2F` is compared encoded; a percent sign that stays one means itself.
fn other_spelling(text: &str) -> Option<String> {
    let path = RequestPath::parse(text).ok().filter(|_| text.contains('%'))?;
    let canonical = std::str::from_utf8(path.as_bytes()).ok()?;
    (canonical != text && !canonical.replace("%2F", "").contains('%')).then(|| canonical.to_owned())
}

fn glob(text: &str) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(text).literal_separator(true).empty_alternates(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| error.kind().to_string())
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

written_as_text!(PathPattern, "a path (\"/docs/*\")", {
    "type": "string",
    "description": "A path, a prefix that ends in `/*`, or a pattern.",
    "examples": ["/about", "/docs/*", "*.php", "/a/*/b.{jpg,png}"],
});

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> PathPattern {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn patterns_take_what_the_rule_says() {
        for (text, takes, leaves) in [
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
            for path in takes {
                assert!(pattern.matches(path.as_bytes()), "{text} takes {path}");
            }
            for path in leaves {
                assert!(!pattern.matches(path.as_bytes()), "{text} leaves {path}");
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
    fn paths_need_not_be_utf8_and_an_encoded_slash_is_no_separator() {
        for (text, path, takes) in [
            ("/docs/*", &b"/docs/caf\xE9"[..], true),
            ("*.php", b"/caf\xE9.php", true),
            ("/docs/*", b"/docs%2Fa", false),
            ("/a%2Fb", b"/a%2Fb", true),
        ] {
            assert_eq!(pattern(text).matches(path), takes, "{text} {path:?}");
        }
    }

    #[test]
    fn a_pattern_that_another_covers_is_seen() {
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
        ] {
            assert_eq!(pattern(first).covers(&pattern(second)), covers, "{first} covers {second}");
        }
    }

    #[test]
    fn a_wrong_pattern_is_told_what_was_expected() {
        for (text, says) in [
            ("about", "expected a slash"),
            ("docs/*", "expected a slash"),
            ("", "expected a slash"),
            ("/caf%C3%A9", "write \"/café\""),
            ("/a%2fb", "write \"/a%2Fb\""),
            ("/a/../b", "no request matches this"),
            ("/a//b", "no request matches this"),
            ("/a/{b", "unclosed alternate group"),
            ("/a/[b", "unclosed character class"),
        ] {
            let error = text.parse::<PathPattern>().unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
