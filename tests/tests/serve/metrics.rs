//! The metrics: the handler, the command, and what they count.

use rudy_tests::prelude::*;

/// The value of a sample, with its labels as they are written.
fn value(text: &str, sample: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')?.parse().ok())
}

fn server(more: &str) -> Server {
    let routes = "{ path = '/metrics', metrics = {} }, { path = '/gone/*', respond = 410 }, { path = '/*', respond = 'ok' }";
    Server::config(&format!(
        "listen = ['127.0.0.1:0']\nadmin_socket = 'admin.sock'\n{more}\n\
         [[site]]\nhosts = ['localhost']\nroute = [{routes}]\n"
    ))
}

#[test]
fn requests_are_counted_by_site_route_and_status() {
    let server = server("");
    for target in ["/", "/x", "/gone/x"] {
        let _response = server.get(target);
    }
    let expected = [
        ("rudy_http_requests_total{site=\"localhost\",route=\"/gone/*\",status=\"4xx\"}", 1.0),
        ("rudy_http_requests_total{site=\"localhost\",route=\"/*\",status=\"2xx\"}", 2.0),
        ("rudy_http_request_duration_seconds_count{site=\"localhost\",route=\"/*\"}", 2.0),
        ("rudy_http_request_duration_seconds_bucket{site=\"localhost\",route=\"/*\",le=\"+Inf\"}", 2.0),
        ("rudy_http_response_body_bytes_total{site=\"localhost\",route=\"/*\"}", 4.0),
        ("rudy_http_requests_in_flight", 1.0),
        ("rudy_panics_total", 0.0),
        ("rudy_log_lines_lost_total", 0.0),
    ];
    // A request counts once its end is known, which is after the client has the response, and each connection may be another worker's.
    let text = eventually("the requests are counted", || {
        let text = server.get("/metrics").text().to_owned();
        let is_counted = |(sample, count): &(&str, f64)| value(&text, sample) == Some(*count);
        expected.iter().all(is_counted).then_some(text)
    });
    for sample in ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"] {
        assert!(value(&text, sample).is_some(), "{sample} in\n{text}");
    }
    assert!(text.contains("rudy_thread_cpu_seconds_total{thread=\""), "{text}");
}

#[test]
fn idle_and_active_connections_are_counted() {
    let server = server("");
    let mut idle = server.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(idle.response().status, 200);
    wait_until("one is idle, and the one that asks is active", || {
        let text = server.get("/metrics").text().to_owned();
        let of = |state: &str| value(&text, &format!("rudy_connections{{state=\"{state}\"}}"));
        (of("idle"), of("active")) == (Some(1.0), Some(1.0))
    });
}

#[test]
fn the_command_prints_the_metrics_and_those_of_upstreams() {
    let upstream = Upstream::serve(|peer, _| peer.respond("ok"));
    let server = Server::config(&format!(
        "listen = ['127.0.0.1:0']\nadmin_socket = 'admin.sock'\n\
         [[site]]\nhosts = ['localhost']\n[[site.route]]\npath = '/*'\nproxy = '{upstream}'\n"
    ));
    assert_eq!(server.get("/").status, 200);
    let socket = server.path().join("admin.sock");
    let text = Rudy::command(["metrics", "--socket"]).arg(socket).output().succeeded();
    let labels = format!("{{route=\"localhost/*\",upstream=\"{upstream}\"}}");
    assert_eq!(value(&text, &format!("rudy_upstream_requests_total{labels}")), Some(1.0), "{text}");
    assert_eq!(value(&text, &format!("rudy_upstream_up{labels}")), Some(1.0));
    assert!(!text.contains("rudy_http_requests_total"), "requests by route cost nothing by default");
}

#[test]
fn the_metrics_are_for_this_machine_unless_others_are_allowed() {
    let server = server("");
    let response = server.get_with("/metrics", &["Host: localhost", "X-Forwarded-For: 192.0.2.1"]);
    assert_eq!(response.status, 403, "it came through a proxy");
}

#[test]
fn prometheus_gets_the_metrics_with_the_documented_configuration() {
    let page = include_str!("../../../docs/metrics.md");
    let between = |text: &'static str, start: &str, end: &str| {
        text.split_once(start).and_then(|(_, rest)| rest.split_once(end)).unwrap().0
    };
    let site = between(page, "```toml\n", "```");
    let target = between(between(page, "```yaml\n", "```"), "targets: [\"", "\"");
    assert!(site.contains(&format!("listen = \"{target}\"")), "{target} is the address in\n{site}");
    let site = site.replace(target, "127.0.0.2:0");
    let server = Server::config(&format!("listen = '127.0.0.1:0'\n{site}"));
    let mut connection = Connection::open(server.address_of(1));
    let response = connection.get("/metrics", &[&format!("Host: {target}")]);
    assert_eq!(response.status, 200);
    assert!(response.text().contains("rudy_build_info{"), "{}", response.text());
}

#[test]
fn open_metrics_is_sent_to_clients_that_accept_it() {
    let server = server("");
    let accept = "Accept: application/openmetrics-text;version=1.0.0,*/*;q=0.1";
    let response = server.get_with("/metrics", &["Host: localhost", accept]);
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(response.field("content-type"), Some(media_type));
    assert!(response.text().ends_with("\n# EOF\n"));
    assert_contains!(response.text(), "# TYPE rudy_panics counter\n");
}

#[test]
fn counters_survive_a_reload() {
    let mut server = server("metrics = true");
    let _response = server.get("/x");
    server.reload("the configuration was reloaded");
    let _response = server.get("/x");
    wait_until("both are counted", || {
        let text = server.get("/metrics").text().to_owned();
        let sample = "rudy_http_requests_total{site=\"localhost\",route=\"/*\",status=\"2xx\"}";
        value(&text, sample) == Some(2.0)
    });
}

#[test]
fn the_routes_of_the_current_configuration_are_counted_after_many_reloads() {
    const ROUTES: usize = 90;
    let config = |generation: u32| {
        let routes =
            (0..ROUTES).map(|number| format!("{{ path = '/{generation}-{number}/*', respond = 'ok' }},\n"));
        let routes: String = routes.collect();
        format!(
            "listen = ['127.0.0.1:0']\nmetrics = true\n[[site]]\nhosts = ['localhost']\nroute = [\n\
             {{ path = '/metrics', metrics = {{}} }},\n{{ path = '/kept/*', respond = 'ok' }},\n{routes}]\n"
        )
    };
    let mut server = Server::config(&config(0));
    let mut connection = server.connect();
    for generation in 0..4 {
        if generation > 0 {
            server.reload_with(&config(generation), "the configuration was reloaded");
        }
        for number in 0..ROUTES {
            let target = format!("/{generation}-{number}/x");
            assert_eq!(connection.get(&target, &["Host: localhost"]).status, 200);
        }
        assert_eq!(connection.get("/kept/x", &["Host: localhost"]).status, 200);
        let text = eventually("these are counted, and those of the last configuration are forgotten", || {
            let text = connection.get("/metrics", &["Host: localhost"]).text().to_owned();
            let counted = |route: &str| {
                let labels = format!("site=\"localhost\",route=\"{route}\",status=\"2xx\"");
                value(&text, &format!("rudy_http_requests_total{{{labels}}}"))
            };
            let all = (0..ROUTES).all(|number| counted(&format!("/{generation}-{number}/*")) == Some(1.0));
            let last = generation.checked_sub(1).and_then(|last| counted(&format!("/{last}-0/*")));
            let is_kept = counted("/kept/*") == Some(f64::from(generation + 1));
            (all && is_kept && last.is_none()).then_some(text)
        });
        assert!(!text.contains("route=\"other\""), "{text}");
    }
}

#[test]
fn rejected_requests_are_counted_by_the_limits_of_the_current_configuration() {
    const LIMITS: usize = 20;
    let config = |generation: usize| {
        let limit = |number| format!("rate_limit = {{ rate = '1/h', name = 'limit-{generation}-{number}' }}");
        let route = |number| format!("{{ path = '/{number}', respond = 'ok', {} }},\n", limit(number));
        let routes: String = (0..LIMITS).map(route).collect();
        format!(
            "listen = ['127.0.0.1:0']\naccess_log = {{ path = 'access.log', format = 'json' }}\n\
             [[site]]\nhosts = ['localhost']\nroute = [\n{{ path = '/metrics', metrics = {{}} }},\n{routes}]\n"
        )
    };
    let mut server = Server::config(&config(0));
    for generation in 0..3 {
        if generation > 0 {
            server.reload_with(&config(generation), "the configuration was reloaded");
        }
        for number in 0..LIMITS {
            let statuses = [(); 2].map(|()| server.get(&format!("/{number}")).status);
            assert_eq!(statuses, [200, 429], "{number}");
        }
        wait_until("the limits of this configuration are counted, and no others", || {
            let text = server.get("/metrics").text().to_owned();
            let names = text.lines().filter(|line| line.starts_with("rudy_limited_requests_total{"));
            let expected = (0..LIMITS).map(|number| {
                format!("rudy_limited_requests_total{{limit=\"limit-{generation}-{number}\"}} 1")
            });
            names.map(str::to_owned).collect::<BTreeSet<_>>() == expected.collect()
        });
    }
    server.path().wait_until("access.log", |log| log.matches("\"limit\":\"limit-2-").count() == LIMITS);
}
