//! The configuration of the example: TLS, HTTP/2, compression, cache and limits in front of the app.

use rudy_tests::prelude::*;

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

    /// Waits until the cache has a page.
    fn wait_until_stored(&self, path: &str) {
        wait_until("the page is stored", || {
            let status = self.get(path, &[]).field("cache-status").map(str::to_owned);
            status.is_some_and(|status| status.contains("; hit"))
        });
    }

    fn contains(&self, path: &str, text: &str) -> bool {
        String::from_utf8_lossy(&self.get(path, &[]).body).contains(text)
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
    assert!(site.contains("/", "How to poll politely"));
    assert!(first.field("cache-tag").is_none() && first.field("rudy-cache-control").is_none());
    assert_eq!(site.get("/static/style.css", &[]).field("cache-control"), Some("max-age=3600"));
    assert_eq!(site.get("/admin", &[]).status(), 401);
    let author = site.get("/admin", &["-H", Weblog::AUTHOR]);
    let cookie = author.field("set-cookie");
    assert!(cookie.is_some_and(|cookie| cookie.ends_with("; Secure")), "{}", author.heads);
    let comment = || {
        let form = ["-H", &format!("Origin: {URL}"), "-d", "name=Ann&text=Hello"];
        site.get("/posts/validators/comments", &form).status()
    };
    assert_eq!([(); 6].map(|()| comment()), [303, 303, 303, 303, 303, 429]);
    assert_eq!(site.server.get("/").status, 308, "HTTP leads to HTTPS");
}

#[test]
fn changes_are_seen_although_pages_are_cached() {
    let Some(curl) = Curl::find() else { return };
    let weblog = Weblog::new(URL, None);
    let site = Shipped { curl: &curl, server: weblog.serve_as_shipped() };
    let post = "/posts/one-process";
    for path in ["/", post] {
        site.wait_until_stored(path);
    }
    weblog.save("new.md", "+++\ntitle = \"Fresh\"\ndate = 2099-11-26\n+++\nHello.\n");
    wait_until("the post appears", || site.contains("/", "Fresh"));
    let origin = format!("Origin: {URL}");
    let sent = site.get(&format!("{post}/comments"), &["-H", &origin, "-d", "name=Ann&text=Agreed"]);
    assert_eq!(sent.status(), 303);
    let admin = site.get("/admin", &["-H", Weblog::AUTHOR]);
    let cookie = admin.field("set-cookie").and_then(|cookie| cookie.split(';').next()).expect("a cookie");
    let cookie = format!("Cookie: {cookie}");
    site.wait_until_stored(post);
    let arguments = ["-H", Weblog::AUTHOR, "-H", &cookie, "-H", &origin, "-d", ""];
    assert_eq!(site.get("/admin/comments/1/approve", &arguments).status(), 303);
    assert!(site.contains(post, "Agreed"), "the first request after the approval gets the new page");
}

/// Receives a purge of the app.
fn purge(socket: &UnixListener) -> UnixStream {
    let (stream, _) = eventually("the app purges", || socket.accept().ok());
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).expect("the app sends a line");
    assert_contains!(line, "{\"tag\":\"weblog\"}");
    stream
}

#[test]
fn a_purge_that_fails_is_repeated() {
    let folder = Weblog::new(URL, None);
    let path = folder.path().join("purges");
    let socket = UnixListener::bind(&path).expect("a temp folder can hold a socket");
    socket.set_nonblocking(true).expect("every socket can be");
    let server = Server::config(&format!(
        "listen = ['127.0.0.1:0']\n[[site]]\n[[site.route]]\npath = '/*'\nfastcgi = {{ command = ['{}', '{}'], \
         processes = {{ environment = {{ RUDY_PURGE_SOCKET = '{}' }} }} }}\n",
        weblog().display(),
        folder.path().display(),
        path.display()
    ));
    // The first one has no response.
    drop(purge(&socket));
    purge(&socket).write_all(b"\"cache_purged\"\n").expect("the app reads");
    folder.save("new.md", "+++\ntitle = \"Fresh\"\ndate = 2099-11-26\n+++\nHello.\n");
    drop(purge(&socket));
    wait_until("the post appears", || server.get("/").text().contains("Fresh"));
}
