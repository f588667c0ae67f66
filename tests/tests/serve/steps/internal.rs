//! Internal routes: redirects of the server lead to them, and no request of a client.

use rudy_tests::prelude::*;

const CONFIG: &str = r#"
listen = "127.0.0.1:0"
[[site]]
error_pages = { 410 = "/protected/gone.html" }
[[site.route]]
path = "/protected/*"
internal = true
files = "private"
[[site.route]]
path = "/download"
rewrite = "/protected/a.txt"
[[site.route]]
path = "/gone"
respond = 410
[[site.route]]
path = "/*"
files = "public"
"#;

#[test]
fn only_redirects_of_the_server_lead_to_an_internal_route() {
    let files = [
        ("private/a.txt", "secret"),
        ("private/gone.html", "gone"),
        ("public/protected/a.txt", "of another route"),
        ("public/b.txt", "public"),
        ("rudy.toml", CONFIG),
    ];
    let server = Server::build().config_of(Folder::with(&files)).start();
    for (target, status, text) in [
        ("/download", 200, Some("secret")),
        ("/gone", 410, Some("gone")),
        ("/b.txt", 200, Some("public")),
        ("/protected/a.txt", 404, None),
        ("/protected", 404, None),
        ("/%70rotected//a.txt", 404, None),
        ("/x/../protected/./a.txt", 404, None),
        ("/protected%2Fa.txt", 400, None),
    ] {
        let response = server.get(target);
        assert_eq!(response.status, status, "{target}");
        assert!(text.is_none_or(|text| response.text() == text), "{target}: {}", response.text());
    }
    for fields in [
        "X-Accel-Redirect: /protected/a.txt",
        "X-Original-URL: /protected/a.txt",
        "X-Rewrite-URL: /protected/a.txt",
    ] {
        assert_eq!(server.request("GET", "/b.txt", &[fields]).text(), "public", "{fields}");
    }
    let folder = Folder::with(&files);
    for (target, last) in [
        ("/protected/a.txt", "Response  404: only internal redirects lead to the route for this path"),
        ("/download", "Handler   files: private"),
    ] {
        let explained = Rudy::command(["check", "--explain", target]).folder(folder.path()).output();
        assert_eq!(explained.stdout.lines().last(), Some(last), "{target}");
    }
}
