//! `X-Accel-Redirect` of an app: the server sends the response of another route instead. Files are in the tests of php-fpm.

use rudy_tests::prelude::*;

/// An app that names the path in its query.
fn app() -> App {
    App::start(|mut peer| {
        while let Some(params) = peer.request() {
            peer.body();
            let target = variable(&params, "QUERY_STRING").to_owned();
            let fields = "Content-Type: a/b\r\nSet-Cookie: a=1\r\nX-Of-App: 1\r\nX-Accel-Expires: 9";
            peer.respond(format!("{fields}\r\nX-Accel-Redirect: {target}\r\n\r\nof-app").as_bytes());
        }
    })
}

#[test]
fn a_listed_path_is_served_by_its_route_with_the_fields_of_the_app() {
    let (app, folder) = (app(), Folder::with(&[("b.txt", "0123456789")]));
    let address = &app;
    let server = Server::config(&format!(
        "listen = ['127.0.0.1:0']\n[[site]]\n[[site.route]]\npath = '/protected/*'\ninternal = true\nfiles = '{}'\n\
         [[site.route]]\npath = '/app/*'\nfastcgi = {{ address = '{address}', accel_redirect = '/protected/*' }}\n\
         [[site.route]]\npath = '/other/*'\nfastcgi = {{ address = '{address}' }}\n",
        folder.path().display()
    ));
    let whole = server.get("/app/x?/protected/b.txt");
    assert_eq!(whole.status_and_text(), (200, "0123456789"));
    let fields = ["content-type", "set-cookie", "x-of-app", "x-accel-expires", "x-accel-redirect"];
    assert_eq!(fields.map(|name| whole.field(name)), [Some("a/b"), Some("a=1"), None, None, None]);
    let part = server.get_with("/app/x?/protected/b.txt", &["Range: bytes=2-4"]);
    assert_eq!(part.status_and_text(), (206, "234"));
    for target in ["/app/x?/app/y", "/other/x?/protected/b.txt"] {
        let response = server.get(target);
        assert_eq!((response.status, response.field("x-accel-redirect")), (502, None), "{target}");
    }
    assert_eq!(server.get("/protected/b.txt").status, 404);
}

#[test]
fn the_charset_and_the_freshness_of_an_app_are_honoured() {
    let app = App::start(|mut peer| {
        while peer.request().is_some() {
            peer.body();
            let fields = "Content-Type: text/html\r\nX-Accel-Charset: koi8-r\r\nX-Accel-Expires: 60\r\nX-Accel-Limit-Rate: x";
            peer.respond(format!("{fields}\r\nCache-Control: no-store\r\n\r\nof-app").as_bytes());
        }
    });
    let address = &app;
    let mut server = Server::config(&format!(
        "listen = ['127.0.0.1:0']\n[cache]\npath = 'cache'\n[[site]]\n[[site.route]]\npath = '/*'\n\
         fastcgi = {{ address = '{address}' }}\ncache = true\n"
    ));
    for is_hit in [false, true] {
        let response = server.get("/a");
        assert_eq!(
            (response.text(), response.field("content-type")),
            ("of-app", Some("text/html; charset=koi8-r"))
        );
        let status = response.field("cache-status").unwrap_or_default();
        assert_eq!(status.contains("hit") || status.contains("collapsed"), is_hit, "{status}");
    }
    server.wait_for_line("x-accel-limit-rate is ignored, because \"x\" is no valid value");
}
