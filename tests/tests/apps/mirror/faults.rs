//! Repositories that lie, and damaged files.

use rudy_tests::prelude::*;

use crate::cache::faults::files;
use crate::mirror::{Mirror, Origin, get, get_stored, message};

#[test]
fn a_file_that_is_shorter_than_its_declared_length_is_not_stored() {
    let tries = AtomicUsize::new(0);
    let origin = Origin::start(move |_| match tries.fetch_add(1, Ordering::SeqCst) {
        0 => b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nConnection: close\r\n\r\nhalf".to_vec(),
        _ => message("200 OK", "", "whole"),
    });
    let (_mirror, server) = Mirror::of(&origin, "apt");
    let mut connection = server.send(b"GET /pool/a.deb HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(connection.read_to_end().ends_with(b"\r\n\r\nhalf"), "the connection is closed");
    assert_eq!(get(&server, "/pool/a.deb", &[]).text(), "whole");
    assert_eq!(get_stored(&server, "/pool/a.deb").text(), "whole");
}

#[test]
fn a_stored_file_that_is_damaged_is_fetched_again_or_missing_but_never_sent() {
    let content = "0123456789".repeat(10_000);
    let origin = Origin::with_files(vec![("/pool/a.deb", "text/plain", content.clone())]);
    let (mirror, server) = Mirror::of(&origin, "apt");
    assert_eq!(get(&server, "/pool/a.deb", &[]).text(), content);
    get_stored(&server, "/pool/a.deb");
    drop(server);
    damage(&mirror.path().join("cache"));
    let server = mirror.serve();
    assert_eq!(get(&server, "/pool/a.deb", &[]).text(), content);
    assert_eq!(origin.count(), 2, "it was fetched again");
    get_stored(&server, "/pool/a.deb");
    drop((server, origin));

    damage(&mirror.path().join("cache"));
    assert_eq!(get(&mirror.serve(), "/pool/a.deb", &[]).status, 502);
}

#[test]
fn verify_finds_a_damaged_file() {
    let origin = Origin::with_files(vec![("/pool/a.deb", "text/plain", "0123456789".repeat(10_000))]);
    let (mirror, server) = Mirror::of(&origin, "apt");
    get(&server, "/pool/a.deb", &[]);
    get_stored(&server, "/pool/a.deb");
    drop(server);
    damage(&mirror.path().join("cache"));
    let config = mirror.path().join("rudy.toml");
    assert_contains!(Rudy::command(["cache", "verify"]).arg(config).output().stdout, "1 damaged files");
}

#[test]
fn a_repository_of_unknown_kind_is_an_error_with_the_presets() {
    let mirror = Mirror::new("\"https://repo.example\"");
    let config = mirror.path().join("rudy.toml");
    let text = Rudy::command(["check"]).arg(config).output().stderr;
    assert_contains!(text, "does not name the kind of the repository", "preset = \"...\"", "\"npm\"");
}

/// Changes a byte in the middle of the largest file below a folder.
fn damage(folder: &Path) {
    let path =
        files(folder).into_iter().max_by_key(|path| path.metadata().map_or(0, |metadata| metadata.len()));
    let path = path.expect("there are files");
    let mut bytes = fs::read(&path).expect("it can be read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).expect("it can be written");
}
