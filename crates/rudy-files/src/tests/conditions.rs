//! Tests preconditions and ranges, from memory and from disk.

use super::*;

const TEN: &str = "0123456789";

fn sites() -> [Site; 2] {
    [FilesOptions::default(), on_disk()].map(|options| Site::with_options(&[("ten.txt", TEN)], options))
}

#[test]
fn a_304_has_the_validators_and_no_body() {
    for site in sites() {
        let whole = site.get("/ten.txt");
        let (tag, date) = (whole.field("etag"), whole.field("last-modified"));
        for fields in [
            [("if-none-match", "*")],
            [("if-none-match", tag)],
            [("if-none-match", &format!("\"x\", W/{tag}"))],
            [("if-modified-since", date)],
        ] {
            let response = site.get_with("/ten.txt", &fields);
            assert_eq!(response.brief(), (304, ""), "{fields:?}");
            assert_eq!(response.field("etag"), tag);
            assert!(
                !response.headers.contains_key("content-type")
                    && !response.headers.contains_key("last-modified")
            );
        }
        assert_eq!(site.request(&Method::HEAD, "/ten.txt", &[("if-none-match", "*")]).status, 304);
    }
}

#[test]
fn a_false_precondition_fails() {
    for site in sites() {
        let long_ago = "Sun, 06 Nov 1994 08:49:37 GMT";
        for (fields, status) in [
            ([("if-match", "\"x\"")], 412),
            ([("if-match", "*")], 200),
            ([("if-unmodified-since", long_ago)], 412),
            ([("if-modified-since", long_ago)], 200),
            ([("if-none-match", "\"x\"")], 200),
        ] {
            assert_eq!(site.get_with("/ten.txt", &fields).status, status, "{fields:?}");
        }
    }
}

#[test]
fn one_range_is_one_part() {
    for site in sites() {
        let whole = site.get("/ten.txt");
        for (range, status, body, content_range) in [
            ("bytes=2-4", 206, "234", "bytes 2-4/10"),
            ("bytes=8-", 206, "89", "bytes 8-9/10"),
            ("bytes=-3", 206, "789", "bytes 7-9/10"),
            ("bytes=0-99", 206, TEN, "bytes 0-9/10"),
            ("bytes=0-1,2-3", 206, "0123", "bytes 0-3/10"),
            ("bytes=4-2", 200, TEN, ""),
            ("lines=0-1", 200, TEN, ""),
        ] {
            let response = site.get_with("/ten.txt", &[("range", range)]);
            assert_eq!(response.brief(), (status, body), "{range}");
            assert_eq!(response.field("content-range"), content_range, "{range}");
            assert_eq!(response.field("content-type"), "text/plain; charset=utf-8");
            assert_eq!(response.field("etag"), whole.field("etag"));
        }
    }
}

#[test]
fn a_range_beyond_the_end_is_not_satisfiable() {
    for site in sites() {
        let response = site.get_with("/ten.txt", &[("range", "bytes=10-")]);
        assert_eq!((response.status.as_u16(), response.field("content-range")), (416, "bytes */10"));
        assert!(response.text().contains("which has 10 bytes."));
    }
}

#[test]
fn two_range_fields_are_ignored() {
    for site in sites() {
        let response = site.get_with("/ten.txt", &[("range", "bytes=0-1"), ("range", "bytes=4-5")]);
        assert_eq!(response.brief(), (200, TEN));
    }
}

#[test]
fn several_ranges_are_parts_of_one_body() {
    for site in sites() {
        let response = site.get_with("/ten.txt", &[("range", "bytes=7-8,0-1")]);
        assert_eq!(response.status, 206);
        assert!(
            !response.headers.contains_key("content-range"),
            "MUST NOT beside parts (RFC 9110 section 15.3.7.2)"
        );
        let boundary =
            response.field("content-type").strip_prefix("multipart/byteranges; boundary=").unwrap();
        let part = "Content-Type: text/plain; charset=utf-8\r\nContent-Range: bytes";
        assert_eq!(
            response.text(),
            format!(
                "--{boundary}\r\n{part} 7-8/10\r\n\r\n78\r\n--{boundary}\r\n{part} 0-1/10\r\n\r\n01\r\n--{boundary}--\r\n"
            )
        );
        let again = site.get_with("/ten.txt", &[("range", "bytes=7-8,0-1")]);
        assert_ne!(
            again.field("content-type"),
            response.field("content-type"),
            "the boundary is unpredictable"
        );
    }
}

#[test]
fn if_range_returns_the_whole_file_if_it_has_changed() {
    for site in sites() {
        let whole = site.get("/ten.txt");
        let (tag, date) = (whole.field("etag"), whole.field("last-modified"));
        for (if_range, status) in [
            (tag, 206),
            (date, 206),
            ("\"x\"", 200),
            (&*format!("W/{tag}"), 200),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 200),
        ] {
            let response = site.get_with("/ten.txt", &[("range", "bytes=0-1"), ("if-range", if_range)]);
            assert_eq!(response.status, status, "{if_range}");
        }
    }
}

#[test]
fn a_file_that_was_just_changed_has_a_weak_tag() {
    for site in sites() {
        site.write("new.txt", TEN);
        let response = site.get("/new.txt");
        let tag = response.field("etag");
        assert!(tag.starts_with("W/"), "{tag}");
        assert_eq!(site.get_with("/new.txt", &[("if-none-match", tag)]).status, 304);
        assert_eq!(site.get_with("/new.txt", &[("if-match", tag)]).status, 412);
        assert_eq!(site.get_with("/new.txt", &[("range", "bytes=0-1"), ("if-range", tag)]).status, 200);
    }
}

#[test]
fn a_modification_time_in_the_future_is_replaced_by_the_current_time() {
    let site = Site::with(&[]);
    let tomorrow = SystemTime::now() + Duration::from_hours(24);
    site.write("a.txt", "a");
    fs::File::options()
        .write(true)
        .open(site.folder.path().join("a.txt"))
        .unwrap()
        .set_modified(tomorrow)
        .unwrap();
    let response = site.get("/a.txt");
    let date = httpdate_of(response.field("last-modified"));
    assert!(date <= SystemTime::now(), "{}", response.field("last-modified"));
    assert!(response.field("etag").starts_with("W/"));
}

fn httpdate_of(text: &str) -> SystemTime {
    let date = rudy_message::semantics::date::HttpDate::parse(text.as_bytes()).unwrap();
    SystemTime::UNIX_EPOCH + Duration::from_secs(date.unix_seconds())
}
