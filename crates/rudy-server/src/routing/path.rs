//! From a path to the route that takes it.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use globset::{GlobBuilder, GlobMatcher};
use rudy_http::semantics::path::{RelativePath, encode};
use serde::{Deserialize, Serialize};

use super::CanonicalPath;
use crate::config::written_as_text;

/// The paths that a route takes.
///
/// 1. Without `*`, `?`, `[` and `{`: that path.
/// 2. With a `/*` at its end and none of these before it: the path before the `/*`, and everything below it.
/// 3. Otherwise a glob over the whole path: `*` and `?` stand for anything but a slash, `**` for anything, `{a,b}` for a
///    or b, `[a-z]` for one of these; a `/*` at the end is as in 2. A glob without a slash is compared with the last
///    part of the path.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
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

    /// Whether it takes this path (see [`CanonicalPath`]).
    pub(crate) fn matches(&self, path: &str) -> bool {
        match &self.kind {
            Kind::Exact => path == self.text,
            Kind::Below(folder) => below(folder, path).is_some(),
            Kind::Glob(glob) => glob.is_match(path),
            Kind::NameGlob(glob) => glob.is_match(path.rsplit('/').next().unwrap_or(path)),
        }
    }

    /// The part of a path that its `*` stands for, without the slash before it.
    pub(crate) fn rest<'p>(&self, path: &'p str) -> Option<&'p str> {
        match &self.kind {
            Kind::Below(folder) => below(folder, path),
            _ => None,
        }
    }

    /// What is left of an encoded path that it takes without the folder before its `*`; all of it where there is none.
    pub(crate) fn strip<'p>(&self, path: &'p str) -> Cow<'p, str> {
        let Kind::Below(folder) = &self.kind else { return Cow::Borrowed(path) };
        // `/*`. The comparison below would do, but the C library's, of nothing with an empty string's dangling pointer, is a
        // page fault that the processor suppresses in microcode: 70 ns, 1.5 % of a request's CPU.
        if folder.is_empty() {
            return Cow::Borrowed(path);
        }
        if let Some(rest) = path.strip_prefix(folder.as_str())
            && (rest.is_empty() || rest.starts_with('/'))
        {
            return Cow::Borrowed(rest);
        }
        // The folder is spelled in another way, `/d%6Fcs` or `//docs`.
        let Ok(canonical) = CanonicalPath::parse(path) else { return Cow::Borrowed(path) };
        Cow::Owned(encode(canonical.as_str().strip_prefix(folder.as_str()).unwrap_or(canonical.as_str())))
    }

    /// Whether it is `/*`.
    pub(crate) fn is_everything(&self) -> bool {
        matches!(&self.kind, Kind::Below(folder) if folder.is_empty())
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
            (_, Kind::Exact) => self.matches(&other.text),
            (Kind::Below(folder), Kind::Below(inner)) => below(folder, inner).is_some(),
            (Kind::Below(folder), Kind::Glob(_)) => {
                let literal = other.text.split(SPECIAL).next().unwrap_or_default();
                literal.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/'))
            }
            (Kind::Below(folder), Kind::NameGlob(_)) => folder.is_empty(),
            _ => false,
        }
    }
}

/// What follows `folder` and its slash in `path`; nothing for the folder itself.
fn below<'p>(folder: &str, path: &'p str) -> Option<&'p str> {
    let rest = path.strip_prefix(folder)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

impl FromStr for PathPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let special = text.contains(SPECIAL);
        if !text.starts_with('/') && (text.contains('/') || !special) {
            return Err("expected a slash at its beginning (only a pattern for the last part, as \"*.php\", has none)".to_owned());
        }
        if let Ok(decoded) = RelativePath::parse(text)
            && text.contains('%')
            && !decoded.as_str().contains('%')
        {
            return Err(format!("paths are compared decoded: write \"/{}\"", decoded.as_str()));
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

fn glob(text: &str) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(text).literal_separator(true).empty_alternates(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| error.kind().to_string())
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

written_as_text!(PathPattern, "rudy-path", { "type": "string", "examples": ["/about", "/docs/*", "*.php", "/a/*/b.{jpg,png}"] });

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
                assert!(pattern.matches(path), "{text} takes {path}");
            }
            for path in leaves {
                assert!(!pattern.matches(path), "{text} leaves {path}");
            }
        }
    }

    #[test]
    fn a_prefix_has_a_rest() {
        assert_eq!(pattern("/docs/*").rest("/docs/a/b"), Some("a/b"));
        assert_eq!(pattern("/docs/*").rest("/docs"), Some(""));
        assert_eq!(pattern("/*").rest("/a"), Some("a"));
        assert_eq!(pattern("*.php").rest("/a.php"), None);
    }

    #[test]
    fn a_folder_is_stripped_however_it_is_spelled() {
        for (text, path, rest) in [
            ("/*", "/a%20b//c", "/a%20b//c"),
            ("/docs/*", "/docs", ""),
            ("/docs/*", "/docs/", "/"),
            ("/docs/*", "/docs/a%20b", "/a%20b"),
            ("/docs/*", "/d%6Fcs/a%20b", "/a%20b"),
            ("/docs/*", "//docs", ""),
            ("/docs/*", "//docs//a/", "/a/"),
            ("/café/*", "/caf%C3%A9/a", "/a"),
            ("/docs", "/docs", "/docs"),
            ("*.php", "/a/b.php", "/a/b.php"),
        ] {
            assert_eq!(pattern(text).strip(path), rest, "{text} {path}");
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
