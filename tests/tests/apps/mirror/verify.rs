//! Files that the mirror verifies by the checksums of their repository.

use rudy_tests::prelude::*;

use crate::mirror::{Mirror, Origin, get, get_stored, message};

const JAR: &str = "/g/a/1/a-1.jar";

const OF_NOTHING: &str = "da39a3ee5e6b4b0d3255bfef95601890afd80709";
const OF_FILE: &str = "971c419dd609331343dee105fffd0f4608dc0bf2";
const OF_300_KB: &str = "9afeaec41e4fbee65095e5b2a72d760a2cad89e8";
const OF_3_MB: &str = "cae0f5179e814d03aba8d52cbcafe92a6adb9bab";
const SHA512_OF_FILE: &str =
    "sha512-vwxMsyPVYx5eB5kLUlEtm1fUhJfSidJT3sZZA8tIACTwu2ufeosN9TtV+YqJYHiSQl8cowQpDcOixw9KgY6EJA==";

/// The checksums of "fil!", and of 300 kB with this end.
const OF_WRONG_FILE: &str = "c91d0831f20887de69419000057a918ac1f2463e";
const OF_WRONG_300_KB: &str = "96c22f73553100627766cfab30705eace3828238";
const SHA512_OF_WRONG_FILE: &str =
    "sha512-a0HGCkKTz1r1JIak3rYz0BbaQviztxKArqINVtf/Bk0iNTwXptpblDv9x0ruN2XiZYLPj1UqsEBv7u3CJLnFbg==";

fn digits(bytes: usize) -> String {
    "0123456789".repeat(bytes / 10)
}

fn verifying(upstream: &Upstream, preset: &str) -> Mirror {
    Mirror::new(&format!("{{ url = \"{upstream}\", preset = \"{preset}\", verify = true }}"))
}

/// Starts a repository with one file and the document with its checksum. The first response with the file has a wrong end.
fn wrong_at_first(path: &'static str, content: &str, document: (&'static str, String)) -> Origin {
    let (tries, right) = (AtomicUsize::new(0), content.to_owned());
    Origin::start(move |request| match request.target() {
        target if target == document.0 => message("200 OK", "", &document.1),
        target if target != path => message("404 Not Found", "", ""),
        _ if tries.fetch_add(1, Ordering::SeqCst) == 0 => {
            message("200 OK", "ETag: \"a\"\r\n", &format!("{}!", &right[..right.len() - 1]))
        }
        _ => message("200 OK", "ETag: \"a\"\r\n", &right),
    })
}

#[test]
fn a_wrong_file_is_not_stored_and_never_sent_whole() {
    let long = digits(300_000);
    let integrity = format!(r#"{{"dist":{{"integrity":"{SHA512_OF_FILE}"}}}}"#);
    let of_npm = [SHA512_OF_FILE, SHA512_OF_WRONG_FILE];
    for (preset, path, content, document, [declared, received]) in [
        ("maven", JAR, "file", ("/g/a/1/a-1.jar.sha1", OF_FILE.to_owned()), [OF_FILE, OF_WRONG_FILE]),
        ("maven", JAR, &long, ("/g/a/1/a-1.jar.sha1", OF_300_KB.to_owned()), [OF_300_KB, OF_WRONG_300_KB]),
        ("npm", "/@s%2fa/-/a-1.0.0.tgz", "file", ("/@s%2fa/1.0.0", integrity.clone()), of_npm),
        ("npm", "/@s/a/-/@s/a-1.0.0.tgz", "file", ("/@s/a/1.0.0", integrity.clone()), of_npm),
        ("npm", "/a/-/a-1.0.0%2Etgz", "file", ("/a/1.0.0", integrity), of_npm),
    ] {
        let origin = wrong_at_first(path, content, document);
        let mirror = verifying(&origin.upstream, preset);
        let mut server = mirror.serve();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: a\r\nRange: bytes=1-\r\nConnection: close\r\n\r\n");
        let wrong = server.exchange(request.as_bytes());
        assert!(!wrong.ends_with(b"!"), "{preset}: {}", String::from_utf8_lossy(&wrong));
        assert_contains!(server.wait_for_line("wrong file, not stored"), path, declared, received);

        assert_eq!(get(&server, path, &[]).text(), content, "{preset}");
        let stored = get_stored(&server, path);
        assert_eq!((stored.text(), stored.field("etag")), (content, Some("W/\"a\"")), "{preset}");
        assert_eq!(get(&server, path, &["Range: bytes=0-1"]).text(), &content[..2], "{preset}");
        assert_eq!(origin.count(), 4, "{preset}: two files, each after its checksum");
    }
}

#[test]
fn http2_resets_the_stream_of_a_wrong_file() {
    let document = ("/g/a/1/a-1.jar.sha1", OF_300_KB.to_owned());
    let origin = wrong_at_first(JAR, &digits(300_000), document);
    let mirror = verifying(&origin.upstream, "maven");
    let server = mirror.serve();
    let mut connection = Http2Connection::open(server.address(), &[]);
    connection.get(1, JAR);
    let wrong = connection.response(1);
    assert!(wrong.status == 200 && wrong.reset.is_some() && !wrong.body.ends_with(b"!"), "{:?}", wrong.reset);
    connection.get(3, JAR);
    let right = connection.response(3);
    assert_eq!((right.reset, right.text()), (None, digits(300_000).as_str()));
}

#[test]
fn an_empty_file_is_verified_too() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    for empty in [message("200 OK", "", ""), chunked.into()] {
        for (checksum, is_right) in [(OF_NOTHING, true), (OF_FILE, false)] {
            let empty = empty.clone();
            let origin = Origin::start(move |request| match request.target() {
                JAR => empty.clone(),
                _ => message("200 OK", "", checksum),
            });
            let mirror = verifying(&origin.upstream, "maven");
            let request = format!("GET {JAR} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let response = mirror.serve().exchange(request.as_bytes());
            let response = String::from_utf8(response).expect("it is text");
            let is_whole = response.starts_with("HTTP/1.1 200")
                && (response.contains("ength: 0\r\n") || response.ends_with("\r\n0\r\n\r\n"));
            assert_eq!(is_whole, is_right, "{response}");
        }
    }
}

#[test]
fn a_file_is_sent_while_it_is_received() {
    let (resume, resumed) = gate();
    let upstream = Upstream::start(move |peer| {
        while let Some(request) = peer.request() {
            if request.target() != JAR {
                peer.send(message("200 OK", "", &format!("{OF_3_MB}  a-1.jar\n")));
                continue;
            }
            let file = message("200 OK", "", &digits(3_000_000));
            peer.send(&file[..2_000_000]);
            resumed.wait().expect("the client has the start");
            peer.send(&file[2_000_000..]);
        }
    });
    let mirror = verifying(&upstream, "maven");
    let server = mirror.serve();
    let mut connection = server.send(format!("GET {JAR} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(connection.head().field("content-length"), Some("3000000"));
    let start = connection.read_exactly(1_000_000);
    resume.send(()).expect("the repository waits");
    let content = [start, connection.read_exactly(2_000_000)].concat();
    assert!(content == digits(3_000_000).as_bytes());
}

#[test]
fn a_file_without_a_checksum_is_sent_but_not_one_with_an_unknown_checksum() {
    for (status, expected, line) in [
        ("404 Not Found", 200, "not verified: "),
        ("200 OK", 502, "cannot verify: "),
        ("503 Service Unavailable", 502, "cannot verify: "),
    ] {
        let origin = Origin::start(move |request| match request.target() {
            JAR => message("200 OK", "", "file"),
            _ => message(status, "", "no checksum"),
        });
        let mirror = verifying(&origin.upstream, "maven");
        let mut server = mirror.serve();
        assert_eq!(get(&server, JAR, &[]).status, expected, "{status}");
        assert_contains!(server.wait_for_line(line), JAR, ".sha1");
        assert_eq!(origin.count(), if expected == 200 { 2 } else { 1 }, "{status}");
    }
}

#[test]
fn a_file_of_an_unknown_form_is_sent_but_not_stored() {
    let origin = Origin::start(|_| message("200 OK", "", "file"));
    let mirror = verifying(&origin.upstream, "npm");
    let mut server = mirror.serve();
    for count in 1..=3 {
        let response = get(&server, "/a/-/b-1.0.0.tgz", &[]);
        assert_eq!((response.text(), response.field("rudy-cache-control")), ("file", None));
        assert_eq!(origin.count(), count);
    }
    assert!(server.wait_for_line("cannot verify, not stored: ").contains("/a/-/b-1.0.0.tgz"));
}

#[test]
fn a_client_that_does_not_wait_for_a_checksum_ends_its_request() {
    let (event, events) = mpsc::channel();
    let upstream = Upstream::start(move |peer| {
        while let Some(request) = peer.request() {
            event.send(Some(request.target().to_owned())).expect("the test waits");
        }
        // Fails after the end of the test.
        let _ = event.send(None);
    });
    let mirror = verifying(&upstream, "maven");
    let text = mirror.path().read("rudy.toml");
    mirror.path().write("rudy.toml", format!("limits.half_close_timeout = \"300ms\"\n{text}"));
    let server = mirror.serve();
    let connection = server.send(format!("GET {JAR} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(events.recv(), Ok(Some(format!("{JAR}.sha1"))));
    drop(connection);
    assert_eq!(events.recv(), Ok(None), "the connection is closed, without a request for the file");
}

#[test]
fn a_kind_without_checksums_cannot_be_verified() {
    let mirror = Mirror::new("{ url = \"https://repo.example\", preset = \"apt\", verify = true }");
    let output = Rudy::command(["check"]).arg(mirror.path().join("rudy.toml")).output();
    assert_contains!(output.stderr, "`verify` is for maven and npm, not for apt");
}
