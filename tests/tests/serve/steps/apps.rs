//! Apps that hang, end, or are protected: timeouts, error pages, authorizers for all sites, and rewrites into a protected route.

use rudy_fastcgi::Role;
use rudy_tests::prelude::*;

/// An app that reports each request and each cancelled one. It hangs at `/hang`, ends at `/die` and in the middle of a response
/// at `/die-late`.
fn app() -> (App, Receiver<String>) {
    let (sender, events) = mpsc::channel();
    let app = App::start(move |mut peer| {
        while let Some(params) = peer.request() {
            let uri = variable(&params, "REQUEST_URI").to_owned();
            // Fails if the test has ended.
            let _ = sender.send(uri.clone());
            match &*uri {
                "/app/hang" | "/patient/hang" => {
                    while !matches!(peer.receive(), Received::Abort | Received::Closed) {}
                    let _ = sender.send("cancelled".to_owned());
                    return;
                }
                "/app/die" => return,
                "/app/die-late" => {
                    return peer.stdout(b"Content-Type: text/plain\r\nContent-Length: 100\r\n\r\nbegun");
                }
                _ => peer.respond(b"Content-Type: text/plain\r\n\r\nfine"),
            }
        }
    });
    (app, events)
}

fn next(events: &Receiver<String>) -> String {
    events.recv_timeout(PATIENCE).expect("the app sends an event")
}

fn timed_site(app: &App) -> Server {
    Server::config(&format!(
        "listen = '127.0.0.1:0'\nlimits = {{ half_close_timeout = '100ms' }}\n[[site]]\nerror_pages = {{ 5xx = '/broken' }}\nresponse_headers = {{ X-Site = 'site' }}\n\
         [[site.route]]\npath = '/broken'\nrespond = {{ body = 'broken' }}\n\
         [[site.route]]\npath = '/patient/*'\nrequest_timeout = '10m'\nfastcgi = {{ address = '{app}' }}\n\
         [[site.route]]\npath = '/app/*'\nrequest_timeout = '500ms'\nfastcgi = {{ address = '{app}' }}\n"
    ))
}

#[test]
fn an_app_that_hangs_gets_cancelled_and_the_client_gets_the_page() {
    let (app, events) = app();
    let server = timed_site(&app);
    for method in ["GET", "HEAD", "POST"] {
        let mut connection = server.connect();
        let response = connection.exchange(method, "/app/hang", &["Content-Length: 0"]);
        assert_eq!(response.status, 504, "{method}");
        assert_eq!(response.text(), if method == "HEAD" { "" } else { "broken" });
        assert_eq!(response.field("x-site"), Some("site"));
        assert_eq!((next(&events), next(&events)), ("/app/hang".to_owned(), "cancelled".to_owned()));
        let next_response = connection.get("/app/fine", &["Host: a"]);
        assert_eq!(next_response.text(), "fine", "the connection is usable after {method}");
        assert_eq!(next(&events), "/app/fine");
    }
}

#[test]
fn a_client_that_disconnects_cancels_the_request_before_its_timeout() {
    let (app, events) = app();
    let server = timed_site(&app);
    let connection = server.send(b"GET /patient/hang HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(next(&events), "/patient/hang");
    drop(connection);
    assert_eq!(next(&events), "cancelled");
    assert_eq!(server.get("/app/fine").text(), "fine");
}

#[test]
fn an_app_that_ends_gets_the_page_unless_its_response_has_begun() {
    let (app, _events) = app();
    let server = timed_site(&app);
    assert_eq!(server.get("/app/die").status_and_text(), (502, "broken"));
    let cut = server.exchange(b"GET /app/die-late HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let cut = String::from_utf8(cut).unwrap();
    assert!(cut.starts_with("HTTP/1.1 200 ") && cut.ends_with("\r\n\r\nbegun"), "{cut}");
    assert_eq!(server.get("/app/fine").text(), "fine");
}

#[test]
fn an_authorizer_for_all_sites_decides_besides_that_of_a_site_until_false_switches_off_both() {
    let authorizer = |field: &'static str, variables: &'static str| {
        App::serve(move |peer, params| {
            let is_allowed = params.get(field).is_some();
            let status = if is_allowed { format!("Status: 200\r\n{variables}\r\n") } else { String::new() };
            peer.respond(if is_allowed { &status } else { "Status: 403\r\n\r\n" }.as_bytes());
        })
    };
    let of_all = authorizer("HTTP_X_ALL", "Variable-REMOTE_USER: all\r\nVariable-AUTH_TYPE: x\r\n");
    let own = authorizer("HTTP_X_OWN", "Variable-REMOTE_USER: own\r\n");
    let app = App::serve(|peer, params| {
        let [user, kind] = ["REMOTE_USER", "AUTH_TYPE"].map(|name| params.get(name).unwrap_or_default());
        peer.respond(&[b"Content-Type: text/plain\r\n\r\n", user, b" ", kind].concat());
    });
    let server = Server::config(&format!(
        "listen = '127.0.0.1:0'\nauthorize = {{ address = '{of_all}' }}\n\
         [[site]]\nhosts = 'both'\nauthorize = {{ address = '{own}' }}\n\
         [[site.route]]\npath = '/open'\nauthorize = false\nfastcgi = {{ address = '{app}' }}\n\
         [[site.route]]\npath = '/*'\nfastcgi = {{ address = '{app}' }}\n\
         [[site]]\nhosts = 'none'\nauthorize = false\nroute = [{{ path = '/*', fastcgi = {{ address = '{app}' }} }}]\n\
         [[site]]\nroute = [{{ path = '/*', fastcgi = {{ address = '{app}' }} }}]\n"
    ));
    for (host, target, fields, expected) in [
        ("other", "/", &[][..], (403, "")),
        ("other", "/", &["X-All: 1"], (200, "all x")),
        ("both", "/", &["X-All: 1"], (403, "")),
        ("both", "/", &["X-Own: 1"], (403, "")),
        ("both", "/", &["X-All: 1", "X-Own: 1"], (200, "own x")),
        ("both", "/open", &[], (200, " ")),
        ("none", "/", &[], (200, " ")),
    ] {
        let host_field = format!("Host: {host}");
        let response = server.get_with(target, &[&[&*host_field], fields].concat());
        assert_eq!(response.status_and_text(), expected, "{host}{target} {fields:?}");
    }
}

/// A site with an authorizer that allows the requests with `X-Allow` whose value is their path.
struct Protected {
    server: Server,
    _authorizer: App,
    requests: Receiver<String>,
}

impl Protected {
    fn start() -> Self {
        let (sender, requests) = mpsc::channel();
        let authorizer = App::serve(move |peer, params| {
            assert_eq!(peer.role(), Role::Authorizer);
            let uri = variable(&params, "REQUEST_URI").to_owned();
            let allowed = params.get("HTTP_X_ALLOW").unwrap_or_default().to_owned();
            let is_allowed = allowed.split(|byte| *byte == b' ').any(|path| path == uri.as_bytes());
            let rejection = "Status: 401\r\nWWW-Authenticate: Basic realm=x\r\n\r\nwho are you";
            let status = if is_allowed { "Status: 200\r\n\r\n" } else { rejection };
            let _ = sender.send(uri);
            peer.respond(status.as_bytes());
        });
        let server = Server::config(&format!(
            "listen = '127.0.0.1:0'\n[[site]]\nauthorize = {{ address = '{authorizer}' }}\nerror_pages = {{ 404 = '/secret/page' }}\n\
             response_headers = {{ X-Site = {{ add = 'site' }} }}\n\
             [[site.route]]\npath = '/secret/*'\nrespond = {{ body = 'secret' }}\n\
             [[site.route]]\npath = '/open/*'\nauthorize = false\nrewrite = '/{{rest}}'\n\
             [[site.route]]\npath = 'regex:^/id/(.*)$'\nauthorize = false\nrewrite = '/secret/{{1}}'\n\
             [[site.route]]\npath = '/gone'\nauthorize = false\nrespond = 404\n"
        ));
        Self { server, _authorizer: authorizer, requests }
    }

    fn get(&self, target: &str, allowed: &str) -> (Response, Vec<String>) {
        let response = self.server.get_with(target, &["Host: a", &format!("X-Allow: {allowed}")]);
        (response, self.requests.try_iter().collect())
    }
}

#[test]
fn a_rewrite_into_a_protected_route_is_authorized_there() {
    let site = Protected::start();
    for (target, expected) in [
        ("/open/secret/x", "/secret/x"),
        ("/open/secret/x?y", "/secret/x?y"),
        ("/open//secret/x", "/secret/x"),
        ("/open/%73ecret/x", "/secret/x"),
        ("/open/./secret/../secret/x", "/secret/x"),
        ("/id/x", "/secret/x"),
        ("/id/../id/a/../x", "/secret/x"),
    ] {
        let (rejected, requests) = site.get(target, "/other");
        assert_eq!((rejected.status, rejected.text()), (401, "who are you"), "{target}");
        assert_eq!(requests, [expected], "{target}");
        // Permission for the path that the client sent is not enough.
        assert_eq!(site.get(target, target).0.status, 401, "{target}");
        let (allowed, requests) = site.get(target, expected);
        assert_eq!((allowed.status, allowed.text()), (200, "secret"), "{target}");
        assert_eq!(requests, [expected], "{target}");
        assert_eq!(allowed.fields("x-site").collect::<Vec<_>>(), ["site"], "{target}");
    }
    for target in ["/open/secret%2Fx", "/open/..%2Fsecret/x", "/id/..%2f..%2fsecret"] {
        let (response, _) = site.get(target, "/other");
        assert!([400, 401, 404].contains(&response.status), "{target}: {}", response.status);
    }
}

#[test]
fn an_error_page_on_a_protected_route_is_shown_to_those_who_may_see_it() {
    let site = Protected::start();
    for target in ["/gone", "/open/gone"] {
        let (response, requests) = site.get(target, "/secret/page");
        assert_eq!((response.status, response.text()), (404, "secret"), "{target}");
        assert_eq!(requests, ["/secret/page"], "{target}");
        let (response, requests) = site.get(target, "");
        assert_eq!(response.status, 404, "{target}");
        let text = response.text();
        assert!(!text.contains("secret") && !text.contains("who"), "{text}");
        assert_eq!(response.field("www-authenticate"), None, "{target}");
        assert_eq!(requests, ["/secret/page"], "{target}");
        assert_eq!(response.fields("x-site").collect::<Vec<_>>(), ["site"], "{target}");
    }
}
