//! Tests the example app `weblog` behind Rudy.

mod comments;
mod polling;
mod reading;
mod shipped;

use rudy_tests::prelude::*;

/// Where the readers of the weblogs are.
const URL: &str = "https://notes.example";

/// A weblog of its own, behind Rudy.
struct Site {
    weblog: Weblog,
    server: Server,
}

impl Site {
    fn start(sidebar: Option<(&str, &str)>) -> Self {
        let weblog = Weblog::new(URL, sidebar);
        let server = weblog.serve("127.0.0.1:0");
        Self { weblog, server }
    }

    /// The text of a page, with any status.
    fn get(&self, target: &str) -> String {
        self.server.get(target).text().to_owned()
    }

    /// A response to the author.
    fn as_author(&self, target: &str) -> Response {
        self.send(&format!("GET {target}"), &[Weblog::AUTHOR], "")
    }

    /// Sends a form of one of the own pages, with more fields.
    fn post(&self, target: &str, fields: &[&str], form: &str) -> Response {
        let origin = format!("Origin: {URL}");
        let own = [&origin, "Sec-Fetch-Site: same-origin", "Content-Type: application/x-www-form-urlencoded"];
        self.send(&format!("POST {target}"), &[&own, fields].concat(), form)
    }

    /// Sends a request with these field lines.
    fn send(&self, request: &str, fields: &[&str], body: &str) -> Response {
        let length = format!("Content-Length: {}", body.len());
        let fields = [&["Host: notes.example", "Connection: close", &length], fields].concat().join("\r\n");
        self.server.send(format!("{request} HTTP/1.1\r\n{fields}\r\n\r\n{body}")).response()
    }
}
