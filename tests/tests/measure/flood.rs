//! Tests `rudy flood` against a server with endless streams.

use rudy_tests::prelude::*;

/// A server that sends a chunk every 50 ms.
const TICKS: &str = "[[site]]\nroute = [{ path = '/test/*', stream = { interval = '50ms' } }]\n";

fn server(sites: &str) -> Server {
    Server::config(&format!("listen = [\"127.0.0.1:0\"]\n{sites}"))
}

fn flood(arguments: &[&str]) -> Output {
    let short = ["-c", "50", "--ramp", "200ms", "--hold", "2s", "--interval", "50ms"];
    Rudy::command(["flood"]).args(short).args(arguments).output()
}

#[test]
fn streams_stay_open_and_the_server_is_sampled() {
    let server = server(TICKS);
    let folder = Folder::new();
    let (pid, plot) = (server.pid().to_string(), folder.text("flood.svg"));
    let report = flood(&["--pid", &pid, "--plot", &plot, "--json", &server.url("/test/{}")]).json();
    assert_members!(report, "opened": 50, "open_at_end": 50, "connect_failed": 0);
    assert_eq!(report["status_classes"][2], 50);
    assert!(report["chunks"].as_u64().is_some_and(|chunks| chunks > 50 * 10), "{report}");
    assert_eq!(report["first_byte_us"]["count"], 50);
    let server = &report["server"];
    assert!(server["private_bytes_per_connection"].as_f64().is_some(), "{server}");
    assert!(server["per_connection_from"].as_u64().is_some_and(|from| (5..50).contains(&from)), "{server}");
    assert_eq!(report["warnings"], json!([]));
    let threads =
        report["series"].as_array().and_then(|series| series.last()).map(|last| &last["server"]["threads"]);
    assert!(threads.and_then(Value::as_array).is_some_and(|threads| !threads.is_empty()), "{report}");
    let svg = folder.read("flood.svg");
    assert!(svg.starts_with("<svg "), "{svg}");
    assert_contains!(svg, "stroke-dasharray", "<polygon");
}

#[test]
fn flood_starts_and_stops_a_server_with_run() {
    let port = ReservedPort::new();
    let address = port.address();
    let folder = Folder::new();
    let config = folder.write("rudy.toml", format!("listen = [\"{address}\"]\n{TICKS}"));
    let command = format!("{} serve --config {}", binary().display(), config.display());
    assert_contains!(
        flood(&["--run", &command, &format!("http://{address}/test/{{}}")]).succeeded(),
        "planned      opened within 200ms, held for 2s\n",
        "opened       50 of 50; 50 open at most, 50 at the end\n",
        " for each connection beyond "
    );
    TcpListener::bind(address).expect("the server has stopped");
}

#[test]
fn connections_stay_idle_after_the_response_with_idle() {
    let server = server("[[site]]\n[[site.route]]\npath = \"/\"\nrespond = { body = \"yes\" }\n");
    let flood = |more: &[&str]| {
        let command = Rudy::command(["flood", "-c", "20", "--ramp", "100ms", "--hold", "500ms", "--json"]);
        command.args(more).arg(server.url("/")).output().json()
    };
    let report = flood(&["--idle"]);
    assert_members!(report, "open_at_end": 20, "closed_by_server": 0);
    assert_eq!((&report["status_classes"][2], &report["chunk_delay_us"]["count"]), (&20.into(), &0.into()));
    let report = flood(&[]);
    assert_members!(report, "open_at_end": 0, "closed_by_server": 20);
    let report = flood(&["--idle", "-H", "Connection: close"]);
    assert_members!(report, "open_at_end": 0, "closed_by_server": 20);
}

#[test]
fn another_process_and_a_url_without_a_stream_are_warnings() {
    let streams = server(TICKS);
    let short = ["-c", "20", "--ramp", "100ms", "--hold", "300ms", "--interval", "50ms"];
    let first_lines = |arguments: &[&str]| {
        let output = Rudy::command(["flood"]).args(short).args(arguments).output();
        output.stdout.lines().take(2).collect::<Vec<_>>().join("\n")
    };
    let own = std::process::id().to_string();
    let text = first_lines(&["--pid", &own, &streams.url("/test/1")]);
    let hint = format!("use --pid {}.", streams.pid());
    assert_contains!(text, &format!("({own}) does not listen at 127.0.0.1:"));
    assert!(text.ends_with(&hint), "{text}");
    let text = first_lines(&[&streams.url("/none")]);
    let warning = "Warning: 20 of 20 responses did not succeed (4xx: 20): check the URL.";
    assert!(text.ends_with(warning), "{text}");
    let page = server("[[site]]\n[[site.route]]\npath = \"/\"\nrespond = { body = \"yes\" }\n");
    let warning = "Warning: 20 of 20 responses ended, so the URL is no endless stream. Use --idle";
    assert_contains!(first_lines(&[&page.url("/")]), warning);
}

#[test]
fn errors_are_reported() {
    let port = ReservedPort::new();
    let url = format!("http://{}/", port.address());
    for (arguments, code, message) in [
        (vec![url.as_str()], 1, "connection refused"),
        (vec!["--run", "sh -c 'exit 3'", &url], 1, "exited before it listened: exit status: 3"),
        (vec!["--pid", "4194304", &url], 1, "4194304"),
        (vec!["ftp://a/"], 2, "is not a URL"),
    ] {
        assert_contains!(flood(&arguments).failed_with(code), message);
    }
}
