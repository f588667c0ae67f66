//! Tests the example app `weblog` behind Rudy: posts, feeds, and the sidebar with a service that fails.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use rudy_tests::{Server, Upstream, eventually, weblog};
use tempfile::TempDir;

/// A weblog of its own, behind Rudy, with a service in its sidebar.
struct Weblog {
    folder: TempDir,
    server: Server,
}

impl Weblog {
    fn start(service: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temp folder can be created");
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/weblog");
        let copy = |name: &str| {
            fs::create_dir(folder.path().join(name)).expect("the folder is new");
            for file in fs::read_dir(example.join(name)).expect("the example has this folder") {
                let file = file.expect("the folder can be read").path();
                let copy = folder.path().join(name).join(file.file_name().expect("a file has a name"));
                fs::copy(&file, copy).expect("a temp folder can be written");
            }
        };
        copy("templates");
        copy("posts");
        let settings = format!(
            "title = 'Notes'\ndescription = 'On servers'\nauthor = 'A'\nurl = 'https://notes.example'\n\
             [[sidebar]]\ntitle = 'Reading'\nurl = '{service}'\nitems = '/books'\ntext = '/title'\ninterval = '10ms'\nper_day = 100000\n"
        );
        fs::write(folder.path().join("weblog.toml"), settings).expect("a temp folder can be written");
        let config = format!(
            "[[site]]\n[[site.route]]\npath = '/*'\nfastcgi = {{ command = ['{}', '{}'], params = {{ REMOTE_USER = 'author' }} }}\n",
            weblog().display(),
            folder.path().display(),
        );
        let server = Server::config(&config);
        Self { folder, server }
    }

    fn get(&self, target: &str) -> String {
        self.server.get(target).text().to_owned()
    }

    fn save(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join("posts").join(name), text).expect("a temp folder can be written");
    }
}

/// A service whose responses to the polls are these, in order; then 304.
fn service(responses: Vec<String>) -> Upstream {
    let polls = AtomicUsize::new(0);
    Upstream::start(move |peer| {
        while let Some(request) = peer.request() {
            let index = polls.fetch_add(1, Ordering::SeqCst);
            match responses.get(index) {
                Some(response) if response.is_empty() => return,
                Some(response) => peer.send(response),
                None => {
                    assert_eq!(request.field("if-none-match"), Some("\"2\""));
                    peer.send("HTTP/1.1 304 Not Modified\r\nETag: \"2\"\r\n\r\n");
                }
            }
        }
    })
}

/// A list of one book.
fn books(etag: &str, title: &str) -> String {
    let body = format!("{{\"books\": [{{\"title\": \"{title}\"}}]}}");
    format!("HTTP/1.1 200 OK\r\nETag: \"{etag}\"\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn a_saved_file_is_a_post_and_a_broken_one_changes_nothing() {
    let weblog = Weblog::start("http://127.0.0.1:9/");
    assert!(weblog.get("/").contains("How to poll politely"));
    assert!(!weblog.get("/").contains("What a cache may keep"), "a draft is not public");
    assert!(weblog.get("/admin").contains("What a cache may keep"));
    weblog
        .save("new.md", "+++\ntitle = \"Fresh & new\"\ndate = 2026-11-26\ntags = [\"news\"]\n+++\nHello.\n");
    eventually("the post appears", || weblog.get("/").contains("Fresh &amp; new").then_some(()));
    weblog.save("new.md", "broken");
    eventually("the problem is named", || {
        weblog.get("/admin").contains("does not begin with its title").then_some(())
    });
    for target in
        ["/posts/new", "/tags/news", "/archive/2026-11", "/search?q=fresh+HELLO", "/feed.atom", "/feed.json"]
    {
        assert!(weblog.get(target).contains("Fresh"), "{target}");
    }
    assert!(weblog.get("/sitemap.xml").contains("<loc>https://notes.example/posts/new</loc>"));
    for target in ["/posts/draft-on-caches", "/tags/none", "/?page=2", "/?page=x", "/posts/new/comments"] {
        assert_eq!(weblog.server.get(target).status, 404, "{target}");
    }
    assert_eq!(weblog.server.get("//evil.example/").field("location"), Some("/evil.example"));
}

#[test]
fn the_sidebar_shows_the_last_good_list_of_a_service_that_fails() {
    let failures = [
        "HTTP/1.1 999 No\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nRetry-After: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
        "garbage\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        // Closes the connection.
        "",
    ];
    let failures = failures.map(str::to_owned);
    let service = service([&[books("1", "Caching")], &failures[..], &[books("2", "Semantics")]].concat());
    let weblog = Weblog::start(&service.url());
    eventually("the first list appears", || weblog.get("/").contains("Caching").then_some(()));
    eventually("the last list appears", || weblog.get("/").contains("Semantics").then_some(()));
    eventually("the polls go on", || weblog.get("/admin").contains("unchanged").then_some(()));
}
