//! The sidebar, with a service that fails.

use rudy_tests::prelude::*;

use super::Site;

/// Responses without a list, each of which a service has sent.
const FAILURES: [&str; 12] = [
    "HTTP/1.1 999 No\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 429 Slow down\r\nContent-Length: 0\r\nRetry-After: 0\r\n\r\n",
    "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\nRetry-After: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\nbusy",
    "HTTP/1.1 500 Error\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbad\r\n0\r\n\r\n",
    "HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\ngone",
    "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
    "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"a\": []}",
    "garbage\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    // Closes the connection without a response.
    "",
];

/// A list of one book.
fn books(etag: &str, title: &str) -> String {
    let body = format!("{{\"books\": [{{\"title\": \"{title}\"}}]}}");
    format!("HTTP/1.1 200 OK\r\nETag: \"{etag}\"\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Sends a response. Returns whether the connection can have another one.
fn send(peer: &mut UpstreamPeer, response: &str) -> bool {
    peer.send(response);
    let is_cut_off = response.contains(": 100\r\n") || response.contains("ffff");
    !response.is_empty() && !is_cut_off && !response.contains("close") && !response.starts_with("garbage")
}

#[test]
fn the_last_good_list_stays_while_the_service_fails() {
    let responses: Vec<_> = std::iter::once(books("1", "Caching"))
        .chain(FAILURES.map(str::to_owned))
        .chain([books("2", "Semantics")])
        .collect();
    let polls = AtomicUsize::new(0);
    let service = Upstream::start(move |peer| {
        while let Some(request) = peer.request() {
            let index = polls.fetch_add(1, Ordering::SeqCst);
            let Some(response) = responses.get(index) else {
                assert_eq!(request.field("if-none-match"), Some("\"2\""));
                peer.send("HTTP/1.1 304 Not Modified\r\nETag: \"2\"\r\n\r\n");
                continue;
            };
            if !send(peer, response) {
                return;
            }
        }
    });
    // Pauses double with each failure, up to 12 of them.
    let site = Site::start(Some((&service.url(), "interval = '1ms'\nper_day = 100000")));
    wait_until("the first list appears", || site.get("/").contains("Caching"));
    wait_until("the last list appears", || site.get("/").contains("Semantics"));
    wait_until("the polls go on", || site.as_author("/admin").text().contains("unchanged"));
}

/// A week of polls: one every 15 minutes, a thousand times as fast and more. A third of them fails, in every way, up to three in a row.
const WEEK: usize = 7 * 24 * 4;

/// A service for that week.
struct FailingService {
    random: Random,
    polls: usize,
    failures_in_a_row: usize,
    /// Polls after which the connection was lost.
    losses: usize,
}

impl FailingService {
    /// The next response; `None` is none at all, until the client gives up.
    fn next(&mut self) -> Option<String> {
        self.polls += 1;
        if self.failures_in_a_row == 3 || self.random.below(3) != 0 {
            self.failures_in_a_row = 0;
            return Some(books(&self.polls.to_string(), &format!("Book {}", self.polls)));
        }
        self.failures_in_a_row += 1;
        FAILURES.get(self.random.below(FAILURES.len() + 1)).map(|&response| response.to_owned())
    }
}

#[test]
fn a_week_of_polls_of_a_failing_service_leaks_nothing() {
    let failing = FailingService { random: Random::new(28), polls: 0, failures_in_a_row: 0, losses: 0 };
    let failing = Arc::new(Mutex::new(failing));
    let shared = failing.clone();
    let service = Upstream::start(move |peer| {
        while peer.request().is_some() {
            let response = shared.lock().expect("no test panics").next();
            if response.as_ref().is_some_and(|response| send(peer, response)) {
                continue;
            }
            shared.lock().expect("no test panics").losses += 1;
            if response.is_none() {
                peer.wait_for_end();
            }
            return;
        }
    });
    let settings = "interval = '5ms'\nper_day = 1000000\ntimeout = '500ms'";
    let site = Site::start(Some((&service.url(), settings)));
    let polls = || failing.lock().expect("no test panics").polls;
    let app = eventually("the app runs", || children(site.server.pid()).first().copied());
    wait_until("it polls", || polls() > 20);
    let memory = memory_of(app.as_raw_nonzero(), "VmRSS");
    let watch = Rudy::command(["conns", &app.as_raw_nonzero().to_string()]);
    let watch = watch.args(["--watch", "50ms", "--min-time", "2s", "--json"]).spawn();
    while polls() < WEEK {
        let before = polls();
        wait_until("the polls go on", || polls() > before);
    }
    kill_process(Pid::from_child(&watch), Signal::INT).expect("it runs");
    let output = Output::wait(watch);
    let lines = output.json_lines();
    output.succeeded();
    let (verdict, samples) = lines.split_last().expect("a watch has lines");
    assert_eq!(verdict["leak"], false, "{verdict}");
    let most = samples.iter().filter_map(|sample| sample["tcp"]["ESTABLISHED"].as_u64()).max();
    assert!(most <= Some(1), "one connection to the service: {most:?}");
    let (losses, connections) = (failing.lock().expect("no test panics").losses, service.accepted());
    assert!(connections <= losses + 1, "{connections} connections, of which {losses} were lost");
    let grown = memory_of(app.as_raw_nonzero(), "VmRSS").saturating_sub(memory);
    assert!(grown < 8 * 1024 * 1024, "{grown} bytes more");
    assert_eq!(children(site.server.pid()), [app], "the process has not changed");
}

#[test]
fn the_budget_of_a_day_is_kept() {
    let polls = Arc::new(AtomicUsize::new(0));
    let shared = polls.clone();
    let service = Upstream::serve(move |peer, _| {
        let number = shared.fetch_add(1, Ordering::SeqCst) + 1;
        peer.send(books(&number.to_string(), &format!("Book {number}")));
    });
    let site = Site::start(Some((&service.url(), "interval = '1ms'\nper_day = 5")));
    wait_until("the last list of the day appears", || site.get("/").contains("Book 5"));
    let admin = site.as_author("/admin").text().to_owned();
    assert!(admin.contains("0 polls are left today"), "{admin}");
    // The next poll is in a day, and not in a millisecond.
    assert!(admin.contains("<td>86") && polls.load(Ordering::SeqCst) == 5, "{admin}");
}
