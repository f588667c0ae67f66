//! redbot and its linter read our answers with the eyes of RFC 9110 and RFC 9111.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use rudy_tests::{Curl, Server, program, redbot};
use serde_json::Value;
use tempfile::TempDir;

use crate::content::{make_older, text};

/// A folder with a page, a text, and a style sheet that is compressed beforehand.
fn make_site() -> Option<TempDir> {
    let gzip = program("gzip")?;
    let site = tempfile::tempdir().expect("a temp folder can be made");
    let page = format!("<!doctype html><title>A page</title><p>{}", text(200));
    let style = "body { color: black }\n".repeat(200);
    for (name, content) in [("page.html", page), ("text.txt", text(5000)), ("style.css", style)] {
        fs::write(site.path().join(name), content).expect("a temp folder can be written");
        make_older(&site.path().join(name));
    }
    fs::create_dir(site.path().join("folder")).expect("a temp folder can be written");
    let zipped = Command::new(gzip).arg("--keep").arg(site.path().join("style.css")).status();
    assert!(zipped.is_ok_and(|status| status.success()), "gzip does not work");
    Some(site)
}

fn serve(site: &TempDir, cache_control: &str) -> Server {
    let root = site.path().display();
    Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/*\"\n\
         files = {{ root = \"{root}\", browse = true, cache_control = [{cache_control}] }}\n"
    ))
}

const AN_HOUR: &str = "{ pattern = \"*\", value = \"max-age=3600\" }";

/// What redbot has against what this URL answers: the names of its notes. It asks several times: for a range, for a
/// compressed answer, and with each condition.
fn objections(redbot: &Path, url: &str) -> Vec<String> {
    let output = Command::new(redbot).args(["--output-format", "har", url]).output().expect("redbot starts");
    let told: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("redbot said {}", String::from_utf8_lossy(&output.stderr)));
    let entries = told["log"]["entries"].as_array().expect("what HAR looks like");
    let notes: Vec<_> =
        entries.iter().filter_map(|entry| entry["_red_messages"].as_array()).flatten().collect();
    // Every answer has good sides as well: without any note it has not been looked at.
    for praised in ["DATE_CORRECT", "CL_CORRECT", "INM_304"] {
        assert!(notes.iter().any(|note| note["note_id"] == praised), "{url}: no {praised} in {notes:#?}");
    }
    let bad = notes.iter().filter(|note| note["level"] != "GOOD" && note["level"] != "INFO");
    bad.map(|note| note["note_id"].as_str().expect("a note has its name").to_owned()).collect()
}

#[test]
fn redbot_has_nothing_to_object_to() {
    let (Some(redbot), Some(site)) = (redbot(), make_site()) else { return };
    let server = serve(&site, AN_HOUR);
    for path in ["/page.html", "/text.txt", "/style.css"] {
        assert_eq!(objections(&redbot, &server.url(path)), [""; 0], "{path}");
    }
}

#[test]
fn how_long_to_keep_a_file_is_left_to_the_operator() {
    let (Some(redbot), Some(site)) = (redbot(), make_site()) else { return };
    let server = serve(&site, "");
    // Without `cache_control` nothing is said of it: our guess would be wrong for somebody.
    assert_eq!(objections(&redbot, &server.url("/page.html")), ["FRESHNESS_HEURISTIC"]);
}

/// What redbot's linter has against an answer as it came over the wire.
fn lint(redbot: &Path, answer: &[u8]) -> Vec<String> {
    let mut command = Command::new(redbot.with_file_name("httplint"));
    command.arg("--now").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("httplint stands beside redbot");
    child.stdin.take().expect("it was asked for").write_all(answer).expect("httplint reads");
    let output = child.wait_with_output().expect("httplint ends");
    assert!(output.status.success(), "httplint: {}", output.status);
    let told = String::from_utf8(output.stdout).expect("httplint writes UTF-8");
    let notes: Vec<_> = told.lines().map(str::trim).filter(|line| line.starts_with("* [")).collect();
    assert!(!notes.is_empty(), "httplint has not looked at it: {told}");
    // It takes the time at which it looks for that at which the answer came, and on a busy machine it starts late.
    let is_of_its_own = |note: &str| note.contains(" The server's clock is ") && note.ends_with(" behind.");
    let is_bad = |note: &str| !note.starts_with("* [GOOD]") && !note.starts_with("* [INFO]");
    let bad = notes.iter().filter(|note| is_bad(note) && !is_of_its_own(note));
    bad.map(|note| note.trim_start_matches("* ").to_owned()).collect()
}

#[test]
fn its_linter_has_nothing_against_any_kind_of_answer() {
    let (Some(redbot), Some(site), Some(curl)) = (redbot(), make_site(), Curl::find()) else { return };
    let server = serve(&site, AN_HOUR);
    for (status, path, arguments) in [
        (200, "/text.txt", vec![]),
        (200, "/text.txt", vec!["--header", "Accept-Encoding: gzip"]),
        (200, "/text.txt", vec!["--header", "Accept-Encoding: br"]),
        (200, "/style.css", vec!["--header", "Accept-Encoding: gzip"]),
        (204, "/text.txt", vec!["--request", "OPTIONS"]),
        (206, "/text.txt", vec!["--range", "0-99"]),
        (206, "/style.css", vec!["--range", "-9", "--header", "Accept-Encoding: gzip"]),
        (304, "/text.txt", vec!["--header", "If-None-Match: *"]),
        (404, "/missing", vec![]),
        (405, "/text.txt", vec!["--data", "body"]),
        (412, "/text.txt", vec!["--header", "If-Match: \"other\""]),
        (416, "/text.txt", vec!["--range", "9999999-"]),
    ] {
        let url = server.url(path);
        let answer = curl.run(arguments.iter().copied().chain(["--include", "--raw", "--path-as-is", &url]));
        assert_eq!(answer.status(), status, "{path} {arguments:?}");
        assert_eq!(lint(&redbot, &answer.body), [""; 0], "{path} {arguments:?}:\n{}", answer.heads);
    }
}

/// What the linter objects to, and why it stays so.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[
    // Such an answer must not have one (RFC 9110 §15.3.7.2): its parts have.
    (
        "/text.txt",
        &["--range", "0-9,100-109"],
        "[BAD] This response is partial, but doesn't have a Content-Range header.",
    ),
    // A redirection to where it is for good may be kept as long as a cache likes.
    ("/folder", &[], "[WARN] This response allows caches to assign their own freshness lifetimes to it."),
    // A listing is made anew for everybody, and must be: what it shows may change without the folder's own time.
    ("/folder/", &[], NO_VALIDATOR),
    ("/folder/", &["--header", "Accept: application/json"], NO_VALIDATOR),
];

const NO_VALIDATOR: &str =
    "[WARN] This response cannot be served from cache without validation, and doesn't have a validator.";

#[test]
fn what_its_linter_objects_to_has_a_reason() {
    let (Some(redbot), Some(site), Some(curl)) = (redbot(), make_site(), Curl::find()) else { return };
    let server = serve(&site, AN_HOUR);
    for (path, arguments, objection) in EXCEPTIONS {
        let url = server.url(path);
        let answer = curl.run(arguments.iter().copied().chain(["--include", "--raw", &url]));
        assert_eq!(lint(&redbot, &answer.body), [*objection], "{path} {arguments:?}:\n{}", answer.heads);
    }
}
