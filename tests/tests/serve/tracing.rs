//! Traces: what a collector receives, and what upstreams and apps learn of the trace.

use rudy_tests::collector::Span;
use rudy_tests::prelude::*;

mod collectors;
mod contexts;

/// A server with these lines, which records all requests.
fn server(collector: &Collector, more: &str) -> Server {
    Server::config(&format!(
        "listen = ['127.0.0.1:0']\ntracing = {{ endpoint = '{collector}', sample = '100%' }}\n{more}"
    ))
}

/// Returns the span with this name of this service.
fn named<'a>(spans: &'a [Span], service: &str, name: &str) -> &'a Span {
    let found = spans.iter().find(|span| (&*span.service, &*span.name) == (service, name));
    found.unwrap_or_else(|| panic!("no {name} of {service}: {spans:#?}"))
}

#[test]
fn a_trace_leads_through_two_servers_and_a_cache() {
    let (collector, upstream) = (
        Collector::start(),
        Upstream::serve(|peer, _| {
            peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nok");
        }),
    );
    let inner = Server::config(&format!(
        "listen = ['127.0.0.1:0']\ntrusted_proxies = ['127.0.0.1']\ncache = {{ path = 'cache' }}\n\
         tracing = {{ endpoint = '{collector}', sample = '0%', service_name = 'inner' }}\n\
         [[site]]\n[[site.route]]\npath = '/*'\nproxy = '{upstream}'\ncache = true\n"
    ));
    let outer = Server::config(&format!(
        "listen = ['127.0.0.1:0']\ntracing = {{ endpoint = '{collector}', sample = '100%', service_name = 'outer' }}\n\
         [[site]]\n[[site.route]]\npath = '/shop/*'\nproxy = 'http://{}'\n",
        inner.address()
    ));
    assert_eq!(outer.get_with("/shop/a", &["User-Agent: test"]).text(), "ok");
    let spans = collector.wait(5);
    let [first, sent] = ["GET /shop/*", "GET"].map(|name| named(&spans, "outer", name));
    let [second, cache, forwarded] = ["GET /*", "cache", "GET"].map(|name| named(&spans, "inner", name));
    assert_eq!((spans.len(), &*first.parent), (5, ""));
    for (child, parent) in [(sent, first), (second, sent), (cache, second), (forwarded, cache)] {
        assert!(child.is_child_of(parent), "{child:#?} {parent:#?}");
        assert!(child.service != parent.service || child.start >= parent.start, "{child:#?} {parent:#?}");
        assert!(child.start <= child.end, "{child:#?}");
    }
    let attributes = |span: &Span, names: &[&str]| {
        names.iter().map(|name| span.attribute(name).to_owned()).collect::<Vec<_>>()
    };
    let names = [
        "http.request.method",
        "url.scheme",
        "url.path",
        "http.route",
        "http.response.status_code",
        "network.protocol.version",
        "server.address",
        "client.address",
        "user_agent.original",
    ];
    let expected = ["GET", "http", "/shop/a", "/shop/*", "200", "1.1", "test", "127.0.0.1", "test"];
    assert_eq!(attributes(first, &names), expected);
    let names = ["server.address", "server.port", "http.response.status_code"];
    assert_eq!(attributes(sent, &names), ["127.0.0.1", &inner.address().port().to_string(), "200"]);
    assert_eq!(cache.attribute("rudy.cache.status"), "uri-miss");
    assert_eq!([first, sent, second, cache, forwarded].map(|span| span.kind), [2, 3, 2, 1, 3]);
    // The parents of the two servers' own spans: none, and one in another process.
    assert_eq!([first.flags, second.flags, cache.flags], [0x101, 0x301, 0x101]);

    // The response may not be stored yet.
    let is_hit =
        |response: &Response| response.field("cache-status").is_some_and(|status| status.contains("hit"));
    wait_until("the response is stored", || is_hit(&outer.get("/shop/a")));
    let spans = eventually("the spans of the hit arrive", || {
        Some(collector.spans())
            .filter(|spans| spans.iter().any(|span| span.attribute("rudy.cache.status") == "hit"))
    });
    let hit = spans.iter().find(|span| span.attribute("rudy.cache.status") == "hit").expect("it was found");
    assert!(spans.iter().all(|span| !span.is_child_of(hit)), "{spans:#?}");
}

#[test]
fn each_attempt_has_a_span_and_the_upstream_gets_its_id() {
    let collector = Collector::start();
    let (down, seen) = (ReservedPort::new(), Arc::new(Mutex::new(Vec::new())));
    let upstream = |status: &'static str| {
        let seen = seen.clone();
        Upstream::serve(move |peer, request| {
            seen.lock().unwrap().push(request.field("traceparent").unwrap().to_owned());
            peer.send(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n"));
        })
    };
    let (failing, healthy) = (upstream("503"), upstream("200"));
    let server = server(
        &collector,
        &format!(
            "[[site]]\n[[site.route]]\npath = '/*'\n[site.route.proxy]\nupstreams = ['http://{}', '{failing}', '{healthy}']\n\
         retry_statuses = [503]\nchoice = 'round-robin'\n",
            down.address()
        ),
    );
    assert_eq!(server.get("/a").status, 200);
    let spans = collector.wait(4);
    let attempts = &spans[1..];
    assert!(attempts.iter().all(|span| span.is_child_of(&spans[0])), "{spans:#?}");
    let shown = attempts.iter().map(|span| {
        let status = span.attribute("http.response.status_code");
        (status, span.attribute("error.type"), span.attribute("http.request.resend_count"), span.has_failed)
    });
    let expected = [("", "no connection", "", true), ("503", "503", "1", true), ("200", "", "2", false)];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
    let sent = attempts[1..].iter().map(|span| format!("00-{}-{}-01", span.trace, span.id));
    assert_eq!(*seen.lock().unwrap(), sent.collect::<Vec<_>>());
}

#[test]
fn an_app_and_an_authorizer_have_spans() {
    let collector = Collector::start();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let of_app = seen.clone();
    let app = App::serve(move |peer, params| {
        of_app.lock().unwrap().push(variable(&params, "HTTP_TRACEPARENT").to_owned());
        peer.respond(b"Content-Type: text/plain\r\n\r\nok");
    });
    let of_authorizer = seen.clone();
    let authorizer = Upstream::serve(move |peer, request| {
        of_authorizer.lock().unwrap().push(request.field("traceparent").unwrap().to_owned());
        peer.respond("yes");
    });
    let server = server(
        &collector,
        &format!(
            "[[site]]\n[[site.route]]\npath = '/*'\nforward_auth = '{authorizer}/verify'\nfastcgi = {{ address = '{}' }}\n",
            app.address()
        ),
    );
    assert_eq!(server.get("/a").text(), "ok");
    let spans = collector.wait(3);
    assert!(spans[1..].iter().all(|span| span.is_child_of(&spans[0])), "{spans:#?}");
    assert_eq!([&*spans[1].name, &spans[2].name], ["authorization", "fastcgi"]);
    assert_eq!(spans[2].attribute("network.protocol.name"), "fastcgi");
    let sent = spans[1..].iter().map(|span| format!("00-{}-{}-01", span.trace, span.id));
    assert_eq!(*seen.lock().unwrap(), sent.collect::<Vec<_>>());
}

#[test]
fn an_internal_redirect_is_an_event_and_a_route_can_be_left_out() {
    let collector = Collector::start();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let of_upstream = seen.clone();
    let upstream = Upstream::serve(move |peer, request| {
        of_upstream.lock().unwrap().push(request.field("traceparent").unwrap().to_owned());
        peer.respond("ok");
    });
    let server = server(
        &collector,
        &format!(
            "[[site]]\n[[site.route]]\npath = '/health'\nproxy = '{upstream}'\ntracing = false\n\
         [[site.route]]\npath = '/old'\nrewrite = '/new'\n[[site.route]]\npath = '/new'\nrespond = 'new'\n"
        ),
    );
    assert_eq!(server.get("/health").text(), "ok");
    assert_eq!(server.get("/old").text(), "new");
    let spans = collector.wait(1);
    assert_eq!((spans.len(), &*spans[0].name), (1, "GET /new"));
    let (name, attributes) = &spans[0].events[0];
    assert_eq!(
        (&**name, &*attributes["http.route"], spans[0].events.len()),
        ("internal redirect", "/new", 1)
    );
    let of_health = seen.lock().unwrap()[0].clone();
    assert!(of_health.ends_with("-00"), "{of_health}");
}

#[test]
fn logs_have_the_ids_of_the_trace() {
    let collector = Collector::start();
    let down = ReservedPort::new();
    let server = server(
        &collector,
        &format!(
            "access_log = {{ path = 'access.log', format = '{{trace_id}} {{span_id}} {{host}} {{header.x-a}}' }}\nerror_log = 'error.log'\n\
         [[site]]\n[[site.route]]\npath = '/*'\nproxy = 'http://{}'\n",
            down.address()
        ),
    );
    assert_eq!(server.get_with("/a", &["X-A: b"]).status, 502);
    let spans = collector.wait(2);
    let (first, attempt) = (&spans[0], &spans[1]);
    assert_eq!((first.attribute("error.type"), first.has_failed), ("502", true));
    assert_eq!((attempt.attribute("error.type"), attempt.has_failed), ("no connection", true));
    let wait =
        |name: &str| Path::new("/").wait_until(server.path().join(name), |text| text.contains(&first.trace));
    assert_eq!(wait("access.log"), format!("{} {} test b\n", first.trace, first.id));
    assert_contains!(wait("error.log"), &format!("(trace {})", first.trace));
}
