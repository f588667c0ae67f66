//! Active health checks.

use std::sync::atomic::Ordering::SeqCst;

use rudy_tests::prelude::*;

use crate::proxy::proxy_to_all;

/// An upstream that responds to health checks with a status that can be changed.
fn checked(name: &'static str, status: &Arc<AtomicUsize>) -> Upstream {
    let status = status.clone();
    Upstream::serve(move |peer, request| {
        if request.target() == "/health?full=1" {
            assert_eq!(request.field("host"), Some("app.test"));
            peer.send(format!("HTTP/1.1 {} Status\r\nContent-Length: 0\r\n\r\n", status.load(SeqCst)));
        } else {
            peer.respond(name);
        }
    })
}

const CHECK: &str = "health_check = { path = \"/health?full=1\", host = \"app.test\", interval = \"10ms\" }";

#[test]
fn an_unhealthy_upstream_gets_no_requests_until_it_is_healthy_again() {
    let status = Arc::new(AtomicUsize::new(204));
    let (sick, sound) = (checked("sick", &status), checked("sound", &Arc::new(AtomicUsize::new(200))));
    let list = format!("\"{sick}\", \"{sound}\"");
    let mut server = proxy_to_all(&list, &format!("choice = \"round-robin\"\n{CHECK}"));
    let get = |server: &Server| server.get("/a").text().to_owned();
    assert_eq!([get(&server), get(&server)], ["sick", "sound"]);
    status.store(500, SeqCst);
    let reason = "the health check failed: the status of the response is 500";
    server.wait_for_line(&format!("{sick} is unhealthy and gets no requests: {reason}"));
    assert!((0..4).all(|_| get(&server) == "sound"));
    status.store(200, SeqCst);
    server.wait_for_line(&format!("{sick} is healthy"));
    assert!((0..2).any(|_| get(&server) == "sick"));
}

#[test]
fn an_upstream_that_hangs_is_unhealthy_and_the_last_one_gets_requests_anyway() {
    let hanging = Upstream::serve(|peer, request| {
        if request.target() != "/" {
            peer.respond("fine");
        }
    });
    let check = "health_check = { interval = \"10ms\", timeout = \"20ms\", unhealthy = 1 }";
    let mut server = proxy_to_all(&format!("\"{hanging}\""), check);
    server.wait_for_line("is unhealthy and gets no requests: the health check failed: ");
    assert_eq!(server.get("/a").text(), "fine");
}

#[test]
fn a_reload_that_removes_an_upstream_ends_its_checks() {
    let (begun, has_begun) = channel();
    let (ended, has_ended) = channel();
    let senders = Mutex::new((begun, ended));
    let upstream = Upstream::start(move |peer| {
        let Some(_check) = peer.request() else { return };
        let (begun, ended) = senders.lock().expect("no test fails").clone();
        begun.send(()).expect("the test waits");
        peer.wait_for_end();
        // The test may be over.
        let _ = ended.send(());
    });
    let check = "health_check = { interval = \"10ms\", timeout = \"1h\" }";
    let mut server = proxy_to_all(&format!("\"{upstream}\""), check);
    has_begun.recv().expect("there is a check");
    let text = server.path().read("rudy.toml");
    let mut reload = |text: &str| server.reload_with(text, "the configuration was reloaded");
    reload(&format!("{text}[[site]]\nhosts = [\"b.test\"]\n[[site.route]]\npath = \"/*\"\nrespond = 204\n"));
    assert!(has_ended.try_recv().is_err(), "the route is unchanged, and its check continues");
    reload(&text.replace(&upstream.url(), "http://127.0.0.1:1"));
    has_ended.recv().expect("the check ends");
}
