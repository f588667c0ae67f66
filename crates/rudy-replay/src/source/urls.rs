//! A list of URLs or paths, one a line.

use rudy_request::Url;

use super::{LINE_BYTES_MAX, SourceError, push};
use crate::request::is_target;
use crate::{Place, Request};

/// The requests of a list. Empty lines and those that begin with `#` are ignored. The host of a URL is sent to both servers.
///
/// # Errors
///
/// A line is neither a URL nor a path.
pub fn urls(text: &str) -> Result<Vec<Request>, SourceError> {
    let lines = text.lines().map(str::trim).zip(1..);
    let lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    let mut requests = Vec::new();
    for (line, number) in lines {
        push(&mut requests, request(line, Place(number))?)?;
    }
    Ok(requests)
}

fn request(line: &str, place: Place) -> Result<Request, SourceError> {
    if line.len() > LINE_BYTES_MAX {
        return Err(SourceError::at(place, format!("the line is longer than {LINE_BYTES_MAX} bytes")));
    }
    if line.starts_with('/') {
        return if is_target(line) {
            Ok(Request::get(place, line))
        } else {
            Err(SourceError::at(place, format!("{line:?} is not a path: encode spaces and other characters")))
        };
    }
    let url: Url = line.parse().map_err(|error| SourceError::at(place, format!("{error}")))?;
    Ok(Request { host: Some(url.authority()), ..Request::get(place, url.target()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::REQUESTS_MAX;

    #[test]
    fn a_line_is_a_url_or_a_path() {
        let list = urls("# comment\n\n/a?b\r\nhttps://example.org/c\n").unwrap();
        let list: Vec<_> =
            list.iter().map(|request| (request.place.0, &*request.target, request.host.as_deref())).collect();
        assert_eq!(list, [(3, "/a?b", None), (4, "/c", Some("example.org"))]);
        let many = "/a\n".repeat(REQUESTS_MAX + 1);
        assert_eq!(urls(&many).unwrap_err().place, Some(Place(REQUESTS_MAX as u64 + 1)));
        for (text, place) in [("/a\n/ä", 2), ("ftp://a/", 1), ("/a\n\n/b c", 3)] {
            assert_eq!(urls(text).unwrap_err().place, Some(Place(place)), "{text}");
        }
    }
}
