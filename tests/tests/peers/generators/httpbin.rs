//! Tests with go-httpbin, a server whose documentation specifies its delays and responses.

use rudy_observe::State;
use rudy_tests::prelude::*;

use super::metrics::{Metrics, rudy, show, wrk};

/// `rudy bench` stores three digits of each time, and wrk prints four.
const DIGITS: f64 = 0.999;

/// A running go-httpbin, and the path of wrk.
struct Httpbin {
    child: Running,
    address: SocketAddr,
    wrk: PathBuf,
}

impl Httpbin {
    /// Starts go-httpbin on a free port. It does not print the port, so this reads its sockets.
    fn start() -> Option<Self> {
        let (httpbin, wrk) = (go_program("go-httpbin")?, program("wrk")?);
        let mut command = Command::new(httpbin);
        command.args(["-host", "127.0.0.1", "-port", "0"]).stdin(Stdio::null());
        let child = Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
        let mut httpbin = Self { child, address: SocketAddr::from(([0; 4], 0)), wrk };
        httpbin.address = eventually("go-httpbin listens", || httpbin.listens_on());
        Some(httpbin)
    }

    fn listens_on(&self) -> Option<SocketAddr> {
        let sockets = Process::open(self.child.id()).and_then(|mut process| process.sockets()).ok()?;
        sockets.with_descriptor.iter().find(|socket| socket.state == State::Listen).map(|socket| socket.local)
    }

    fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.address)
    }

    /// Runs wrk for one second with eight connections.
    fn wrk(&self, target: &str) -> Metrics {
        wrk(&self.wrk, &["-c8", "-d1s", &self.url(target)])
    }
}

/// Returns the results of `rudy get` for these URLs, requested in order.
fn get(urls: &[String]) -> Vec<Value> {
    let output = Rudy::command(["get", "--json", "--no-backoff"]).args(urls).output();
    let text = output.stdout;
    text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

#[test]
fn a_delay_is_measured() {
    let Some(httpbin) = Httpbin::start() else { return };
    let report = rudy(&["-c8", "-n40", &httpbin.url("/delay/0.2")]);
    let (ours, theirs) = (report.metrics(), httpbin.wrk("/delay/0.2"));
    show("/delay/0.2: 200 ms each", &[("rudy bench", &ours), ("wrk", &theirs)]);
    assert_eq!((ours.responses, report.status("200")), (40, 40));
    assert!(report.ms("/latency_us/min") >= 200.0 * DIGITS, "{}", report.text);
    for metrics in [ours, theirs] {
        assert!(metrics.p50_ms >= 200.0 * DIGITS && metrics.p50_ms < 1000.0, "{metrics:?}");
    }
}

#[test]
fn the_first_and_the_last_byte_of_a_drip_are_measured() {
    let Some(httpbin) = Httpbin::start() else { return };
    let target = "/drip?numbytes=10&duration=0.2&delay=0.1";
    let [one] = &get(&[httpbin.url(target)])[..] else { panic!("there is one URL") };
    let seconds = |key: &str| one[key].as_f64().expect("a time");
    assert_members!(one, "status": 200, "body_bytes": 10);
    let (first_byte, last_byte) = (seconds("time_starttransfer_s"), seconds("time_total_s"));
    assert!(first_byte >= 0.1 && last_byte >= 0.3 && first_byte < last_byte, "{one}");

    let report = rudy(&["-c8", "-n16", &httpbin.url(target)]);
    let (ours, theirs) = (report.metrics(), httpbin.wrk(target));
    show(
        "/drip: the first byte after 100 ms, the last after 300 ms",
        &[("rudy bench", &ours), ("wrk", &theirs)],
    );
    assert_eq!((ours.responses, report.count("/body_bytes")), (16, 160));
    assert!(report.ms("/first_byte_us/min") >= 100.0 * DIGITS, "{}", report.text);
    assert!(report.ms("/latency_us/min") >= 300.0 * DIGITS, "{}", report.text);
    assert!(theirs.p50_ms >= 300.0 * DIGITS, "{theirs:?}");
}

#[test]
fn responses_are_counted_by_status() {
    let Some(httpbin) = Httpbin::start() else { return };
    let report = rudy(&["-c8", "-n1000", &httpbin.url("/status/503")]);
    let (ours, theirs) = (report.metrics(), httpbin.wrk("/status/503"));
    show("/status/503: nothing else", &[("rudy bench", &ours), ("wrk", &theirs)]);
    assert_eq!((report.status("503"), ours.error_responses, report.count("/succeeded")), (1000, 1000, 0));
    assert_eq!(theirs.error_responses, theirs.responses);

    let report = rudy(&["-c8", "-n2000", &httpbin.url("/status/200:0.5,500:0.5")]);
    let (ours, theirs) = (report.metrics(), httpbin.wrk("/status/200:0.5,500:0.5"));
    show("/status/200:0.5,500:0.5: half of each", &[("rudy bench", &ours), ("wrk", &theirs)]);
    assert_eq!(
        (report.status("200") + report.status("500"), report.count("/succeeded")),
        (2000, report.status("200"))
    );
    assert!(is_share(report.status("500"), 2000, 0.5), "{}", report.text);
    assert!(is_share(theirs.error_responses, theirs.responses, 0.5), "{theirs:?}");
}

#[test]
fn an_unstable_endpoint_fails_at_its_configured_rate() {
    let Some(httpbin) = Httpbin::start() else { return };
    let target = "/unstable?failure_rate=0.3";
    let report = rudy(&["-c8", "-n2000", &httpbin.url(target)]);
    let (ours, theirs) = (report.metrics(), httpbin.wrk(target));
    show("/unstable?failure_rate=0.3: three of ten fail", &[("rudy bench", &ours), ("wrk", &theirs)]);
    assert_eq!(
        (report.status("200") + report.status("500"), ours.error_responses),
        (2000, report.status("500"))
    );
    assert!(is_share(ours.error_responses, ours.responses, 0.3), "{}", report.text);
    assert!(is_share(theirs.error_responses, theirs.responses, 0.3), "{theirs:?}");
}

/// With a seed, the result is the same each time: a request that fails once always fails, so the count is
/// exact.
#[test]
fn an_unstable_endpoint_with_a_seed_fails_an_exact_number_of_times() {
    let Some(httpbin) = Httpbin::start() else { return };
    let urls: Vec<String> =
        (1..=20).map(|seed| httpbin.url(&format!("/unstable?failure_rate=0.3&seed={seed}"))).collect();
    let failing = get(&urls).iter().filter(|response| response["status"] == 500).count() as u64;
    assert!((1..20).contains(&failing), "of twenty seeds some fail and some do not, but {failing} do");
    let mut arguments = vec!["-c8", "-t1", "-n400"];
    arguments.extend(urls.iter().map(String::as_str));
    let report = rudy(&arguments);
    show(
        &format!("twenty seeds, {failing} of which fail, twenty times"),
        &[("rudy bench", &report.metrics())],
    );
    assert_eq!((report.status("500"), report.status("200")), (20 * failing, 400 - 20 * failing));
}

/// Returns whether `count` of `all` is plausible for this share. By Hoeffding's inequality, the difference
/// exceeds √(11.25 · all) at most once in 3 · 10⁹ times: 2 · e^(−2 · 11.25).
fn is_share(count: u64, all: u64, share: f64) -> bool {
    let [count, all] = [count, all].map(|number| f64::from(u32::try_from(number).expect("a small number")));
    (count - share * all).abs() <= (11.25 * all).sqrt()
}
