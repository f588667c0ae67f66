//! Conditional requests of curl.

use rudy_tests::prelude::*;

use crate::content::{get, make_older};

#[test]
fn conditional_requests_skip_unchanged_content() {
    let Some(curl) = Curl::find() else { return };
    let server = Server::files(&[("page.html", b"<p>hello")]);
    // A file that was just written has a weak ETag, which does not match for ranges.
    make_older(&server.path().join("page.html"));
    let first = get(&curl, &server, "/page.html", &[]);
    assert_eq!(first.status(), 200);
    let (etag, date) = (first.field("ETag").unwrap(), first.field("Last-Modified").unwrap());
    let with_etag = |name: &str| format!("{name}: {etag}");
    let with_date = |name: &str| format!("{name}: {date}");
    let none_match = format!("If-None-Match: \"other\", W/{etag}");
    for (field, status) in [
        (with_etag("If-None-Match").as_str(), 304),
        (&none_match, 304),
        ("If-None-Match: *", 304),
        ("If-None-Match: \"other\"", 200),
        (&with_date("If-Modified-Since"), 304),
        ("If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT", 200),
        (&with_etag("If-Match"), 200),
        ("If-Match: \"other\"", 412),
        (&with_date("If-Unmodified-Since"), 200),
        ("If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT", 412),
    ] {
        let fetched = get(&curl, &server, "/page.html", &["--header", field]);
        assert_eq!(fetched.status(), status, "{field}");
        assert_eq!(fetched.field("ETag"), (status != 412).then_some(etag), "{field}");
        match status {
            200 => assert_eq!(fetched.body, b"<p>hello", "{field}"),
            304 => assert!(fetched.body.is_empty(), "{field}"),
            _ => {}
        }
        let head = get(&curl, &server, "/page.html", &["--head", "--header", field]);
        assert_eq!(head.status(), status, "HEAD with {field}");
    }
}

#[test]
fn curl_revalidates_with_stored_etags_and_dates() {
    let Some(curl) = Curl::find() else { return };
    let server = Server::files(&[("page.html", b"<p>hello")]);
    let folder = Folder::new();
    let (etag, copy) = (folder.join("etag"), folder.join("copy"));
    let (etag, copy) = (etag.to_str().unwrap(), copy.to_str().unwrap());
    let first = get(&curl, &server, "/page.html", &["--etag-save", etag, "--remote-time", "--output", copy]);
    assert_eq!((first.status(), fs::read(copy).unwrap().as_slice()), (200, b"<p>hello".as_slice()));
    assert_eq!(get(&curl, &server, "/page.html", &["--etag-compare", etag]).status(), 304);
    assert_eq!(get(&curl, &server, "/page.html", &["--time-cond", copy]).status(), 304);
}
