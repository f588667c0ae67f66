//! redbot and its linter check responses for conformance with RFC 9110 and RFC 9111.

use rudy_tests::prelude::*;
use rudy_tests::redbot;

use crate::content::{make_older, text};

/// Creates a folder with a page, a text, and a precompressed style sheet.
fn make_site() -> Option<Folder> {
    let gzip = program("gzip")?;
    let site = Folder::new();
    let page = format!("<!doctype html><title>A page</title><p>{}", text(200));
    let style = "body { color: black }\n".repeat(200);
    for (name, content) in [("page.html", page), ("text.txt", text(5000)), ("style.css", style)] {
        site.write(name, content);
        make_older(&site.join(name));
    }
    fs::create_dir(site.join("folder")).expect("a temp folder can be written");
    let zipped = Command::new(gzip).arg("--keep").arg(site.join("style.css")).status();
    assert!(zipped.is_ok_and(|status| status.success()), "gzip does not work");
    Some(site)
}

fn serve(site: &Folder, cache_control: &str) -> Server {
    let root = site.path().display();
    Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/*\"\n\
         files = {{ root = \"{root}\", browse = true, cache_control = [{cache_control}] }}\n"
    ))
}

const AN_HOUR: &str = "{ pattern = \"*\", value = \"max-age=3600\" }";

/// Returns the names of redbot's warnings for a URL. It sends several requests: plain, with a range,
/// compressed, and with each condition.
fn warnings(redbot: &Path, url: &str) -> Vec<String> {
    let output = Command::new(redbot).args(["--output-format", "har", url]).output().expect("redbot starts");
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("redbot: {}", String::from_utf8_lossy(&output.stderr)));
    let entries = report["log"]["entries"].as_array().expect("a HAR report");
    let notes: Vec<_> =
        entries.iter().filter_map(|entry| entry["_red_messages"].as_array()).flatten().collect();
    // Every response also gets positive notes; without any, redbot did not check it.
    for expected in ["DATE_CORRECT", "CL_CORRECT", "INM_304"] {
        assert!(notes.iter().any(|note| note["note_id"] == expected), "{url}: no {expected} in {notes:#?}");
    }
    let bad = notes.iter().filter(|note| note["level"] != "GOOD" && note["level"] != "INFO");
    bad.map(|note| note["note_id"].as_str().expect("a note has its name").to_owned()).collect()
}

#[test]
fn redbot_has_no_warnings() {
    let (Some(redbot), Some(site)) = (redbot(), make_site()) else { return };
    let server = serve(&site, AN_HOUR);
    for path in ["/page.html", "/text.txt", "/style.css"] {
        assert_eq!(warnings(&redbot, &server.url(path)), [""; 0], "{path}");
    }
}

#[test]
fn without_cache_control_freshness_is_heuristic() {
    let (Some(redbot), Some(site)) = (redbot(), make_site()) else { return };
    let server = serve(&site, "");
    // Without `cache_control`, Rudy sends no freshness information: a guess would be wrong for some sites.
    assert_eq!(warnings(&redbot, &server.url("/page.html")), ["FRESHNESS_HEURISTIC"]);
}

/// Returns the warnings of redbot's linter for a raw response.
fn lint(redbot: &Path, response: &[u8]) -> Vec<String> {
    let mut command = Command::new(redbot.with_file_name("httplint"));
    command.arg("--now").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("httplint is in the folder of redbot");
    child.stdin.take().expect("the stream is piped").write_all(response).expect("httplint reads");
    let report = Output::wait(child).succeeded();
    let notes: Vec<_> = report.lines().map(str::trim).filter(|line| line.starts_with("* [")).collect();
    assert!(!notes.is_empty(), "httplint did not check it: {report}");
    // The linter uses its own time as the time of arrival, and may start late on a busy machine.
    let is_clock_skew = |note: &str| note.contains(" The server's clock is ") && note.ends_with(" behind.");
    let is_bad = |note: &str| !note.starts_with("* [GOOD]") && !note.starts_with("* [INFO]");
    let bad = notes.iter().filter(|note| is_bad(note) && !is_clock_skew(note));
    bad.map(|note| note.trim_start_matches("* ").to_owned()).collect()
}

#[test]
fn its_linter_has_no_warnings_for_any_kind_of_response() {
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
        let response =
            curl.run(arguments.iter().copied().chain(["--include", "--raw", "--path-as-is", &url]));
        assert_eq!(response.status(), status, "{path} {arguments:?}");
        assert_eq!(lint(&redbot, &response.body), [""; 0], "{path} {arguments:?}:\n{}", response.heads);
    }
}

/// Expected warnings of the linter, with the reasons.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[
    // A multipart response must not have this field (RFC 9110 §15.3.7.2); its parts have it.
    (
        "/text.txt",
        &["--range", "0-9,100-109"],
        "[BAD] This response is partial, but doesn't have a Content-Range header.",
    ),
    // A permanent redirect may be cached for any time.
    ("/folder", &[], "[WARN] This response allows caches to assign their own freshness lifetimes to it."),
    // A listing is generated for each request, because it may change without the folder's modification time.
    ("/folder/", &[], NO_VALIDATOR),
    ("/folder/", &["--header", "Accept: application/json"], NO_VALIDATOR),
];

const NO_VALIDATOR: &str =
    "[WARN] This response cannot be served from cache without validation, and doesn't have a validator.";

#[test]
fn the_warnings_of_its_linter_are_the_expected_ones() {
    let (Some(redbot), Some(site), Some(curl)) = (redbot(), make_site(), Curl::find()) else { return };
    let server = serve(&site, AN_HOUR);
    for (path, arguments, warning) in EXCEPTIONS {
        let url = server.url(path);
        let response = curl.run(arguments.iter().copied().chain(["--include", "--raw", &url]));
        assert_eq!(lint(&redbot, &response.body), [*warning], "{path} {arguments:?}:\n{}", response.heads);
    }
}
