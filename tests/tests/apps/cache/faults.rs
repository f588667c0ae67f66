//! Origins that die, hang, lie about their length, or send parts that do not fit; clients that leave; restarts.

use rudy_tests::prelude::*;

use crate::cache::{Origin, begin, config_in, get, handled, hit, server, stored};

const WHOLE: &str =
    "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nETag: \"a\"\r\nCache-Control: max-age=60\r\n\r\n0123456789";

/// The second half of [`WHOLE`].
const REST: &str = "HTTP/1.1 206 X\r\nContent-Length: 5\r\nContent-Range: bytes 5-9/10\r\nETag: \"a\"\r\n\
                    Cache-Control: max-age=60\r\n\r\n56789";

/// Cuts a response in the middle of its ten bytes.
fn half(response: &str) -> &str {
    &response[..response.len() - 5]
}
#[test]
fn a_response_that_breaks_off_is_not_sent_again_as_a_whole() {
    let tries = AtomicUsize::new(0);
    let origin = Upstream::start(move |peer| {
        while let Some(request) = peer.request() {
            if tries.fetch_add(1, Ordering::SeqCst) == 0 {
                return peer.send(half(WHOLE));
            }
            peer.send(if request.field("range") == Some("bytes=5-") { REST } else { WHOLE });
        }
    });
    let server = server(&origin, "true");
    let mut broken = begin(&server, "/a", &[]);
    assert!(broken.read_to_end().ends_with(b"01234"), "the connection is closed");
    assert_eq!(get(&server, "/a", &[]).status_and_text(), (200, "0123456789"));
    assert_eq!(hit(&server, "/a", &[]).text(), "0123456789");
}

#[test]
fn a_folder_that_cannot_be_created_is_named_at_the_start() {
    let cache = "[cache]\npath = \"rudy.toml/cache\"\n";
    let site = "[[site]]\n[[site.route]]\npath = \"/*\"\nproxy = \"http://127.0.0.1:9\"\ncache = true\n";
    let folder = Folder::with(&[("rudy.toml", format!("listen = \"127.0.0.1:0\"\n{cache}{site}"))]);
    let errors = Rudy::command(["serve"]).arg(folder.join("rudy.toml")).output().failed_with(1);
    assert_contains!(errors, "error: cannot create the folder of the cache ");
    assert_contains!(errors, "rudy.toml/cache (`path` in [cache]): ");
}

#[test]
fn a_part_of_another_version_is_not_combined() {
    let origin = Origin::start(|request, number| {
        let fields = format!("ETag: \"{number}\"\nCache-Control: max-age=60");
        match request.field("range") {
            Some("bytes=0-4") => format!("206 {fields}\nContent-Range: bytes 0-4/10|aaaaa"),
            Some("bytes=5-9") => format!("206 {fields}\nContent-Range: bytes 5-9/10|bbbbb"),
            _ => format!("{fields}|cccccccccc"),
        }
    });
    let server = server(&origin.upstream, "true");
    assert_eq!(get(&server, "/a", &["Range: bytes=0-4"]).text(), "aaaaa");
    hit(&server, "/a", &["Range: bytes=0-4"]);
    assert_eq!(get(&server, "/a", &["Range: bytes=5-9"]).text(), "bbbbb");
    assert_eq!(get(&server, "/a", &[]).text(), "cccccccccc");
}

#[test]
fn a_part_that_is_not_what_it_claims_is_never_stored_as_the_whole() {
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let chunked = |text: &str| format!("Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", chunk(text));
    let multipart = "Content-Type: multipart/byteranges; boundary=b\r\nContent-Length: 10\r\n\r\n0123456789";
    for (name, part) in [
        ("a shorter part in chunks", chunked("01234")),
        ("a longer part in chunks", chunked("0123456789abcde")),
        ("chunks that break off", format!("Transfer-Encoding: chunked\r\n\r\n{}", chunk("01234"))),
        ("the end of the connection", "Connection: close\r\n\r\n01234".to_owned()),
        ("another length", "Content-Length: 5\r\n\r\n01234".to_owned()),
        ("a longer length", "Content-Length: 12\r\n\r\n0123456789ab".to_owned()),
        ("a length that breaks off", "Content-Length: 10\r\n\r\n01234".to_owned()),
        ("several parts", multipart.to_owned()),
    ] {
        let origin = Upstream::start(move |peer| {
            while let Some(request) = peer.request() {
                match request.field("range") {
                    Some("bytes=0-") => {
                        let fields =
                            "Content-Range: bytes 0-9/10\r\nETag: \"a\"\r\nCache-Control: max-age=60";
                        return peer.send(format!("HTTP/1.1 206 X\r\n{fields}\r\n{part}"));
                    }
                    Some("bytes=5-") => peer.send(REST),
                    _ => peer.send(WHOLE),
                }
            }
        });
        let server = server(&origin, "true");
        let mut client = begin(&server, "/a", &["Range: bytes=0-", "Connection: close"]);
        drop(client.read_to_end());
        for _ in 0..3 {
            assert_eq!(get(&server, "/a", &[]).status_and_text(), (200, "0123456789"), "{name}");
        }
    }
}

#[test]
fn a_part_that_does_not_continue_a_broken_response_is_replaced_by_the_whole() {
    let tries = AtomicUsize::new(0);
    let origin = Upstream::start(move |peer| {
        while let Some(request) = peer.request() {
            if tries.fetch_add(1, Ordering::SeqCst) == 0 {
                return peer.send(half(WHOLE));
            }
            let other = if request.field("range").is_some() { REST } else { WHOLE };
            let other = other.replace("\"a\"", "\"b\"");
            peer.send(other.replace("56789", "XXXXX").replace("01234XXXXX", "abcdefghij"));
        }
    });
    let server = server(&origin, "true");
    let mut broken = begin(&server, "/a", &[]);
    assert!(broken.read_to_end().ends_with(b"01234"));
    assert_eq!(get(&server, "/a", &[]).text(), "abcdefghij");
}

#[test]
fn an_origin_that_is_gone_or_hangs_costs_only_what_is_not_stored() {
    let (release, wait) = gate::<()>();
    let origin = Upstream::start(move |peer| {
        while let Some(request) = peer.request() {
            if request.target() == "/hangs" {
                let _ = wait.wait();
                return;
            }
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nCache-Control: max-age=60\r\n\r\nbody");
        }
    });
    let server = server(&origin, "true");
    hit(&server, "/a", &[]);
    let mut waiting = begin(&server, "/hangs", &[]);
    assert_eq!(get(&server, "/a", &[]).text(), "body");
    drop(release);
    assert_eq!(waiting.response().status, 502);
    drop(origin);
    assert_eq!(get(&server, "/a", &[]).text(), "body");
    assert_eq!(get(&server, "/other", &[]).status, 502);
}

#[test]
fn a_client_that_leaves_early_cancels_the_request_and_one_that_leaves_late_does_not() {
    let ((begun, has_begun), (release, may_continue)) = (channel(), gate::<()>());
    let origin = Upstream::start(move |peer| {
        while let Some(request) = peer.request() {
            let half = if request.target() == "/early" { 1000 } else { 600_000 };
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\nCache-Control: max-age=60\r\n\r\n");
            peer.send(vec![b'x'; half]);
            begun.send(()).expect("the test waits");
            if request.target() == "/early" {
                return peer.wait_for_end();
            }
            may_continue.wait().expect("the test continues");
            peer.send(vec![b'x'; 1_000_000 - half]);
        }
    });
    let server = server(&origin, "true");
    let mut early = begin(&server, "/early", &[]);
    has_begun.recv().expect("the origin responds");
    assert_eq!(early.head().status, 200);
    drop(early);
    let mut late = begin(&server, "/late", &[]);
    has_begun.recv().expect("the origin responds");
    assert_eq!(late.head().status, 200);
    drop(late.read_exactly(600_000));
    drop(late);
    release.send(()).expect("the origin waits");
    assert_eq!(stored(&server, "/late").body.len(), 1_000_000);
}

#[test]
fn a_client_that_gets_304_for_what_is_not_stored_does_not_end_the_transfer() {
    let (release, may_continue) = gate::<()>();
    let origin = Upstream::serve(move |peer, _| {
        let fields = "Content-Length: 100000\r\nCache-Control: max-age=60\r\nETag: W/\"a\"";
        peer.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n"));
        may_continue.wait().expect("the test continues");
        peer.send(vec![b'x'; 100_000]);
    });
    let server = server(&origin, "true");
    let response = get(&server, "/a", &["If-None-Match: W/\"a\""]);
    assert_eq!(response.status, 304);
    assert_eq!(response.field("cache-status"), Some("Rudy; fwd=uri-miss; fwd-status=200; stored"));
    release.send(()).expect("the origin waits");
    assert_eq!(stored(&server, "/a").body.len(), 100_000);
}

#[test]
fn a_restart_keeps_what_is_stored() {
    let origin = Origin::start(|_, number| format!("Cache-Control: max-age=600|{number}"));
    let folder = Folder::new();
    let text = config_in(&origin.upstream, "true", &folder.join("cache"));
    for stops in [true, false] {
        let mut server = Server::config(&text);
        hit(&server, "/a", &[]);
        if stops {
            server.stop();
        }
    }
    let server = Server::config(&text);
    assert_eq!(handled(&get(&server, "/a", &[])), "hit", "also after SIGKILL");
    assert_eq!(origin.count(), 1);
}

#[test]
fn objects_on_the_disk_are_used_without_openat2() {
    let Some(script) = without_openat2(38) else { return };
    let origin = Origin::start(|_, number| format!("Cache-Control: max-age=600|{number}"));
    let folder = Folder::new();
    let text = config_in(&origin.upstream, "true", &folder.join("cache"));
    let start = || Server::build().config(&text).through_shell(&script).start();
    let server = start();
    hit(&server, "/a", &[]);
    drop(server);
    assert_eq!(handled(&get(&start(), "/a", &[])), "hit");
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_changed_byte_on_the_disk_is_never_sent() {
    let origin = Origin::start(|_, _| format!("Cache-Control: max-age=600|{}", "x".repeat(10_000)));
    let folder = Folder::new();
    let cache = folder.join("cache");
    let text = config_in(&origin.upstream, "true", &cache);
    let server = Server::config(&text);
    hit(&server, "/a", &[]);
    drop(server);
    for file in files(&cache) {
        let mut bytes = fs::read(&file).expect("the file can be read");
        if let Some(at) = bytes.windows(64).position(|window| window.iter().all(|byte| *byte == b'x')) {
            bytes[at + 5] = b'y';
            fs::File::create(&file).and_then(|mut file| file.write_all(&bytes)).expect("it can be written");
        }
    }
    let server = Server::config(&text);
    let response = get(&server, "/a", &[]);
    assert!(response.status == 200 && response.body.iter().all(|byte| *byte == b'x'));
    assert_eq!(origin.count(), 2);
}

/// All files below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder exists").flatten();
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    entries.flat_map(|entry| below(entry.path())).collect()
}
