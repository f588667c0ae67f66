//! Tests the output, files and exit codes of `rudy bench` against `rudy serve`.

use rudy_stats::Histogram;
use rudy_tests::prelude::*;

fn command(arguments: &[&str]) -> Rudy {
    Rudy::command(["bench"]).args(arguments)
}

fn bench(arguments: &[&str]) -> Output {
    command(arguments).output()
}

/// Returns the stdout of a successful run.
fn report(arguments: &[&str]) -> String {
    bench(arguments).succeeded()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&report(&[arguments, &["--json", "-"]].concat())).expect("a report is JSON")
}

/// Returns the stderr of a run that ends with this code and without output.
#[track_caller]
fn rejection(code: i32, arguments: &[&str]) -> String {
    let output = bench(arguments);
    assert_eq!(output.stdout, "");
    output.failed_with(code)
}

fn server() -> Server {
    Server::files(&[("index.html", b"hello"), ("other", b"other one")])
}

#[test]
fn an_earlier_report_stays_if_nothing_listens() {
    let folder = Folder::new();
    let file = &folder.text("report");
    let url = format!("http://127.0.0.1:{}/", free_port());
    for arguments in [
        &["bench", "-n", "1", "--json", file, &url][..],
        &["bench", "-n", "1", "--hgrm", file, &url],
        &["bench", "-n", "1", "--ndjson", file, &url],
        &["bench", "merge", "--json", file, "/nonexistent"],
        &["get", "-o", file, &url],
    ] {
        folder.write("report", "an earlier report");
        assert!(!Rudy::run(arguments).is_success(), "{arguments:?}");
        assert_eq!(folder.read("report"), "an earlier report", "{arguments:?}");
        fs::remove_file(file).expect("the file can be removed");
        let is_success = Rudy::run(arguments).is_success();
        assert!(!is_success && !folder.join("report").exists(), "no empty file: {arguments:?}");
    }
}

#[test]
fn a_run_prints_its_load_and_its_results() {
    let server = server();
    let output = bench(&["-n", "500", "-c", "4", "-t", "2", &server.url("/")]).with_code(0);
    let stderr = &output.stderr;
    let line = format!("4 connections, 2 threads, closed loop, 500 requests to {}\n", server.address());
    assert!(stderr.starts_with(&line), "{stderr}");
    let text = &output.stdout;
    assert_contains!(
        text,
        "succeeded    100 % of 500",
        "200: 500\n",
        "bodies 2.44 KiB\n",
        "4 opened\n",
        "  99 % "
    );
    let last: Vec<_> = text.lines().rev().take(2).collect();
    assert!(last[0].starts_with("Transfer/sec: ") && last[1].starts_with("Requests/sec: "), "{text}");
}

#[test]
fn the_arguments_of_wrk_work() {
    let server = server();
    let text =
        bench(&["-t2", "-c8", "-d100ms", "-T5s", "--latency", "-H", "X-A: b", &server.url("/")]).succeeded();
    assert!(text.contains("8 connections, 2 threads") && text.contains("100 % of "), "{text}");
}

#[test]
fn a_list_has_methods_and_bodies_and_errors_show_the_line() {
    let server = server();
    let folder = Folder::with(&[("body", "x=1")]);
    let (index, other) = (server.url("/"), server.url("/other"));
    // The 405 shows that the request was a POST.
    folder.write("list", format!("3 {index}\nPOST {other} @{}\n", folder.text("body")));
    let path = &folder.text("list");
    let report = json(&["-n", "8", "-c", "1", "--urls", path]);
    assert_members!(report["status_codes"], "200": 6, "405": 2);
    folder.write("list", format!("{index}\n{other} 0\n"));
    let stderr = rejection(2, &["-n", "8", "--urls", path]);
    let expected = format!("error: {path}:2: \"0\" is not a weight (expected an integer");
    assert!(stderr.starts_with(&expected), "{stderr}");
}

#[test]
fn stdout_has_only_json_with_json() {
    let server = server();
    let report = json(&["-n", "300", "-c", "3", &server.url("/")]);
    assert_eq!(
        (&report["requests"], &report["succeeded"], &report["status_codes"]["200"]),
        (&300.into(), &300.into(), &300.into())
    );
    assert_eq!((&report["config"]["connections"], &report["is_interrupted"]), (&3.into(), &false.into()));
    assert!(report["latency_us"]["p99"].as_f64().is_some_and(|p99| p99 > 0.0), "{report}");
}

#[test]
fn at_a_rate_all_due_requests_are_sent() {
    let server = server();
    let report = json(&["-R", "500", "-d", "400ms", "--warm-up-time", "0", "-c", "8", &server.url("/")]);
    let count = |key: &str| report[key].as_u64().expect("a count");
    assert_eq!((count("sent"), count("requests")), (200, 200));
    assert_eq!(report["target_rate"], 500.0);
    assert!(report["rate_ratio"].is_f64() && report["max_schedule_delay_us"].is_f64(), "{report}");
}

#[test]
fn the_sum_of_the_rows_is_the_report() {
    let server = server();
    let folder = Folder::new();
    let (rows, whole, url) = (&folder.text("rows"), &folder.text("whole"), server.url("/"));
    let run =
        ["-c", "4", "-t", "2", "-d", "450ms", "--interval", "100ms", "--ndjson", rows, "--json", whole, &url];
    let text = report(&run);
    assert!(text.contains("Requests/sec:"), "a file of JSON does not replace the text");
    let whole: Value = serde_json::from_str(&folder.read("whole")).expect("JSON");
    let rows = folder.read("rows");
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).expect("JSON")).collect();
    assert!(rows.len() >= 5, "four whole intervals and the rest");
    for key in ["requests", "sent", "succeeded", "received_bytes", "body_bytes", "connections_opened"] {
        let sum: u64 = rows.iter().map(|row| row[key].as_u64().expect("a count")).sum();
        assert_eq!(Some(sum), whole[key].as_u64(), "{key}");
    }
    let histogram = |row: &Value| match &row["latency_histogram"] {
        Value::String(blob) => Histogram::from_base64(blob).expect("a histogram"),
        _ => Histogram::new(),
    };
    let mut sum = Histogram::new();
    for row in &rows {
        sum.merge(&histogram(row));
    }
    assert_eq!(sum, histogram(&whole));
}

#[test]
fn the_distribution_is_written_for_plotters() {
    let server = server();
    let text = report(&["-n", "50", "-c", "2", "--hgrm", "-", &server.url("/")]);
    assert!(text.starts_with("       Value     Percentile TotalCount 1/(1-Percentile)\n"), "{text}");
    let text = report(&["-n", "50", "-c", "2", "--latency", &server.url("/")]);
    assert!(text.contains("1/(1-Percentile)") && text.contains("Requests/sec:"), "{text}");
}

#[test]
fn failed_responses_are_counted_with_an_example() {
    let server = server();
    let longer = bench(&["-n", "20", "-c", "2", "--expect-bytes", "6", &server.url("/")]);
    assert_contains!(longer.stdout, "unexpected_body         20  a body of 5 bytes instead of 6\n");
    let body = server.path().text("other");
    let expected = report(&["-n", "20", "-c", "2", "--expect-body", &body, &server.url("/other")]);
    assert!(expected.contains("succeeded    100 % of 20"), "{expected}");
}

#[test]
fn urls_of_a_file_are_requested_by_their_weights() {
    let server = server();
    server.path().write("urls", format!("# often\n{} 3\n{}\n", server.url("/"), server.url("/missing")));
    let report = json(&["-n", "40", "-c", "2", "-t", "1", "--urls", &server.path().text("urls")]);
    assert_members!(report["status_codes"], "200": 30, "404": 10);
}

#[test]
fn a_unix_socket_can_be_measured() {
    let folder = Folder::with(&[("index.html", "hello")]);
    let socket = &folder.text("socket");
    let listen = format!("unix:{socket}");
    let _server = Server::build().arg(folder.path()).args(["--listen", &listen]).start();
    let text = report(&["-n", "20", "-c", "2", "--unix-socket", socket, "http://localhost/"]);
    assert!(text.contains("succeeded    100 % of 20"), "{text}");
}

#[test]
fn connections_use_the_given_source_addresses() {
    let folder = Folder::new();
    let log = folder.join("log");
    let mut server = Server::build().files(&[("index.html", b"hello")]).arg("--access-log").arg(log).start();
    let text = report(&["-n", "9", "-c", "4", "--sources", "127.0.0.4/30", &server.url("/")]);
    assert!(text.contains("succeeded    100 % of 9"), "{text}");
    // A separate thread writes the log. It is complete when the server has exited.
    server.stop();
    let log = folder.read("log");
    for source in ["127.0.0.4 - -", "127.0.0.5 - -", "127.0.0.6 - -"] {
        assert!(log.lines().any(|line| line.starts_with(source)), "{log}");
    }
}

/// Starts a run, and waits until it has printed its first interval.
fn running(server: &Server, arguments: &[&str]) -> Child {
    let url = server.url("/");
    let run = ["-d", "600", "--warm-up-time", "0", "--interval", "100ms", "-c", "2", &url];
    let mut child = command(&[&run, arguments].concat()).spawn();
    let stderr = child.stderr.as_mut().expect("the stream is piped");
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains(" req/s  p50 ")), "an interval is printed");
    child
}

#[test]
fn ctrl_c_ends_a_run_with_the_report_so_far() {
    let server = server();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut child = running(&server, &[]);
        kill_process(Pid::from_child(&child), signal).expect("the process is running");
        let text = std::io::read_to_string(child.stdout.take().expect("the stream is piped")).expect("text");
        assert_eq!(child.wait().expect("the child can be waited for").code(), Some(code));
        assert_contains!(text, "\nInterrupted: partial results.\n", "Requests/sec:");
    }
}

#[test]
fn a_closed_stdout_is_not_a_failure() {
    let server = server();
    let mut child = running(&server, &[]);
    drop(child.stdout.take());
    kill_process(Pid::from_child(&child), Signal::INT).expect("the process is running");
    let stderr = std::io::read_to_string(child.stderr.take().expect("the stream is piped")).expect("text");
    assert_eq!(child.wait().expect("the child can be waited for").code(), Some(130), "{stderr}");
    assert!(!stderr.contains("error"), "{stderr}");
}

#[test]
fn a_full_disk_is_reported_with_exit_code_1() {
    let server = server();
    let full = fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let output = command(&["-n", "10", "-c", "1", &server.url("/")]).stdout(full).output();
    assert_contains!(output.failed_with(1), "error: cannot write to standard output: No space left");
}

#[test]
fn a_missing_server_is_exit_code_1_and_an_invalid_flag_2() {
    let port = ReservedPort::new();
    let free = port.address();
    let stderr = rejection(1, &["-d", "1", &format!("http://{free}/")]);
    assert!(stderr.ends_with(&format!("error: {free}: could not connect: connection refused\n")), "{stderr}");
    let stderr = rejection(2, &["-c", "2", "-t", "3", &format!("http://{free}/")]);
    assert_contains!(stderr, "error: 3 threads are more than the 2 connections");
    let stderr = rejection(1, &["--json", "/nowhere/report", &format!("http://{free}/")]);
    assert!(stderr.starts_with("error: cannot write to /nowhere/report: "), "{stderr}");
}

#[test]
fn an_objective_that_is_not_met_is_exit_code_3() {
    let server = server();
    let (index, missing) = (server.url("/"), server.url("/missing"));
    let limits = ["--max-p99", "10s", "--max-error-rate", "0%"];
    report(&[&["-n", "300", "-c", "2", "-R", "3k", &index][..], &limits].concat());
    report(&[&["-n", "300", "-c", "2", "--closed-loop-latency", &index][..], &limits].concat());
    for (limit, expected) in [
        (&["--max-p99", "1us", "-R", "3k"][..], "error: the objective was not met: p99 "),
        (&["--max-p99", "1us", "--closed-loop-latency"], "error: the objective was not met: p99 "),
        (&["--max-error-rate", "0.1%"], "error: the objective was not met: errors 50 % > 0.1 %"),
        (&["--max-error-rate", "0.001"], "error: the objective was not met: errors 50 % > 0.1 %"),
    ] {
        let output = bench(&[&["-n", "200", "-c", "2", &index, &missing][..], limit].concat()).with_code(3);
        assert_contains!(output.stderr, expected);
        assert!(output.stdout.contains("Requests/sec:"), "the report is printed");
    }
}

/// A closed loop would pass although it hides stalls.
#[test]
fn an_objective_about_latency_needs_a_rate() {
    let url = "http://127.0.0.1:1/";
    for load in [&["-d", "1"][..], &["-n", "300"], &["-c", "1", "--max-error-rate", "1%"]] {
        let stderr = rejection(2, &[load, &["--max-p99", "20ms", url]].concat());
        assert!(stderr.contains("--max-p99 needs a rate (-R)") && stderr.contains("-R 2k"), "{stderr}");
    }
    // It allows nothing without a limit.
    rejection(2, &["--closed-loop-latency", url]);
}

#[test]
fn a_run_without_any_success_is_exit_code_1() {
    let server = server();
    let output = bench(&["-n", "20", "-c", "2", &server.url("/missing")]).with_code(1);
    assert!(output.stderr.ends_with("error: no request succeeded\n"), "{output:?}");
    assert!(output.stdout.contains("status_4xx              20  404: 20\n"), "{output:?}");
}

#[test]
fn flags_of_other_tools_have_hints() {
    let url = "http://127.0.0.1:1/";
    for (arguments, hint) in [
        (&["--rps", "100", url][..], "set the rate of all connections together with -R RATE"),
        (&["-d", "{\"a\": 1}", url], "-d is the duration; send a body with -b"),
        (&["-d", "a=1", url], "-d is the duration; send a body with -b"),
    ] {
        let stderr = rejection(2, arguments);
        assert_contains!(stderr, hint);
    }
}

/// Returns the output of a run on a terminal of 24 by 80. Uses `script`, which every Linux has.
fn on_a_terminal(environment: &str, arguments: &str) -> String {
    let server = server();
    let command = format!(
        "stty rows 24 cols 80; {environment} exec {} bench -c 2 -d 300ms --interval 100ms --warm-up-time 0 {arguments} {}",
        binary().display(),
        server.url("/")
    );
    Output::of(Command::new("script").args(["-qec", &command, "/dev/null"]).stdin(Stdio::null())).succeeded()
}

/// The escape sequences that switch to the alternate screen and back.
const ENTER_SCREEN: &str = "\x1b[?1049h";
const LEAVE_SCREEN: &str = "\x1b[?1049l";

#[test]
fn on_a_terminal_the_run_is_drawn_on_the_alternate_screen() {
    let sent = on_a_terminal("TERM=xterm NO_COLOR=", "");
    let (drawn, after) = sent.split_once(LEAVE_SCREEN).expect("the alternate screen is left");
    let (before, drawn) = drawn.split_once(ENTER_SCREEN).expect("the alternate screen is entered");
    assert!(before.starts_with("2 connections, "), "{before}");
    assert!(
        drawn.contains("Ctrl-C ends the run") && drawn.contains("p99.9") && drawn.contains("\x1b[38;5;"),
        "{drawn:?}"
    );
    assert!(after.contains("\nRequests/sec: "), "{after}");
    let plain = on_a_terminal("TERM=xterm NO_COLOR=1", "");
    assert!(plain.contains(ENTER_SCREEN) && !plain.contains("\x1b[38;5;"), "{plain:?}");
}

#[test]
fn plain_output_has_lines_without_escapes() {
    for (environment, arguments) in [("TERM=xterm", "--plain"), ("TERM=dumb", ""), ("TERM=", "")] {
        let sent = on_a_terminal(environment, arguments);
        assert!(!sent.contains('\x1b'), "{environment} {arguments}: {sent:?}");
        assert!(sent.contains(" req/s  p50 "), "{environment} {arguments}: {sent}");
    }
}
