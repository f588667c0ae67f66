//! The steps around `php`: header fields, error pages, limits, and front controllers through `rewrite`.

use rudy_tests::prelude::*;

use super::{Fpm, send};

/// Responds with the status of the query, or with what it got.
const SCRIPT: &str = r#"<?php
header("Content-Type: text/plain");
header("X-Both: script");
header("ETag: \"of-the-script\"");
http_response_code((int) ($_GET["status"] ?? 200));
$user = $_SERVER["HTTP_REMOTE_USER"] ?? "none";
echo "{$_SERVER['REQUEST_METHOD']} {$_SERVER['REQUEST_URI']} {$_SERVER['SCRIPT_NAME']} {$_SERVER['QUERY_STRING']} ",
    "user=$user added={$_SERVER['HTTP_X_ADDED']} body=", strlen(file_get_contents("php://input"));"#;

fn site() -> Folder {
    Folder::with(&[
        ("index.php", SCRIPT),
        ("wp-login.php", SCRIPT),
        ("slow.php", "<?php sleep(600);"),
        ("fatal.php", "<?php nothing();"),
        ("style.css", "css"),
        ("missing.html", "<p>missing"),
        ("broken.html", "<p>broken"),
    ])
}

/// The settings of the site, and the `*.php` route.
fn serve(fpm: &Fpm, root: &Folder, more: &str) -> Server {
    let php =
        fpm.route(root.path(), "*.php", "").replace("[site.route.php]", &format!("{more}\n[site.route.php]"));
    let root = root.path().display();
    Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\n\
         response_headers = {{ X-Site = \"site\", X-Both = \"site\", X-Path = \"{{path}}\" }}\n\
         request_headers = {{ X-Added = \"{{host}}\", Remote-User = false }}\n\
         error_pages = {{ 404 = \"/missing.html\", 5xx = \"/broken.html\" }}\nbody_bytes = 1000\n{php}\
         [[site.route]]\npath = [\"*.css\", \"*.html\"]\nfiles = \"{root}\"\n\
         [[site.route]]\npath = 'regex:^/product/([0-9]+)$'\nrewrite = \"/index.php?id={{1}}{{query}}\"\n\
         [[site.route]]\npath = \"/*\"\nrewrite = \"/index.php\"\n"
    ))
}

#[test]
fn a_front_controller_needs_only_rewrites() {
    let Some(fpm) = Fpm::start("") else { return };
    let root = site();
    let server = serve(&fpm, &root, "");
    for (target, expected) in [
        ("/", "GET / /index.php  user=none added=test body=0"),
        ("/2026/hello/?a=b", "GET /2026/hello/?a=b /index.php a=b user=none added=test body=0"),
        ("/caf%C3%A9", "GET /caf%C3%A9 /index.php  user=none added=test body=0"),
        ("/product/12?a=b", "GET /product/12?a=b /index.php id=12&a=b user=none added=test body=0"),
        ("/wp-login.php", "GET /wp-login.php /wp-login.php  user=none added=test body=0"),
        ("/style.css", "css"),
    ] {
        let response = send(&server, "GET", target, "Remote-User: root\r\nREMOTE_USER: root\r\n", "");
        assert_eq!((response.status, response.text()), (200, expected), "{target}");
        assert_eq!((response.field("x-site"), response.field("x-both")), (Some("site"), Some("site")));
    }
    let posted = send(&server, "POST", "/comment", "", "12345");
    assert_eq!(posted.text(), "POST /comment /index.php  user=none added=test body=5");
    assert_eq!(posted.field("x-path"), Some("/index.php"));
}

#[test]
fn errors_of_scripts_have_the_page_only_if_they_are_intercepted() {
    let Some(fpm) = Fpm::start("php_flag[display_errors] = off") else { return };
    let root = site();
    for intercepts in [false, true] {
        let server = serve(&fpm, &root, &format!("intercept_errors = {intercepts}"));
        for (status, page) in [(404, "<p>missing"), (500, "<p>broken"), (403, "GET")] {
            let response = server.get(&format!("/wp-login.php?status={status}"));
            assert_eq!(response.status, status);
            let begin = if intercepts { page } else { "GET" };
            assert!(response.text().starts_with(begin), "{status}: {}", response.text());
            // The tag is that of the script's content.
            assert_eq!(response.field("etag").is_some(), begin == "GET", "{status}");
            assert_eq!(response.field("x-both"), Some("site"));
        }
        assert_eq!(server.get("/fatal.php").text() == "<p>broken", intercepts);
        assert_eq!(server.get("/none.css").text(), "<p>missing", "an error of the server");
    }
}

#[test]
fn a_script_that_is_too_slow_or_a_body_that_is_too_large_has_the_page() {
    let Some(fpm) = Fpm::start("") else { return };
    let root = site();
    let server = serve(&fpm, &root, "request_timeout = \"300ms\"\nerror_pages = { 413 = \"/missing.html\" }");
    let response = server.get("/slow.php");
    assert_eq!((response.status, response.text()), (504, "<p>broken"));
    let response = send(&server, "POST", "/index.php", "", &"x".repeat(1001));
    assert_eq!((response.status, response.text()), (413, "<p>missing"));
    assert_eq!(send(&server, "POST", "/index.php", "", &"x".repeat(1000)).status, 200);
}
