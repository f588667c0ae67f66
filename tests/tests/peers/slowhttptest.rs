//! slowhttptest attacks in each of its four modes; whether the service stays available is its own verdict.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rudy_tests::{Connection, Server, program};

use crate::content::text;

/// Connections of one attack, all opened within its first second.
const CONNECTIONS: u64 = 500;

/// How long an attack goes on. It ends earlier where the server has answered all of it.
const SECONDS: &str = "5";

/// More than the sockets between hold.
const LARGE_BYTES: u64 = 64 * 1024 * 1024;

/// How often one is tried: the three seconds that slowhttptest gives the server to answer a question of its own go by on a
/// machine that is busy with other things, too. A server that an attack holds up fails each of them.
const ATTACKS: usize = 3;

/// What the attacks come to, second by second.
struct Report {
    /// The most connections that stood at once.
    connected_max: u64,
    /// Whether a probe was answered in time, in every second.
    available: Vec<bool>,
}

#[test]
fn slow_heads_leave_the_service_available() {
    // A line of the head each second.
    let Some((report, _)) = attack("/text.txt", &["-H", "-i", "1"]) else { return };
    assert_eq!(report.connected_max, CONNECTIONS);
}

#[test]
fn slow_bodies_leave_the_service_available() {
    // A field of a form each second, of 100 kB that are announced and a folder does not take.
    let Some((_, answered)) = attack("/text.txt", &["-B", "-i", "1", "-s", "100000"]) else { return };
    assert!(answered > CONNECTIONS, "only {answered} answers");
}

#[test]
fn ranges_without_number_leave_the_service_available() {
    // `Range: bytes=0-,5-5,5-6,…,5-2000`, with which one request once took all of Apache's memory.
    let Some((_, answered)) = attack("/text.txt", &["-R", "-t", "GET"]) else { return };
    assert!(answered > CONNECTIONS, "only {answered} answers");
}

#[test]
fn slow_readers_leave_the_service_available() {
    // One byte a second of a large file, out of the smallest window there is.
    let slow = ["-X", "-k", "3", "-n", "1", "-w", "1", "-y", "2", "-z", "1"];
    let Some((report, _)) = attack("/large", &slow) else { return };
    assert_eq!(report.connected_max, CONNECTIONS);
}

/// Runs slowhttptest against `path` while an ordinary client goes on asking. Returns its report and how many requests
/// the server has answered that were not ours.
fn attack(path: &str, mode: &[&str]) -> Option<(Report, u64)> {
    let slowhttptest = program("slowhttptest")?;
    let mut attacks = (0..ATTACKS).map(|_| attack_once(&slowhttptest, path, mode));
    let withstood = attacks.find(|(report, _)| report.available.iter().all(|&available| available));
    assert!(withstood.is_some(), "not available in any of {ATTACKS} attacks");
    withstood
}

fn attack_once(slowhttptest: &Path, path: &str, mode: &[&str]) -> (Report, u64) {
    let server = serve();
    let folder = tempfile::tempdir().expect("a temp folder can be made");
    let prefix = folder.path().join("report");
    let mut command = Command::new(slowhttptest);
    let connections = CONNECTIONS.to_string();
    command.args(["-c", &connections, "-r", &connections, "-l", SECONDS, "-p", "3"]).args(mode);
    command.arg("-u").arg(server.url(path)).arg("-g").arg("-o").arg(&prefix).stdout(Stdio::null());
    let mut attack = Attack(command.spawn().expect("slowhttptest starts"));
    let ours = ask_until_it_ends(&server, &mut attack);
    let report = Report::read(&prefix.with_extension("csv"));
    (report, answered(&server) - ours)
}

fn serve() -> Server {
    let server = Server::config(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nroot = \".\"\n[[site.route]]\npath = \"/status\"\nstatus = {}\n",
    );
    fs::write(server.path().join("text.txt"), text(500)).expect("a temp folder can be written");
    let large = fs::File::create(server.path().join("large")).expect("a temp folder can be written");
    large.set_len(LARGE_BYTES).expect("a hole costs nothing");
    server
}

/// Asks on a connection that was there before the attack and on new ones. Returns how often.
fn ask_until_it_ends(server: &Server, attack: &mut Attack) -> u64 {
    let mut kept: Connection = server.connect();
    let mut asked = 0;
    loop {
        kept.send(b"GET /text.txt HTTP/1.1\r\nHost: test\r\n\r\n");
        assert_eq!(kept.answer().status, 200);
        assert_eq!(server.get("/text.txt").status, 200);
        asked += 2;
        if let Some(status) = attack.0.try_wait().expect("the child is ours") {
            assert!(status.success(), "slowhttptest: {status}");
            return asked;
        }
    }
}

fn answered(server: &Server) -> u64 {
    let status: serde_json::Value = serde_json::from_slice(&server.get("/status").body).expect("JSON");
    status["requests"]["answered"].as_u64().expect("a number")
}

/// An attack that ends with its test.
struct Attack(Child);

impl Drop for Attack {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Report {
    /// Reads lines of `Seconds,Closed,Pending,Connected,Service Available`; the last is 0 where it is not.
    fn read(path: &Path) -> Self {
        let table = fs::read_to_string(path).expect("slowhttptest writes its report");
        let mut lines = table.lines();
        assert_eq!(lines.next(), Some("Seconds,Closed,Pending,Connected,Service Available"));
        let rows: Vec<Vec<u64>> =
            lines.map(|line| line.split(',').map(|cell| cell.parse().expect("a number")).collect()).collect();
        assert!(!rows.is_empty(), "the report is empty");
        Self {
            connected_max: rows.iter().map(|row| row[3]).max().unwrap_or_default(),
            available: rows.iter().map(|row| row[4] > 0).collect(),
        }
    }
}
