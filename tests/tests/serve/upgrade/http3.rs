//! Connections over QUIC during upgrades: both processes have the sockets, and one reads for both.

use rudy_tests::prelude::*;

use crate::upgrade::rig::{Rig, wait_for_exit};

/// More than fits into the buffers of a connection, so that the response needs acknowledgements until its end.
const LARGE_BYTES: usize = 4 << 20;

/// A configuration with a large file that takes four seconds.
fn text(port: u16, body: &str, more: &str) -> String {
    format!(
        "listen = '127.0.0.1:{port},tls'\nshutdown_timeout = '30s'\n{more}\n[[site]]\ntls = 'self-signed'\nroute = [\n\
         {{ path = '/large', files = '.', bandwidth = '1m' }},\n\
         {{ path = '/*', respond = {{ body = '{body}' }} }}]\n"
    )
}

struct Http3 {
    rig: Rig,
    port: u16,
}

impl Http3 {
    fn start(more: &str) -> Self {
        let port = free_port();
        let rig = Rig::start(&text(port, "old", more));
        rig.server.path().write("large", vec![b'x'; LARGE_BYTES]);
        Self { rig, port }
    }

    fn get(&self) -> String {
        let got = Rudy::run(["get", "--http3", "--insecure", &self.url("/")]);
        assert_eq!(got.code, Some(0), "{}", got.stderr);
        got.stdout
    }

    fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    /// Begins the download of the large file, and returns when it has begun.
    fn begin_download(&self) -> Download {
        let (url, path) = (self.url("/large"), self.rig.server.path().join("received"));
        // Left by the download before.
        let _ = fs::remove_file(&path);
        let received = path.to_str().unwrap().to_owned();
        let client =
            thread::spawn(move || Rudy::run(["get", "--http3", "--insecure", &url, "-o", &received]));
        let has_begun = || fs::metadata(&path).is_ok_and(|file| file.len() > 0);
        wait_until("the download has begun", has_begun);
        Download { client, path }
    }

    /// Replaces the process by one with this body and these settings.
    fn upgrade(&mut self, body: &str, more: &str) -> Pid {
        self.rig.rewrite(&text(self.port, body, more));
        self.rig.upgrade()
    }
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

struct Download {
    client: thread::JoinHandle<Output>,
    path: PathBuf,
}

impl Download {
    fn completes(self) {
        let got = self.client.join().unwrap();
        let length = fs::metadata(&self.path).unwrap().len();
        assert_eq!((got.code, length), (Some(0), LARGE_BYTES as u64), "{}", got.stderr);
    }
}

#[test]
fn a_download_is_finished_by_the_old_process_while_the_new_one_serves() {
    // The number of workers changes in both directions.
    for (before, after) in [(2, 2), (1, 3), (3, 1)] {
        let mut server = Http3::start(&format!("cores = {before}"));
        let client = server.begin_download();
        let old = server.upgrade("new", &format!("cores = {after}"));
        assert_eq!(server.get(), "new");
        assert!(!client.client.is_finished(), "the old process has the rest");
        for _ in 0..10 {
            assert_eq!(server.get(), "new");
        }
        client.completes();
        wait_for_exit(old);
        assert_eq!(server.get(), "new");
    }
}

#[test]
fn no_request_fails_over_several_upgrades() {
    let mut server = Http3::start("");
    let url = server.url("/");
    let arguments = [
        "bench",
        "--http3",
        "--insecure",
        "-c",
        "10",
        "--streams",
        "4",
        "--rate",
        "300",
        "-d",
        "4s",
        "--json",
        "-",
    ];
    let load = thread::spawn(move || Rudy::run([&arguments[..], &[&url]].concat()));
    while !load.is_finished() {
        server.rig.upgrade_and_wait();
    }
    let report = load.join().unwrap();
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!(report["status_codes"]["200"], report["requests"], "{report}");
}

#[test]
fn a_new_configuration_without_it_lets_the_old_process_finish() {
    let mut server = Http3::start("");
    let client = server.begin_download();
    let old = server.upgrade("new", "http3 = false");
    client.completes();
    wait_for_exit(old);
    let without = Rudy::run(["get", "--http3", "--insecure", "--connect-timeout", "1s", &server.url("/")]);
    assert_ne!(without.code, Some(0));
}

#[test]
fn an_old_process_that_hangs_or_dies_does_not_disturb_the_new_one() {
    let mut server = Http3::start("");
    let client = server.begin_download();
    let old = server.upgrade("new", "");
    kill_process(old, Signal::STOP).unwrap();
    for _ in 0..5 {
        assert_eq!(server.get(), "new");
    }
    kill_process(old, Signal::CONT).unwrap();
    client.completes();
    wait_for_exit(old);

    let old = server.upgrade("newer", "");
    kill_process(old, Signal::KILL).unwrap();
    for _ in 0..5 {
        assert_eq!(server.get(), "newer");
    }
}

#[test]
fn the_old_process_takes_over_again_if_the_new_one_is_killed() {
    let mut server = Http3::start("");
    for _ in 0..2 {
        let client = server.begin_download();
        let old = server.upgrade("new", "");
        kill_process(server.rig.pid, Signal::KILL).unwrap();
        server.rig.server.wait_for_line(&format!("process {old} accepts connections again"));
        server.rig.pid = old;
        assert_eq!(server.get(), "old");
        client.completes();
    }
    let old = server.upgrade("new", "");
    wait_for_exit(old);
    assert_eq!(server.get(), "new");
}

#[test]
fn after_a_crash_clients_hear_from_the_next_process_that_their_connections_are_gone() {
    let (port, state) = (free_port(), Folder::new());
    let start = || {
        let server = Server::build()
            .config(&text(port, "hello", "access_log = 'access.log'"))
            .env("STATE_DIRECTORY", &*state);
        server.start()
    };
    let server = start();
    let url = format!("https://127.0.0.1:{port}/");
    let arguments = ["bench", "--http3", "--insecure", "-c", "2", "--rate", "50", "-d", "6s", "--json", "-"];
    let load = thread::spawn(move || Rudy::run([&arguments[..], &[&url]].concat()));
    wait_until("requests arrive", || lines(&server.path().join("access.log")) > 5);
    server.signal(Signal::KILL);
    let _next = start();
    let report: Value = serde_json::from_str(&load.join().unwrap().stdout).unwrap();
    // Without a reset, each connection would be unusable until its timeout, which is longer than the load.
    let succeeded = report["status_codes"]["200"].as_u64();
    assert!(succeeded.is_some_and(|count| count > 150), "of 300: {report}");
}
