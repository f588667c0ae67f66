//! The configuration of the example: TLS, HTTP/2, compression, cache and limits in front of the app.

use rudy_tests::{Curl, CurlResult, Server, Weblog};

/// Where the settings of the example say that readers are.
const URL: &str = "https://localhost:8443";

struct Shipped<'a> {
    curl: &'a Curl,
    server: Server,
}

impl Shipped<'_> {
    /// Requests a path of the listener with TLS, with more arguments for curl.
    fn get(&self, path: &str, arguments: &[&str]) -> CurlResult {
        let address = self.server.addresses().iter().find(|address| address.starts_with("https://"));
        let port = address.and_then(|address| address.trim_end_matches('/').rsplit(':').next()).expect("TLS");
        let (resolve, url) =
            (format!("localhost:{port}:127.0.0.1"), format!("https://localhost:{port}{path}"));
        let own = ["--insecure", "--http2", "--compressed", "--resolve", &resolve, &url];
        self.curl.run([&own[..], arguments].concat())
    }
}

#[test]
fn the_configuration_of_the_example_starts_everything() {
    let Some(curl) = Curl::find() else { return };
    let weblog = Weblog::new(URL, None);
    let site = Shipped { curl: &curl, server: weblog.serve_as_shipped() };
    let first = site.get("/", &[]);
    assert_eq!((first.status(), first.number_or_text("http_version")), (200, "2".to_owned()));
    assert!(first.field("content-encoding").is_some() && first.field("strict-transport-security").is_none());
    assert!(String::from_utf8_lossy(&first.body).contains("How to poll politely"));
    assert!(first.field("cache-status").is_some_and(|status| status.contains("stored")), "{}", first.heads);
    let second = site.get("/", &[]);
    assert!(
        second.field("cache-status").is_some_and(|status| status.contains("hit") || status.contains("304")),
        "{}",
        second.heads
    );
    assert_eq!(site.get("/static/style.css", &[]).field("cache-control"), Some("max-age=3600"));
    assert_eq!(site.get("/admin", &[]).status(), 401);
    let author = site.get("/admin", &["-H", Weblog::AUTHOR]);
    assert!(
        author.field("set-cookie").is_some_and(|cookie| cookie.ends_with("; Secure")),
        "{}",
        author.heads
    );
    let comment = || {
        let form = ["-H", &format!("Origin: {URL}"), "-d", "name=Ann&text=Hello"];
        site.get("/posts/validators/comments", &form).status()
    };
    assert_eq!([(); 6].map(|()| comment()), [303, 303, 303, 303, 303, 429]);
    assert_eq!(site.server.get("/").status, 308, "HTTP leads to HTTPS");
}
