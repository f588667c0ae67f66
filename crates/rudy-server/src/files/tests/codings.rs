//! Compressed siblings, and compression on the fly.

use std::io::Read;

use super::super::Compression;
use super::*;

/// Text that shrinks, above the smallest size that is compressed.
fn long_text() -> String {
    numbered_lines(500)
}

/// Text of a size that is not kept in memory.
fn longer_text() -> String {
    numbered_lines(20_000)
}

fn numbered_lines(count: u32) -> String {
    let lines: Vec<String> = (0..count).map(|number| format!("line {number}\n")).collect();
    lines.concat()
}

fn decode(coding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    match coding {
        "gzip" => drop(flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain).unwrap()),
        "zstd" => plain = zstd::decode_all(bytes).unwrap(),
        "br" => drop(brotli::Decompressor::new(bytes, 4096).read_to_end(&mut plain).unwrap()),
        "" => plain = bytes.to_vec(),
        other => panic!("{other} is no coding of ours"),
    }
    plain
}

#[test]
fn siblings_are_chosen_by_weight() {
    let contents = [
        ("a.png", "plain"),
        ("a.png.br", "BR"),
        ("a.png.zst", "ZST"),
        ("a.png.gz", "GZ"),
        ("b.png", "alone"),
    ];
    for options in [FilesOptions::default(), on_disk()] {
        let site = Site::with_options(&contents, options);
        for (accept, coding, body) in [
            ("gzip, deflate, br, zstd", "br", "BR"),
            ("gzip, zstd", "zstd", "ZST"),
            ("gzip", "gzip", "GZ"),
            ("br;q=0.1, gzip;q=0.9", "gzip", "GZ"),
            ("br;q=0, *", "zstd", "ZST"),
            ("identity", "", "plain"),
            ("deflate", "", "plain"),
            ("identity;q=0, deflate", "", "plain"),
        ] {
            let answer = site.get_with("/a.png", &[("accept-encoding", accept)]);
            assert_eq!((answer.field("content-encoding"), answer.text()), (coding, body), "{accept}");
            assert_eq!(answer.field("content-type"), "image/png");
            assert_eq!(answer.field("vary"), "Accept-Encoding");
            assert!(answer.field("etag").ends_with(&if coding.is_empty() {
                "\"".into()
            } else {
                format!("-{coding}\"")
            }));
        }
        assert_eq!(site.get("/a.png").text(), "plain");
        assert_eq!(site.get("/a.png").field("vary"), "Accept-Encoding");
        assert_eq!(site.get("/b.png").field("vary"), "");
    }
}

#[test]
fn a_sibling_has_conditions_and_ranges_of_its_own() {
    let site = Site::with(&[("a.txt", "plain text"), ("a.txt.gz", "GZIPPED")]);
    let plain = site.get("/a.txt");
    let gzip = ("accept-encoding", "gzip");
    let coded = site.get_with("/a.txt", &[gzip]);
    assert_ne!(plain.field("etag"), coded.field("etag"));
    let not_modified = site.get_with("/a.txt", &[gzip, ("if-none-match", coded.field("etag"))]);
    assert_eq!((not_modified.status.as_u16(), not_modified.field("vary")), (304, "Accept-Encoding"));
    assert_eq!(site.get_with("/a.txt", &[gzip, ("if-none-match", plain.field("etag"))]).status, 200);
    let part = site.get_with("/a.txt", &[gzip, ("range", "bytes=0-1"), ("if-range", coded.field("etag"))]);
    assert_eq!((part.brief(), part.field("content-encoding")), ((206, "GZ"), "gzip"));
    assert_eq!(part.field("content-range"), "bytes 0-1/7");
}

#[test]
fn siblings_are_left_alone_where_they_were_switched_off() {
    let options = FilesOptions { precompressed: false, ..FilesOptions::default() };
    let site = Site::with_options(&[("a.txt", "plain"), ("a.txt.gz", "GZ")], options);
    assert_eq!(site.get_with("/a.txt", &[("accept-encoding", "gzip")]).text(), "plain");
}

#[test]
fn text_is_compressed_once_and_kept() {
    let text = long_text();
    let site = Site::with(&[("a.css", &text)]);
    for coding in ["gzip", "zstd", "br"] {
        let accept = [("accept-encoding", coding)];
        let first = site.get_with("/a.css", &accept);
        assert_eq!(first.field("content-encoding"), coding);
        assert!(!first.at_once && first.body.len() < text.len() / 2);
        assert_eq!(decode(coding, &first.body), text.as_bytes());
        let second = site.get_with("/a.css", &accept);
        assert!(second.at_once, "{coding} is kept");
        assert_eq!((second.headers, second.body), (first.headers.clone(), first.body));
        assert!(first.headers["etag"].to_str().unwrap().starts_with("W/"));
        assert_eq!(first.headers["vary"], "Accept-Encoding");
        assert!(!first.headers.contains_key("accept-ranges"));
    }
    let plain = site.get("/a.css");
    assert_eq!((plain.text(), plain.field("vary")), (&*text, "Accept-Encoding"));
    assert!(!plain.field("etag").starts_with("W/"));
}

#[test]
fn a_condition_spares_the_compression() {
    let site = Site::with(&[("a.css", &long_text())]);
    let answer = site.get_with("/a.css", &[("accept-encoding", "br"), ("if-none-match", "*")]);
    assert!(answer.at_once && answer.status == 304);
    assert!(answer.field("etag").ends_with("-br\""));
    assert_eq!(answer.field("vary"), "Accept-Encoding");
    let tag = answer.field("etag");
    assert_eq!(site.get_with("/a.css", &[("accept-encoding", "br")]).field("etag"), tag);
    assert_eq!(site.get_with("/a.css", &[("accept-encoding", "br"), ("if-match", "\"x\"")]).status, 412);
}

#[test]
fn ranges_are_cut_from_what_lies_on_the_disk() {
    let text = long_text();
    let site = Site::with(&[("a.css", &text)]);
    let answer = site.get_with("/a.css", &[("accept-encoding", "gzip"), ("range", "bytes=0-9")]);
    assert_eq!((answer.status.as_u16(), answer.field("content-encoding")), (206, ""));
    assert_eq!(answer.text(), &text[..10]);
}

#[test]
fn what_is_too_small_too_large_or_compressed_already_is_sent_as_it_is() {
    let text = long_text();
    let compression = Compression { size_min: 100, size_max: 10_000, ..Compression::default() };
    let site = Site::with_options(
        &[("small.css", "a{}"), ("large.css", &text.repeat(3)), ("picture.png", &text)],
        FilesOptions { compression: Some(compression), ..FilesOptions::default() },
    );
    let off = Site::with_options(
        &[("a.css", &text)],
        FilesOptions { compression: None, ..FilesOptions::default() },
    );
    for (site, path) in
        [(&site, "/small.css"), (&site, "/large.css"), (&site, "/picture.png"), (&off, "/a.css")]
    {
        let answer = site.get_with(path, &[("accept-encoding", "gzip, br, zstd")]);
        assert_eq!((answer.field("content-encoding"), answer.field("vary")), ("", ""), "{path}");
    }
}

#[test]
fn text_that_does_not_shrink_is_sent_as_it_is() {
    // Twenty bytes are too few for any coding to save its own framing.
    let compression = Compression { size_min: 1, ..Compression::default() };
    let options = FilesOptions { compression: Some(compression), ..FilesOptions::default() };
    let site = Site::with_options(&[("a.txt", "q8Zr!x0P_m5Kw2Jt#9Ls")], options);
    for coding in ["gzip", "zstd", "br"] {
        let first = site.get_with("/a.txt", &[("accept-encoding", coding)]);
        assert_eq!((first.field("content-encoding"), first.text()), ("", "q8Zr!x0P_m5Kw2Jt#9Ls"), "{coding}");
        assert!(site.get_with("/a.txt", &[("accept-encoding", coding)]).at_once, "it is not tried again");
    }
}

#[test]
fn larger_text_is_compressed_once_and_kept() {
    let text = longer_text();
    let site = Site::with(&[("a.txt", &text)]);
    for coding in ["gzip", "zstd", "br"] {
        let accept = [("accept-encoding", coding)];
        let first = site.get_with("/a.txt", &accept);
        assert!(!first.at_once && decode(coding, &first.body) == text.as_bytes(), "{coding}");
        let second = site.get_with("/a.txt", &accept);
        assert!(second.at_once, "{coding} is kept");
        assert_eq!((&second.headers, &second.body), (&first.headers, &first.body));
        let fields = [("accept-encoding", coding), ("if-none-match", first.field("etag"))];
        assert_eq!(site.get_with("/a.txt", &fields).status, 304);
    }
    site.write_old("a.txt", &text.replace("line", "verse"), Duration::from_mins(1));
    site.files.0.entries.remove("/a.txt");
    let changed = site.get_with("/a.txt", &[("accept-encoding", "gzip")]);
    assert!(decode("gzip", &changed.body).starts_with(b"verse 0"));
}

#[test]
fn larger_text_that_does_not_shrink_is_sent_as_it_is() {
    let mut state = 1_u64;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    let noise: Vec<u8> = (0..100_000).map(|_| byte()).collect();
    let site = Site::with(&[]);
    let path = site.folder.path().join("a.txt");
    fs::write(&path, noise).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_hours(1)).unwrap();
    for coding in ["gzip", "zstd", "br"] {
        assert_eq!(site.get_with("/a.txt", &[("accept-encoding", coding)]).field("content-encoding"), "");
        assert!(site.get_with("/a.txt", &[("accept-encoding", coding)]).at_once, "it is not tried again");
    }
}

#[test]
fn requests_at_the_same_time_have_a_file_compressed_once() {
    let (small, large) = (long_text(), longer_text());
    let site = Site::with(&[("small.css", &small), ("large.txt", &large)]);
    let mut request = Request::new(RequestBody::empty());
    request.headers_mut().insert("accept-encoding", "br".parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for path in ["/small.css", "/large.txt"] {
        let [first, second] = [(); 2].map(|()| site.send(&request, path).response());
        let (first, second) = runtime.block_on(async { tokio::join!(first, second) });
        let (Body::Bytes(first), Body::Bytes(second)) = (first.body, second.body) else {
            panic!("both get what is kept in memory")
        };
        assert_eq!(first.as_ptr(), second.as_ptr(), "{path}");
    }
}

#[test]
fn a_request_that_is_given_up_does_not_keep_others_waiting() {
    let site = Site::with(&[("large.txt", &longer_text())]);
    let mut request = Request::new(RequestBody::empty());
    request.headers_mut().insert("accept-encoding", "br".parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut first = Box::pin(site.send(&request, "/large.txt").response());
        let begun = std::future::poll_fn(|cx| std::task::Poll::Ready(first.as_mut().poll(cx).is_pending()));
        assert!(begun.await);
        let second = site.send(&request, "/large.txt").response();
        let (second, ()) = tokio::join!(second, async { drop(first) });
        assert!(matches!(second.body, Body::Bytes(_)));
        assert_eq!(second.headers()["content-encoding"], "br");
    });
}

/// Options under which `longer_text` has no room in memory and `long_text` has.
fn little_memory() -> FilesOptions {
    FilesOptions { cache_size: 512 * 1024, ..FilesOptions::default() }
}

#[test]
fn clients_that_do_not_read_hold_up_no_compression() {
    let site = Site::with_options(&[("a.css", &long_text()), ("large.txt", &longer_text())], little_memory());
    let mut request = Request::new(RequestBody::empty());
    request.headers_mut().insert("accept-encoding", "zstd".parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut unread = Vec::new();
    for _ in 0..2 * super::super::compress::PIECES_MAX {
        let response = runtime.block_on(site.send(&request, "/large.txt").response());
        let Body::Stream(mut stream) = response.body else { panic!("it has no room in memory") };
        let first = std::future::poll_fn(|cx| stream.poll_piece(cx, Instant::now(), u64::MAX));
        assert!(runtime.block_on(first).unwrap().is_ok());
        unread.push(stream);
    }
    assert_eq!(site.get_with("/a.css", &[("accept-encoding", "zstd")]).field("content-encoding"), "zstd");
}

#[test]
fn what_is_compressed_at_the_same_time_has_a_bound_and_the_rest_is_streamed() {
    let text = longer_text();
    // Room for one of them at a time.
    let options = FilesOptions { cache_size: 4 * 256 * 1024, ..FilesOptions::default() };
    let site = Site::with_options(&[("a.txt", &text), ("b.txt", &text)], options);
    let mut request = Request::new(RequestBody::empty());
    request.headers_mut().insert("accept-encoding", "zstd".parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let [first, second] = ["/a.txt", "/b.txt"].map(|path| site.send(&request, path).response());
    let (first, second) = runtime.block_on(async { tokio::join!(first, second) });
    assert!(matches!(first.body, Body::Bytes(_)) && matches!(second.body, Body::Stream(_)));
    assert!(!site.get_with("/b.txt", &[("accept-encoding", "zstd")]).at_once);
    assert!(site.get_with("/b.txt", &[("accept-encoding", "zstd")]).at_once, "the room is free again");
}

#[test]
fn no_more_encoders_are_in_use_than_may_be() {
    let compression = Compression { streams: 1, ..Compression::default() };
    let options = FilesOptions { compression: Some(compression), ..little_memory() };
    let site = Site::with_options(&[("large.txt", &longer_text())], options);
    let mut request = Request::new(RequestBody::empty());
    request.headers_mut().insert("accept-encoding", "zstd".parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let first = runtime.block_on(site.send(&request, "/large.txt").response());
    let coding =
        || site.get_with("/large.txt", &[("accept-encoding", "zstd")]).field("content-encoding").to_owned();
    assert_eq!(coding(), "");
    drop(first);
    assert_eq!(coding(), "zstd");
}

#[test]
fn text_without_room_in_memory_is_compressed_while_it_is_sent() {
    let text = longer_text();
    let site = Site::with_options(&[("a.txt", &text)], little_memory());
    for coding in ["gzip", "zstd", "br"] {
        let answer = site.get_with("/a.txt", &[("accept-encoding", coding)]);
        assert_eq!(answer.field("content-encoding"), coding);
        assert!(answer.body.len() < text.len() / 2);
        assert!(decode(coding, &answer.body) == text.as_bytes(), "{coding}");
        let tag = answer.field("etag");
        assert!(tag.starts_with("W/") && tag.ends_with(&format!("-{coding}\"")), "{tag}");
        let fields = [("accept-encoding", coding), ("if-none-match", tag)];
        assert_eq!(site.get_with("/a.txt", &fields).status, 304);
    }
    assert_eq!(site.get("/a.txt").text(), text);
}

#[test]
fn when_too_many_are_compressed_the_next_is_sent_as_it_is() {
    let compression = Compression { streams: 0, ..Compression::default() };
    let options = FilesOptions { compression: Some(compression), ..FilesOptions::default() };
    let site = Site::with_options(&[("a.txt", &longer_text())], options);
    let answer = site.get_with("/a.txt", &[("accept-encoding", "gzip")]);
    assert_eq!((answer.field("content-encoding"), answer.field("vary")), ("", "Accept-Encoding"));
    assert!(!answer.field("etag").starts_with("W/"));
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_compressed_breaks_the_answer_off() {
    let site = Site::with_options(&[("a.txt", &longer_text())], little_memory());
    let mut request = Request::new(RequestBody::empty());
    request.headers_mut().insert("accept-encoding", "gzip".parse().unwrap());
    let response = site.send(&request, "/a.txt").response().await;
    let Body::Stream(mut stream) = response.body else { panic!("it is compressed while it is sent") };
    site.write("a.txt", "short now");
    let mut last = None;
    while let Some(piece) = std::future::poll_fn(|cx| stream.poll_piece(cx, Instant::now(), u64::MAX)).await {
        last = Some(piece.is_ok());
    }
    assert_eq!(last, Some(false));
}
