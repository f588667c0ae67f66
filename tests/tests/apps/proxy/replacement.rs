//! `X-Accel-Redirect` and `X-Sendfile` of upstreams: the server sends a file or the response of another route instead.

use rudy_tests::prelude::*;

use crate::proxy::{h2c_upstream, proxy, proxy_h2c};

/// An upstream whose response has the fields in the query of the request, separated by `&`, and its status as a path. Each `~` is a space.
fn app() -> Upstream {
    Upstream::serve(|peer, request| peer.send(respond(request.target())))
}

fn respond(target: &str) -> String {
    let (path, fields) = target.split_once('?').unwrap_or((target, ""));
    let status = path.rsplit('/').next().filter(|status| status.len() == 3).unwrap_or("200");
    let fields = fields.replace('~', " ").replace('&', "\r\n");
    let fields = if fields.is_empty() { String::new() } else { fields + "\r\n" };
    format!("HTTP/1.1 {status} X\r\n{fields}Content-Length: 6\r\n\r\nof-app")
}

/// The files of these tests.
fn files() -> Folder {
    Folder::with(&[
        ("private/a b.txt", "0123456789"),
        ("private/page.html", "page"),
        ("protected/b.txt", "9876543210"),
        ("secret.txt", "secret"),
    ])
}

/// A server whose proxy allows files and paths, with more keys for the route, and more routes before it.
fn server(app: &Upstream, folder: &Folder, keys: &str, routes: &str) -> Server {
    let root = folder.path().display();
    Server::config(&format!(
        "listen = ['127.0.0.1:0,h2c']\n[cache]\npath = 'cache'\n[[site]]\n\
         [[site.route]]\npath = '/protected/*'\ninternal = true\nfiles = '{root}/protected'\n\
         response_headers = {{ X-Route = 'protected' }}\n{routes}\n\
         [[site.route]]\npath = '/app/*'\nresponse_headers = {{ X-Route = 'app' }}\n{keys}\n\
         [site.route.proxy]\nupstreams = '{}'\nsendfile_root = '{root}/private'\n\
         accel_redirect = ['/protected/*', '/again/*', '/chain/*']\n\
         accel_fields = ['X-App-*', 'CDN-Cache-Control']\n",
        app.url()
    ))
}

const FILE: &str = "/app/x?X-Accel-Redirect:~/a%20b.txt";
const ROUTE: &str = "/app/x?X-Accel-Redirect:~/protected/b.txt";

/// The target for a response with this field and more.
fn with(target: &str, more: &str) -> String {
    format!("{target}&{more}")
}

#[test]
fn a_file_of_the_folder_is_sent_with_the_fields_of_the_app() {
    let (app, folder) = (app(), files());
    let server = server(&app, &folder, "", "");
    let more =
        "Content-Type:~a/b&Cache-Control:~private&ETag:~\"of-app\"&X-Frame-Options:~DENY&Set-Cookie:~a=1";
    let whole = server.get(&with(FILE, more));
    assert_eq!(whole.status_and_text(), (200, "0123456789"));
    let fields = ["content-type", "cache-control", "x-frame-options", "set-cookie", "x-route"];
    assert_eq!(fields.map(|name| whole.field(name)), ["a/b", "private", "DENY", "a=1", "app"].map(Some));
    assert_eq!((whole.field("x-accel-redirect"), whole.field("content-length")), (None, Some("10")));
    let tag = whole.field("etag").expect("a file has an entity tag").to_owned();
    let get = |fields: &[&str]| server.get_with(&with(FILE, more), fields);
    let part = get(&["Range: bytes=2-4"]);
    assert_eq!((part.status_and_text(), part.field("content-type")), ((206, "234"), Some("a/b")));
    assert_eq!(get(&["Range: bytes=0-1,4-5"]).status, 200);
    assert_eq!(get(&["Range: bytes=20-"]).status, 416);
    let not_modified = get(&[&format!("If-None-Match: {tag}")]);
    assert_eq!((not_modified.status, not_modified.field("content-type")), (304, None));
    let head = server.request("HEAD", FILE, &["Connection: close"]);
    assert_eq!((head.status, head.field("content-length")), (200, Some("10")));
    assert_eq!(server.send_body("POST", FILE, "abc").status_and_text(), (200, "0123456789"));
    let root = folder.path().join("private").display().to_string();
    for field in ["X-Sendfile", "x-lighttpd-send-file"] {
        assert_eq!(server.get(&format!("/app/x?{field}:~{root}/page.html")).text(), "page", "{field}");
    }
    // The first line of X-Accel-Redirect counts.
    let several = "/app/x?X-Sendfile:~none&X-Accel-Redirect:~/page.html&X-Accel-Redirect:~/none";
    assert_eq!(server.get(several).text(), "page");
    // The status of the app stays, without conditions.
    let error = FILE.replace("/x?", "/403?");
    let error = server.get_with(&error, &["Range: bytes=2-4", &format!("If-None-Match: {tag}")]);
    assert_eq!(error.status_and_text(), (403, "0123456789"));
}

#[test]
fn a_path_of_the_site_is_served_by_its_route_with_the_fields_of_the_app() {
    let (app, folder) = (app(), files());
    let server = server(&app, &folder, "", "");
    let more = "Content-Type:~a/b&Cache-Control:~private&Set-Cookie:~a=1&Content-Disposition:~attachment&X-Of-App:~1&ETag:~\"of-app\"";
    let whole = server.get(&with(ROUTE, more));
    assert_eq!(whole.status_and_text(), (200, "9876543210"));
    let fields = ["content-type", "cache-control", "set-cookie", "content-disposition", "x-route"];
    assert_eq!(
        fields.map(|name| whole.field(name)),
        ["a/b", "private", "a=1", "attachment", "protected"].map(Some)
    );
    assert_eq!((whole.field("x-of-app"), whole.field("x-accel-redirect")), (None, None));
    let tag = whole.field("etag").expect("a file has an entity tag").to_owned();
    assert_ne!(tag, "\"of-app\"");
    assert_eq!(server.get_with(ROUTE, &["Range: bytes=2-4"]).status_and_text(), (206, "765"));
    assert_eq!(server.get_with(ROUTE, &[&format!("If-None-Match: {tag}")]).status, 304);
    let head = server.request("HEAD", ROUTE, &["Connection: close"]);
    assert_eq!((head.status, head.field("content-length")), (200, Some("10")));
    assert_eq!(server.send_body("POST", ROUTE, "abc").status_and_text(), (200, "9876543210"));
    assert_eq!(server.get(&ROUTE.replace("/x?", "/404?")).status_and_text(), (404, "9876543210"));
    let missing = server.get(&with("/app/x?X-Accel-Redirect:~/protected/none", "Content-Type:~a/b"));
    assert_eq!((missing.status, missing.field("content-type") == Some("a/b")), (404, false));
    let mut connection = Http2Connection::open(server.address(), &[]);
    connection.get(1, ROUTE);
    let over_http2 = connection.response(1);
    assert_eq!((over_http2.status, &*over_http2.body), (200, &b"9876543210"[..]));
}

#[test]
fn an_error_of_the_route_has_the_fields_of_the_app_but_none_that_lets_caches_store_it() {
    let (app, folder) = (app(), files());
    let storage = Upstream::serve(|peer, _| {
        peer.send(
            "HTTP/1.1 404 X\r\nContent-Type: a/xml\r\nX-App-A: of-storage\r\nContent-Length: 0\r\n\r\n",
        );
    });
    let routes = format!("[[site.route]]\npath = '/chain/*'\ninternal = true\nproxy = '{}'\n", storage.url());
    let server = server(&app, &folder, "", &routes);
    let more = "Content-Type:~a/b&Content-Disposition:~attachment&Set-Cookie:~a=1&X-App-A:~1&X-Other:~1";
    for (caching, expected) in [
        (
            "Cache-Control:~private,max-age=60&Expires:~Fri,~01~Jan~2100~00:00:00~GMT&CDN-Cache-Control:~s-maxage=9",
            [None; 3],
        ),
        (
            "Cache-Control:~no-store&Expires:~0&CDN-Cache-Control:~no-store",
            [Some("no-store"), Some("0"), Some("no-store")],
        ),
        ("Cache-Control:~private&Cache-Control:~immutable", [Some("private"), None, None]),
    ] {
        for target in ["/chain/a", "/protected/none"] {
            let target = format!("/app/x?X-Accel-Redirect:~{target}&{more}&{caching}");
            let error = server.get(&target);
            assert_eq!(error.status, 404, "{target}");
            let fields = ["set-cookie", "x-app-a", "x-other", "content-disposition"];
            let of_app = [Some("a=1"), Some("1"), None, None];
            assert_eq!(fields.map(|name| error.field(name)), of_app, "{}", error.head);
            assert_ne!(error.field("content-type"), Some("a/b"));
            let of_caches = ["cache-control", "expires", "cdn-cache-control"];
            assert_eq!(of_caches.map(|name| error.field(name)), expected, "{target}: {}", error.head);
        }
    }
}

#[test]
fn clients_cannot_request_an_internal_route_nor_name_a_file() {
    let (app, folder) = (app(), files());
    let server = server(&app, &folder, "", "");
    for path in ["/protected/b.txt", "/app/../protected/b.txt", "/protected%2Fb.txt", "//protected/b.txt"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    let fields = ["X-Accel-Redirect: /protected/b.txt", "X-Sendfile: page.html", "X-Accel-Mapping: /=/"];
    assert_eq!(server.get_with("/app/", &fields).text(), "of-app");
}

#[test]
fn what_must_not_be_sent_is_an_error_and_logged() {
    let (app, folder) = (app(), files());
    let mut server = server(&app, &folder, "", "");
    for (target, status) in [
        ("/app/x?X-Accel-Redirect:~/../secret.txt", 502),
        ("/app/x?X-Accel-Redirect:~/..%2Fsecret.txt", 502),
        ("/app/x?X-Accel-Redirect:~/protected/../../secret.txt", 502),
        ("/app/x?X-Accel-Redirect:~http://a/protected/b.txt", 502),
        ("/app/x?X-Sendfile:~/etc/passwd", 502),
        ("/app/x?X-Sendfile:~none", 404),
        // A file below the folder, because the path is not listed.
        ("/app/x?X-Accel-Redirect:~/secret.txt", 404),
        ("/app/x?X-Accel-Redirect:~/protected/../app/y", 404),
    ] {
        let response = server.get(&with(target, "Content-Disposition:~attachment"));
        assert_eq!((response.status, response.field("content-disposition")), (status, None), "{target}");
    }
    server.wait_for_line(
        "x-accel-redirect names \"/../secret.txt\", which is not a path below `sendfile_root`",
    );
    let mut disabled = proxy(&app, "");
    let response = disabled.get(ROUTE);
    assert_eq!((response.status, response.field("x-accel-redirect")), (502, None));
    disabled.wait_for_line(
        "x-accel-redirect names \"/protected/b.txt\", but neither `sendfile_root` nor `accel_redirect` is set",
    );
}

#[test]
fn other_instructions_are_not_passed_on() {
    let app = app();
    let server = proxy(&app, "");
    let fields =
        "X-Accel-Limit-Rate:~1&X-Accel-Charset:~utf-8&X-Accel-Expires:~0&x-accel-buffering:~no&X-Other:~1";
    let response = server.get(&format!("/app/?{fields}"));
    assert_eq!((response.text(), response.field("x-other")), ("of-app", Some("1")));
    assert!(!response.head.to_ascii_lowercase().contains("x-accel"), "{}", response.head);
}

#[test]
fn the_connection_of_a_replaced_response_is_used_again() {
    let (app, folder) = (app(), files());
    let server = server(&app, &folder, "", "");
    let mut client = server.connect();
    for _ in 0..3 {
        assert_eq!(client.get(FILE, &[]).text(), "0123456789");
        assert_eq!(client.get(ROUTE, &[]).text(), "9876543210");
    }
    assert_eq!(app.accepted(), 1);
    // A 304 has no body, whatever the app names.
    assert_eq!(client.get(&FILE.replace("/x?", "/304?"), &[]).status_and_text(), (304, ""));
    assert_eq!(client.get(FILE, &[]).text(), "0123456789");
}

#[test]
fn a_redirect_leads_to_a_route_with_a_proxy_and_loops_end() {
    let (app, folder) = (app(), files());
    let storage = Upstream::serve(|peer, request| peer.respond(request.target()));
    let again = Upstream::serve(|peer, _| peer.send(respond("/?X-Accel-Redirect:~/again/x")));
    let routes = format!(
        "[[site.route]]\npath = '/chain/*'\ninternal = true\nproxy = '{}'\n\
         [[site.route]]\npath = '/again/*'\n[site.route.proxy]\nupstreams = '{}'\naccel_redirect = '/again/*'\n",
        storage.url(),
        again.url(),
    );
    let mut server = server(&app, &folder, "", &routes);
    let signed = "/app/x?X-Accel-Redirect:~/chain/a%2Bb//c?d=%7e";
    assert_eq!(server.get(signed).text(), "/chain/a%2Bb//c?d=%7e");
    assert_eq!(server.get("/again/x").status, 502);
    server.wait_for_line("x-accel-redirect names \"/again/x\", after too many internal redirects");
}

#[test]
fn the_inner_of_two_servers_sends_the_file() {
    let (app, folder) = (app(), files());
    let inner = server(&app, &folder, "", "");
    let outer = Server::config(&format!(
        "listen = ['127.0.0.1:0']\n[[site]]\n[[site.route]]\npath = '/*'\nproxy = 'http://{}'\n",
        inner.address()
    ));
    for (target, text) in [(FILE, "0123456789"), (ROUTE, "9876543210")] {
        let response = outer.get(target);
        assert_eq!((response.text(), response.field("x-accel-redirect")), (text, None));
    }
}

#[test]
fn an_upstream_over_http2_names_files_too() {
    let folder = files();
    let app = h2c_upstream(|connection, stream| {
        connection.head(stream, "200", &[("x-accel-redirect", "/page.html")], true);
    });
    let server = proxy_h2c(&app, &format!("sendfile_root = '{}/private'", folder.path().display()));
    for _ in 0..2 {
        assert_eq!(server.get("/app/a").status_and_text(), (200, "page"));
    }
    assert_eq!(app.accepted(), 1);
}

#[test]
fn a_replacement_is_never_stored() {
    let (app, folder) = (app(), files());
    let storage = Upstream::serve(|peer, _| peer.respond("stored"));
    let cache = "cache = { default_freshness = '1h' }";
    let routes =
        format!("[[site.route]]\npath = '/chain/*'\ninternal = true\nproxy = '{}'\n{cache}\n", storage.url());
    let server = server(&app, &folder, cache, &routes);
    let chain = "/app/x?X-Accel-Redirect:~/chain/a";
    for (target, text) in [(FILE, "0123456789"), (ROUTE, "9876543210"), (chain, "stored")] {
        let target = with(target, "Cache-Control:~public,max-age=600");
        for _ in 0..3 {
            let response = server.get(&target);
            assert_eq!(response.text(), text);
            let outermost = response.fields("cache-status").last().unwrap_or_default();
            assert!(outermost.contains("fwd=") && !outermost.contains("stored"), "{}", response.head);
            assert_eq!(server.get("/chain/a").status, 404);
        }
    }
}
