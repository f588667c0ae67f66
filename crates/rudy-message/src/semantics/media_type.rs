//! Media types of files (RFC 9110 §8.3).

use http::HeaderValue;

use super::negotiation::Coding;

/// Returns the media type for a file name, with `charset=utf-8` for text that does not declare its own charset.
///
/// An unknown type is `application/octet-stream`, so a browser saves the file instead of guessing.
#[must_use]
pub fn of_name(name: &str) -> HeaderValue {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    with_charset(of_extension(extension).unwrap_or("application/octet-stream"), Some("utf-8"))
}

/// Returns the media type for an extension without its dot, in any case. `None` if it is unknown.
#[must_use]
pub fn of_extension(extension: &str) -> Option<&'static str> {
    let corrected = CORRECTED.iter().find(|(known, _)| known.eq_ignore_ascii_case(extension));
    corrected.map(|(_, essence)| *essence).or_else(|| mime_guess::from_ext(extension).first_raw())
}

/// Returns the coding that a file has already whose type is that of the decoded data. All other compressed files have a type of their
/// own, such as `.gz`.
#[must_use]
pub fn coding_of_name(name: &str) -> Coding {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let is_gzipped = GZIPPED.iter().any(|known| known.eq_ignore_ascii_case(extension));
    if is_gzipped { Coding::Gzip } else { Coding::Identity }
}

/// Drawings and scenes that are compressed with gzip: SVG (SVG 1.1, appendix J) and X3D (ISO/IEC 19776).
const GZIPPED: [&str; 4] = ["svgz", "x3dz", "x3dvz", "x3dbz"];

/// Returns a media type with a charset, if it is text that does not declare its own. A media type or charset with invalid characters
/// becomes `application/octet-stream`.
#[must_use]
pub fn with_charset(media_type: &str, charset: Option<&str>) -> HeaderValue {
    let value = match charset.filter(|_| wants_charset(media_type)) {
        Some(charset) => HeaderValue::try_from(format!("{media_type}; charset={charset}")),
        None => HeaderValue::from_str(media_type),
    };
    value.unwrap_or(HeaderValue::from_static("application/octet-stream"))
}

/// Returns a media type with this charset instead of its own. `None` if it is no text.
#[must_use]
pub fn with_other_charset(media_type: &str, charset: &str) -> Option<HeaderValue> {
    let mut parameters = media_type.split(';').map(str::trim);
    let essence = parameters.next()?;
    let is_charset = |parameter: &&str| parameter.to_ascii_lowercase().starts_with("charset=");
    let kept = parameters.filter(|parameter| !is_charset(parameter));
    let value = kept.fold(essence.to_owned(), |value, parameter| value + "; " + parameter);
    let value = HeaderValue::try_from(format!("{value}; charset={charset}")).ok();
    value.filter(|_| wants_charset(&essence.to_ascii_lowercase()))
}

/// Whether content of this media type, with or without parameters, usually compresses well: text, and the few binary formats
/// without compression. Images, videos, archives and WOFF fonts are already compressed.
#[must_use]
pub fn is_compressible(media_type: &[u8]) -> bool {
    let essence = essence(media_type);
    let is = |part: &[u8], text: &str| part.eq_ignore_ascii_case(text.as_bytes());
    let end = |length: usize| &essence[essence.len().saturating_sub(length)..];
    is(&essence[..essence.len().min(5)], "text/")
        || is(end(5), "+json")
        || is(end(4), "+xml")
        || COMPRESSIBLE.iter().any(|known| is(essence, known))
}

/// Returns a media type without its parameters, in any case.
#[must_use]
pub fn essence(media_type: &[u8]) -> &[u8] {
    media_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii()
}

const COMPRESSIBLE: &[&str] = &[
    "application/javascript",
    "application/json",
    "application/rtf",
    "application/toml",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/x-ndjson",
    "application/x-sh",
    "application/x-sql",
    "application/xml",
    "application/yaml",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/x-icon",
];

/// Corrections to the table of `mime_guess`, where it is outdated or prefers another meaning of an extension.
const CORRECTED: &[(&str, &str)] = &[
    ("cjs", "text/javascript"),
    ("java", "text/plain"),
    ("jsonl", "application/x-ndjson"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("map", "application/json"),
    ("mjs", "text/javascript"),
    ("ndjson", "application/x-ndjson"),
    ("otf", "font/otf"),
    ("tgz", "application/gzip"),
    ("toml", "application/toml"),
    // On the web usually a stream segment (RFC 8216), rarely TypeScript, which no browser runs.
    ("ts", "video/mp2t"),
    ("vcf", "text/vcard"),
    ("woff", "font/woff"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zst", "application/zstd"),
];

/// Whether to add `charset=utf-8`: without it, browsers guess the charset of text. XML declares its own, which the parameter
/// would override (RFC 7303 §3.2).
fn wants_charset(essence: &str) -> bool {
    (essence.starts_with("text/") && essence != "text/xml") || essence == "application/javascript"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_charset_is_only_for_text() {
        for (media_type, expected) in [
            ("text/html", Some("text/html; charset=koi8-r")),
            ("Text/Plain;Charset=utf-8; format=flowed", Some("Text/Plain; format=flowed; charset=koi8-r")),
            ("text/xml", None),
            ("image/png", None),
            ("", None),
        ] {
            let value = with_other_charset(media_type, "koi8-r");
            assert_eq!(value.as_ref().map(|value| value.to_str().unwrap()), expected, "{media_type}");
        }
    }

    #[test]
    fn a_name_determines_the_media_type() {
        for (name, expected) in [
            ("index.html", "text/html; charset=utf-8"),
            ("INDEX.HTML", "text/html; charset=utf-8"),
            ("site.css", "text/css; charset=utf-8"),
            ("app.js", "text/javascript; charset=utf-8"),
            ("app.mjs", "text/javascript; charset=utf-8"),
            ("notes.txt", "text/plain; charset=utf-8"),
            ("feed.xml", "text/xml"),
            ("data.json", "application/json"),
            ("app.js.map", "application/json"),
            ("app.webmanifest", "application/manifest+json"),
            ("logo.svg", "image/svg+xml"),
            ("photo.avif", "image/avif"),
            ("photo.jpeg", "image/jpeg"),
            ("code.wasm", "application/wasm"),
            ("font.woff", "font/woff"),
            ("font.woff2", "font/woff2"),
            ("film.ts", "video/mp2t"),
            ("source.tar.gz", "application/gzip"),
            ("LICENSE", "application/octet-stream"),
            ("a.unknown", "application/octet-stream"),
            ("", "application/octet-stream"),
            (".", "application/octet-stream"),
        ] {
            assert_eq!(of_name(name), expected, "{name}");
        }
    }

    #[test]
    fn a_compressed_drawing_has_its_coding() {
        for name in ["a.svgz", "A.SVGZ", "a.b.x3dz", ".svgz"] {
            assert_eq!(coding_of_name(name), Coding::Gzip, "{name}");
        }
        for name in ["a.svg", "a.svg.gz", "a.tgz", "svgz", "a.svgz.txt", "a.svgz/b", "a."] {
            assert_eq!(coding_of_name(name), Coding::Identity, "{name}");
        }
    }

    #[test]
    fn text_is_compressible_and_images_are_not() {
        for (name, expected) in [
            ("a.html", true),
            ("a.css", true),
            ("a.js", true),
            ("a.json", true),
            ("a.svg", true),
            ("a.xml", true),
            ("a.wasm", true),
            ("a.webmanifest", true),
            ("a.ttf", true),
            ("a.png", false),
            ("a.jpg", false),
            ("a.woff2", false),
            ("a.zip", false),
            ("a.mp4", false),
            ("a", false),
        ] {
            assert_eq!(is_compressible(of_name(name).as_bytes()), expected, "{name}");
        }
        for (media_type, expected) in [
            ("Text/HTML;charset=x", true),
            ("APPLICATION/JSON ; a=b", true),
            ("image/png", false),
            ("", false),
        ] {
            assert_eq!(is_compressible(media_type.as_bytes()), expected, "{media_type}");
        }
    }

    #[test]
    fn every_correction_is_needed_and_sorted() {
        for (extension, essence) in CORRECTED {
            assert_ne!(mime_guess::from_ext(extension).first_raw(), Some(*essence), "{extension}");
        }
        assert!(CORRECTED.is_sorted() && COMPRESSIBLE.is_sorted());
    }
}
