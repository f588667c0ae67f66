//! Tests the output of `rudy http_load`, which existing scripts parse, against a real server.

use rudy_tests::prelude::*;

/// Starts a server with two files, and writes their URLs to a file.
fn site() -> (Server, Folder, PathBuf) {
    let server = Server::files(&[("a", b"five\n"), ("b", b"eight by\n")]);
    let folder = Folder::new();
    let urls = folder.write("urls", format!("{}\n{}\n", server.url("/a"), server.url("/b")));
    (server, folder, urls)
}

fn http_load(arguments: &str, urls: &PathBuf) -> Output {
    let arguments = arguments.split_whitespace();
    Rudy::command(["http_load"]).args(arguments).arg(urls).output()
}

#[test]
fn the_summary_has_the_lines_of_http_load() {
    let (_server, _folder, urls) = site();
    let output = http_load("-parallel 5 -fetches 40", &urls);
    let text = output.stdout;
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("40 fetches, 5 max parallel, 280 bytes, in "), "{text}");
    assert_eq!(lines[1], "7 mean bytes/connection");
    assert!(lines[2].contains(" fetches/sec, ") && lines[2].ends_with(" bytes/sec"), "{text}");
    assert!(lines[3].starts_with("msecs/connect: ") && lines[3].ends_with(" min"), "{text}");
    assert!(lines[4].starts_with("msecs/first-response: "), "{text}");
    assert_eq!(lines[5..], ["0 bad byte counts", "HTTP response codes:", "  code 200 -- 40"]);
    assert_eq!((output.code, output.stderr.len()), (Some(0), 0));
}

#[test]
fn a_rate_determines_the_number_of_fetches() {
    let (_server, _folder, urls) = site();
    let output = http_load("-rate 50 -jitter -seconds 1 -anybytes", &urls);
    let text = output.stdout;
    let fetches: u32 =
        text.split(' ').next().and_then(|word| word.parse().ok()).expect("a number of fetches");
    // The jitter can move the last ones across the end.
    assert!((47..=54).contains(&fetches), "{text}");
    assert!(!text.contains("bad"), "{text}");
}

#[test]
fn changed_bodies_are_reported_with_checksum_and_not_with_anybytes() {
    let server = Server::config("[[site]]\nroute = [{ path = '/', info = { allow = 'loopback' } }]\n");
    let folder = Folder::new();
    let urls = folder.write("urls", server.url("/"));
    let output = http_load("-parallel 1 -fetches 20 -checksum", &urls);
    let text = output.stdout;
    // Each response contains the number of its connection.
    assert!(text.contains("\n19 bad checksums\n"), "{text}");
    let output = http_load("-parallel 1 -fetches 20 -anybytes", &urls);
    assert!(!output.stdout.contains("bad"));
}

#[test]
fn an_error_shows_the_usage() {
    let (_server, _folder, urls) = site();
    let output = http_load("-parallel 5", &urls);
    let text = output.stderr;
    assert!(text.starts_with("error: expected either -fetches or -seconds\n"), "{text}");
    assert!(text.contains("Usage: rudy http_load"), "{text}");
    assert_eq!(output.code, Some(2));
}
