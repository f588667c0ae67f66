//! Forward authentication over real connections: what the authorizer sees, what reaches the application, and authorizers that fail.

use rudy_tests::prelude::*;

use crate::steps::spoofed::{SPELLINGS, app};

/// What an upstream has received.
type Requests = Receiver<UpstreamRequest>;

/// A server that reports its requests, and responds as `respond` says.
fn upstream(respond: impl Fn(&UpstreamRequest) -> String + Send + Sync + 'static) -> (Upstream, Requests) {
    let (sender, requests) = mpsc::channel();
    let upstream = Upstream::serve(move |peer, request| {
        peer.send(respond(&request));
        // Fails if the test has ended.
        let _ = sender.send(request);
    });
    (upstream, requests)
}

/// The application: its responses have the head of the request.
fn application() -> (Upstream, Requests) {
    upstream(|request| {
        let body = format!("{}\n\n{}", request.head, String::from_utf8_lossy(&request.body));
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nSet-Cookie: of=app\r\n\r\n{body}", body.len())
    })
}

fn site(application: &Upstream, authorizer: &str, more: &str) -> Server {
    Server::config(&format!(
        "listen = '127.0.0.1:0,h2c'\nlimits.half_close_timeout = '300ms'\n[[site]]\n\
         [[site.route]]\npath = '/*'\nproxy = '{application}'\n[site.route.forward_auth]\nurl = '{authorizer}'\n{more}\n"
    ))
}

fn send(server: &Server, head: &str, body: &str) -> Response {
    server.send(format!("{head}\r\nHost: a.test\r\n\r\n{body}")).response()
}

fn next(requests: &Requests) -> UpstreamRequest {
    requests.recv_timeout(PATIENCE).expect("a request arrives")
}

/// The lines of a head whose names are spellings of this one.
fn spelled(head: &str, name: &str) -> Vec<String> {
    let lines = head.lines().map(str::to_lowercase);
    lines.filter(|line| line.replace(['_', '.'], "-").starts_with(&format!("{name}:"))).collect()
}

#[test]
fn an_allowed_request_has_the_fields_of_the_authorizer_and_its_body() {
    let (application, requests) = application();
    let (authorizer, questions) = upstream(|_| {
        "HTTP/1.1 204 No Content\r\nRemote-User: ann\r\nRemote-Groups: a\r\nRemote-Groups: b\r\n\
         X-Other: x\r\nSet-Cookie: session=1\r\nSet-Cookie: more=2\r\n\r\n"
            .to_owned()
    });
    let server = site(&application, &format!("{authorizer}/verify?x=y"), "");
    let head = "POST /a/../%62?c=d HTTP/1.1\r\nCookie: k=v\r\nContent-Type: text/x\r\nContent-Length: 4\r\n\
                If-None-Match: \"e\"\r\nRange: bytes=0-1\r\nX-Forwarded-Uri: /public\r\nX_Original_URL: http://evil\r\n\
                X-Forwarded-Method: GET\r\nX-Forwarded-For: 127.0.0.1\r\nX-Original-Method: GET\r\nConnection: remote-user";
    let response = send(&server, head, "body");
    assert_eq!(response.status, 200);
    assert_eq!(response.fields("set-cookie").collect::<Vec<_>>(), ["of=app", "session=1", "more=2"]);
    let about = next(&questions);
    assert_eq!(about.head.lines().next(), Some("GET /verify?x=y HTTP/1.1"));
    for (name, expected) in [
        ("cookie", Some("k=v")),
        ("x-forwarded-method", Some("POST")),
        ("x-original-method", Some("POST")),
        ("x-forwarded-uri", Some("/b?c=d")),
        ("x-original-uri", Some("/b?c=d")),
        ("x-original-url", Some("http://a.test/b?c=d")),
        ("x-forwarded-host", Some("a.test")),
        ("x-forwarded-proto", Some("http")),
        ("x-forwarded-for", Some("127.0.0.1")),
        ("host", Some(&*authorizer.address().to_string())),
        ("content-type", None),
        ("if-none-match", None),
        ("range", None),
        ("connection", None),
    ] {
        assert_eq!(about.field(name), expected, "{name}: {}", about.head);
        assert!(spelled(&about.head, name).len() <= 1, "{name}: {}", about.head);
    }
    assert!(about.body.is_empty() && about.field("content-length").is_none_or(|length| length == "0"));
    let request = next(&requests);
    assert_eq!(request.head.lines().next(), Some("POST /%62?c=d HTTP/1.1"));
    assert_eq!(request.body, b"body");
    assert_eq!(spelled(&request.head, "remote-user"), ["remote-user: ann"]);
    assert_eq!(spelled(&request.head, "remote-groups"), ["remote-groups: a", "remote-groups: b"]);
    assert_eq!(request.field("x-other"), None);
}

/// An authorizer as oauth2-proxy with `--set-xauthrequest`: 202 with fields for a session, and 401 without one.
fn oauth2_proxy() -> (Upstream, Requests) {
    upstream(|request| {
        match request.field("cookie") {
        Some("_oauth2_proxy=ann") => "HTTP/1.1 202 Accepted\r\nX-Auth-Request-User: ann\r\n\
            X-Auth-Request-Email: ann@a.test\r\nContent-Length: 13\r\n\r\nAuthenticated"
            .to_owned(),
        _ => "HTTP/1.1 401 Unauthorized\r\nSet-Cookie: _oauth2_proxy=; Max-Age=0\r\nContent-Length: 13\r\n\r\nUnauthorized\n"
            .to_owned(),
    }
    })
}

#[test]
fn fields_of_the_authorizer_get_other_names() {
    let (application, requests) = application();
    let (authorizer, questions) = oauth2_proxy();
    let copy = "copy = { X-Auth-Request-User = 'Remote-User', X-Auth-Request-Email = 'X-Email' }";
    let server = site(&application, &authorizer.url(), copy);
    let head = "GET / HTTP/1.1\r\nCookie: _oauth2_proxy=ann\r\nRemote_User: root\r\nX-Email: root\r\n\
                X-Auth-Request-User: root";
    assert_eq!(send(&server, head, "").status, 200);
    assert!(!next(&questions).head.contains("root"));
    let head = next(&requests).head;
    assert_eq!(spelled(&head, "remote-user"), ["remote-user: ann"]);
    assert_eq!(spelled(&head, "x-email"), ["x-email: ann@a.test"]);
    assert!(!head.contains("root"), "an application may trust the name of the authorizer: {head}");
}

#[test]
fn the_authorizer_gets_credentials_that_the_application_does_not_get() {
    let (application, requests) = application();
    let (authorizer, questions) = upstream(|request| {
        let token = request.field("authorization").map(|own| format!("X-Auth: for {own}\r\n"));
        format!("HTTP/1.1 204 No Content\r\nCookie: of=authorizer\r\n{}\r\n", token.unwrap_or_default())
    });
    let copy = "copy = { X-Auth = 'Authorization', Cookie = 'Cookie' }";
    let server = site(&application, &authorizer.url(), copy);
    for (field, expected) in
        [("\r\nAuthorization: Basic YQ==", &["authorization: for Basic YQ=="][..]), ("", &[])]
    {
        let head = format!("GET / HTTP/1.1\r\nCookie: of=client; a=b{field}");
        assert_eq!(send(&server, &head, "").status, 200);
        assert_eq!(next(&questions).field("cookie"), Some("of=client; a=b"));
        let request = next(&requests);
        assert_eq!(request.field("cookie"), Some("of=authorizer"));
        let expected: Vec<_> = expected.iter().map(|line| line.to_lowercase()).collect();
        assert_eq!(spelled(&request.head, "authorization"), expected);
    }
}

#[test]
fn an_authorizer_gets_the_credentials_of_the_client_after_an_internal_redirect_too() {
    let (application, requests) = application();
    let (authorizer, _questions) = upstream(|request| match request.field("authorization") {
        Some("Basic YQ==") => "HTTP/1.1 204 No Content\r\nAuthorization: Bearer a\r\n\r\n".to_owned(),
        _ => "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_owned(),
    });
    let server = Server::config(&format!(
        "listen = '127.0.0.1:0'\n[[site]]\nforward_auth = {{ url = '{authorizer}', copy = 'Authorization' }}\n\
         [[site.route]]\npath = '/old'\nrewrite = '/new'\n[[site.route]]\npath = '/*'\nproxy = '{application}'\n"
    ));
    assert_eq!(send(&server, "GET /old HTTP/1.1\r\nAuthorization: Basic YQ==", "").status, 200);
    assert_eq!(next(&requests).field("authorization"), Some("Bearer a"));
}

#[test]
fn an_empty_field_of_the_authorizer_is_not_sent_and_removes_that_of_the_client() {
    let (application, requests) = application();
    let (authorizer, _questions) = upstream(|_| {
        "HTTP/1.1 204 No Content\r\nRemote-User:\r\nRemote-Groups: \r\nRemote-Groups: a\r\nAuthorization:\r\n\r\n".to_owned()
    });
    let copy = "copy = ['Remote-User', 'Remote-Groups', 'Authorization']";
    let server = site(&application, &authorizer.url(), copy);
    let head = "GET / HTTP/1.1\r\nRemote-User: root\r\nRemote-Groups: root\r\nAuthorization: root";
    assert_eq!(send(&server, head, "").status, 200);
    let head = next(&requests).head;
    assert!(!head.contains("root"), "{head}");
    assert_eq!(spelled(&head, "remote-user"), [""; 0]);
    assert_eq!(spelled(&head, "remote-groups"), ["remote-groups: a"]);
    assert_eq!(spelled(&head, "authorization"), [""; 0]);
}

#[test]
fn a_browser_without_a_session_is_redirected_to_the_login_page() {
    let (application, requests) = application();
    let (authorizer, _questions) = oauth2_proxy();
    let server = site(&application, &authorizer.url(), "login = '/oauth2/start?rd={uri}&url={url}'");
    let login = "/oauth2/start?rd=/b%3Fc%3Dd%26e&url=http%3A//a.test/b%3Fc%3Dd%26e";
    for (method, accept, status, location) in [
        ("GET", "text/html,*/*;q=0.8", 302, Some(login)),
        ("HEAD", "text/html", 302, Some(login)),
        ("POST", "text/html", 303, Some(login)),
        ("GET", "*/*", 401, None),
        ("GET", "application/json", 401, None),
    ] {
        let head = format!("{method} /a/../b?c=d&e HTTP/1.1\r\nAccept: {accept}\r\nContent-Length: 0");
        let mut connection = server.send(format!("{head}\r\nHost: a.test\r\n\r\n"));
        let response = if method == "HEAD" { connection.head_response() } else { connection.response() };
        assert_eq!((response.status, response.field("location")), (status, location), "{head}");
        assert_eq!(response.field("set-cookie"), Some("_oauth2_proxy=; Max-Age=0"), "{head}");
    }
    let head = "GET / HTTP/1.1\r\nAccept: text/html\r\nCookie: _oauth2_proxy=ann";
    assert_eq!(send(&server, head, "").status, 200);
    assert!(next(&requests).head.starts_with("GET / "));
}

#[test]
fn interim_responses_of_the_authorizer_are_not_for_the_client() {
    let (application, _requests) = application();
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </login.css>\r\n\r\n";
    let (authorizer, _questions) = upstream(move |_| format!("{hints}HTTP/1.1 204 No Content\r\n\r\n"));
    let server = site(&application, &authorizer.url(), "");
    let mut connection = server.send(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(connection.next_response().status, 200);
}

#[test]
fn no_spelling_of_a_copied_field_reaches_the_application() {
    let (application, requests) = application();
    let (authorizer, questions) = upstream(|request| {
        let user = request.field("cookie").map(|user| format!("Remote-User: {user}\r\n")).unwrap_or_default();
        format!("HTTP/1.1 200 OK\r\n{user}Content-Length: 2\r\n\r\nok")
    });
    let server = site(&application, &authorizer.url(), "");
    let names = SPELLINGS.into_iter().chain(["Remote.User", "remote_groups", "Remote-Email"]);
    let spoofed: Vec<_> = names.map(str::to_owned).collect();
    let fields = spoofed.iter().fold(String::new(), |fields, name| fields + name + ": root\r\n");
    for (cookie, expected) in [("", &[][..]), ("Cookie: ann\r\n", &["remote-user: ann".to_owned()])] {
        send(&server, &format!("GET / HTTP/1.1\r\n{fields}{cookie}Connection: close, Remote-User"), "");
        let mut connection = Http2Connection::open(server.address(), &[]);
        let lower: Vec<_> = spoofed.iter().map(|name| name.to_lowercase()).collect();
        let mut fields: Vec<_> = lower.iter().map(|name| (name.as_str(), "root")).collect();
        if !cookie.is_empty() {
            fields.push(("cookie", "ann"));
        }
        connection.request(1, "GET", "/", &fields, true);
        let _ = connection.response(1);
        for _ in 0..2 {
            assert!(!next(&questions).head.contains("root"), "the authorizer does not see them either");
            let head = next(&requests).head;
            assert_eq!(spelled(&head, "remote-user"), expected, "{head}");
            assert!(!head.contains("root"), "{head}");
        }
    }
}

/// An app gets fields as variables, in which many names become one. PHP also replaces dots.
#[test]
fn no_spelling_of_a_copied_field_reaches_an_app() {
    let (app, folder) = (app(), Folder::new());
    folder.write("index.php", "");
    let (authorizer, _questions) = upstream(|request| {
        let user =
            request.field("cookie").map(|user| format!("Remote-User: {user}\r\nX-Auth-User: {user}\r\n"));
        format!("HTTP/1.1 204 No Content\r\n{}\r\n", user.unwrap_or_default())
    });
    let names = ["X-Auth-User", "X_Auth_User", "X-Auth_User", "x_auth-user", "X.Auth.User", "Remote.User"];
    let spoofed: Vec<_> = SPELLINGS.into_iter().chain(names).collect();
    for handler in ["fastcgi = {", &format!("php = {{ root = '{folder}',")] {
        let server = Server::config(&format!(
            "listen = '127.0.0.1:0,h2c'\n[[site]]\n\
             forward_auth = {{ url = '{authorizer}', copy = ['Remote-User', 'X-Auth-User'] }}\n\
             [[site.route]]\npath = '/*'\n{handler} address = '{}' }}\n",
            app.address()
        ));
        for (cookie, expected) in [
            (None, &[][..]),
            (Some("ann"), &["HTTP_REMOTE_USER=ann", "HTTP_X_AUTH_USER=ann", "REMOTE_USER=ann"]),
        ] {
            let fields = spoofed.iter().map(|name| format!("{name}: root\r\n")).collect::<Vec<_>>().concat();
            let of_cookie = cookie.map_or_else(String::new, |user| format!("Cookie: {user}\r\n"));
            let head = format!("GET / HTTP/1.1\r\n{fields}{of_cookie}Connection: close, X-Auth-User");
            let over_http1 = send(&server, &head, "");
            let mut connection = Http2Connection::open(server.address(), &[]);
            let lower: Vec<_> = spoofed.iter().map(|name| name.to_lowercase()).collect();
            let fields = lower.iter().map(|name| (name.as_str(), "root"));
            let fields: Vec<_> = fields.chain(cookie.map(|user| ("cookie", user))).collect();
            connection.request(1, "GET", "/", &fields, true);
            let over_http2 = connection.response(1);
            for text in [over_http1.text(), over_http2.text()] {
                let mut users: Vec<_> = text.lines().filter(|line| line.contains("USER=")).collect();
                users.sort_unstable();
                assert_eq!(users, expected, "{handler} {text}");
                assert!(text.contains("REQUEST_METHOD=GET") && !text.contains("=root\n"), "{handler} {text}");
            }
        }
    }
}

#[test]
fn a_rejection_is_passed_on_and_the_application_gets_nothing() {
    let (application, requests) = application();
    let (authorizer, _questions) = upstream(|request| {
        let (status, fields) = match request.field("x-forwarded-uri").unwrap_or_default() {
            "/401" => ("401 Unauthorized", "WWW-Authenticate: Bearer\r\n"),
            "/302" => ("302 Found", "Location: https://auth.test/?rd=http://a.test/302\r\n"),
            "/403" => ("403 Forbidden", ""),
            "/500" => ("500 Internal Server Error", ""),
            _ => ("200 OK", ""),
        };
        format!("HTTP/1.1 {status}\r\n{fields}Set-Cookie: of=authorizer\r\nContent-Length: 4\r\n\r\npage")
    });
    let server = site(&application, &authorizer.url(), "");
    for (target, status, field) in [
        ("/401", 401, ("www-authenticate", "Bearer")),
        ("/302", 302, ("location", "https://auth.test/?rd=http://a.test/302")),
        ("/403", 403, ("content-length", "4")),
        ("/500", 500, ("content-length", "4")),
        ("/a/%2e%2e/403", 403, ("content-length", "4")),
    ] {
        let response = send(&server, &format!("GET {target} HTTP/1.1"), "");
        assert_eq!((response.status, response.text()), (status, "page"), "{target}");
        assert_eq!(response.field(field.0), Some(field.1), "{target}");
        assert_eq!(response.field("set-cookie"), Some("of=authorizer"), "{target}");
    }
    let mut connection =
        server.send(b"HEAD /401 HTTP/1.1\r\nHost: a.test\r\n\r\nGET /200 HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(connection.head_response().status, 401);
    assert_eq!(connection.response().status, 200, "the connection is usable after a rejection");
    assert_eq!(next(&requests).target(), "/200");
    assert!(requests.try_recv().is_err());
}

#[test]
fn an_authorizer_that_fails_lets_no_request_pass() {
    let (application, requests) = application();
    // Waits for the end of the connection.
    let hang = Upstream::start(|peer| {
        peer.request();
        peer.wait_for_end();
    });
    let close = Upstream::start(|peer| drop(peer.request()));
    let invalid = Upstream::serve(|peer, _| peer.send("HTTP/1.1 2xx fine\r\n\r\n"));
    let closed_port = format!("http://127.0.0.1:{}", free_port());
    for (url, expected) in [(closed_port, 502), (hang.url(), 504), (close.url(), 502), (invalid.url(), 502)] {
        let server = site(&application, &url, "timeout = '200ms'");
        let response = send(&server, "GET / HTTP/1.1", "");
        assert_eq!(response.status, expected, "{url}: {}", response.text());
    }
    assert!(requests.try_recv().is_err(), "the application got no request");
}

#[test]
fn an_authorizer_that_is_this_server_is_a_loop_that_ends() {
    let (application, requests) = application();
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let server = Server::config(&format!(
        "listen = '127.0.0.1:{port}'\n[[site]]\nforward_auth = '{url}'\n\
         [[site.route]]\npath = '/*'\nproxy = '{application}'\n"
    ));
    assert_eq!(send(&server, "GET / HTTP/1.1", "").status, 508);
    assert!(requests.try_recv().is_err());
}

#[test]
fn a_client_that_leaves_cancels_the_question() {
    let (application, requests) = application();
    let (sender, events) = mpsc::channel();
    let sender = Arc::new(Mutex::new(sender));
    let authorizer = Upstream::start(move |peer| {
        let sender = sender.lock().expect("no test panics with it").clone();
        if peer.request().is_some() {
            let _ = sender.send("question");
            if peer.request().is_none() {
                let _ = sender.send("cancelled");
            }
        }
    });
    let server = site(&application, &authorizer.url(), "timeout = '10m'");
    let connection = server.send(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(events.recv_timeout(PATIENCE), Ok("question"));
    drop(connection);
    assert_eq!(events.recv_timeout(PATIENCE), Ok("cancelled"));
    assert!(requests.try_recv().is_err());
}
