//! Collectors that are slow, hang, are gone, or reject spans; and the end of the process.

use rudy_tests::prelude::*;

use crate::upgrade::rig::{Rig, wait_for_exit};

const ACCEPTED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// The configuration of a server that records all requests, with these settings of `tracing`.
fn config(collector: impl std::fmt::Display, settings: &str) -> String {
    format!(
        "listen = ['127.0.0.1:0']\nmetrics = true\n\
         tracing = {{ endpoint = '{collector}', sample = '100%'{settings} }}\n\
         [[site]]\n[[site.route]]\npath = '/metrics'\nmetrics = {{}}\ntracing = false\n\
         [[site.route]]\npath = '/*'\nrespond = 'ok'\n"
    )
}

/// Waits until the metrics have this number of spans with a result.
fn wait_for_count(server: &Server, result: &str, count: u64) {
    let sample = format!("rudy_trace_spans_total{{result=\"{result}\"}} {count}\n");
    wait_until(&sample, || server.get("/metrics").text().contains(&sample));
}

#[test]
fn spans_are_sent_again_after_the_time_that_the_collector_asks_for() {
    let collector = Collector::responding(|number, peer| match number {
        1 => {
            peer.send(
                "HTTP/1.1 503 X\r\nRetry-After: 1\r\nContent-Length: 11\r\n\r\n\x08\x0e\x12\x07no room",
            );
        }
        2 => peer.send("HTTP/1.1 429 X\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"),
        _ => peer.send(ACCEPTED),
    });
    let mut server = Server::config(&config(&collector, ""));
    server.get("/a");
    let requests = collector.wait_for_requests(3);
    let ids: Vec<_> = requests.iter().map(|request| &request.spans[0].id).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    wait_for_count(&server, "exported", 1);
    server.wait_for_line("it responded with 503: no room; 1 spans are sent again in 1 s");
}

#[test]
fn spans_that_the_collector_rejects_are_counted_and_not_sent_again() {
    let collector = Collector::responding(|number, peer| match number {
        1 => peer.send("HTTP/1.1 400 X\r\nContent-Length: 6\r\n\r\n\x08\x03\x12\x02no"),
        2 => peer.send("HTTP/1.1 200 X\r\nContent-Length: 9\r\n\r\n\x0a\x07\x08\x01\x12\x03old"),
        // More than there are.
        3 => peer.send(b"HTTP/1.1 200 X\r\nContent-Length: 5\r\n\r\n\x0a\x03\x08\xe8\x07"),
        // The head counts, whatever follows.
        _ => peer.send("HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nspam\r\n"),
    });
    let mut server = Server::config(&config(&collector, ""));
    for (number, line) in
        [(1, "it responded with 400: no; 1 spans are lost"), (2, "it has rejected 1 of 1 spans: old")]
    {
        server.get("/a");
        wait_for_count(&server, "rejected", number);
        server.wait_for_line(line);
    }
    server.get("/a");
    wait_for_count(&server, "rejected", 3);
    server.get("/a");
    wait_for_count(&server, "exported", 1);
    assert_eq!(collector.requests().len(), 4);
}

#[test]
fn a_collector_that_does_not_respond_delays_no_request() {
    let (release, gate) = gate::<()>();
    let collector = Collector::responding(move |number, peer| {
        if number == 1 {
            gate.wait();
        }
        peer.send(ACCEPTED);
    });
    let mut server = Server::config(&config(&collector, ", timeout = '100ms'"));
    server.get("/a");
    collector.wait_for_requests(1);
    assert_eq!(server.get("/b").text(), "ok");
    server.wait_for_line("no response within 100 ms (`timeout`)");
    wait_for_count(&server, "exported", 2);
    drop(release);
}

#[test]
fn a_full_queue_drops_spans_and_counts_them() {
    let (release, gate) = gate::<()>();
    let collector = Collector::responding(move |_, peer| {
        gate.wait();
        peer.send(ACCEPTED);
    });
    let mut server = Server::config(&config(&collector, ", queue = '64k'"));
    server.get("/first");
    collector.wait_for_requests(1);
    let mut client = server.connect();
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(1500));
    for _ in 0..100 {
        client.send(long.as_bytes());
        assert_eq!(client.response().status, 200);
    }
    let dropped = |server: &Server| -> u64 {
        let response = server.get("/metrics");
        let metrics = response.text();
        let sample =
            metrics.lines().find_map(|line| line.strip_prefix("rudy_trace_spans_total{result=\"dropped\"} "));
        sample.and_then(|count| count.parse().ok()).unwrap_or_default()
    };
    let lost = eventually("spans are dropped", || Some(dropped(&server)).filter(|count| *count > 0));
    for _ in 0..3 {
        release.send(()).unwrap();
    }
    drop(release);
    wait_for_count(&server, "exported", 101 - lost);
    server.wait_for_line(&format!("{lost} spans dropped, because the queue was full"));
}

#[test]
fn a_stop_sends_what_is_queued() {
    let collector = Collector::start();
    let mut server = Server::config(&config(&collector, ", service_name = 'shop'"));
    server.get("/a");
    server.stop();
    let requests = collector.requests();
    assert_eq!(requests.iter().map(|request| request.spans.len()).sum::<usize>(), 1, "{requests:#?}");
    assert_eq!(requests[0].spans[0].service, "shop");
}

#[test]
fn a_stop_does_not_wait_for_a_collector_that_hangs_or_is_gone() {
    let (release, gate) = gate::<()>();
    let hanging = Collector::responding(move |_, _| {
        gate.wait();
    });
    let mut server = Server::config(
        &format!("shutdown_timeout = '200ms'\n{}", config(&hanging, ", timeout = '1h'")).replace("1h", "10m"),
    );
    server.get("/a");
    hanging.wait_for_requests(1);
    server.get("/b");
    let log = server.stop();
    assert_contains!(&log, "2 spans lost at the end");
    drop(release);

    let down = ReservedPort::new();
    let mut server = Server::config(&config(format!("http://{}", down.address()), ""));
    server.get("/a");
    server.wait_for_line("cannot connect");
    assert_contains!(&server.stop(), "1 spans are lost");
}

#[test]
fn a_reload_sends_the_spans_of_the_old_configuration_to_the_old_collector() {
    let (old, new) = (Collector::start(), Collector::start());
    let mut server = Server::config(&config(&old, ""));
    server.get("/old");
    server.reload_with(&config(&new, ""), "the configuration was reloaded");
    server.get("/new");
    assert_eq!(old.wait(1)[0].attribute("url.path"), "/old");
    assert_eq!(new.wait(1)[0].attribute("url.path"), "/new");
    // The same settings: the queue stays.
    server.reload_with(&config(&new, ""), "the configuration was reloaded");
    server.get("/again");
    assert_eq!(new.wait(2)[1].attribute("url.path"), "/again");
    wait_for_count(&server, "exported", 3);
}

#[test]
fn an_upgrade_loses_no_span() {
    let collector = Collector::start();
    let mut rig = Rig::start(&config(&collector, ""));
    rig.get("/a");
    let old = rig.upgrade();
    wait_for_exit(old);
    rig.get("/b");
    let paths: Vec<_> = collector.wait(2).iter().map(|span| span.attribute("url.path").to_owned()).collect();
    assert_eq!(paths, ["/a", "/b"]);
}

#[test]
fn requests_have_the_configured_fields_and_no_log_shows_them() {
    let collector = Collector::responding(|_, peer| peer.send("HTTP/1.1 401 X\r\nContent-Length: 0\r\n\r\n"));
    let text = config(&collector, ", headers = { Authorization = 'Bearer ${OTLP_TOKEN}' }");
    let mut server = Server::build().config(&text).env("OTLP_TOKEN", "s3cret-token").start();
    server.get("/a");
    let requests = collector.wait_for_requests(1);
    let head = requests[0].head.to_lowercase();
    for line in [
        "post /v1/traces http/1.1",
        "authorization: bearer s3cret-token",
        "content-type: application/x-protobuf",
    ] {
        assert_contains!(&head, line);
    }
    server.wait_for_line("it responded with 401");
    let log = server.stop();
    assert!(!log.contains("s3cret"), "{log}");
}
