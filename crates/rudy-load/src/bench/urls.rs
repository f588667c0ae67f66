//! The URLs to request, from the command line or a file.

use std::path::Path;

use bytes::Bytes;
use http::Method;
use rudy_request::{Url, UrlError};

use crate::body::{self, Bodies};

/// Maximum number of lines, since each is a request in memory.
const URLS_MAX: usize = 100_000;

/// The format of a line, for error messages.
const LINE_FORMAT: &str = "expected URL, optionally with WEIGHT, METHOD and @FILE";

/// A URL with its method and bodies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) url: Url,
    /// The weight.
    pub(super) weight: u32,
    /// The method; `None` is that of the options.
    pub(super) method: Option<Method>,
    /// The body; `None` is those of the options.
    pub(super) body: Option<Bytes>,
}

/// Collects the targets of the command line and of a file: at least one, and all of one origin.
pub(super) fn collect(urls: &[Url], file: Option<&Path>, bodies: &mut Bodies) -> Result<Vec<Target>, String> {
    let plain = |url: &Url| Target { url: url.clone(), weight: 1, method: None, body: None };
    let mut targets: Vec<_> = urls.iter().map(plain).collect();
    let first = urls.first().cloned();
    for other in urls {
        check_origin(first.as_ref(), other)?;
    }
    if let Some(path) = file {
        targets.extend(read(path, first, bodies)?);
    }
    match targets.len() {
        0 => Err("no URL: expected one such as http://127.0.0.1:8080/".into()),
        count if count > URLS_MAX => Err(format!("{count} URLs are too many: the maximum is {URLS_MAX}")),
        _ => Ok(targets),
    }
}

fn read(path: &Path, first: Option<Url>, bodies: &mut Bodies) -> Result<Vec<Target>, String> {
    let text = String::from_utf8(body::read(path)?)
        .map_err(|_| format!("cannot read {}: it is not UTF-8 text", path.display()))?;
    parse(&text, first, bodies).map_err(|error| format!("{}:{error}", path.display()))
}

/// Parses a target per line. An error starts with the line number.
fn parse(text: &str, mut first: Option<Url>, bodies: &mut Bodies) -> Result<Vec<Target>, String> {
    let mut targets = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        // A comment starts with a new word, because `#` within a URL starts a fragment.
        let words = line.split_whitespace().take_while(|word| !word.starts_with('#'));
        let error = |reason: String| format!("{number}: {reason}");
        let Some(target) = parse_line(words, bodies).map_err(error)? else { continue };
        check_origin(first.as_ref(), &target.url).map_err(error)?;
        first.get_or_insert_with(|| target.url.clone());
        targets.push(target);
    }
    Ok(targets)
}

/// Parses the words of a line in any order, since each kind has a distinct form: `http://a/ 3` equals `3 http://a/`.
fn parse_line<'a>(
    words: impl Iterator<Item = &'a str>,
    bodies: &mut Bodies,
) -> Result<Option<Target>, String> {
    let (mut url, mut weight, mut method, mut body) = (None, None, None, None);
    let mut is_empty = true;
    for word in words {
        is_empty = false;
        let is_second = if let Some(path) = word.strip_prefix('@') {
            body.replace(bodies.read_file(Path::new(path))?).is_some()
        } else if word.bytes().all(|byte| byte.is_ascii_digit()) {
            weight.replace(parse_weight(word)?).is_some()
        } else if let Some(parsed) = parse_method(word) {
            method.replace(parsed).is_some()
        } else {
            let parsed = word.parse().map_err(|error: UrlError| format!("{error} ({LINE_FORMAT})"))?;
            url.replace(parsed).is_some()
        };
        if is_second {
            return Err(format!("{word:?} is unexpected ({LINE_FORMAT})"));
        }
    }
    match url {
        Some(url) => Ok(Some(Target { url, weight: weight.unwrap_or(1), method, body })),
        None if is_empty => Ok(None),
        None => Err(format!("no URL on this line ({LINE_FORMAT})")),
    }
}

fn parse_weight(word: &str) -> Result<u32, String> {
    let weight = word.parse().ok().filter(|weight| *weight > 0);
    weight.ok_or_else(|| format!("{word:?} is not a weight (expected an integer from 1)"))
}

/// Parses a method; `None` for another word. Registered methods are in capitals, which hosts are not in practice.
fn parse_method(word: &str) -> Option<Method> {
    let is_method = word.starts_with(|first: char| first.is_ascii_uppercase())
        && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    if is_method { word.parse().ok() } else { None }
}

fn check_origin(first: Option<&Url>, url: &Url) -> Result<(), String> {
    match first {
        Some(first) if !first.same_origin(url) => Err(format!(
            "{url} and {first} are on different servers: a run measures one server; start a run for \
             each"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<Target>, String> {
        parse(text, None, &mut Bodies::default())
    }

    #[test]
    fn a_file_has_urls_weights_and_comments() {
        let text = "# the requests of the shop\nhttp://a/\n\n  http://a/cart 3  # often\na/x\t2\n";
        let shown: Vec<_> =
            parsed(text).unwrap().iter().map(|target| (target.url.to_string(), target.weight)).collect();
        assert_eq!(shown, [("http://a/".into(), 1), ("http://a/cart".into(), 3), ("http://a/x".into(), 2)]);
    }

    #[test]
    fn a_line_has_its_weight_method_and_body_in_any_order() {
        let folder = tempfile::tempdir().unwrap();
        let photo = folder.path().join("photo.jpg");
        std::fs::write(&photo, "a photo").unwrap();
        let file = format!("@{}", photo.display());
        let expected = Target {
            url: "http://a/upload".parse().unwrap(),
            weight: 3,
            method: Some(Method::PUT),
            body: Some(Bytes::from_static(b"a photo")),
        };
        for line in [
            format!("3 PUT http://a/upload {file}"),
            format!("PUT http://a/upload {file} 3 # often"),
            format!("http://a/upload 3 {file} PUT"),
        ] {
            assert_eq!(parsed(&line).as_deref(), Ok(std::slice::from_ref(&expected)), "{line}");
        }
        let own = parsed("PURGE-ALL http://a/").unwrap()[0].method.clone();
        assert_eq!(own.unwrap().as_str(), "PURGE-ALL");
    }

    #[test]
    fn an_error_has_its_line_number() {
        for (text, expected) in [
            ("http://a/\nhttp://b/", "2: http://b/ and http://a/ are on different servers"),
            ("http://a/ 0", "1: \"0\" is not a weight"),
            ("http://a/ 1 2", "1: \"2\" is unexpected (expected URL, opt"),
            ("http://a/ GET PUT", "1: \"PUT\" is unexpected"),
            ("http://a/\thttp://a/y", "1: \"http://a/y\" is unexpected"),
            ("http://a/ @/dev/null @/dev/null", "1: \"@/dev/null\" is unexpected"),
            ("http://a/\n3 POST @/dev/null", "2: no URL on this line"),
            ("http://a/\n\nhttp://a/ @/nowhere", "3: cannot read /nowhere: "),
            ("\nftp://a/", "2: \"ftp://a/\" is not a URL"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn all_urls_are_of_one_server_and_one_is_required() {
        let urls = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Url>>();
        let all = |urls: &[Url]| collect(urls, None, &mut Bodies::default());
        assert!(all(&[]).unwrap_err().starts_with("no URL"));
        assert!(all(&urls(&["a", "a:81"])).unwrap_err().contains("different servers"));
        assert_eq!(all(&urls(&["a", "http://A:80/b"])).unwrap().len(), 2);
    }
}
