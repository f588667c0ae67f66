//! Tests of error pages on whole configurations.

use http::header;
use rudy_service::{Body, Response};

use super::{app, load, send};

fn text(response: Response) -> String {
    match response.body {
        Body::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        Body::File(_) => "a file".to_owned(),
        _ => String::new(),
    }
}

const HTML: [(&str, &str); 1] = [("accept", "text/html,*/*;q=0.8")];

#[test]
fn a_page_keeps_the_status_and_the_fields_of_the_error() {
    let app = app(r#"
        [[site]]
        error_pages = { folder = "errors", 404 = "/not-found", 403 = { file = "errors/404.html" } }
        response_headers = { X-Site = { add = "once" } }
        [[site.route]]
        path = "/not-found"
        respond = { body = "the page" }
        [[site.route]]
        path = "/secret"
        respond = 403
        [[site.route]]
        path = "/down"
        respond = 503
        error_pages = { 5xx = "/not-found" }
        [[site.route]]
        path = "/explained"
        respond = { status = 404, body = "own text" }
        [[site.route]]
        path = "/a.txt"
        files = "www"
    "#);
    for (target, status, body) in [
        ("/none", 404, "the page"),
        ("/secret", 403, "<p>404"),
        ("/down", 503, "the page"),
        ("/explained", 404, "own text"),
        ("/..", 400, "<p>400 Bad Request: Bad request: the path leads above the root. at a.org/.."),
    ] {
        let response = send(&app, "http", target, &HTML);
        assert_eq!(response.status(), status, "{target}");
        assert_eq!(response.headers().get_all("x-site").iter().count(), 1, "{target}");
        assert_eq!(text(response), body, "{target}");
    }
}

#[test]
fn a_program_gets_the_page_unless_it_accepts_only_json() {
    let app = app("[[site]]\nroot = 'www'\nerror_pages = 'errors'\n");
    for (accept, media_type, body) in [
        ("*/*", "text/html; charset=utf-8", "<p>404"),
        ("application/json", "application/problem+json", "{\"title\":\"Not Found\""),
    ] {
        let response = send(&app, "http", "/none", &[("accept", accept)]);
        assert_eq!(response.headers()[header::CONTENT_TYPE], media_type, "{accept}");
        assert!(text(response).starts_with(body), "{accept}");
    }
}

#[test]
fn a_page_that_fails_is_not_used() {
    let app = app(r#"
        [[site]]
        error_pages = { 404 = "/gone", 403 = "/none" }
        [[site.route]]
        path = "/gone"
        respond = 410
        [[site.route]]
        path = "/secret"
        respond = 403
        [[site.route]]
        path = "/a.txt"
        files = "www"
    "#);
    assert_eq!(
        text(send(&app, "http", "/none", &[])),
        "404 Not Found\nThe requested URL was not found on this server.\n"
    );
    assert_eq!(send(&app, "http", "/secret", &[]).status(), 403);
}

#[test]
fn the_route_that_a_rewrite_leads_to_has_its_own_pages() {
    let app = app(r#"
        [[site]]
        error_pages = { 404 = "/site" }
        [[site.route]]
        path = "/site"
        respond = { body = "of the site" }
        [[site.route]]
        path = "/route"
        respond = { body = "of the route" }
        [[site.route]]
        path = "/with"
        error_pages = { 404 = "/route" }
        respond = 404
        [[site.route]]
        path = "/without"
        respond = 404
        [[site.route]]
        path = "/failing"
        error_pages = { 404 = "/none" }
        respond = 404
        [[site.route]]
        path = "/to/*"
        error_pages = { 404 = "/route" }
        rewrite = "/{rest}"
    "#);
    for (target, body) in [
        ("/to/with", "of the route"),
        ("/to/without", "of the site"),
        ("/to/none", "of the site"),
        ("/to/failing", "404 Not Found\nThe requested URL was not found on this server.\n"),
    ] {
        let response = send(&app, "http", target, &[]);
        assert_eq!((response.status().as_u16(), text(response).as_str()), (404, body), "{target}");
    }
}

#[test]
fn a_response_with_a_page_has_the_fields_of_its_own_route() {
    let app = app(r#"
        [[site]]
        error_pages = { 404 = "/page" }
        response_headers = { X-Path = "{path}", X-Frame-Options = "DENY", Link = { add = "<a>" } }
        [[site.route]]
        path = "/page"
        respond = { body = "the page" }
        response_headers = { X-Page = "page" }
        [[site.route]]
        path = "/api/*"
        respond = 404
        response_headers = { Access-Control-Allow-Origin = "*", X-Frame-Options = false }
    "#);
    for (target, origin, frame, path) in
        [("/api/x", Some("*"), None, "/api/x"), ("/none", None, Some("DENY"), "/none")]
    {
        let response = send(&app, "http", target, &[]);
        let field = |name| response.headers().get(name).map(|value| value.to_str().unwrap());
        assert_eq!(
            (field("access-control-allow-origin"), field("x-frame-options")),
            (origin, frame),
            "{target}"
        );
        assert_eq!((field("x-path"), field("x-page")), (Some(path), Some("page")), "{target}");
        assert_eq!(response.headers().get_all("link").iter().count(), 1, "{target}");
        assert_eq!(text(response), "the page");
    }
}

#[test]
fn pages_are_checked_at_the_start() {
    for (setting, expected) in [
        ("error_pages = 'www'", "expected files such as 404.html"),
        ("error_pages = 'nothing'", "No such file"),
        ("error_pages = { 200 = '/ok' }", "\"200\" is not the status of an error"),
        ("error_pages = { 404 = 'a.html' }", "write { file = \"a.html\" }"),
        ("error_pages = { 404 = { file = 'none.html' } }", "cannot use the error page for 404"),
        ("error_pages = { 404 = { file = 'misspelt.html.j2' } }", "undefined value"),
        ("error_pages = { 404 = { file = 'broken.html.j2' } }", "syntax error"),
        ("error_pages = { 404 = '/../x' }", "above the root"),
    ] {
        let message = load(&format!("[[site]]\nroot = 'www'\n{setting}\n")).err().unwrap_or_default();
        assert!(message.contains(expected), "{setting}: {message}");
    }
}

#[test]
fn another_path_responds_instead_with_its_own_status_and_fields() {
    let app = app(r#"
        [[site]]
        error_pages = { 404 = { rewrite = "/missing{path}" } }
        intercept_errors = true
        [[site.route]]
        path = "/missing/moved"
        redirect = "/new"
        response_headers = { X-Path = "{path}{query}" }
        [[site.route]]
        path = "/missing/gone"
        respond = 410
        [[site.route]]
        path = "/missing/**"
        respond = 404
        response_headers = { X-Path = "{path}{query}" }
        [[site.route]]
        path = "/found"
        respond = 200
    "#);
    // A second failure is the response: there is no loop.
    for (target, status, path) in [
        ("/moved?a", 307, Some("/missing/moved?a")),
        ("/gone", 410, None),
        ("/none", 404, Some("/missing/none")),
        ("/found", 200, None),
    ] {
        let response = send(&app, "http", target, &HTML);
        assert_eq!(response.status(), status, "{target}");
        let found = response.headers().get("x-path").map(|path| path.to_str().unwrap());
        assert_eq!(found, path, "{target}");
    }
}

#[test]
fn a_page_that_is_neither_a_file_nor_a_path_is_an_error() {
    for (page, expected) in [
        ("{ rewrite = 'missing' }", "expected a path of the site"),
        ("{ rewrite = '/{rest}' }", "expected a path of the site"),
        ("{ rewrite = '/a', file = 'errors/404.html' }", "either `file` or `rewrite`"),
        ("{}", "either `file` or `rewrite`"),
    ] {
        let text = format!("[[site]]\nroot = 'www'\nerror_pages = {{ 404 = {page} }}\n");
        let problems = format!("{:?}", load(&text).err());
        assert!(problems.contains(expected), "{page}: {problems}");
    }
}
