//! HTTP archives (HAR 1.2), which browsers export.

use bytes::Bytes;
use http::Method;
use rudy_request::Url;
use serde::Deserialize;

use super::{SourceError, push};
use crate::{Place, Request};

#[derive(Debug, Deserialize)]
struct Archive {
    log: ArchiveLog,
}

#[derive(Debug, Deserialize)]
struct ArchiveLog {
    entries: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    request: ArchiveRequest,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArchiveRequest {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Field>,
    post_data: Option<PostData>,
}

#[derive(Debug, Deserialize)]
struct Field {
    name: String,
    value: String,
}

#[derive(Debug, Deserialize)]
struct PostData {
    text: Option<String>,
}

/// Fields that describe the connection or the message, or that a repeated request sets itself.
const OWN_FIELDS: [&str; 13] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "keep-alive",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "if-none-match",
    "if-modified-since",
    "if-range",
    "range",
];

/// The requests of an archive, with those to the host of the first one only: others are not for the two servers. Places are numbers of
/// entries.
///
/// # Errors
///
/// The text is no archive.
pub fn har(text: &str) -> Result<Vec<Request>, SourceError> {
    let problem = |error| SourceError { place: None, problem: format!("the file is no HAR: {error}") };
    let archive: Archive = serde_json::from_str(text).map_err(problem)?;
    let mut first = None;
    let mut requests = Vec::new();
    for (entry, number) in archive.log.entries.iter().zip(1..) {
        let place = Place(number);
        let request = &entry.request;
        if !["http://", "https://"].iter().any(|scheme| request.url.starts_with(scheme)) {
            continue;
        }
        let url: Url = request.url.parse().map_err(|error| SourceError::at(place, format!("{error}")))?;
        if *first.get_or_insert_with(|| url.authority()) == url.authority() {
            push(&mut requests, converted(request, &url, place)?)?;
        }
    }
    Ok(requests)
}

fn converted(request: &ArchiveRequest, url: &Url, place: Place) -> Result<Request, SourceError> {
    let method: Method = request
        .method
        .parse()
        .map_err(|_| SourceError::at(place, format!("{:?} is not a method", request.method)))?;
    let mut converted = Request { method, host: Some(url.authority()), ..Request::get(place, url.target()) };
    for field in &request.headers {
        let name = field.name.to_ascii_lowercase();
        if !name.starts_with(':') && !OWN_FIELDS.contains(&name.as_str()) {
            converted.add_field(&name, &field.value);
        }
    }
    let body = request.post_data.as_ref().and_then(|data| data.text.clone());
    converted.body = body.map(Bytes::from);
    Ok(converted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_the_requests_of_one_host() {
        let text = r#"{"log":{"version":"1.2","entries":[
            {"request":{"method":"GET","url":"https://example.org/a?b","headers":[
                {"name":"Cookie","value":"a=b"},{"name":":path","value":"/"},{"name":"Host","value":"x"}]}},
            {"request":{"method":"GET","url":"data:text/plain,a"}},
            {"request":{"method":"GET","url":"https://fonts.example/f"}},
            {"request":{"method":"POST","url":"https://example.org/c","postData":{"mimeType":"a/b","text":"d=e"}}}]}}"#;
        let requests = har(text).unwrap();
        let [get, post] = requests.as_slice() else { panic!("{requests:?}") };
        assert_eq!((get.target.as_str(), get.fields.len(), get.place), ("/a?b", 1, Place(1)));
        assert_eq!((post.body.as_deref(), post.place), (Some(&b"d=e"[..]), Place(4)));
        for invalid in ["", "{}", r#"{"log":{"entries":[{"request":{"method":"G T","url":"http://a/"}}]}}"#] {
            assert!(har(invalid).is_err(), "{invalid}");
        }
    }
}
