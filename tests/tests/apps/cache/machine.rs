//! Full disks, missing descriptors, users and sandboxes, and ends of the process at any time.

use rudy_tests::prelude::*;

use crate::cache::faults::files;
use crate::cache::{
    Origin, begin, begin_with, config, config_in, get, handled, hit, request, server, upgrade,
};

/// An origin whose responses have bodies of this many bytes.
fn origin_of(bytes: usize) -> Origin {
    Origin::start(move |_, _| format!("Cache-Control: max-age=600\nETag: \"a\"|{}", "x".repeat(bytes)))
}

fn is_stored(server: &Server, target: &str) {
    hit(server, target, &[]);
}

#[test]
fn on_a_full_disk_responses_are_whole_and_stored_ones_are_hits() {
    let folder = Folder::new();
    let Some(script) = small_disk(folder.path()) else { return };
    // A tenth of the disk, and more than all of it.
    let origin = Origin::start(|request, _| {
        let bytes = if request.target() == "/large" { 300_000 } else { 6000 };
        format!("Cache-Control: max-age=600|{}", "x".repeat(bytes))
    });
    let text = config_in(&origin.upstream, "true", &folder.join("cache"));
    let mut server = Server::build().config(&text).through_shell(&script).start();
    is_stored(&server, "/small");
    for _ in 0..3 {
        let response = get(&server, "/large", &[]);
        assert_eq!((response.status, response.body.len()), (200, 300_000));
        assert_eq!(handled(&get(&server, "/small", &[])), "hit");
    }
    for number in 0..50 {
        assert_eq!(get(&server, &format!("/{number}"), &[]).body.len(), 6000);
    }
    assert_eq!(handled(&get(&server, "/small", &[])), "hit");
    assert!(server.is_running());
}

#[test]
fn without_descriptors_requests_fail_or_succeed_and_later_ones_are_hits() {
    let origin = origin_of(200_000);
    let script = "ulimit -n 64 && exec \"$@\"";
    let server = Server::build().config(&config(&origin.upstream, "true")).through_shell(script).start();
    is_stored(&server, "/a");
    // More clients than descriptors: each gets the whole response, or is closed.
    let clients = (0..100).map(|number| begin(&server, &format!("/{number}"), &["Connection: close"]));
    for mut client in clients.collect::<Vec<_>>() {
        let received = client.read_to_end();
        let is_whole = received.ends_with(&vec![b'x'; 200_000]);
        assert!(is_whole || !received.starts_with(b"HTTP/1.1 200"), "{} bytes", received.len());
    }
    // The connections to the origin of the last requests may end later than their clients.
    wait_until("descriptors are free again", || {
        begin(&server, "/a", &["Connection: close"]).read_to_end().starts_with(b"HTTP/1.1 ")
    });
    is_stored(&server, "/a");
    is_stored(&server, "/new");
}

#[test]
fn the_folder_works_for_another_user_and_in_the_sandbox() {
    let origin = origin_of(200_000);
    let place = Folder::new();
    place.set_mode(".", 0o755);
    let folder = place.join("cache");
    let text = config_in(&origin.upstream, "true", &folder);
    let mut settings = vec![("sandbox", "sandbox = true\n")];
    if geteuid().is_root() {
        fs::create_dir(&folder).expect("a temp folder can be written");
        chown(&folder, Some(65534), Some(65534)).expect("root may do so");
        settings =
            vec![("user", "user = \"65534:65534\"\n"), ("both", "user = \"65534:65534\"\nsandbox = true\n")];
    }
    for (name, setting) in settings {
        let file = place.write("rudy.toml", format!("{setting}{text}"));
        let output = Rudy::command(["check"]).arg(&file).output();
        if output.stderr.contains("does not support Landlock") {
            return skip_unsupported("this kernel does not support Landlock");
        }
        for _ in 0..2 {
            let server = Server::build().arg("--config").arg(&file).start();
            for target in ["/a", &format!("/{name}")] {
                is_stored(&server, target);
                assert_eq!(get(&server, target, &[]).body.len(), 200_000, "{name}");
            }
        }
    }
    assert_eq!(origin.count(), 1 + if geteuid().is_root() { 2 } else { 1 }, "all of them use the folder");
}

#[test]
fn only_the_user_of_the_server_can_read_what_is_stored() {
    let origin = Origin::start(|_, _| format!("Cache-Control: max-age=60|{}", "x".repeat(200_000)));
    let server = server(&origin.upstream, "true");
    hit(&server, "/a", &[]);
    let mut folders = vec![server.path().join("cache")];
    let mut bodies = 0;
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).expect("a folder of the store").flatten().map(|entry| entry.path()) {
            let metadata = fs::symlink_metadata(&path).expect("no file is removed");
            assert_eq!(metadata.permissions().mode() & 0o077, 0, "{}", path.display());
            bodies += usize::from(metadata.len() > 200_000);
            folders.extend(metadata.is_dir().then_some(path));
        }
    }
    assert_eq!(bodies, 1, "the response is among them");
}

#[test]
fn a_reload_and_a_purge_in_the_middle_of_a_response_interrupt_no_client() {
    let (release, may_continue) = gate::<()>();
    let origin = Upstream::serve(move |peer, request| {
        let fields = "Content-Length: 200000\r\nCache-Control: max-age=600\r\nCache-Tag: a\r\n";
        peer.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
        peer.send(vec![b'x'; 100_000]);
        if request.target() == "/slow" {
            may_continue.wait().expect("the test continues");
        }
        peer.send(vec![b'x'; 100_000]);
    });
    let mut server = Server::config(&config(&origin, "{ purge_from = \"127.0.0.1\" }"));
    let mut clients = [(); 20].map(|()| begin(&server, "/slow", &[]));
    for client in &mut clients {
        assert_eq!(client.head().status, 200);
    }
    let text = server.path().read("rudy.toml");
    for setting in ["sort_query = true", "ignore_query = \"x\""] {
        let text = text.replace("{ purge", &format!("{{ {setting}, purge"));
        server.reload_with(&text, "the configuration was reloaded");
        is_stored(&server, "/other");
    }
    assert_eq!(request(&server, "PURGE", "/slow", &[]).status, 200);
    release.send(()).expect("the origin waits");
    for mut client in clients {
        assert!(client.read_exactly(200_000).iter().all(|byte| *byte == b'x'));
    }
    let purged = get(&server, "/slow", &["Cache-Control: only-if-cached"]);
    assert_eq!(purged.status, 504, "it was purged");
    drop(release);
}

#[test]
fn what_a_request_changes_in_the_old_process_of_an_upgrade_is_removed_in_the_new_one() {
    let ((begun, has_begun), (release, may_continue)) = (channel(), gate::<()>());
    let origin = Upstream::serve(move |peer, request| {
        if request.head.starts_with("POST ") {
            begun.send(()).expect("the test waits");
            may_continue.wait().expect("the test continues");
        }
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nCache-Control: max-age=600\r\n\r\na");
    });
    let mut server = Server::config(&format!("shutdown_timeout = \"60s\"\n{}", config(&origin, "true")));
    is_stored(&server, "/a");
    let mut posting = begin_with(&server, "POST", "/a", &["Content-Length: 0"]);
    has_begun.recv().expect("the origin receives the request");
    let successor = upgrade(&mut server);
    is_stored(&server, "/a");
    release.send(()).expect("the origin waits");
    assert_eq!(posting.response().status, 200);
    let after = handled(&get(&server, "/a", &[]));
    kill_process(successor, Signal::KILL).expect("it runs");
    assert_eq!(after, "uri-miss");
}

#[test]
fn what_was_purged_does_not_come_back_after_sigkill() {
    let origin = Origin::start(|_, number| {
        let body = number.to_string().repeat(20_000);
        format!("Cache-Control: max-age=600\nCache-Tag: a\nETag: \"{number}\"|{body}")
    });
    let folder = Folder::new();
    let settings = "{ purge_from = \"loopback\" }";
    let text = config_in(&origin.upstream, settings, &folder.join("cache"))
        .replace("[[site]]\n", "[[site]]\nhosts = \"a.example\"\n");
    for (target, fields) in [("/a", &[][..]), ("/*", &[]), ("/", &["Cache-Tag: a"])] {
        let server = Server::config(&text);
        for number in 0..20 {
            is_stored(&server, &format!("/{number}"));
        }
        is_stored(&server, "/a");
        assert_eq!(request(&server, "PURGE", target, fields).status, 200);
        // Dropping it sends SIGKILL.
        drop(server);
        let server = Server::config(&text);
        assert_eq!(get(&server, "/a", &["Cache-Control: only-if-cached"]).status, 504, "{target}");
    }
}

#[test]
fn ends_in_the_middle_of_writes_leave_whole_responses_or_none() {
    let origin = origin_of(150_000);
    let folder = Folder::new();
    let text = config_in(&origin.upstream, "true", &folder.join("cache"));
    for round in 0..5 {
        let server = Server::config(&text);
        let clients = (0..40).map(|number| begin(&server, &format!("/{round}-{number}"), &[]));
        let mut clients: Vec<_> = clients.collect();
        for client in &mut clients[..20] {
            assert_eq!(client.response().body.len(), 150_000);
        }
        // Others are still being received and written.
        drop(server);
        let server = Server::config(&text);
        for number in 0..40 {
            let response = get(&server, &format!("/{round}-{number}"), &[]);
            assert!(response.body.len() == 150_000 && response.body.iter().all(|byte| *byte == b'x'));
        }
    }
}

/// After a power loss, files may have ends that were never written: a file system that writes names before contents leaves zeros.
#[test]
fn ends_of_files_that_were_lost_with_the_power_are_never_sent() {
    let origin = origin_of(150_000);
    let folder = Folder::new();
    let cache = folder.join("cache");
    let text = config_in(&origin.upstream, "true", &cache);
    let damages: [fn(&Path, u64); 3] = [
        |path, length| cut(path, length / 2, None),
        |path, length| cut(path, length / 2, Some(length)),
        |path, length| cut(path, 0, Some(length)),
    ];
    for (damage, is_of_state) in damages.into_iter().flat_map(|damage| [(damage, false), (damage, true)]) {
        let server = Server::config(&text);
        is_stored(&server, "/a");
        drop(server);
        for path in files(&cache).iter().filter(|path| path.ends_with("state") == is_of_state) {
            damage(path, fs::metadata(path).expect("the file exists").len());
        }
        let server = Server::config(&text);
        let response = get(&server, "/a", &[]);
        assert_eq!((handled(&response).as_str(), response.body.len()), ("uri-miss", 150_000));
        assert!(response.body.iter().all(|byte| *byte == b'x'));
        is_stored(&server, "/a");
    }
}

/// Cuts a file, and fills it with zeros up to a length.
fn cut(path: &Path, at: u64, fill: Option<u64>) {
    let file = OpenOptions::new().write(true).open(path).expect("it can be written");
    file.set_len(at)
        .and_then(|()| fill.map_or(Ok(()), |length| file.set_len(length)))
        .expect("it can be written");
}
