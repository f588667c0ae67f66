//! Range requests of curl, and resumed downloads.

use rudy_tests::prelude::*;

use crate::content::{get, make_older, text, varied};

#[test]
fn ranges_have_the_requested_bytes() {
    let Some(curl) = Curl::find() else { return };
    // One file fits into the cache and one does not.
    for size in [1000, 300_000] {
        let content = varied(size);
        let server = Server::files(&[("file.bin", &content)]);
        for (range, expected) in [
            ("0-0", 0..1),
            ("10-99", 10..100),
            ("500-", 500..size),
            ("-7", size - 7..size),
            ("990-99999999", 990..size),
            ("-99999999", 0..size),
        ] {
            let fetched = get(&curl, &server, "/file.bin", &["--range", range]);
            assert_eq!(fetched.status(), 206, "{range}");
            assert_eq!(fetched.body, content[expected.clone()], "{range}");
            let content_range = format!("bytes {}-{}/{size}", expected.start, expected.end - 1);
            assert_eq!(fetched.field("Content-Range"), Some(content_range.as_str()));
        }
        let beyond = get(&curl, &server, "/file.bin", &["--range", &format!("{size}-")]);
        assert_eq!(beyond.status(), 416);
        assert_eq!(beyond.field("Content-Range"), Some(format!("bytes */{size}").as_str()));
    }
}

#[test]
fn several_ranges_are_sent_as_multipart() {
    let Some(curl) = Curl::find() else { return };
    let content = text(20_000);
    let server = Server::files(&[("file.txt", content.as_bytes())]);
    let fetched = get(&curl, &server, "/file.txt", &["--range", "0-4,1000-1009,-6"]);
    assert_eq!(fetched.status(), 206);
    let media_type = fetched.field("Content-Type").unwrap();
    let boundary = media_type.strip_prefix("multipart/byteranges; boundary=").expect(media_type);
    let body = String::from_utf8(fetched.body.clone()).unwrap();
    let delimiter = format!("--{}", boundary.trim_matches('"'));
    let parts: Vec<_> = body.split(&delimiter).collect();
    assert_eq!((parts.len(), parts[0].trim(), parts[4].trim()), (5, "", "--"), "{body}");
    let size = content.len();
    for (part, expected) in parts[1..4].iter().zip([0..5, 1000..1010, size - 6..size]) {
        let (head, bytes) = part.split_once("\r\n\r\n").expect(part);
        let content_range = format!("bytes {}-{}/{size}", expected.start, expected.end - 1);
        assert!(head.to_ascii_lowercase().contains(&format!("content-range: {content_range}")), "{head}");
        assert!(head.to_ascii_lowercase().contains("content-type: text/plain"), "{head}");
        assert_eq!(bytes.strip_suffix("\r\n"), Some(&content[expected]), "{part}");
    }
}

#[test]
fn an_interrupted_download_is_resumed() {
    let Some(curl) = Curl::find() else { return };
    let content = varied(8 << 20);
    let server = Server::files(&[("file.bin", &content)]);
    let folder = Folder::new();
    let copy = folder.join("copy");
    let mut command = curl.command();
    command.args(["--limit-rate", "1M", "--output"]).arg(&copy).arg(server.url("/file.bin"));
    let first = Running::start(&mut command);
    wait_for_bytes(&copy, 100_000);
    drop(first);
    let partial = fs::metadata(&copy).unwrap().len();
    assert!(partial < content.len() as u64, "curl was killed too late");
    let resume =
        || get(&curl, &server, "/file.bin", &["--continue-at", "-", "--output", copy.to_str().unwrap()]);
    let resumed = resume();
    assert_eq!(resumed.status(), 206);
    assert_eq!(resumed.number_or_text("size_download"), (content.len() as u64 - partial).to_string());
    assert!(fs::read(&copy).unwrap() == content, "the parts do not make the original file");
    // Nothing is left: 416 with the length shows curl that it has the whole file.
    assert_eq!(resume().status(), 416);
    assert!(fs::read(&copy).unwrap() == content);
}

#[test]
fn if_range_matches_only_the_same_representation() {
    let Some(curl) = Curl::find() else { return };
    let content = varied(1000);
    let server = Server::files(&[("file.bin", &content)]);
    make_older(&server.path().join("file.bin"));
    let first = get(&curl, &server, "/file.bin", &[]);
    let (etag, date) = (first.field("ETag").unwrap(), first.field("Last-Modified").unwrap());
    for (validator, whole) in [
        (etag, false),
        (date, false),
        ("\"other\"", true),
        (&format!("W/{etag}"), true),
        ("Thu, 01 Jan 1970 00:00:00 GMT", true),
    ] {
        let field = format!("If-Range: {validator}");
        let fetched = get(&curl, &server, "/file.bin", &["--range", "5-9", "--header", &field]);
        let expected = if whole { &content[..] } else { &content[5..10] };
        assert_eq!(fetched.status(), if whole { 200 } else { 206 }, "{field}");
        assert_eq!(fetched.body, expected, "{field}");
    }
}

fn wait_for_bytes(file: &Path, bytes: u64) {
    wait_until("the file grows", || fs::metadata(file).is_ok_and(|metadata| metadata.len() >= bytes));
}
