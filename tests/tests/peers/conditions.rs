//! curl asks whether something has changed.

use std::fs;

use rudy_tests::{Curl, Server};

use crate::content::{get, make_older};

#[test]
fn conditions_save_what_has_not_changed() {
    let Some(curl) = Curl::find() else { return };
    let server = Server::files(&[("page.html", b"<p>hello")]);
    // A file that has just been written has a weak ETag, with which no range may be joined.
    make_older(&server.path().join("page.html"));
    let first = get(&curl, &server, "/page.html", &[]);
    assert_eq!(first.status(), 200);
    let (etag, date) = (first.field("ETag").unwrap(), first.field("Last-Modified").unwrap());
    let ours = |name: &str| format!("{name}: {etag}");
    let then = |name: &str| format!("{name}: {date}");
    let none_match = format!("If-None-Match: \"other\", W/{etag}");
    for (field, status) in [
        (ours("If-None-Match").as_str(), 304),
        (&none_match, 304),
        ("If-None-Match: *", 304),
        ("If-None-Match: \"other\"", 200),
        (&then("If-Modified-Since"), 304),
        ("If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT", 200),
        (&ours("If-Match"), 200),
        ("If-Match: \"other\"", 412),
        (&then("If-Unmodified-Since"), 200),
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
fn curls_own_bookkeeping_of_etags_and_dates_works() {
    let Some(curl) = Curl::find() else { return };
    let server = Server::files(&[("page.html", b"<p>hello")]);
    let folder = tempfile::tempdir().unwrap();
    let (etag, copy) = (folder.path().join("etag"), folder.path().join("copy"));
    let (etag, copy) = (etag.to_str().unwrap(), copy.to_str().unwrap());
    let first = get(&curl, &server, "/page.html", &["--etag-save", etag, "--remote-time", "--output", copy]);
    assert_eq!((first.status(), fs::read(copy).unwrap().as_slice()), (200, b"<p>hello".as_slice()));
    assert_eq!(get(&curl, &server, "/page.html", &["--etag-compare", etag]).status(), 304);
    assert_eq!(get(&curl, &server, "/page.html", &["--time-cond", copy]).status(), 304);
}
