//! `rudy replay`: its sources, reports and exit codes.

use rudy_tests::prelude::*;
use serde_json::Value;

const LOG: &str = r#"192.0.2.1 - - [30/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 4 "-" "Firefox"
192.0.2.1 - - [30/Nov/2026:10:00:01 +0000] "GET /a.txt?token=secret HTTP/1.1" 200 5 "-" "Firefox"
192.0.2.1 - - [30/Nov/2026:10:00:01 +0000] "POST /a.txt HTTP/1.1" 405 5 "-" "Firefox"
192.0.2.1 - - [30/Nov/2026:10:00:02 +0000] "\\x16\\x03" 400 5 "-" "-"
"#;

const HAR: &str = r#"{"log":{"entries":[{"request":{"method":"GET","url":"https://example.org/a.txt"}}]}}"#;

fn site(text: &str) -> (Folder, Server) {
    let folder = Folder::with(&[("index.html", "<a href=\"a.txt\">a</a>"), ("a.txt", text)]);
    // The ETag of a file that has just been modified is weak.
    for name in ["index.html", "a.txt"] {
        let file = fs::File::options().write(true).open(folder.join(name)).expect("it is written");
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_hours(24)).expect("the file is ours");
    }
    let server = Server::config(&format!(
        "listen = \"127.0.0.1:0\"\n[[site]]\nroute = [{{ path = \"/*\", files = {:?} }}]\n",
        folder.path().display().to_string()
    ));
    (folder, server)
}

fn sources() -> Folder {
    Folder::with(&[
        ("access.log", LOG),
        ("urls.txt", "/\n/a.txt\n"),
        ("site.har", HAR),
        ("broken.log", "hello\n"),
    ])
}

fn replay(folder: &Folder, servers: [&Server; 2], arguments: &[&str]) -> Output {
    let [old, new] = servers.map(|server| format!("http://{}", server.address()));
    let command = Rudy::command(["replay", &old, &new, "--rate", "10k"]);
    command.args(arguments).folder(folder).output()
}

#[test]
fn equal_servers_have_no_difference_in_any_source() {
    let ((_a, old), (_b, new)) = (site("hello"), site("hello"));
    let folder = sources();
    let crawl = format!("http://{}/", old.address());
    for (arguments, requests) in [
        (["--log", "access.log"], 2),
        (["--urls", "urls.txt"], 2),
        (["--har", "site.har"], 1),
        (["--crawl", &crawl], 2),
    ] {
        let output = replay(&folder, [&old, &new], &arguments);
        assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
        let expected = if requests == 1 { "1 request, no difference" } else { "2 requests, no difference" };
        assert_contains!(output.stdout, expected);
    }
}

#[test]
fn a_difference_is_in_all_reports_without_its_values() {
    let ((_a, old), (_b, new)) = (site("hello"), site("hallo"));
    let folder = sources();
    let output = replay(&folder, [&old, &new], &["--log", "access.log", "--json", "--html", "report.html"]);
    assert_eq!(output.code, Some(3), "{}", output.stderr);
    let report: Value = serde_json::from_str(&output.stdout).expect("it is JSON");
    assert_eq!((&report["requests"], &report["different"]), (&2.into(), &1.into()), "{report}");
    assert_eq!(report["skipped"], serde_json::json!({ "POST": 1, "no request": 1 }));
    let group = &report["groups"][0];
    assert_eq!((&group["kind"], &group["line"], &group["count"]), (&"body".into(), &2.into(), &1.into()));
    let page = fs::read_to_string(folder.join("report.html")).expect("it is written");
    assert_contains!(page, "body of text/plain");
    assert!(!page.contains("secret") && !output.stdout.contains("secret"), "{page}");
}

#[test]
fn what_cannot_run_has_its_exit_code() {
    let (_folder, server) = site("hello");
    let folder = sources();
    let broken = replay(&folder, [&server, &server], &["--log", "broken.log"]);
    assert_contains!(broken.failed_with(2), "broken.log:1: expected the format combined or common");
    let missing = replay(&folder, [&server, &server], &["--log", "none.log"]);
    assert_contains!(missing.failed_with(1), "cannot read none.log");
    let methods = replay(&folder, [&server, &server], &["--log", "access.log", "--methods", "DELETE"]);
    assert_eq!(methods.code, Some(1), "{}", methods.stderr);
    let path = Rudy::command(["replay", "http://127.0.0.1/a", "http://127.0.0.1", "--log", "a"]).output();
    assert_contains!(path.failed_with(2), "http://127.0.0.1/a has a path");
}
