//! Upstreams that fail, and that return.

use std::sync::atomic::Ordering::SeqCst;

use rudy_tests::prelude::*;

use crate::proxy::admin::upstreams;
use crate::proxy::choice::named;
use crate::proxy::{counts, proxy_to_all};

/// Starts an upstream on this address, as after a restart.
fn restarted(address: SocketAddr) -> Upstream {
    Upstream::start_at(address, |peer| {
        while peer.request().is_some() {
            peer.respond("fine");
        }
    })
}

#[test]
fn a_rolling_restart_of_three_upstreams_fails_no_idempotent_request() {
    let mut upstreams = [(); 3].map(|()| restarted(([127, 0, 0, 1], free_port()).into()));
    let urls = upstreams.each_ref().map(|upstream| format!("\"{upstream}\"")).join(", ");
    let mut server = proxy_to_all(&urls, "ejection = { duration = \"50ms\" }");
    let load = Load::start(server.address(), &[1, 10, 1000, 1000], &["/a", "/b"], |target, response| {
        assert_eq!((response.status, response.text()), (200, "fine"), "{target}");
    });
    for upstream in &mut upstreams {
        wait_until("the upstream gets requests", || upstream.accepted() > 0);
        let address = upstream.address();
        // Stops listening, then closes all connections in the middle of their requests.
        *upstream = named("on another port");
        server.wait_for_line(&format!("http://{address} is ejected and gets no requests: "));
        *upstream = restarted(address);
        server.wait_for_line(&format!("http://{address} gets requests again"));
    }
    assert!(load.stop().responses > 0);
}

#[test]
fn an_upstream_that_responds_with_a_failure_status_is_ejected() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    let failing = Upstream::serve(move |peer, _| {
        counted.fetch_add(1, SeqCst);
        peer.send("HTTP/1.1 503 Down\r\nContent-Length: 0\r\n\r\n");
    });
    let fine = named("fine");
    let upstreams = format!("\"{failing}\", \"{fine}\"");
    let ejection = "failures = 3, statuses = [502, 503], duration = \"1h\", duration_max = \"1h\"";
    let keys = format!("choice = \"round-robin\"\nejection = {{ {ejection} }}");
    let mut server = proxy_to_all(&upstreams, &keys);
    let mut statuses = BTreeMap::new();
    for _ in 0..20 {
        *statuses.entry(server.get("/a").status).or_insert(0) += 1;
    }
    assert_eq!(statuses, [(200, 17), (503, 3)].into());
    assert_eq!(requests.load(SeqCst), 3);
    server.wait_for_line("gets no requests: the status of its response is 503");
}

#[test]
fn if_all_upstreams_are_ejected_requests_are_still_sent() {
    let is_broken = Arc::new(AtomicBool::new(true));
    let upstream = || {
        let is_broken = is_broken.clone();
        Upstream::start(move |peer| {
            while peer.request().is_some() && !is_broken.load(SeqCst) {
                peer.respond("fine");
            }
        })
    };
    let (first, second) = (upstream(), upstream());
    let ejection = "ejection = { duration = \"1h\", duration_max = \"1h\" }";
    let mut server = proxy_to_all(&format!("\"{first}\", \"{second}\""), ejection);
    assert_eq!(server.get("/a").status, 502);
    server.wait_for_line(&format!("{first} is ejected"));
    server.wait_for_line(&format!("{second} is ejected"));
    assert_eq!(server.get("/a").status, 502);
    is_broken.store(false, SeqCst);
    assert_eq!(server.get("/a").text(), "fine");
    server.wait_for_line("gets requests again");
}

#[test]
fn one_request_after_an_ejection_decides() {
    let (is_broken, requests) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let failing = Upstream::start({
        let (is_broken, requests) = (is_broken.clone(), requests.clone());
        move |peer| {
            while peer.request().is_some() {
                requests.fetch_add(1, SeqCst);
                if is_broken.load(SeqCst) {
                    return;
                }
                peer.respond("a");
            }
        }
    });
    let other = named("b");
    let ejection = "choice = \"round-robin\"\nejection = { duration = \"20ms\", duration_max = \"20ms\" }";
    let mut server = proxy_to_all(&format!("\"{failing}\", \"{other}\""), ejection);
    // No request fails, because each trial that fails is repeated at the other upstream.
    wait_until("a third trial", || {
        assert_eq!(server.get("/a").text(), "b");
        requests.load(SeqCst) >= 3
    });
    is_broken.store(false, SeqCst);
    wait_until("a successful trial", || server.get("/a").text() == "a");
    server.wait_for_line(&format!("{failing} gets requests again"));
    assert!([(); 2].map(|()| server.get("/a").text() == "a").contains(&true), "its turn comes again");
}

#[test]
fn a_backup_gets_requests_only_while_all_others_are_down() {
    let address = ([127, 0, 0, 1], free_port()).into();
    let main = restarted(address);
    let (first, second) = (named("first"), named("second"));
    let upstreams = format!(
        "{{ url = \"{first}\", backup = true }}, \"{main}\", {{ url = \"{second}\", backup = true, weight = 3 }}"
    );
    let keys = "choice = \"round-robin\"\nejection = { duration = \"20ms\", duration_max = \"20ms\" }";
    let mut server = proxy_to_all(&upstreams, keys);
    // An ejection that ends brings a trial, which changes the order.
    let keys = "choice = \"round-robin\"\nejection = { duration = \"1h\", duration_max = \"1h\" }";
    let lasting = proxy_to_all(&upstreams, keys);
    let all = |name: &str, count| BTreeMap::from([(name.to_owned(), count)]);
    assert_eq!((counts(&server, 8), counts(&lasting, 8)), (all("fine", 8), all("fine", 8)));
    drop(main);
    // No request fails, and the backups share the requests.
    let of_backups = counts(&lasting, 8);
    assert_eq!(of_backups, BTreeMap::from([("first".to_owned(), 2), ("second".to_owned(), 6)]));
    assert!(counts(&server, 8).into_keys().eq(["first", "second"]));
    server.wait_for_line(&format!("http://{address} is ejected and gets no requests: "));
    let _main = restarted(address);
    wait_until("the end of the ejection", || server.get("/a").text() == "fine");
    assert_eq!(counts(&server, 8), all("fine", 8));
}

#[test]
fn a_backup_takes_the_keys_and_the_cookies_of_upstreams_that_are_drained() {
    for keys in ["choice = \"hash:path\"", "sticky = \"lb\""] {
        let (main, backup) = (named("main"), named("backup"));
        let server = proxy_to_all(&format!("{{ url = \"{backup}\", backup = true }}, \"{main}\""), keys);
        assert_eq!(counts(&server, 4), BTreeMap::from([("main".to_owned(), 4)]), "{keys}");
        assert_contains!(upstreams(&server, &[]).with_code(0).text(), "up (backup)");
        upstreams(&server, &["drain", &main.url()]).with_code(0);
        let of_backup = server.get("/a");
        assert_eq!(of_backup.text(), "backup", "{keys}");
        upstreams(&server, &["up", &main.url()]).with_code(0);
        let cookie =
            of_backup.field("set-cookie").and_then(|cookie| cookie.split(';').next()).unwrap_or("a=b");
        let with_cookie = server.get_with("/a", &["Host: a", &format!("Cookie: {cookie}")]);
        assert_eq!(with_cookie.text(), "main", "{keys}");
    }
}
