//! Tests `rudy conns --watch` with the polling client of the lab, which leaks sockets, and with its repaired
//! version.

use rudy_tests::prelude::*;

/// A running polling client. It is killed when this is dropped.
struct Client(Running);

impl Client {
    /// Starts the client with this pace per second and limit of descriptors, and waits until it polls.
    fn start(version: &str, pace: &str, limit: &str, server: &Server) -> Option<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../labs/peers/polling-client.py");
        let mut child: Running = Command::new(program("python3")?)
            .arg(script)
            .args([version, pace, limit, &server.address().port().to_string(), "/a"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 can be started")
            .into();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("the stream is piped"));
        stdout.read_line(&mut line).expect("the client writes a line");
        child.stdout = Some(stdout.into_inner());
        assert!(line.starts_with("polling"), "{line}");
        Some(Self(child))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

fn conns(arguments: &[&str]) -> Output {
    Rudy::command(["conns"]).args(arguments).output()
}

#[test]
fn a_client_that_skips_close_after_an_error_is_caught() {
    let server = Server::files(&[("a", b"a")]);
    let Some(client) = Client::start("leaking", "50", "100000", &server) else { return };
    let watch = ["--watch", "20ms", "--min-time", "2s", "--until-leak", "--for", "2m"];
    let text = conns(&[&[client.pid().as_str()], &watch[..]].concat()).with_code(4).stdout;
    let verdict = text.lines().find(|line| line.starts_with("Leak: ")).expect("there is a verdict");
    assert!(verdict.starts_with("Leak: sockets in no table grow by "), "{verdict}");
    assert!(verdict.contains("; descriptors run out in "), "{verdict}");
    assert_contains!(conns(&[&client.pid()]).stdout, "TCP", "closed, never bound, or in another network");
}

#[test]
fn a_client_that_always_closes_is_not_accused() {
    let server = Server::files(&[("a", b"a")]);
    let Some(client) = Client::start("repaired", "50", "100000", &server) else { return };
    // Longer than growth must persist; its TIME_WAIT sockets grow all the while. A number of samples, because a busy
    // machine takes longer for it.
    let watch = ["--watch", "20ms", "--min-time", "500ms", "--count", "150", "--json"];
    let text = conns(&[&[client.pid().as_str()], &watch[..]].concat()).succeeded();
    let last: Value = serde_json::from_str(text.lines().last().expect("a watch has lines")).expect(&text);
    assert_eq!((&last["verdict"], last["leaks"].as_array().map(Vec::len)), (&"no_leak".into(), Some(0)));
}

#[test]
fn a_process_that_has_used_all_its_descriptors_leaks() {
    let server = Server::files(&[("a", b"a")]);
    let Some(client) = Client::start("leaking", "20", "64", &server) else { return };
    // The descriptors run out before the minimum time.
    let watch = ["--watch", "20ms", "--min-time", "1h", "--until-leak", "--for", "2m", "--json"];
    let text = conns(&[&[client.pid().as_str()], &watch[..]].concat()).with_code(4).stdout;
    let last: Value = serde_json::from_str(text.lines().last().expect("a watch has lines")).expect(&text);
    assert_eq!((&last["verdict"], &last["leaks"][0]["counter"]), (&"leak".into(), &"in_no_table".into()));
    assert_eq!(last["descriptors_limit"], 64);
}

#[test]
fn the_process_is_found_by_its_port() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("the listener is bound").port().to_string();
    for arguments in [&[format!(":{port}")][..], &["--port".to_owned(), port.clone()]] {
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let output = conns(&arguments);
        assert!(output.stdout.contains(&format!("(pid {})", std::process::id())), "{}", output.stdout);
    }
}

#[test]
fn a_process_id_in_the_place_of_the_interval_is_explained() {
    for (id, expected) in [("1234567", "`rudy conns 1234567 --watch`"), ("500", "`rudy conns 500 --watch`")] {
        let stderr = conns(&["--watch", id]).failed_with(2);
        assert!(stderr.contains(expected), "{stderr}");
    }
}
