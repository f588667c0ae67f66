//! Tests of files that lead to other routes.

use http::header;
use rudy_service::Body;

use super::tests::{app, send};
use super::*;

#[test]
fn a_page_of_another_route_is_served_by_that_route() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().display();
    for (name, text) in [("index.php", "source"), ("sub/index.php", "source"), ("a.html", "a")] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let app = app(&format!(
        r#"
            [[site]]
            error_pages = {{ 404 = "/error", 405 = "/gone" }}
            [[site.route]]
            path = "*.php"
            respond = {{ body = "ran" }}
            [[site.route]]
            path = "/error"
            respond = {{ body = "sorry" }}
            [[site.route]]
            path = "/gone"
            respond = {{ status = 410 }}
            [[site.route]]
            path = "/*"
            [site.route.files]
            root = '{root}'
            index = ["index.php"]
            try_files = ["{{path}}", "{{path}}.php"]
            fallback = "index.php"
        "#
    ));
    let text = |response: &Response| match &response.body {
        Body::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        _ => String::new(),
    };
    for (method, target, status, body) in [
        ("GET", "/", 200, "ran"),
        ("GET", "/sub/", 200, "ran"),
        ("GET", "/sub/index", 200, "ran"),
        ("GET", "/pretty/url?x", 200, "ran"),
        ("GET", "/missing.css", 404, "sorry"),
        // The other route has its own methods. An error page that fails is not used.
        ("POST", "/", 405, "405 Method Not Allowed\nMethod not allowed. Use GET or HEAD.\n"),
        ("DELETE", "/a.html", 405, "405 Method Not Allowed\nMethod not allowed. Use GET or HEAD.\n"),
    ] {
        let response = send(&app, method, "a.org", target);
        assert_eq!(
            (response.status().as_u16(), text(&response).as_str()),
            (status, body),
            "{method} {target}"
        );
        // RFC 9110 §15.5.6: a 405 MUST have this field, even with an error page of another route.
        assert_eq!(response.headers().contains_key(header::ALLOW), status == 405, "{method} {target}");
    }
}

#[test]
fn files_to_try_are_made_of_groups_and_have_queries_for_other_routes() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().display();
    for file in ["secret", "www/photo/ann.txt", "www/.hidden", "www/plain"] {
        let file = folder.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "file").unwrap();
    }
    let app = app(&format!(
        r"
            [[site]]
            [[site.route]]
            path = '/app'
            redirect = '/got{{query}}'
            [[site.route]]
            path = 'regex:^/user/([^/]+)/(?<kind>.+)$'
            files = {{ root = '{root}/www', try_files = ['{{kind}}/{{1}}.txt', '/app?user={{1}}&kind={{kind}}{{query}}'] }}
            [[site.route]]
            path = 'regex:^/raw/.(.*)$'
            files = {{ root = '{root}/www', try_files = '{{1}}' }}
            [[site.route]]
            path = '/[!r]**'
            files = {{ root = '{root}/www', try_files = ['{{path}}', '/app?page={{path}}&id={{query.id}}'] }}
        "
    ));
    for (method, target, status, location) in [
        ("GET", "/user/ann/photo", 200, None),
        ("GET", "/user/bob/photo?x=1", 307, Some("/got?user=bob&kind=photo&x=1")),
        ("POST", "/user/bob/a%26b", 307, Some("/got?user=bob&kind=a%26b")),
        ("GET", "/plain?id=1", 200, None),
        ("GET", "/none?id=1%262&a=b", 307, Some("/got?page=/none&id=1%262")),
        ("GET", "/raw/xplain", 200, None),
        // A group is no way to what the path could not name.
        ("GET", "/raw/x.hidden", 404, None),
        ("GET", "/raw/x../secret", 404, None),
        ("GET", "/raw/x", 404, None),
        ("GET", "/raw/x/", 404, None),
    ] {
        let response = send(&app, method, "a.org", target);
        let led = response.headers().get(header::LOCATION).map(|value| value.to_str().unwrap());
        assert_eq!((response.status().as_u16(), led), (status, location), "{method} {target}");
    }
}

#[test]
fn files_of_several_folders_come_before_an_application() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().display();
    for file in ["one/a.svg", "two/a.svg", "two/b.svg", "two/index.html"] {
        let file = folder.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, file.to_string_lossy().len().to_string()).unwrap();
    }
    let app = app(&format!(
        r"
            [[site]]
            [[site.route]]
            path = 'regex:\.svg$'
            files = {{ root = '{root}/one', next_route = true }}
            [[site.route]]
            path = '/*'
            files = {{ root = '{root}/two', next_route = true }}
            [[site.route]]
            path = '/*'
            redirect = '/app'
        "
    ));
    for (method, target, status) in [
        ("GET", "/a.svg", 200),
        ("GET", "/b.svg", 200),
        ("GET", "/", 200),
        ("GET", "/c.svg", 307),
        ("POST", "/a.svg", 307),
        ("PUT", "/b.svg", 307),
        ("POST", "/", 307),
        ("POST", "/c", 307),
    ] {
        assert_eq!(send(&app, method, "a.org", target).status().as_u16(), status, "{method} {target}");
    }
}
