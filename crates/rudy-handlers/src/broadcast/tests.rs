//! Publishing and subscribing, without sockets. Tests with bodies are in `tests/tests/serve/broadcast.rs`.

use rudy_config::{Location, from_text};
use rudy_pipeline::{Resources, Routes};
use rudy_service::{Body, Client, Peer, RequestBody};

use super::*;

/// Creates a handler. Local clients may publish unless the table sets `publish`.
fn broadcast(table: &str) -> Result<Broadcast, Vec<Problem>> {
    let publish = if table.contains("publish") { "" } else { "publish = 'loopback'\n" };
    let (location, resources) = (Location::none(), Resources::default());
    let route = BuildContext::of_default_site(&location, &resources);
    Broadcast::new(&from_text(&format!("{publish}{table}")).unwrap(), &route)
}

fn respond(table: &str, method: &str, target: &str, peer: [u8; 4], fields: &[(&str, &str)]) -> Response {
    let routes = Arc::new(Routes::none());
    let mut request = http::Request::builder().method(method).uri(target);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let mut request = request.body(RequestBody::empty()).map(Request::from).unwrap();
    request.headers_mut().entry(header::HOST).or_insert(HeaderValue::from_static("localhost"));
    let client = Client::new(Peer::Ip((peer, 1).into()), 1, 1);
    let path = RequestPath::parse(request.uri().path()).unwrap().into_owned();
    match broadcast(table).unwrap().respond(request, &path, Context::new(&client, &routes)) {
        Reply::Now(response) => response,
        // An empty body is complete.
        Reply::Later(later) => {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(later)
        }
    }
}

const NEAR: [u8; 4] = [127, 0, 0, 1];
const FAR: [u8; 4] = [192, 0, 2, 1];

#[test]
fn anyone_may_subscribe_by_default_and_only_configured_clients_may_publish() {
    for (table, method, peer, status) in [
        ("", "GET", FAR, 200),
        ("", "HEAD", FAR, 200),
        ("", "POST", FAR, 403),
        ("", "PUT", FAR, 403),
        // Allowed, but an empty body publishes nothing.
        ("", "POST", NEAR, 400),
        ("publish = 'anyone'", "PUT", FAR, 400),
        ("publish = '192.0.2.0/24'", "PUT", FAR, 400),
        ("publish = ['192.0.2.2', '::1']", "PUT", FAR, 403),
        ("allow = 'loopback'", "GET", FAR, 403),
        ("", "OPTIONS", FAR, 204),
        ("", "DELETE", NEAR, 405),
        ("", "BREW", NEAR, 501),
    ] {
        let response = respond(table, method, "/news", peer, &[]);
        assert_eq!(response.status().as_u16(), status, "{method} from {peer:?} with {table}");
        let has_allow = response.headers().get(header::ALLOW).is_some_and(|allow| allow == METHODS);
        assert_eq!(has_allow, matches!(status, 204 | 405));
    }
}

#[test]
fn topics_belong_to_the_first_host_at_the_addresses_of_a_site() {
    let (location, resources) = (Location::none(), Resources::default());
    let topic_of = |hosts: &[&str], own_addresses: &str| {
        let hosts = &hosts.iter().map(|host| host.parse().unwrap()).collect::<Vec<_>>();
        let route =
            BuildContext { hosts, own_addresses, ..BuildContext::of_default_site(&location, &resources) };
        let table: BroadcastTable = from_text("publish = 'loopback'").unwrap();
        let broadcast = Broadcast::new(&table, &route).unwrap();
        broadcast.publishable_topic(&RequestPath::parse("/news").unwrap()).ok().unwrap()
    };
    let before = topic_of(&["a.org"], "");
    assert!(Arc::ptr_eq(&before, &topic_of(&["a.org", "www.a.org"], "")));
    assert!(!Arc::ptr_eq(&before, &topic_of(&["b.org"], "")));
    assert!(!Arc::ptr_eq(&before, &topic_of(&[], "")));
    assert!(!Arc::ptr_eq(&before, &topic_of(&["a.org"], "127.0.0.1:81")), "a site at another address");
    assert!(!Arc::ptr_eq(&topic_of(&[], ""), &topic_of(&[], "127.0.0.1:81")));
}

#[test]
fn a_page_of_another_site_cannot_publish() {
    for (origin, status) in [
        ("http://localhost:8080", 400),
        ("http://LOCALHOST:8080", 400),
        ("http://localhost", 403),
        ("https://example.org", 403),
        ("null", 403),
    ] {
        let fields = [("host", "localhost:8080"), ("origin", origin)];
        assert_eq!(respond("", "POST", "/news", NEAR, &fields).status().as_u16(), status, "{origin}");
    }
}

#[test]
fn a_subscription_is_an_endless_stream_of_events() {
    let response = respond("", "GET", "/news", FAR, &[]);
    assert!(matches!(response.body, Body::Stream(_)));
    assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
    assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
}

#[test]
fn names_and_topics_are_limited() {
    let long = format!("/{}", "x".repeat(NAME_BYTES_MAX));
    assert_eq!(respond("", "GET", &long, FAR, &[]).status(), 414);
    let broadcast = broadcast("topics = 1").unwrap();
    let routes = Arc::new(Routes::none());
    let near = Client::new(Peer::Unix, 1, 1);
    let call = |method: &str, target: &str| {
        let request = http::Request::builder().method(method).uri(target).body(RequestBody::empty());
        broadcast.respond(
            request.map(Request::from).unwrap(),
            &RequestPath::parse(target).unwrap(),
            Context::new(&near, &routes),
        )
    };
    let status = |reply: &Reply| match reply {
        Reply::Now(response) => Some(response.status().as_u16()),
        Reply::Later(_) => None,
    };
    // The future is not polled, so the body is not read and the topic stays in use.
    let first = call("POST", "/caf%C3%A9");
    assert_eq!(status(&first), None);
    assert_eq!(status(&call("PUT", "/caf%c3%a9")), None, "another spelling of the same path");
    let Reply::Now(rejected) = call("POST", "/second") else { panic!("it is over the limit") };
    assert_eq!(
        (rejected.status().as_u16(), &rejected.headers()[header::RETRY_AFTER]),
        (503, &"60".parse().unwrap())
    );
    assert_eq!(status(&call("GET", "/second")), Some(200), "a subscription does not count");
    drop(first);
    assert_eq!(status(&call("POST", "/second")), None, "a topic without messages and subscribers makes room");
}

#[test]
fn a_heartbeat_out_of_range_is_an_error() {
    for (heartbeat, is_valid) in [("0s", true), ("1s", true), ("999ms", false), ("2h", false)] {
        assert_eq!(broadcast(&format!("heartbeat = '{heartbeat}'")).is_ok(), is_valid, "{heartbeat}");
    }
}
