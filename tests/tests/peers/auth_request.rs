//! `auth_request` of nginx and `forward_auth` of Rudy, before the same authorizer and the same application.

use rudy_tests::prelude::*;

/// Decides by a cookie.
fn authorizer() -> Upstream {
    Upstream::start(|peer| {
        while let Some(request) = peer.request() {
            assert!(request.body.is_empty() && request.head.starts_with("GET /verify "), "{}", request.head);
            match request.field("cookie").unwrap_or_default() {
                "ann" => peer.send("HTTP/1.1 200 OK\r\nRemote-User: ann\r\nContent-Length: 2\r\n\r\nok"),
                "anonymous" => peer.send("HTTP/1.1 204 No Content\r\n\r\n"),
                "rejected" => peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"),
                "broken" => peer.send("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno"),
                "moved" => peer.send("HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n"),
                "garbage" => peer.send("garbage\r\n\r\n"),
                "closed" => return,
                _ => peer.send(
                    "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 2\r\n\r\nno",
                ),
            }
        }
    })
}

/// Counts its requests, and responds with the user and the body.
fn application(count: Arc<AtomicUsize>) -> Upstream {
    Upstream::start(move |peer| {
        while let Some(request) = peer.request() {
            count.fetch_add(1, Ordering::SeqCst);
            let users = request.head.lines().filter_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.to_lowercase().replace('_', "-").contains("remote-user").then(|| value.trim().to_owned())
            });
            let users: Vec<_> = users.filter(|user| !user.is_empty()).collect();
            peer.respond(&format!(
                "user {} body {}",
                users.join(","),
                String::from_utf8_lossy(&request.body)
            ));
        }
    })
}

fn nginx(authorizer: &Upstream, application: &Upstream) -> Option<rudy_tests::Peer> {
    rudy_tests::Peer::nginx_with(|_, address| {
        format!(
            "server {{ listen {address};\n\
             location / {{ auth_request /auth; auth_request_set $user $upstream_http_remote_user;\n\
                 proxy_set_header Remote-User $user; proxy_pass {application}; }}\n\
             location = /auth {{ internal; proxy_pass {authorizer}/verify; proxy_pass_request_body off;\n\
                 proxy_set_header Content-Length \"\"; }}\n}}"
        )
    })
}

/// What matters of a response: whether the application has responded, and otherwise the status, where all failures are one.
fn outcome(response: &Response) -> (u16, String) {
    match response.status {
        200 => (200, response.text().to_owned()),
        401 => (401, response.field("www-authenticate").unwrap_or_default().to_owned()),
        status => (if status == 403 { 403 } else { 500 }, String::new()),
    }
}

#[test]
fn the_same_authorizer_has_the_same_effect() {
    let count = Arc::new(AtomicUsize::new(0));
    let (authorizer, application) = (authorizer(), application(count.clone()));
    let Some(nginx) = nginx(&authorizer, &application) else { return };
    let server = Server::config(&format!(
        "listen = '127.0.0.1:0'\n[[site]]\nforward_auth = '{authorizer}/verify'\n\
         [[site.route]]\npath = '/*'\nproxy = '{application}'\n"
    ));
    for cookie in ["ann", "anonymous", "rejected", "none", "broken", "garbage", "closed"] {
        for spoofed in [
            "",
            "Remote-User: root\r\n",
            "REMOTE_USER: root\r\n",
            "remote-user: root\r\nRemote-User: admin\r\n",
        ] {
            for (method, body) in [("GET", ""), ("POST", "text")] {
                let request = format!(
                    "{method} /a HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n{spoofed}Content-Length: {}\r\n\
                     Connection: close\r\n\r\n{body}",
                    body.len()
                );
                let outcomes = [nginx.address(), server.address()].map(|address| {
                    let before = count.load(Ordering::SeqCst);
                    let mut connection = Connection::open(address);
                    connection.send(request.as_bytes());
                    let response = connection.response();
                    (outcome(&response), count.load(Ordering::SeqCst) - before)
                });
                assert_eq!(outcomes[0], outcomes[1], "{request}");
                assert_eq!(outcomes[0].1, usize::from(outcomes[0].0.0 == 200), "{request}");
            }
        }
    }
    // nginx calls a redirect an error; Rudy passes it on, as Caddy and Traefik do.
    let response = server.get_with("/a", &["Host: a", "Cookie: moved"]);
    assert_eq!((response.status, response.field("location")), (302, Some("/login")));
}
