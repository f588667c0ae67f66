//! `resolver`: names by their TTL, and SRV records.

use rudy_tests::DnsRecord;
use rudy_tests::prelude::*;

use crate::proxy::admin::{json, upstreams};
use crate::proxy::choice::named;
use crate::proxy::{assert_error, counts, proxy_to_all};

const HOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// A name with SRV records, and its URL.
const SERVICE: &str = "_http._tcp.app.test";
const URL: &str = "\"http://_http._tcp.app.test\"";

/// An upstream as the target of a SRV record. Its host must resolve to 127.0.0.1.
fn srv(upstream: &Upstream, target: &'static str, priority: u16, weight: u16) -> DnsRecord {
    DnsRecord::Srv { priority, weight, port: upstream.address().port(), target }
}

/// A name server that knows the hosts `a.test` to `c.test`.
fn name_server() -> NameServer {
    let dns = NameServer::start();
    for host in ["a.test", "b.test", "c.test"] {
        dns.set(host, 60, &[DnsRecord::A(HOST)]);
    }
    dns
}

/// A proxy that asks this name server, with more keys for its table.
fn proxy(dns: &NameServer, url: &str, more: &str) -> Server {
    proxy_to_all(url, &format!("resolver = \"{}\"\n{more}", dns.address()))
}

fn wait_for_members(server: &Server, urls: &[String]) {
    let mut urls = urls.to_vec();
    urls.sort();
    wait_until("the upstreams are those of the records", || {
        let mut known: Vec<_> =
            json(server, "url").iter().map(|url| url.as_str().expect("a URL").to_owned()).collect();
        known.sort();
        known == urls
    });
}

fn url_at(upstream: &Upstream, host: &str) -> String {
    format!("http://{host}:{}", upstream.address().port())
}

/// An upstream at this address that responds with its name.
fn named_at(address: impl Into<SocketAddr>, name: &'static str) -> Upstream {
    Upstream::start_at(address.into(), move |peer| {
        while peer.request().is_some() {
            peer.respond(name);
        }
    })
}
#[test]
fn a_name_is_looked_up_again_when_its_ttl_ends_and_the_last_answer_stays() {
    let dns = NameServer::start();
    let [old, new] = [[127, 0, 0, 2], [127, 0, 0, 3]].map(Ipv4Addr::from);
    let first = named_at((old, 0), "old");
    let port = first.address().port();
    let _second = named_at((new, port), "new");
    // A TTL of 0 counts as a second.
    dns.set("app.test", 0, &[DnsRecord::A(old)]);
    let mut server = proxy(&dns, &format!("\"http://App.test:{port}\""), "");
    assert_eq!(server.get("/a").text(), "old");
    dns.set("app.test", 1, &[DnsRecord::A(new)]);
    server.wait_for_line(&format!("App.test:{port} resolves to {new}"));
    assert_eq!(server.get("/a").text(), "new");
    dns.remove("app.test");
    let why = "there is no such name (NXDOMAIN)";
    server.wait_for_line(&format!("no longer resolves: {why}; connections still go to 127.0.0.3"));
    assert_eq!(server.get("/a").text(), "new");
    dns.set("app.test", 1, &[DnsRecord::A(old)]);
    server.wait_for_line(&format!("App.test:{port} resolves to {old}"));
    assert_eq!(server.get("/a").text(), "old");
}

#[test]
fn srv_records_state_hosts_ports_weights_and_priorities() {
    let dns = name_server();
    let [a, b, c] = [named("a"), named("b"), named("c")];
    dns.set(SERVICE, 60, &[srv(&a, "a.test", 1, 20), srv(&c, "c.test", 7, 0), srv(&b, "b.test", 1, 10)]);
    let server = proxy(&dns, URL, "choice = \"round-robin\"");
    // It waits for the first answer.
    assert_eq!(server.get("/a").status, 200);
    wait_for_members(&server, &[url_at(&a, "a.test"), url_at(&b, "b.test"), url_at(&c, "c.test")]);
    counts(&server, 2);
    let expected = [("a", 8), ("b", 4)].map(|(name, count)| (name.to_owned(), count));
    assert_eq!(counts(&server, 12), expected.into());
    drop((a, b));
    let later = [("c".to_owned(), 4)].into();
    assert_eq!(counts(&server, 4), later, "a later priority serves while the first is down");
}

#[test]
fn a_target_that_leaves_finishes_its_requests_and_new_ones_are_checked() {
    let dns = name_server();
    let (begun, has_begun) = channel();
    let (release, may_respond) = channel();
    let (begun, may_respond) = (Mutex::new(begun), Mutex::new(may_respond));
    let leaving = Upstream::serve(move |peer, request| {
        if request.target() == "/slow" {
            begun.lock().expect("no test fails").send(()).expect("the test waits");
            may_respond.lock().expect("no test fails").recv().expect("the test continues");
        }
        peer.respond("leaving");
    });
    let sick = Upstream::serve(|peer, request| {
        assert_eq!(request.field("host"), Some("app.test"), "checks name the domain of the service");
        peer.send("HTTP/1.1 500 Sick\r\nContent-Length: 0\r\n\r\n");
    });
    let coming = named("coming");
    dns.set(SERVICE, 1, &[srv(&leaving, "a.test", 0, 1)]);
    let check = "health_check = { interval = \"10ms\", unhealthy = 1 }";
    let mut server = proxy(&dns, URL, check);
    let mut first = server.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    has_begun.recv().expect("the upstream gets the request");
    dns.set(SERVICE, 1, &[srv(&coming, "b.test", 0, 1), srv(&sick, "c.test", 0, 9)]);
    let port = |upstream: &Upstream| upstream.address().port();
    server.wait_for_line(&format!("{SERVICE} resolves to c.test:{}, b.test:{}", port(&sick), port(&coming)));
    server.wait_for_line(&format!("{} is unhealthy and gets no requests", url_at(&sick, "c.test")));
    assert_eq!(counts(&server, 4), [("coming".to_owned(), 4)].into());
    release.send(()).expect("the upstream waits");
    assert_eq!(first.response().text(), "leaving");
}

#[test]
fn after_a_failed_lookup_the_targets_stay_and_before_the_first_answer_requests_fail() {
    let dns = name_server();
    let a = named("a");
    let mut server = proxy(&dns, URL, "");
    let why = "there is no such name (NXDOMAIN)";
    server.wait_for_line(&format!("{SERVICE} does not resolve: {why}; requests to it get 502"));
    assert_error(&server.get("/a"), 502, "dns_error");
    dns.set(SERVICE, 1, &[srv(&a, "a.test", 0, 0)]);
    server.wait_for_line(&format!("{SERVICE} resolves to a.test:"));
    assert_eq!(server.get("/a").text(), "a");
    // The log of this server is not about earlier failures.
    let mut server = proxy(&dns, URL, "");
    assert_eq!(server.get("/a").text(), "a");
    dns.set(SERVICE, 1, &[]);
    server.wait_for_line("no longer resolves: it has no SRV record; requests still go to a.test:");
    assert_eq!(server.get("/a").text(), "a");
    dns.set_hanging(true);
    assert_eq!(server.get("/a").text(), "a");
}

#[test]
fn a_name_server_that_hangs_delays_no_other_one_and_no_reload() {
    let (hanging, dns) = (NameServer::start(), name_server());
    hanging.set_hanging(true);
    let upstream = named("a");
    dns.set(SERVICE, 60, &[srv(&upstream, "a.test", 0, 0)]);
    let servers = format!("resolver = [\"{}\", \"{}\"]", hanging.address(), dns.address());
    let mut server = proxy_to_all(URL, &servers);
    assert_eq!(server.get("/a").text(), "a");
    let text = server.path().read("rudy.toml");
    // In the middle of a lookup that hangs.
    let slow = text.replace(&servers, &format!("resolver = \"{}\"", hanging.address()));
    server.reload_with(&slow, "the configuration was reloaded");
    let mut waiting = server.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    server.forget_lines();
    server.path().write("rudy.toml", text.replace(URL, &format!("\"{upstream}\"")));
    server.signal(Signal::HUP);
    wait_until("the second reload", || {
        server.take_lines().iter().any(|line| line.contains("the configuration was reloaded"))
    });
    assert_eq!(server.get("/a").text(), "a");
    // The name server is back: the request that waits in the pool of the earlier configuration is served.
    hanging.set("a.test", 60, &[DnsRecord::A(HOST)]);
    hanging.set(SERVICE, 60, &[srv(&upstream, "a.test", 0, 0)]);
    hanging.set_hanging(false);
    assert_eq!(waiting.response().text(), "a");
}

#[test]
fn a_drained_target_stays_drained_through_a_reload_of_its_route() {
    let dns = name_server();
    let [a, b] = [named("a"), named("b")];
    dns.set(SERVICE, 60, &[srv(&a, "a.test", 0, 1), srv(&b, "b.test", 0, 1)]);
    let mut server = proxy(&dns, URL, "choice = \"round-robin\"");
    wait_for_members(&server, &[url_at(&a, "a.test"), url_at(&b, "b.test")]);
    upstreams(&server, &["drain", &url_at(&a, "a.test")]).with_code(0);
    assert_eq!(counts(&server, 4), [("b".to_owned(), 4)].into());
    let change = |text: String| text.replace("\"round-robin\"", "\"least-busy\"");
    server.reload_changed(change, "the configuration was reloaded");
    assert_eq!(counts(&server, 4), [("b".to_owned(), 4)].into());
    wait_for_members(&server, &[url_at(&a, "a.test"), url_at(&b, "b.test")]);
    assert_eq!(json(&server, "state"), ["drained", "up"]);
    // The URL of the service names all its targets.
    upstreams(&server, &["up", URL.trim_matches('"')]).with_code(0);
    assert_eq!(json(&server, "state"), ["up", "up"]);
}

#[test]
fn check_shows_what_each_upstream_resolves_to() {
    let dns = name_server();
    let record = |target, port| DnsRecord::Srv { priority: 1, weight: 2, port, target };
    dns.set(SERVICE, 60, &[record("a.test", 81), record("d.test", 82)]);
    dns.set("b.test", 60, &[DnsRecord::A(HOST), DnsRecord::A([127, 0, 0, 2].into())]);
    let check = |upstreams: &str, resolver: &str| {
        let table = format!("[site.route.proxy]\nupstreams = [{upstreams}]\n{resolver}");
        Rudy::check(&format!("listen = \":0\"\n[[site]]\n[[site.route]]\npath = \"/*\"\n{table}")).text()
    };
    let all = format!("{URL}, \"http://b.test:83\", \"http://e.test\", \"http://127.0.0.1:84\"");
    let text = check(&all, &format!("resolver = \"{}\"", dns.address()));
    let expected = "Upstreams
  http://_http._tcp.app.test  a.test:81 (priority 1, weight 2): 127.0.0.1
                              d.test:82 (priority 1, weight 2): does not resolve: there is no such name (NXDOMAIN)
  http://b.test:83            127.0.0.1, 127.0.0.2
  http://e.test               does not resolve: there is no such name (NXDOMAIN)
";
    assert!(text.contains(expected), "{text}");
    let weighted = format!("{{ url = {URL}, weight = 2 }}");
    let needed =
        "http://_http._tcp.app.test has SRV records: add name servers, as in `resolver = \"system\"`";
    for (upstream, keys, expected) in [
        (URL, "", needed),
        (URL, "resolver = \"system\"\nsticky = \"a\"", "`sticky` and the SRV records of"),
        (&weighted, "resolver = \"system\"", "state the weights: remove `weight`"),
        (URL, "resolver = \"ns.test\"", "\"ns.test\" is not the address of a name server"),
        ("\"http://_http._tcp.app.test:80\"", "", "SRV records state the ports"),
    ] {
        let text = check(upstream, keys);
        assert!(text.contains(expected), "{keys}: {text}");
    }
}
