//! Tests precompressed siblings and compression on the fly.

use std::io::{Read, Write};

use rudy_pipeline::compression::pool::PIECES_MAX;
use rudy_pipeline::compression::{Compression, CompressionSetting};

use super::*;

/// Compressible text above the minimum size for compression.
fn long_text() -> String {
    numbered_lines(500)
}

/// Compressible text that is too large to be cached in memory.
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
        other => panic!("unsupported coding {other}"),
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
            let response = site.get_with("/a.png", &[("accept-encoding", accept)]);
            assert_eq!((response.field("content-encoding"), response.text()), (coding, body), "{accept}");
            assert_eq!(response.field("content-type"), "image/png");
            assert_eq!(response.field("vary"), "Accept-Encoding");
            assert!(response.field("etag").ends_with(&if coding.is_empty() {
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
fn a_sibling_has_its_own_preconditions_and_ranges() {
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
fn siblings_are_ignored_if_disabled() {
    let options = FilesOptions { precompressed: false, ..FilesOptions::default() };
    let site = Site::with_options(&[("a.txt", "plain"), ("a.txt.gz", "GZ")], options);
    assert_eq!(site.get_with("/a.txt", &[("accept-encoding", "gzip")]).text(), "plain");
}

#[test]
fn text_is_compressed_once_and_cached() {
    let text = long_text();
    let site = Site::with(&[("a.css", &text)]);
    for coding in ["gzip", "zstd", "br"] {
        let accept = [("accept-encoding", coding)];
        let first = site.get_with("/a.css", &accept);
        assert_eq!(first.field("content-encoding"), coding);
        assert!(!first.is_immediate && first.body.len() < text.len() / 2);
        assert_eq!(decode(coding, &first.body), text.as_bytes());
        let second = site.get_with("/a.css", &accept);
        assert!(second.is_immediate, "{coding} is cached");
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
fn a_failed_precondition_skips_the_compression() {
    let site = Site::with(&[("a.css", &long_text())]);
    let response = site.get_with("/a.css", &[("accept-encoding", "br"), ("if-none-match", "*")]);
    assert!(response.is_immediate && response.status == 304);
    assert!(response.field("etag").ends_with("-br\""));
    assert_eq!(response.field("vary"), "Accept-Encoding");
    let tag = response.field("etag");
    assert_eq!(site.get_with("/a.css", &[("accept-encoding", "br")]).field("etag"), tag);
    assert_eq!(site.get_with("/a.css", &[("accept-encoding", "br"), ("if-match", "\"x\"")]).status, 412);
}

#[test]
fn a_range_with_a_date_does_not_continue_a_compressed_file() {
    let site = Site::with(&[("a.css", &long_text())]);
    let date = site.get("/a.css").field("last-modified").to_owned();
    let (range, if_range) = (("range", "bytes=0-1"), ("if-range", &*date));
    for is in ["compressed", "cached"] {
        let response = site.get_with("/a.css", &[range, if_range, ("accept-encoding", "gzip")]);
        assert_eq!((response.status.as_u16(), response.field("content-encoding")), (200, "gzip"), "{is}");
    }
    assert_eq!(
        site.get_with("/a.css", &[range, if_range]).status,
        206,
        "there is one coding for this client"
    );
}

#[test]
fn ranges_are_served_uncompressed() {
    let text = long_text();
    let site = Site::with(&[("a.css", &text)]);
    let response = site.get_with("/a.css", &[("accept-encoding", "gzip"), ("range", "bytes=0-9")]);
    assert_eq!((response.status.as_u16(), response.field("content-encoding")), (206, ""));
    assert_eq!(response.text(), &text[..10]);
}

#[test]
fn small_large_and_already_compressed_files_are_sent_uncompressed() {
    let text = long_text();
    let compression = Compression { size_min: 100, size_max: 10_000, ..Compression::default() };
    let site = Site::with_options(
        &[("small.css", "a{}"), ("large.css", &text.repeat(3)), ("picture.png", &text)],
        FilesOptions { compression: Some(CompressionSetting(Some(compression))), ..FilesOptions::default() },
    );
    let off = Site::with_options(
        &[("a.css", &text)],
        FilesOptions { compression: Some(CompressionSetting(None)), ..FilesOptions::default() },
    );
    for (site, path) in
        [(&site, "/small.css"), (&site, "/large.css"), (&site, "/picture.png"), (&off, "/a.css")]
    {
        let response = site.get_with(path, &[("accept-encoding", "gzip, br, zstd")]);
        assert_eq!((response.field("content-encoding"), response.field("vary")), ("", ""), "{path}");
    }
}

#[test]
fn a_compressed_drawing_is_sent_in_its_coding_and_never_compressed_again() {
    let drawing = "<svg xmlns='http://www.w3.org/2000/svg'/>\n".repeat(100);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    packed.write_all(drawing.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    for options in [FilesOptions::default(), on_disk()] {
        let site =
            Site::with_options(&[("a.svg", &drawing), ("a.svgz.gz", "twice"), ("a.tgz", "x")], options);
        for name in ["a.svgz", "B.SVGZ", "c.x3dz"] {
            fs::write(site.folder.path().join(name), &packed).unwrap();
            for accept in ["gzip, br, zstd", "identity", "gzip;q=0", "br"] {
                let response = site.get_with(&format!("/{name}"), &[("accept-encoding", accept)]);
                let fields = ["content-encoding", "vary"].map(|name| response.field(name).to_owned());
                assert_eq!(
                    (fields, response.body == packed),
                    (["gzip".to_owned(), String::new()], true),
                    "{name} {accept}"
                );
            }
        }
        let response = site.get_with("/a.svgz", &[("range", "bytes=0-1")]);
        assert_eq!((response.field("content-encoding"), &response.body[..]), ("gzip", &packed[..2]));
        assert_eq!(site.get_with("/a.svgz", &[]).field("content-type"), "image/svg+xml");
        assert_eq!(site.get_with("/a.tgz", &[("accept-encoding", "gzip")]).field("content-encoding"), "");
        assert_eq!(site.get_with("/a.svg", &[("accept-encoding", "gzip")]).field("content-encoding"), "gzip");
    }
}

#[test]
fn incompressible_text_is_sent_uncompressed() {
    // No coding can make twenty bytes smaller, because of its own framing.
    let compression = Compression { size_min: 1, ..Compression::default() };
    let options =
        FilesOptions { compression: Some(CompressionSetting(Some(compression))), ..FilesOptions::default() };
    let site = Site::with_options(&[("a.txt", "q8Zr!x0P_m5Kw2Jt#9Ls")], options);
    for coding in ["gzip", "zstd", "br"] {
        let first = site.get_with("/a.txt", &[("accept-encoding", coding)]);
        assert_eq!((first.field("content-encoding"), first.text()), ("", "q8Zr!x0P_m5Kw2Jt#9Ls"), "{coding}");
        assert!(
            site.get_with("/a.txt", &[("accept-encoding", coding)]).is_immediate,
            "it is not compressed again"
        );
    }
}

#[test]
fn larger_text_is_compressed_once_and_cached() {
    let text = longer_text();
    let site = Site::with(&[("a.txt", &text)]);
    for coding in ["gzip", "zstd", "br"] {
        let accept = [("accept-encoding", coding)];
        let first = site.get_with("/a.txt", &accept);
        assert!(!first.is_immediate && decode(coding, &first.body) == text.as_bytes(), "{coding}");
        let second = site.get_with("/a.txt", &accept);
        assert!(second.is_immediate, "{coding} is cached");
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
fn larger_incompressible_text_is_sent_uncompressed() {
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
        assert!(
            site.get_with("/a.txt", &[("accept-encoding", coding)]).is_immediate,
            "it is not compressed again"
        );
    }
}

#[test]
fn concurrent_requests_compress_a_file_once() {
    let (small, large) = (long_text(), longer_text());
    let site = Site::with(&[("small.css", &small), ("large.txt", &large)]);
    let mut request = Request::default();
    request.headers_mut().insert("accept-encoding", "br".parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for path in ["/small.css", "/large.txt"] {
        let [first, second] = [(); 2].map(|()| site.send(&request, path).response());
        let (first, second) = runtime.block_on(async { tokio::join!(first, second) });
        let (Body::Bytes(first), Body::Bytes(second)) = (first.body, second.body) else {
            panic!("both responses are in memory")
        };
        assert_eq!(first.as_ptr(), second.as_ptr(), "{path}");
    }
}

#[test]
fn a_cancelled_request_does_not_block_others() {
    let site = Site::with(&[("large.txt", &longer_text())]);
    let mut request = Request::default();
    request.headers_mut().insert("accept-encoding", "br".parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut first = Box::pin(site.send(&request, "/large.txt").response());
        let is_pending =
            std::future::poll_fn(|cx| std::task::Poll::Ready(first.as_mut().poll(cx).is_pending()));
        assert!(is_pending.await);
        let second = site.send(&request, "/large.txt").response();
        let (second, ()) = tokio::join!(second, async { drop(first) });
        assert!(matches!(second.body, Body::Bytes(_)));
        assert_eq!(second.headers()["content-encoding"], "br");
    });
}

/// Returns options with a cache for `long_text` that is too small for `longer_text`.
fn little_memory() -> FilesOptions {
    FilesOptions { cache_size: 512 * 1024, ..FilesOptions::default() }
}

#[test]
fn slow_clients_do_not_block_the_compression_for_others() {
    let site = Site::with_options(&[("a.css", &long_text()), ("large.txt", &longer_text())], little_memory());
    let mut request = Request::default();
    request.headers_mut().insert("accept-encoding", "zstd".parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut unread = Vec::new();
    for _ in 0..2 * PIECES_MAX {
        let response = runtime.block_on(site.send(&request, "/large.txt").response());
        let Body::Stream(mut stream) = response.body else { panic!("it does not fit into the cache") };
        let first = std::future::poll_fn(|cx| stream.poll_piece(cx, Instant::now(), u64::MAX));
        assert!(runtime.block_on(first).unwrap().is_ok());
        unread.push(stream);
    }
    assert_eq!(site.get_with("/a.css", &[("accept-encoding", "zstd")]).field("content-encoding"), "zstd");
}

#[test]
fn concurrent_compression_into_memory_is_limited_and_further_files_are_streamed() {
    let text = longer_text();
    // Memory for one of them at a time.
    let options = FilesOptions { cache_size: 4 * 256 * 1024, ..FilesOptions::default() };
    let site = Site::with_options(&[("a.txt", &text), ("b.txt", &text)], options);
    let mut request = Request::default();
    request.headers_mut().insert("accept-encoding", "zstd".parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let [first, second] = ["/a.txt", "/b.txt"].map(|path| site.send(&request, path).response());
    let (first, second) = runtime.block_on(async { tokio::join!(first, second) });
    assert!(matches!(first.body, Body::Bytes(_)) && matches!(second.body, Body::Stream(_)));
    assert!(!site.get_with("/b.txt", &[("accept-encoding", "zstd")]).is_immediate);
    assert!(site.get_with("/b.txt", &[("accept-encoding", "zstd")]).is_immediate, "the memory is free again");
}

#[test]
fn the_number_of_encoders_is_limited() {
    let compression = Compression { streams: 1, ..Compression::default() };
    let options =
        FilesOptions { compression: Some(CompressionSetting(Some(compression))), ..little_memory() };
    let site = Site::with_options(&[("large.txt", &longer_text())], options);
    let mut request = Request::default();
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
fn text_that_does_not_fit_into_the_cache_is_compressed_while_it_is_sent() {
    let text = longer_text();
    let site = Site::with_options(&[("a.txt", &text)], little_memory());
    for coding in ["gzip", "zstd", "br"] {
        let response = site.get_with("/a.txt", &[("accept-encoding", coding)]);
        assert_eq!(response.field("content-encoding"), coding);
        assert!(response.body.len() < text.len() / 2);
        assert!(decode(coding, &response.body) == text.as_bytes(), "{coding}");
        let tag = response.field("etag");
        assert!(tag.starts_with("W/") && tag.ends_with(&format!("-{coding}\"")), "{tag}");
        let fields = [("accept-encoding", coding), ("if-none-match", tag)];
        assert_eq!(site.get_with("/a.txt", &fields).status, 304);
    }
    assert_eq!(site.get("/a.txt").text(), text);
}

#[test]
fn a_file_is_sent_uncompressed_if_all_encoders_are_in_use() {
    let compression = Compression { streams: 0, ..Compression::default() };
    let options =
        FilesOptions { compression: Some(CompressionSetting(Some(compression))), ..FilesOptions::default() };
    let site = Site::with_options(&[("a.txt", &longer_text())], options);
    let response = site.get_with("/a.txt", &[("accept-encoding", "gzip")]);
    assert_eq!((response.field("content-encoding"), response.field("vary")), ("", "Accept-Encoding"));
    assert!(!response.field("etag").starts_with("W/"));
}

#[tokio::test]
async fn a_file_that_changes_during_compression_aborts_the_response() {
    let site = Site::with_options(&[("a.txt", &longer_text())], little_memory());
    let mut request = Request::default();
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

#[test]
fn codings_and_media_types_can_be_chosen() {
    let compression = "codings = ['gzip', 'zstd']\nmedia_types = ['application/*', 'text/css']";
    let compression = CompressionSetting(Some(rudy_config::from_text(compression).unwrap()));
    let options = FilesOptions { compression: Some(compression), ..FilesOptions::default() };
    let site = Site::with_options(&[("a.css", &long_text()), ("a.js", &long_text())], options);
    for (accept, coding) in [("br, zstd, gzip", "gzip"), ("br, zstd", "zstd"), ("br", "")] {
        let response = site.get_with("/a.css", &[("accept-encoding", accept)]);
        assert_eq!((response.field("content-encoding"), response.field("vary")), (coding, "Accept-Encoding"));
    }
    let script = site.get_with("/a.js", &[("accept-encoding", "gzip")]);
    assert_eq!((script.field("content-encoding"), script.field("vary")), ("", ""));
}
