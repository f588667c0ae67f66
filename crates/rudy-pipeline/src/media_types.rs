//! The media types of files: those of the configuration, and otherwise the usual ones.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use http::HeaderValue;
use rudy_config::{Invalid, OrOff, Setting, Shape, Value, two_lines, written_as_text};
use rudy_message::semantics::media_type;
use rudy_message::semantics::negotiation::Coding;
use rudy_message::syntax::is_token;

/// The key for files whose type is unknown.
const OTHERS: &str = "*";

/// The type without which a browser would guess one.
const ARBITRARY: &str = "application/octet-stream";

/// Media types by extension, in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct MediaTypeTable(BTreeMap<String, String>);

impl Setting for MediaTypeTable {
    const SHAPE: Shape = <BTreeMap<String, String>>::SHAPE;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let table = <BTreeMap<String, String>>::read(value)?;
        let check = |(extension, media_type): (String, String)| {
            if extension.is_empty() || extension.contains(['.', '/']) {
                let expected =
                    "expected it without a dot, such as \"md\", or \"*\" for files of unknown types";
                return value
                    .invalid(two_lines(format_args!("\"{extension}\" is not an extension"), expected));
            }
            if !is_media_type(&media_type) {
                let expected = "expected for example \"text/markdown\" or \"text/plain; charset=iso-8859-1\"";
                return value
                    .invalid(two_lines(format_args!("\"{media_type}\" is not a media type"), expected));
            }
            Ok((extension.to_ascii_lowercase(), media_type))
        };
        table.into_iter().map(check).collect::<Result<_, _>>().map(Self)
    }
}

/// Whether a text is a media type, with or without parameters (RFC 9110 §8.3.1).
fn is_media_type(text: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(is_token);
    let essence = text.split(';').next().unwrap_or_default().trim_end();
    let is_essence = essence.split_once('/').is_some_and(|(kind, name)| is_name(kind) && is_name(name));
    is_essence && HeaderValue::from_str(text).is_ok()
}

/// The name of a character encoding, such as `utf-8`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Charset(String);

impl FromStr for Charset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = !text.is_empty() && text.bytes().all(is_token);
        is_name.then(|| Self(text.to_owned())).ok_or_else(|| "expected a name such as \"utf-8\"".to_owned())
    }
}

impl fmt::Display for Charset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

written_as_text!(Charset, "a charset (\"utf-8\")", {
    doc: "",
    examples: ["iso-8859-1"],
});

/// How to find the media type of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileTypes {
    by_extension: BTreeMap<String, String>,
    /// `None` adds no charset.
    charset: Option<String>,
}

impl Default for FileTypes {
    fn default() -> Self {
        Self { by_extension: BTreeMap::new(), charset: Some("utf-8".to_owned()) }
    }
}

impl FileTypes {
    /// The types of a site, or with `of_site` those of a route.
    #[must_use]
    pub fn after(
        of_site: Self,
        media_types: Option<&MediaTypeTable>,
        charset: Option<&OrOff<Charset>>,
    ) -> Self {
        let mut by_extension = of_site.by_extension;
        by_extension.extend(media_types.cloned().unwrap_or_default().0);
        let charset = match charset {
            None => of_site.charset,
            Some(setting) => setting.on().map(|charset| charset.0.clone()),
        };
        Self { by_extension, charset }
    }

    /// Returns the media type for a file name.
    #[must_use]
    pub fn of_name(&self, name: &str) -> HeaderValue {
        let others = || self.by_extension.get(OTHERS).map(String::as_str);
        let chosen = self.known(name).or_else(others).unwrap_or(ARBITRARY);
        let is_complete = chosen.contains(';');
        media_type::with_charset(chosen, self.charset.as_deref().filter(|_| !is_complete))
    }

    /// Returns the coding that a file has already, unless its media type is that of compressed data.
    #[must_use]
    pub fn coding(&self, name: &str) -> Coding {
        match self.known(name) {
            Some(ARBITRARY | "application/gzip" | "application/x-gzip") | None => Coding::Identity,
            Some(_) => media_type::coding_of_name(name),
        }
    }

    /// Whether the extension of a file has a media type other than that of arbitrary data.
    #[must_use]
    pub fn is_known(&self, path: &str) -> bool {
        self.known(path).is_some_and(|known| known != ARBITRARY)
    }

    fn known(&self, name: &str) -> Option<&str> {
        let (_, extension) = name.rsplit_once('.')?;
        let own = self.by_extension.get(&extension.to_ascii_lowercase());
        own.map(String::as_str).or_else(|| media_type::of_extension(extension))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rudy_config::{Table, from_text};

    #[derive(Debug, Table)]
    #[setting(default)]
    struct Types {
        /// Types by extension.
        media_types: Option<MediaTypeTable>,
        /// The charset of the others.
        charset: Option<OrOff<Charset>>,
    }

    fn types(of_site: FileTypes, text: &str) -> FileTypes {
        let table: Types = from_text(text).unwrap();
        FileTypes::after(of_site, table.media_types.as_ref(), table.charset.as_ref())
    }

    #[test]
    fn a_route_extends_the_types_of_its_site() {
        let site = types(
            FileTypes::default(),
            "media_types = { MD = 'text/markdown', ts = 'text/plain; charset=x', '*' = 'text/plain' }",
        );
        let route = types(site.clone(), "media_types = { md = 'text/x-own' }\ncharset = 'iso-8859-1'");
        let plain = types(FileTypes::default(), "charset = false");
        for (name, of_site, of_route, without) in [
            ("a.md", "text/markdown; charset=utf-8", "text/x-own; charset=iso-8859-1", "text/markdown"),
            ("A.MD", "text/markdown; charset=utf-8", "text/x-own; charset=iso-8859-1", "text/markdown"),
            ("a.ts", "text/plain; charset=x", "text/plain; charset=x", "video/mp2t"),
            ("a.html", "text/html; charset=utf-8", "text/html; charset=iso-8859-1", "text/html"),
            ("a.png", "image/png", "image/png", "image/png"),
            ("a.xml", "text/xml", "text/xml", "text/xml"),
            (
                "LICENSE",
                "text/plain; charset=utf-8",
                "text/plain; charset=iso-8859-1",
                "application/octet-stream",
            ),
        ] {
            assert_eq!(
                [&site, &route, &plain].map(|types| types.of_name(name)),
                [of_site, of_route, without]
            );
        }
        assert_eq!([site.is_known("a.md"), site.is_known("a.b"), plain.is_known("x")], [true, false, false]);
    }

    #[test]
    fn invalid_types_are_reported() {
        for (text, expected) in [
            ("media_types = { '.md' = 'text/markdown' }", "\".md\" is not an extension"),
            ("media_types = { md = 'markdown' }", "\"markdown\" is not a media type"),
            ("media_types = { md = \"text/a\\nb\" }", "is not a media type"),
            ("media_types = { md = 'text/' }", "\"text/\" is not a media type"),
            ("charset = 'a b'", "is not a charset"),
            ("charset = true", "true"),
        ] {
            let problems = from_text::<Types>(text).unwrap_err();
            let lines: Vec<_> = problems.iter().map(rudy_config::Problem::line).collect();
            assert!(lines.len() == 1 && lines[0].contains(expected), "{text}: {lines:?}");
        }
    }
}
