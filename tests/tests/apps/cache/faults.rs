//! Origins that die, hang, lie about their length, or send parts that do not fit; clients that leave; restarts.

use rudy_tests::prelude::*;
use rudy_tests::without_openat2;

use crate::cache::{Origin, config, get, handled, send, server};

#[test]
fn a_response_that_breaks_off_is_not_sent_again_as_a_whole() {
    let tries = AtomicUsize::new(0);
    let origin = Upstream::start(move |peer| {
        while let Some(request) = peer.request() {
            let fields = "ETag: \"a\"\r\nCache-Control: max-age=60";
            if tries.fetch_add(1, Ordering::SeqCst) == 0 {
                peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n{fields}\r\n\r\n01234"));
                return;
            }
            match request.field("range") {
                Some("bytes=5-") => peer.send(format!(
                    "HTTP/1.1 206 X\r\nContent-Length: 5\r\nContent-Range: bytes 5-9/10\r\n{fields}\r\n\r\n56789"
                )),
                _ => peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n{fields}\r\n\r\n0123456789")),
            }
        }
    });
    let server = server(&origin, "true");
    let mut broken = server.connect();
    send(&mut broken, "GET", "/a", &[]);
    assert!(broken.read_to_end().ends_with(b"01234"), "the connection is closed");
    assert_eq!(get(&server, "/a", &[]).status_and_text(), (200, "0123456789"));
    let again = eventually("it is stored", || {
        Some(get(&server, "/a", &[])).filter(|response| handled(response) == "hit")
    });
    assert_eq!(again.text(), "0123456789");
}

#[test]
fn a_folder_that_cannot_be_created_is_named_at_the_start() {
    let folder = Folder::new();
    let file = folder.join("rudy.toml");
    let cache = "[cache]\npath = \"rudy.toml/cache\"\n";
    let site = "[[site]]\n[[site.route]]\npath = \"/*\"\nproxy = \"http://127.0.0.1:9\"\ncache = true\n";
    fs::write(&file, format!("listen = \"127.0.0.1:0\"\n{cache}{site}"))
        .expect("a temp folder can be written");
    let errors = Rudy::command(["serve"]).arg(&file).output().failed_with(1);
    assert_contains!(
        errors,
        "error: cannot create the folder of the cache ",
        "rudy.toml/cache (`path` in [cache]): "
    );
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
    wait_until("it is stored", || handled(&get(&server, "/a", &["Range: bytes=0-4"])) == "hit");
    assert_eq!(get(&server, "/a", &["Range: bytes=5-9"]).text(), "bbbbb");
    assert_eq!(get(&server, "/a", &[]).text(), "cccccccccc");
}

#[test]
fn a_part_that_is_not_what_it_claims_is_never_stored_as_the_whole() {
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let chunked = |text: &str| format!("Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", chunk(text));
    for (name, part) in [
        ("a shorter part in chunks", chunked("01234")),
        ("a longer part in chunks", chunked("0123456789abcde")),
        ("chunks that break off", format!("Transfer-Encoding: chunked\r\n\r\n{}", chunk("01234"))),
        ("the end of the connection", "Connection: close\r\n\r\n01234".to_owned()),
        ("another length", "Content-Length: 5\r\n\r\n01234".to_owned()),
        ("a longer length", "Content-Length: 12\r\n\r\n0123456789ab".to_owned()),
        ("a length that breaks off", "Content-Length: 10\r\n\r\n01234".to_owned()),
        (
            "several parts",
            "Content-Type: multipart/byteranges; boundary=b\r\nContent-Length: 10\r\n\r\n0123456789"
                .to_owned(),
        ),
    ] {
        let origin = Upstream::start(move |peer| {
            while let Some(request) = peer.request() {
                let fields = "ETag: \"a\"\r\nCache-Control: max-age=60";
                match request.field("range") {
                    Some("bytes=0-") => {
                        peer.send(format!("HTTP/1.1 206 X\r\nContent-Range: bytes 0-9/10\r\n{fields}\r\n{part}"));
                        return;
                    }
                    Some("bytes=5-") => peer.send(format!(
                        "HTTP/1.1 206 X\r\nContent-Range: bytes 5-9/10\r\nContent-Length: 5\r\n{fields}\r\n\r\n56789"
                    )),
                    _ => peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n{fields}\r\n\r\n0123456789")),
                }
            }
        });
        let server = server(&origin, "true");
        let mut client = server.connect();
        send(&mut client, "GET", "/a", &["Range: bytes=0-", "Connection: close"]);
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
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\nETag: \"a\"\r\nCache-Control: max-age=60\r\n\r\n01234");
                return;
            }
            if request.field("range").is_some() {
                peer.send(
                    "HTTP/1.1 206 X\r\nContent-Length: 5\r\nContent-Range: bytes 5-9/10\r\nETag: \"b\"\r\nCache-Control: max-age=60\r\n\r\nXXXXX",
                );
            } else {
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\nETag: \"b\"\r\nCache-Control: max-age=60\r\n\r\nabcdefghij");
            }
        }
    });
    let server = server(&origin, "true");
    let mut broken = server.connect();
    send(&mut broken, "GET", "/a", &[]);
    assert!(broken.read_to_end().ends_with(b"01234"));
    assert_eq!(get(&server, "/a", &[]).text(), "abcdefghij");
}

#[test]
fn an_origin_that_is_gone_or_hangs_costs_only_what_is_not_stored() {
    let (release, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Upstream::start(move |peer| {
        while let Some(request) = peer.request() {
            if request.target() == "/hangs" {
                let _ = wait.lock().expect("no test fails").recv();
                return;
            }
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nCache-Control: max-age=60\r\n\r\nbody");
        }
    });
    let server = server(&origin, "true");
    wait_until("it is stored", || handled(&get(&server, "/a", &[])) == "hit");
    let mut waiting = server.connect();
    send(&mut waiting, "GET", "/hangs", &[]);
    assert_eq!(get(&server, "/a", &[]).text(), "body");
    drop(release);
    assert_eq!(waiting.response().status, 502);
    drop(origin);
    assert_eq!(get(&server, "/a", &[]).text(), "body");
    assert_eq!(get(&server, "/other", &[]).status, 502);
}

#[test]
fn a_client_that_leaves_early_cancels_the_request_and_one_that_leaves_late_does_not() {
    let (begun, has_begun) = channel();
    let (release, may_continue) = channel::<()>();
    let (begun, may_continue) = (Mutex::new(begun), Mutex::new(may_continue));
    let origin = Upstream::start(move |peer| {
        while let Some(request) = peer.request() {
            let half = if request.target() == "/early" { 1000 } else { 600_000 };
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\nCache-Control: max-age=60\r\n\r\n");
            peer.send(vec![b'x'; half]);
            begun.lock().expect("no test fails").send(()).expect("the test waits");
            if request.target() == "/early" {
                return peer.wait_for_end();
            }
            may_continue.lock().expect("no test fails").recv().expect("the test continues");
            peer.send(vec![b'x'; 1_000_000 - half]);
        }
    });
    let server = server(&origin, "true");
    let mut early = server.connect();
    send(&mut early, "GET", "/early", &[]);
    has_begun.recv().expect("the origin responds");
    assert_eq!(early.head().status, 200);
    drop(early);
    let mut late = server.connect();
    send(&mut late, "GET", "/late", &[]);
    has_begun.recv().expect("the origin responds");
    assert_eq!(late.head().status, 200);
    drop(late.read_exactly(600_000));
    drop(late);
    release.send(()).expect("the origin waits");
    let stored = eventually("it is stored", || {
        Some(get(&server, "/late", &["Cache-Control: only-if-cached"]))
            .filter(|response| response.status == 200)
    });
    assert_eq!(stored.body.len(), 1_000_000);
}

#[test]
fn a_client_that_gets_304_for_what_is_not_stored_does_not_end_the_transfer() {
    let (release, may_continue) = channel::<()>();
    let may_continue = Mutex::new(may_continue);
    let origin = Upstream::serve(move |peer, _| {
        peer.send(
            "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nCache-Control: max-age=60\r\nETag: W/\"a\"\r\n\r\n",
        );
        may_continue.lock().expect("no test fails").recv().expect("the test continues");
        peer.send(vec![b'x'; 100_000]);
    });
    let server = server(&origin, "true");
    let response = get(&server, "/a", &["If-None-Match: W/\"a\""]);
    assert_eq!(response.status, 304);
    assert_eq!(response.field("cache-status"), Some("Rudy; fwd=uri-miss; fwd-status=200; stored"));
    release.send(()).expect("the origin waits");
    let stored = eventually("it is stored", || {
        Some(get(&server, "/a", &["Cache-Control: only-if-cached"])).filter(|response| response.status == 200)
    });
    assert_eq!(stored.body.len(), 100_000);
}

#[test]
fn a_restart_keeps_what_is_stored() {
    let origin = Origin::start(|_, number| format!("Cache-Control: max-age=600|{number}"));
    let folder = Folder::new();
    let text = config(&origin.upstream, "true")
        .replace("path = \"cache\"", &format!("path = \"{}\"", folder.join("cache").display()));
    for signal in [Some(Signal::TERM), None] {
        let mut server = Server::config(&text);
        wait_until("it is stored", || handled(&get(&server, "/a", &[])) == "hit");
        if let Some(signal) = signal {
            server.signal(signal);
            assert!(server.wait().0.success());
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
    let text = config(&origin.upstream, "true")
        .replace("path = \"cache\"", &format!("path = \"{}\"", folder.join("cache").display()));
    let start = || Server::build().config(&text).through_shell(&script).start();
    let server = start();
    wait_until("it is stored", || handled(&get(&server, "/a", &[])) == "hit");
    drop(server);
    assert_eq!(handled(&get(&start(), "/a", &[])), "hit");
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_changed_byte_on_the_disk_is_never_sent() {
    let origin = Origin::start(|_, _| format!("Cache-Control: max-age=600|{}", "x".repeat(10_000)));
    let folder = Folder::new();
    let cache = folder.join("cache");
    let text = config(&origin.upstream, "true")
        .replace("path = \"cache\"", &format!("path = \"{}\"", cache.display()));
    let server = Server::config(&text);
    wait_until("it is stored", || handled(&get(&server, "/a", &[])) == "hit");
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
    entries
        .flat_map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { vec![entry.path()] })
        .collect()
}
