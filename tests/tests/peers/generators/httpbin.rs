//! Against go-httpbin, a server that did not learn HTTP from us, whose documentation says how long it takes and what it answers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rudy_observe::{Process, State};
use rudy_tests::{PATIENCE, binary, go_httpbin, program};
use serde_json::Value;

use super::figures::{Figures, rudy, show, wrk};

/// Of each time three digits are kept, and wrk prints four.
const DIGITS: f64 = 0.999;

/// A running go-httpbin, and where wrk is.
struct Httpbin {
    child: Child,
    address: SocketAddr,
    wrk: PathBuf,
}

impl Httpbin {
    /// Starts it on a free port. It does not say on which, so we look.
    fn start() -> Option<Self> {
        let (httpbin, wrk) = (go_httpbin()?, program("wrk")?);
        let mut command = Command::new(httpbin);
        command.args(["-host", "127.0.0.1", "-port", "0"]).stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it can be started");
        let mut httpbin = Self { child, address: SocketAddr::from(([0; 4], 0)), wrk };
        let deadline = Instant::now() + PATIENCE;
        while httpbin.address.port() == 0 {
            assert!(Instant::now() < deadline, "go-httpbin does not listen");
            thread::sleep(Duration::from_millis(5));
            httpbin.address = httpbin.listens_on().unwrap_or(httpbin.address);
        }
        Some(httpbin)
    }

    fn listens_on(&self) -> Option<SocketAddr> {
        let sockets = Process::open(self.child.id()).and_then(|mut process| process.sockets()).ok()?;
        sockets.held.iter().find(|socket| socket.state == State::Listen).map(|socket| socket.local)
    }

    fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.address)
    }

    /// A second of wrk over eight connections.
    fn wrk(&self, target: &str) -> Figures {
        wrk(&self.wrk, &["-c8", "-d1s", &self.url(target)])
    }
}

impl Drop for Httpbin {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What `rudy get` tells of each of these URLs, asked one behind the other.
fn get(urls: &[String]) -> Vec<Value> {
    let output = Command::new(binary()).args(["get", "--json", "--no-backoff"]).args(urls).output();
    let output = output.expect("rudy can be started");
    let text = String::from_utf8(output.stdout).expect("JSON is text");
    text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

#[test]
fn a_delay_is_waited_for() {
    let Some(httpbin) = Httpbin::start() else { return };
    let report = rudy(&["-c8", "-n40", &httpbin.url("/delay/0.2")]);
    let (ours, its) = (report.figures(), httpbin.wrk("/delay/0.2"));
    show("/delay/0.2: 200 ms each", &[("rudy bench", &ours), ("wrk", &its)]);
    assert_eq!((ours.answers, report.status("200")), (40, 40));
    assert!(report.ms("/latency_us/min") >= 200.0 * DIGITS, "{}", report.text);
    for figures in [ours, its] {
        assert!(figures.p50_ms >= 200.0 * DIGITS && figures.p50_ms < 1000.0, "{figures:?}");
    }
}

#[test]
fn a_drip_has_a_first_byte_and_a_last() {
    let Some(httpbin) = Httpbin::start() else { return };
    let target = "/drip?numbytes=10&duration=0.2&delay=0.1";
    let [one] = &get(&[httpbin.url(target)])[..] else { panic!("one was asked for") };
    let seconds = |key: &str| one[key].as_f64().expect("a time");
    assert_eq!((&one["status"], &one["body_bytes"]), (&200.into(), &10.into()));
    let (first_byte, last_byte) = (seconds("time_starttransfer_s"), seconds("time_total_s"));
    assert!(first_byte >= 0.1 && last_byte >= 0.3 && first_byte < last_byte, "{one}");

    let report = rudy(&["-c8", "-n16", &httpbin.url(target)]);
    let (ours, its) = (report.figures(), httpbin.wrk(target));
    show(
        "/drip: the first byte after 100 ms, the last after 300 ms",
        &[("rudy bench", &ours), ("wrk", &its)],
    );
    assert_eq!((ours.answers, report.count("/body_bytes")), (16, 160));
    assert!(report.ms("/first_byte_us/min") >= 100.0 * DIGITS, "{}", report.text);
    assert!(report.ms("/latency_us/min") >= 300.0 * DIGITS, "{}", report.text);
    assert!(its.p50_ms >= 300.0 * DIGITS, "{its:?}");
}

#[test]
fn a_status_is_counted_as_itself() {
    let Some(httpbin) = Httpbin::start() else { return };
    let report = rudy(&["-c8", "-n1000", &httpbin.url("/status/503")]);
    let (ours, its) = (report.figures(), httpbin.wrk("/status/503"));
    show("/status/503: nothing else", &[("rudy bench", &ours), ("wrk", &its)]);
    assert_eq!((report.status("503"), ours.wrong, report.count("/right")), (1000, 1000, 0));
    assert_eq!(its.wrong, its.answers);

    let report = rudy(&["-c8", "-n2000", &httpbin.url("/status/200:0.5,500:0.5")]);
    let (ours, its) = (report.figures(), httpbin.wrk("/status/200:0.5,500:0.5"));
    show("/status/200:0.5,500:0.5: half of each", &[("rudy bench", &ours), ("wrk", &its)]);
    assert_eq!(
        (report.status("200") + report.status("500"), report.count("/right")),
        (2000, report.status("200"))
    );
    assert!(is_share(report.status("500"), 2000, 0.5), "{}", report.text);
    assert!(is_share(its.wrong, its.answers, 0.5), "{its:?}");
}

#[test]
fn what_is_unstable_fails_as_often_as_it_is_told_to() {
    let Some(httpbin) = Httpbin::start() else { return };
    let target = "/unstable?failure_rate=0.3";
    let report = rudy(&["-c8", "-n2000", &httpbin.url(target)]);
    let (ours, its) = (report.figures(), httpbin.wrk(target));
    show("/unstable?failure_rate=0.3: three of ten fail", &[("rudy bench", &ours), ("wrk", &its)]);
    assert_eq!((report.status("200") + report.status("500"), ours.wrong), (2000, report.status("500")));
    assert!(is_share(ours.wrong, ours.answers, 0.3), "{}", report.text);
    assert!(is_share(its.wrong, its.answers, 0.3), "{its:?}");
}

/// With a seed the draw is the same each time: what fails once fails always, and the count is exact.
#[test]
fn what_is_unstable_with_a_seed_fails_exactly_as_often() {
    let Some(httpbin) = Httpbin::start() else { return };
    let urls: Vec<String> =
        (1..=20).map(|seed| httpbin.url(&format!("/unstable?failure_rate=0.3&seed={seed}"))).collect();
    let failing = get(&urls).iter().filter(|answer| answer["status"] == 500).count() as u64;
    assert!((1..20).contains(&failing), "of twenty seeds some fail and some do not, but {failing} do");
    let mut arguments = vec!["-c8", "-t1", "-n400"];
    arguments.extend(urls.iter().map(String::as_str));
    let report = rudy(&arguments);
    show(
        &format!("twenty seeds, {failing} of which fail, twenty times"),
        &[("rudy bench", &report.figures())],
    );
    assert_eq!((report.status("500"), report.status("200")), (20 * failing, 400 - 20 * failing));
}

/// Whether so many of `all` may be a draw of this share. By Hoeffding's inequality a draw differs by more than
/// √(11.25 · all) once in 3 · 10⁹ times at most: 2 · e^(−2 · 11.25).
fn is_share(count: u64, all: u64, share: f64) -> bool {
    let [count, all] = [count, all].map(|number| f64::from(u32::try_from(number).expect("not so many")));
    (count - share * all).abs() <= (11.25 * all).sqrt()
}
