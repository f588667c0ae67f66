//! What every app is asked through the gateway.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use rudy_observe::Process;
use rudy_tests::{Connection, Server};

use super::apps::{App, Program};

const UPLOAD_BYTES: usize = 100_000_000;

/// What the server may have taken at most: everything it needs to run, and far less than the upload.
const PEAK_BYTES: u64 = 48 << 20;

impl App {
    /// A server in front of it.
    pub(super) fn server(&self, connections: usize) -> Server {
        let route = self.route(connections);
        Server::config(&format!(
            "listen = [\"127.0.0.1:0\"]\nlimits.body_bytes = \"1GiB\"\n[[site]]\n{route}"
        ))
    }

    /// Asks it everything.
    pub(super) fn answers_every_question(&self) {
        let mut server = self.server(self.processes().unwrap_or(2).max(2));
        self.is_told_what_cgi_says(&server);
        self.takes_an_upload(&server);
        self.answers_line_by_line(&server);
        self.says_its_status(&server);
        self.is_asked_a_thousand_times_at_once(&server);
        // Go has a log of its own.
        if self.program != Program::Go {
            let path = self.path();
            assert_eq!(server.get(&format!("{path}/complain?why")).text(), "said");
            let line = server.wait_for_line("nobody knows why");
            assert!(line.contains(&format!("GET {path}/complain from 127.0.0.1")), "{line}");
        }
    }

    fn is_told_what_cgi_says(&self, server: &Server) {
        let path = self.path();
        let target = format!("{path}/variables/caf%C3%A9%20x?a=b%20c&d");
        let mut connection = server.connect();
        connection.send(
            format!(
                "GET {target} HTTP/1.1\r\nHost: example.test:8080\r\nProxy: evil.test\r\nX-Joined: one\r\n\
                 X-Joined: two\r\nCookie: a=1\r\nCookie: b=2\r\nX_Smuggled: no\r\nX.Joined: no\r\nUser-Agent: test\r\n\r\n"
            )
            .as_bytes(),
        );
        let answer = connection.response();
        assert_eq!(answer.status, 200, "{}", answer.text());
        let told: BTreeMap<&str, &str> =
            answer.text().lines().filter_map(|line| line.split_once('=')).collect();
        let port = server.address().port().to_string();
        for (name, value) in [
            ("REQUEST_METHOD", "GET"),
            ("REQUEST_URI", target.as_str()),
            ("SCRIPT_NAME", path),
            ("PATH_INFO", "/variables/café x"),
            ("QUERY_STRING", "a=b%20c&d"),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
            ("SERVER_NAME", "example.test"),
            ("SERVER_PORT", port.as_str()),
            ("SERVER_ADDR", "127.0.0.1"),
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("REMOTE_ADDR", "127.0.0.1"),
            ("HTTP_HOST", "example.test:8080"),
            ("HTTP_USER_AGENT", "test"),
            ("HTTP_X_JOINED", "one, two"),
            ("HTTP_COOKIE", "a=1; b=2"),
        ] {
            if (self.program, name) == (Program::Go, "SCRIPT_NAME") {
                continue;
            }
            assert_eq!(told.get(name), Some(&value), "{name} of {:?}", self.program);
        }
        for name in ["HTTP_PROXY", "HTTP_X_SMUGGLED", "HTTP_CONTENT_LENGTH"] {
            assert!(!told.contains_key(name), "{name}");
        }
    }

    /// Counted and hashed by the app; the server holds little of it at a time.
    fn takes_an_upload(&self, server: &Server) {
        let file = self.running.folder.path().join("upload");
        let mut pieces = File::create(&file).expect("the folder is ours");
        for n in 0..UPLOAD_BYTES / 1000 {
            pieces.write_all(format!("{n:0>999}\n").as_bytes()).expect("the disk has room");
        }
        let output = Command::new("sha256sum").arg(&file).output().expect("sha256sum can be started");
        let sum = String::from_utf8(output.stdout).expect("a sum is text");
        let mut connection = server.connect();
        connection.send(
            format!(
                "POST {}/upload HTTP/1.1\r\nHost: a\r\nContent-Length: {UPLOAD_BYTES}\r\n\r\n",
                self.path()
            )
            .as_bytes(),
        );
        let (mut file, mut piece) = (File::open(&file).expect("it was written"), vec![0; 64 * 1024]);
        loop {
            let read = file.read(&mut piece).expect("it was written");
            if read == 0 {
                break;
            }
            connection.send(&piece[..read]);
        }
        assert_eq!(connection.response().text(), format!("{UPLOAD_BYTES} {}", &sum[..64]));
        let mut process = Process::open(server.pid()).expect("the server runs");
        let peak = process.sample().expect("the server runs").memory.peak_rss_bytes;
        assert!(peak < PEAK_BYTES, "{peak} bytes of memory for an upload to {:?}", self.program);
    }

    /// The app says the next line only when this one has been read.
    fn answers_line_by_line(&self, server: &Server) {
        let folder = self.running.folder.path();
        let mut connection = server.connect();
        let target = format!("{}/lines?{}", self.path(), folder.display());
        connection.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        assert_eq!(connection.head().status, 200);
        for n in 1..=3 {
            assert_eq!(connection.chunk(), Some(format!("line {n}\n")), "{:?}", self.program);
            fs::write(folder.join(n.to_string()), "").expect("the folder is ours");
        }
        assert_eq!(connection.chunk(), None);
    }

    fn says_its_status(&self, server: &Server) {
        let path = self.path();
        let mut connection = server.connect();
        for status in [204, 304] {
            connection.send(format!("GET {path}/status?{status} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            assert_eq!(connection.response().status, status, "{:?}", self.program);
        }
        connection.send(format!("HEAD {path}/pid HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        assert_eq!(connection.head_response().status, 200);
        connection.send(format!("GET {path}/pid HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        assert!(connection.response().text().parse::<u32>().is_ok());
    }

    /// Over 64 connections. Those who answer stay the same.
    fn is_asked_a_thousand_times_at_once(&self, server: &Server) {
        let address = server.address();
        let pids = Mutex::new(BTreeSet::new());
        thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| {
                    let mut connection = Connection::open(address);
                    for _ in 0..16 {
                        let target = format!("{}/pid", self.path());
                        connection.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
                        let answer = connection.response();
                        assert_eq!(answer.status, 200, "{}", answer.text());
                        pids.lock().expect("no thread panics with it").insert(answer.text().to_owned());
                    }
                });
            }
        });
        let answered = pids.into_inner().expect("no thread panics with it").len();
        assert!(
            answered <= self.processes().unwrap_or(64 * 16),
            "{answered} processes of {:?}",
            self.program
        );
    }
}
