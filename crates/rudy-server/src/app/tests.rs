use std::sync::atomic::{AtomicUsize, Ordering};

use http::header;
use rudy_pipeline::client_address::TrustedProxies;
use rudy_pipeline::conditions::SiteConditions;
use rudy_pipeline::routing::{Hosts, Listeners, Route, Router, Site};
use rudy_pipeline::{Call, Handler, NoHandler};
use rudy_service::Body;

use super::*;

pub(super) fn app(text: &str) -> App {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rudy.toml");
    std::fs::write(&file, text).unwrap();
    let app = Config::load(&file).and_then(|config| App::new(&config, &Resources::default()));
    app.unwrap_or_else(|errors| panic!("{errors}"))
}

pub(super) fn send(app: &App, method: &str, host: &str, target: &str) -> Response {
    let request = http::Request::builder().method(method).uri(target).header(header::HOST, host);
    let request = request.body(RequestBody::empty()).map(Request::from).unwrap();
    let client = Client::new(Peer::Ip(([192, 0, 2, 7], 1).into()), 1, 1);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(app.call(request, &client).response())
}

#[test]
fn requests_reach_the_handler_of_their_site_and_route() {
    let app = app(r#"
            [[site]]
            hosts = ["example.org", "*.example.org"]
            [[site.route]]
            path = "/ping"
            respond = { body = "pong" }
            [[site.route]]
            path = "/old/*"
            redirect = { to = "https://{host}/new/{rest}{query}", status = 301 }
            [[site.route]]
            path = "/status"
            status = { allow = "loopback" }
        "#);
    for (method, host, target, status) in [
        ("GET", "example.org", "/ping", 200),
        ("HEAD", "www.EXAMPLE.org:8080", "/ping", 200),
        ("POST", "example.org", "/ping", 405),
        ("BREW", "example.org", "/ping", 501),
        ("OPTIONS", "example.org", "/ping", 204),
        ("GET", "example.org", "/p%69ng", 200),
        ("GET", "other.org", "http://example.org/ping", 200),
        ("GET", "example.org", "https://example.org/ping", 421),
        ("GET", "example.org", "/pong", 404),
        ("BREW", "example.org", "/pong", 501),
        ("GET", "example.org", "/../ping", 400),
        ("GET", "example.com", "/ping", 421),
        ("GET", "example.org", "/status", 403),
        ("OPTIONS", "example.org", "*", 204),
        ("OPTIONS", "example.com", "*", 204),
    ] {
        assert_eq!(send(&app, method, host, target).status().as_u16(), status, "{method} {host} {target}");
    }
    let pong = send(&app, "GET", "example.org", "/ping");
    assert!(matches!(pong.body, Body::Bytes(body) if body == "pong"));
    let moved = send(&app, "GET", "example.org:8080", "/old/a?b");
    assert_eq!(moved.headers()[header::LOCATION], "https://example.org/new/a?b");
    assert_eq!(send(&app, "OPTIONS", "example.org", "*").headers()[header::ALLOW], "GET, HEAD, OPTIONS");
}

#[test]
fn loopback_is_for_no_web_page_with_a_name_that_resolves_to_this_machine() {
    const ROUTES: &str = r#"
            [[site.route]]
            path = "/status"
            status = { allow = "loopback" }
            [[site.route]]
            path = "/metrics"
            metrics = {}
            [[site.route]]
            path = "/dashboard"
            dashboard = {}
            [[site.route]]
            path = "/info"
            info = { allow = ["loopback", "203.0.113.0/24"] }
            [[site.route]]
            path = "/tail"
            tail = { allow = "loopback", files = "/none/*.log" }
            [[site.route]]
            path = "/topics/*"
            broadcast = { publish = "loopback", allow = "loopback" }
            [[site.route]]
            path = "/allowed"
            allow = "loopback"
            respond = "page"
            [[site.route]]
            path = "/rule"
            access = [{ allow = "loopback" }, { deny = "anyone" }]
            respond = "page"
            [[site.route]]
            path = "/rewritten"
            rewrite = "/allowed"
            [[site.route]]
            path = "/denied"
            deny = "loopback"
            respond = "page"
        "#;
    let (open, named) =
        (app(&format!("[[site]]\n{ROUTES}")), app(&format!("[[site]]\nhosts = ['page.example']\n{ROUTES}")));
    let status = |app: &App, method: &str, host: &str, target: &str| {
        let request = http::Request::builder().method(method).uri(target).header(header::HOST, host);
        let request = request.body(RequestBody::empty()).map(Request::from).unwrap();
        let client = Client::new(Peer::Ip(([127, 0, 0, 1], 1).into()), 1, 1);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(app.call(request, &client).response()).status().as_u16()
    };
    for (method, target) in [
        ("GET", "/status"),
        ("GET", "/metrics"),
        ("GET", "/dashboard"),
        ("GET", "/dashboard?events"),
        ("GET", "/info"),
        ("GET", "/tail"),
        ("GET", "/topics/a"),
        ("POST", "/topics/a"),
        ("GET", "/allowed"),
        ("GET", "/rule"),
        ("GET", "/rewritten"),
    ] {
        for host in ["page.example", "localhost.page.example:8080", "127.0.0.1.page.example", "page.test."] {
            assert_eq!(status(&open, method, host, target), 403, "{method} {host} {target}");
            let absolute = format!("http://{host}{target}");
            assert_eq!(status(&open, method, "localhost", &absolute), 403, "{method} {absolute}");
        }
        for (app, host) in [
            (&open, "localhost:8080"),
            (&open, "127.0.0.1"),
            (&open, "[::1]:8080"),
            (&open, "a.localhost"),
            (&open, ""),
            (&named, "Page.Example:8080"),
        ] {
            assert_ne!(status(app, method, host, target), 403, "{method} {host} {target}");
        }
    }
    // The other way round, every host counts.
    for host in ["localhost", "page.example"] {
        assert_eq!(status(&open, "GET", host, "/denied"), 403, "{host}");
    }
}

#[test]
fn every_spelling_of_a_path_matches_the_same_route() {
    let app = app(r#"
            [[site]]
            [[site.route]]
            path = "/secret/*"
            respond = { status = 403 }
            [[site.route]]
            path = "/*"
            respond = { body = "open" }
        "#);
    for (target, status) in [
        ("/secret/a", 403),
        ("/%73ecret/a", 403),
        ("//secret//a", 403),
        ("/./secret/a", 403),
        ("/x/../secret/a", 403),
        ("/x/%2e%2e/secret/a", 403),
        ("/secret", 403),
        ("/secret%2Fa", 400),
        ("/x%2F..%2Fsecret/a", 400),
        ("/secret%2Fa/../b", 400),
        ("/secret%2fa/%2e%2e/", 400),
        ("/Secret/a", 200),
        ("/a%2Fb", 200),
        ("/a%5Cb", 200),
        ("/caf%E9", 200),
        ("/..", 400),
        ("/a%00", 400),
        ("/%", 400),
    ] {
        assert_eq!(send(&app, "GET", "a.org", target).status().as_u16(), status, "{target}");
    }
    // The result does not depend on the number of routes.
    let app = self::app("[[site]]\n[[site.route]]\npath = '/*'\nrespond = { body = 'open' }\n");
    for (target, status) in
        [("/a%2Fb", 200), ("/a%5Cb", 200), ("/caf%E9", 200), ("/..", 400), ("/a%00", 400), ("/%", 400)]
    {
        assert_eq!(send(&app, "GET", "a.org", target).status().as_u16(), status, "{target}");
    }
}

#[test]
fn an_error_page_ignores_conditions_and_ranges_of_the_request() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().display();
    std::fs::write(folder.path().join("sorry.html"), "sorry").unwrap();
    std::fs::write(folder.path().join("a.txt"), "text").unwrap();
    let app = app(&format!(
        "[[site]]\nerror_pages = {{ 404 = '/sorry.html', 405 = '/sorry.html' }}\n\
         response_headers = {{ X-Of-The-Site = 'yes' }}\n\
         [[site.route]]\npath = '/sorry.html'\n[site.route.files]\nroot = '{root}'\n\
         cache_control = [{{ pattern = '*', value = 'max-age=31536000' }}]\n\
         [[site.route]]\npath = '/*'\n[site.route.files]\nroot = '{root}'\n"
    ));
    for (method, target, status) in [("GET", "/nothing", 404), ("DELETE", "/a.txt", 405)] {
        let response = send(&app, method, "a.org", target);
        assert_eq!(response.status().as_u16(), status, "{method} {target}");
        let fields = response.headers();
        assert_eq!(fields[header::CONTENT_TYPE], "text/html; charset=utf-8", "{method} {target}");
        assert_eq!(fields["x-of-the-site"], "yes", "{method} {target}");
        for name in [header::ETAG, header::LAST_MODIFIED, header::ACCEPT_RANGES, header::CACHE_CONTROL] {
            assert!(!fields.contains_key(&name), "{method} {target}: {name}");
        }
        assert_eq!(fields.contains_key(header::ALLOW), status == 405, "{method} {target}");
    }
    assert_eq!(
        send(&app, "GET", "a.org", "/sorry.html").headers()[header::CACHE_CONTROL],
        "max-age=31536000"
    );
}

#[test]
fn a_redirect_loop_ends_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().display();
    let app = app(&format!(
        "[[site]]\n\
         [[site.route]]\npath = '/a/*'\nerror_pages = {{ 404 = '/a/b/x' }}\nfiles = '{root}'\n\
         [[site.route]]\npath = '*.loop'\nfiles = {{ root = '{root}', fallback = 'a.round' }}\n\
         [[site.route]]\npath = '*.round'\nfiles = {{ root = '{root}', fallback = 'a.loop' }}\n"
    ));
    assert_eq!(send(&app, "GET", "a.org", "/x.loop").status(), 500);
    assert_eq!(send(&app, "GET", "a.org", "/a/x").status(), 404);
}

#[test]
fn trace_reaches_a_handler_only_if_its_route_allows_it() {
    let app = app("[[site]]\n[[site.route]]\npath = '/*'\nrespond = { body = 'open' }\n");
    let refused = send(&app, "TRACE", "a.org", "/");
    assert_eq!(refused.status(), 405);
    assert_eq!(refused.headers()[header::ALLOW], "GET, HEAD, OPTIONS");
}

#[test]
fn files_are_found_below_the_folder_of_their_route() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().display();
    std::fs::create_dir(folder.path().join("a")).unwrap();
    std::fs::write(folder.path().join("a/b c.txt"), "text").unwrap();
    std::fs::write(folder.path().join("a/index.html"), "<p>").unwrap();
    let app = app(&format!(
        "[[site]]\nroot = '{root}'\n[[site.route]]\npath = '/docs/*'\nfiles = {{ root = '{root}/a' }}\n"
    ));
    for (method, target, status) in [
        ("GET", "/a/b%20c.txt", 200),
        ("GET", "/docs/b%20c.txt", 200),
        ("GET", "/d%6Fcs//b%20c.txt", 200),
        ("GET", "/docs/a/b%20c.txt", 404),
        ("GET", "/docs/../a/b%20c.txt", 200),
        ("GET", "/docs/../../a", 400),
        ("PROPFIND", "/a/b%20c.txt", 405),
        ("BREW", "/a/b%20c.txt", 501),
    ] {
        assert_eq!(send(&app, method, "a.org", target).status().as_u16(), status, "{method} {target}");
    }
    assert_eq!(send(&app, "GET", "a.org", "/a").headers()[header::LOCATION], "/a/");
    assert_eq!(send(&app, "GET", "a.org", "/docs").headers()[header::LOCATION], "/docs/");
}

#[test]
fn a_php_route_does_not_share_the_cache_of_a_files_route() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().display();
    std::fs::write(folder.path().join("index.php"), "<?php secret();").unwrap();
    let socket = folder.path().join("none.sock");
    let app = app(&format!(
        "[[site]]\nroot = '{root}'\n[[site]]\nhosts = ['php.org']\n[[site.route]]\npath = '/*'\n\
         php = {{ root = '{root}', address = 'unix:{}' }}\n",
        socket.display()
    ));
    // Independent of the response of the files route.
    drop(send(&app, "GET", "a.org", "/index.php"));
    let request = http::Request::builder().uri("/index.php").header(header::HOST, "php.org");
    let request = request.body(RequestBody::empty()).map(Request::from).unwrap();
    let client = Client::new(Peer::Ip(([192, 0, 2, 7], 1).into()), 1, 1);
    let reply = app.call(request, &client);
    assert!(!matches!(reply, Reply::Now(_)), "no response is sent before the app responds");
}

#[test]
fn a_request_that_would_block_a_worker_runs_on_the_pool() {
    // On another file system than the root, a cached lookup fails.
    let far = tempfile::tempdir_in("/dev/shm").unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (folder, name, text) in [
        (&folder, "index.html", "near"),
        (&far, "a.css", "far"),
        (&far, "index.php", "source"),
        (&far, "404.html", "sorry"),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    std::os::unix::fs::symlink(far.path(), folder.path().join("far")).unwrap();
    let app = app(&format!(
        r#"
            [[site]]
            hosts = ["files.org"]
            error_pages = {{ 404 = "/far/404.html" }}
            [[site.route]]
            path = "*.php"
            respond = {{ body = "ran" }}
            [[site.route]]
            path = "/*"
            [site.route.files]
            root = '{root}'
            follow_symlinks = true
            index = ["index.php", "index.html"]
            [[site]]
            hosts = ["php.org"]
            [[site.route]]
            path = "/*"
            php = {{ root = '{root}', follow_symlinks = true, address = 'unix:{root}/none.sock' }}
            [[site]]
            hosts = ["app.org"]
            [[site.route]]
            path = "*.php"
            fastcgi = {{ root = '{root}', follow_symlinks = true, address = 'unix:{root}/none.sock', script_suffix = ".php" }}
        "#,
        root = folder.path().display()
    ));
    let client = Client::new(Peer::Ip(([192, 0, 2, 7], 1).into()), 1, 1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (host, path, status, body) in [
        ("files.org", "/far/a.css", 200, "far"),
        ("files.org", "/far/", 200, "ran"),
        ("files.org", "/far", 301, ""),
        ("files.org", "/nothing", 404, "sorry"),
        ("php.org", "/far/a.css", 200, "far"),
        ("php.org", "/far/x.css", 404, "404 Not Found\nThe requested URL was not found on this server.\n"),
        ("php.org", "/far/index.php", 502, ""),
        ("app.org", "/far/x.php", 404, "404 Not Found\nThe requested URL was not found on this server.\n"),
        ("app.org", "/far/index.php", 502, ""),
    ] {
        let request = http::Request::builder().uri(path).header(header::HOST, host);
        let request = request.body(RequestBody::empty()).map(Request::from).unwrap();
        let reply = app.call(request, &client);
        assert!(matches!(reply, Reply::Later(_)), "{host}{path}");
        let response = runtime.block_on(reply.response());
        assert_eq!(response.status(), status, "{host}{path}");
        if let Body::Bytes(bytes) = response.body
            && status != 502
        {
            assert_eq!(bytes, body, "{host}{path}");
        }
    }
}

#[test]
fn a_handler_or_step_that_was_not_started_opens_no_connections() {
    let upstream = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    upstream.set_nonblocking(true).unwrap();
    let address = upstream.local_addr().unwrap();
    for keys in [
        &*format!("proxy = {{ upstreams = 'http://{address}', response_timeout = '10ms' }}"),
        &format!("fastcgi = {{ address = '{address}', response_timeout = '10ms' }}"),
        &format!("respond = 'page'\nforward_auth = {{ url = 'http://{address}/', timeout = '10ms' }}"),
    ] {
        let app = app(&format!("[[site]]\n[[site.route]]\npath = '/*'\n{keys}\n"));
        let request = http::Request::builder().uri("/").header(header::HOST, "a.org");
        let client = Client::new(Peer::Ip(([192, 0, 2, 7], 1).into()), 1, 1);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let reply = app.call(request.body(RequestBody::empty()).map(Request::from).unwrap(), &client);
        let response = runtime.block_on(reply.response());
        assert_eq!(response.status(), 502, "{keys}");
        let Body::Bytes(body) = response.body else { panic!("it is a page") };
        assert!(body.ends_with(b"The application is not running.\n"), "{keys}: {body:?}");
        assert_eq!(upstream.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock, "{keys}");
    }
}

/// Counts how often it is asked whether it accepts tunnels.
#[derive(Debug)]
struct Counting(Arc<AtomicUsize>);

impl Handler for Counting {
    fn call(&self, request: Request<'_>, call: Call<'_>) -> Reply {
        NoHandler.call(request, call)
    }

    fn accepts_tunnels(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        false
    }
}

#[test]
fn a_connection_does_not_ask_each_handler_whether_it_accepts_tunnels() {
    const SITES: usize = 1000;
    let calls = Arc::new(AtomicUsize::new(0));
    let route = || {
        let target = Target::new(Vec::new(), false, Box::new(Counting(calls.clone())));
        Route::everything(target)
    };
    let site = || Site {
        routes: Vec::new(),
        outer: route(),
        redirects: None,
        conditions: SiteConditions::default(),
        tls: None,
        is_auto: false,
        takes_connections: false,
        https_port: None,
    };
    let router = Router::new(Listeners::Alike(Hosts::default()), (0..SITES).map(|_| site()).collect());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rudy.toml"), "[[site]]\nroot = '.'\n").unwrap();
    let config = Config::load(&folder.path().join("rudy.toml")).unwrap();
    let resources = Resources::default();
    let trusted_proxies = TrustedProxies::new(&config.client_address, &resources.of(), &mut Vec::new());
    let compiled = Compiled { router, trusted_proxies: Arc::new(trusted_proxies) };
    let app = App::of_compiled(compiled, &config, &resources);
    assert!((0..100).all(|_| !app.accepts_tunnels()));
    assert_eq!(calls.load(Ordering::Relaxed), SITES, "once for a configuration");
}

#[test]
fn a_reload_keeps_the_file_cache() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "text").unwrap();
    std::fs::write(folder.path().join("rudy.toml"), "[[site]]\nroot = '.'\n").unwrap();
    let resources = Resources::default();
    let body = |app: &App| {
        let Body::Bytes(body) = send(app, "GET", "a.org", "/a.txt").body else { panic!("it is in memory") };
        body.as_ptr()
    };
    let load = || Config::load(&folder.path().join("rudy.toml"));
    let [old, new] = [(); 2].map(|()| App::new(&load().unwrap(), &resources).unwrap());
    assert_eq!(body(&old), body(&new));
}
