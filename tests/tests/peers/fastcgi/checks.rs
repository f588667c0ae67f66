//! The checks that every app must pass behind the gateway.

use rudy_tests::prelude::*;

use super::apps::{App, Program};

const UPLOAD_BYTES: usize = 100_000_000;

/// How much memory an upload may add to what the server has used before it. The program itself, of which a debug build maps 43 MB, is not
/// part of it.
const UPLOAD_MEMORY_BYTES: u64 = 6 << 20;

impl App {
    /// Starts a server in front of the app.
    pub(super) fn server(&self, connections: usize) -> Server {
        let route = self.route(connections);
        Server::config(&format!(
            "listen = [\"127.0.0.1:0\"]\nlimits.body_bytes = \"1GiB\"\n[[site]]\n{route}"
        ))
    }

    /// Runs all checks.
    pub(super) fn passes_all_checks(&self) {
        let mut server = self.server(self.processes().unwrap_or(2).max(2));
        self.check_variables(&server);
        self.check_upload(&server);
        self.check_streaming(&server);
        self.check_statuses(&server);
        self.check_concurrency(&server);
        // Go has its own log.
        if self.program != Program::Go {
            let path = self.path();
            assert_eq!(server.get(&format!("{path}/complain?why")).text(), "done");
            let line = server.wait_for_line("unknown reason: why");
            assert!(line.contains(&format!("GET {path}/complain from 127.0.0.1")), "{line}");
        }
    }

    fn check_variables(&self, server: &Server) {
        let path = self.path();
        let target = format!("{path}/variables/caf%C3%A9%20x?a=b%20c&d");
        let response = server.get_with(
            &target,
            &[
                "Host: example.test:8080",
                "Proxy: evil.test",
                "X-Joined: one",
                "X-Joined: two",
                "Cookie: a=1",
                "Cookie: b=2",
                "X_Smuggled: no",
                "X.Joined: no",
                "User-Agent: test",
            ],
        );
        assert_eq!(response.status, 200, "{}", response.text());
        let variables: BTreeMap<&str, &str> =
            response.text().lines().filter_map(|line| line.split_once('=')).collect();
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
            assert_eq!(variables.get(name), Some(&value), "{name} of {:?}", self.program);
        }
        for name in ["HTTP_PROXY", "HTTP_X_SMUGGLED", "HTTP_CONTENT_LENGTH"] {
            assert!(!variables.contains_key(name), "{name}");
        }
    }

    /// The app counts and hashes the upload; the server must buffer only a little of it.
    fn check_upload(&self, server: &Server) {
        let file = self.running.folder.path().join("upload");
        let mut pieces = File::create(&file).expect("the folder is writable");
        for n in 0..UPLOAD_BYTES / 1000 {
            pieces.write_all(format!("{n:0>999}\n").as_bytes()).expect("the disk has space");
        }
        let output = Command::new("sha256sum").arg(&file).output().expect("sha256sum can be started");
        let sum = String::from_utf8(output.stdout).expect("a sum is text");
        let before = peak_memory(server);
        let mut connection = server.send(format!(
            "POST {}/upload HTTP/1.1\r\nHost: a\r\nContent-Length: {UPLOAD_BYTES}\r\n\r\n",
            self.path()
        ));
        let (mut file, mut piece) = (File::open(&file).expect("the file was written"), vec![0; 64 * 1024]);
        loop {
            let read = file.read(&mut piece).expect("the file was written");
            if read == 0 {
                break;
            }
            connection.send(&piece[..read]);
        }
        assert_eq!(connection.response().text(), format!("{UPLOAD_BYTES} {}", &sum[..64]));
        let added = peak_memory(server) - before;
        assert!(added < UPLOAD_MEMORY_BYTES, "{added} bytes of memory for an upload to {:?}", self.program);
    }

    /// The app sends the next line only after this one was read.
    fn check_streaming(&self, server: &Server) {
        let folder = self.running.folder.path();
        let mut connection = server.connect();
        let target = format!("{}/lines?{}", self.path(), folder.display());
        connection.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        assert_eq!(connection.head().status, 200);
        for n in 1..=3 {
            assert_eq!(connection.chunk(), Some(format!("line {n}\n")), "{:?}", self.program);
            fs::write(folder.join(n.to_string()), "").expect("the folder is writable");
        }
        assert_eq!(connection.chunk(), None);
    }

    fn check_statuses(&self, server: &Server) {
        let path = self.path();
        let mut connection = server.connect();
        for status in [204, 304] {
            assert_eq!(
                connection.get(&format!("{path}/status?{status}"), &["Host: a"]).status,
                status,
                "{:?}",
                self.program
            );
        }
        assert_eq!(connection.exchange("HEAD", &format!("{path}/pid"), &["Host: a"]).status, 200);
        assert!(connection.get(&format!("{path}/pid"), &["Host: a"]).text().parse::<u32>().is_ok());
    }

    /// Sends 1,024 requests over 64 connections. The processes must stay the same.
    fn check_concurrency(&self, server: &Server) {
        let address = server.address();
        let pids = Mutex::new(BTreeSet::new());
        thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| {
                    let mut connection = Connection::open(address);
                    for _ in 0..16 {
                        let target = format!("{}/pid", self.path());
                        let response = connection.get(&target, &["Host: a"]);
                        assert_eq!(response.status, 200, "{}", response.text());
                        pids.lock().expect("no thread panics with it").insert(response.text().to_owned());
                    }
                });
            }
        });
        let processes = pids.into_inner().expect("no thread panics with it").len();
        assert!(
            processes <= self.processes().unwrap_or(64 * 16),
            "{processes} processes of {:?}",
            self.program
        );
    }
}

/// Returns the most memory that a server has used since its start.
fn peak_memory(server: &Server) -> u64 {
    let mut process = Process::open(server.pid()).expect("the server runs");
    process.sample().expect("the server runs").memory.peak_rss_bytes
}
