//! What is asked: URLs of the command line, and those of a file.

use std::path::Path;

use super::requests;
use crate::Url;

/// More lines than this are no list that a person means; each is a request in memory.
const URLS_MAX: usize = 100_000;

/// All URLs with their weights; at least one, and all of one origin.
pub(super) fn all(given: &[Url], file: Option<&Path>) -> Result<Vec<(Url, u32)>, String> {
    let mut all: Vec<_> = given.iter().map(|url| (url.clone(), 1)).collect();
    let first = given.first().cloned();
    for other in given {
        check_origin(first.as_ref(), other)?;
    }
    if let Some(path) = file {
        all.extend(read(path, first)?);
    }
    match all.len() {
        0 => Err("no URL: name one, such as http://127.0.0.1:8080/".into()),
        count if count > URLS_MAX => Err(format!("{count} URLs are too many: {URLS_MAX} are the most")),
        _ => Ok(all),
    }
}

/// All URLs of a file; at least one, and all of one origin.
pub(crate) fn of_file(path: &Path) -> Result<Vec<(Url, u32)>, String> {
    all(&[], Some(path))
}

fn read(path: &Path, first: Option<Url>) -> Result<Vec<(Url, u32)>, String> {
    let text = String::from_utf8(requests::read(path)?)
        .map_err(|_| format!("cannot read {}: it is no text in UTF-8", path.display()))?;
    parse(&text, first).map_err(|error| format!("{}:{error}", path.display()))
}

/// A URL on each line, and behind it how often it is asked in comparison with the others. The error begins with the number
/// of its line.
fn parse(text: &str, mut first: Option<Url>) -> Result<Vec<(Url, u32)>, String> {
    let mut urls = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        // A comment begins with a word of its own: in a URL, what is behind a # is a place in the page.
        let mut words = line.split_whitespace().take_while(|word| !word.starts_with('#'));
        let Some(word) = words.next() else { continue };
        let error = |reason: String| format!("{number}: {reason}");
        let url: Url = word.parse().map_err(|why: crate::UrlError| error(why.to_string()))?;
        let weight = match words.next() {
            Some(weight) => weight.parse().ok().filter(|weight| *weight > 0).ok_or_else(|| {
                error(format!("{weight:?} is no weight (expected a whole number from 1 on, or nothing)"))
            })?,
            None => 1,
        };
        if let Some(more) = words.next() {
            return Err(error(format!("{more:?} stands behind the weight (expected URL WEIGHT)")));
        }
        check_origin(first.as_ref(), &url).map_err(error)?;
        first.get_or_insert_with(|| url.clone());
        urls.push((url, weight));
    }
    Ok(urls)
}

fn check_origin(first: Option<&Url>, url: &Url) -> Result<(), String> {
    match first {
        Some(first) if !first.same_origin(url) => Err(format!(
            "{url} is of another server than {first}: one run asks one server, so that what is measured is one thing; run \
             them beside each other"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_urls_weights_and_comments() {
        let text = "# what the shop is asked\nhttp://a/\n\n  http://a/cart 3  # often\na/x\thttp://a/y\n";
        let error = parse(text, None).unwrap_err();
        assert!(error.starts_with("5: \"http://a/y\" is no weight"), "{error}");
        let urls = parse(&text.replace("\thttp://a/y", " 2"), None).unwrap();
        let shown: Vec<_> = urls.iter().map(|(url, weight)| (url.to_string(), *weight)).collect();
        assert_eq!(shown, [("http://a/".into(), 1), ("http://a/cart".into(), 3), ("http://a/x".into(), 2)]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, said) in [
            ("http://a/\nhttp://b/", "2: http://b/ is of another server than http://a/"),
            ("http://a/ 0", "1: \"0\" is no weight"),
            ("http://a/ 1 2", "1: \"2\" stands behind the weight"),
            ("\nftp://a/", "2: \"ftp://a/\" is not a URL"),
        ] {
            let error = parse(text, None).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
    }

    #[test]
    fn all_are_of_one_server_and_there_is_one() {
        let urls = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Url>>();
        assert!(all(&[], None).unwrap_err().starts_with("no URL"));
        assert!(all(&urls(&["a", "a:81"]), None).unwrap_err().contains("another server"));
        assert_eq!(all(&urls(&["a", "http://A:80/b"]), None).unwrap().len(), 2);
    }
}
