//! Compressed responses of an application in Chromium: pages, scripts, and a stream that the page reads event by event.

use rudy_tests::application;
use rudy_tests::prelude::*;

use crate::content::text;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/browser_codings/page.py");

const CODINGS: [&str; 3] = ["br", "zstd", "gzip"];

/// The number of events that the page waits for.
const EVENTS: usize = 5;

fn respond(peer: &mut UpstreamPeer, media_type: &str, body: &str) {
    let length = body.len();
    peer.send(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
}

#[test]
fn chromium_decodes_every_coding_and_gets_each_event_at_once() {
    let (Some(python), Some(chromium)) = (application("python"), program("chromium")) else { return };
    let content = text(5000);
    let (body, (next, wanted)) = (content.clone(), mpsc::channel::<()>());
    let (next, wanted) = (Mutex::new(next), Mutex::new(wanted));
    let upstream = Upstream::serve(move |peer, request| {
        match request.target().rsplit('/').next().unwrap_or_default() {
            "" => {
                let page = format!("<!doctype html><title>page</title><!-- {body} -->");
                respond(peer, "text/html", &page);
            }
            "text" => respond(peer, "text/plain", &body),
            "next" => {
                next.lock().expect("no panic").send(()).expect("the receiver lives as long");
                respond(peer, "text/plain", "ok");
            }
            _ => {
                let wanted = wanted.lock().expect("no panic");
                peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
                for number in 0..EVENTS {
                    wanted.recv().expect("the sender lives as long");
                    let event = format!("data: {number}\n\n");
                    peer.send(format!("{:x}\r\n{event}\r\n", event.len()));
                }
                peer.send("0\r\n\r\n");
            }
        }
    });
    let route = |coding| {
        format!(
            "[[site.route]]\npath = '/{coding}/*'\nproxy = '{upstream}'\ncompression = {{ codings = '{coding}' }}\n"
        )
    };
    let server = Server::config(&format!(
        "listen = '127.0.0.1:0,tls'\n[[site]]\nhosts = 'localhost'\ntls = 'self-signed'\n{}",
        CODINGS.map(route).concat()
    ));
    let url = format!("https://localhost:{}/", server.address().port());
    let output = Command::new(python).arg(SCRIPT).arg(chromium).arg(url).args(CODINGS).output();
    let output = output.expect("python can be started");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let found: Vec<Value> =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    assert_eq!(found.len(), CODINGS.len(), "{stderr}");
    for (found, coding) in found.iter().zip(CODINGS) {
        assert!(found["text"] == content.as_str(), "{coding}: the text is another one");
        assert_eq!(found["codings"], json!([coding, coding]), "{coding}");
        assert_eq!(found["events"], json!(["0", "1", "2", "3", "4"]), "{coding}");
        let [sent, decoded] = ["sent", "decoded"].map(|key| found[key].as_u64().expect("a number"));
        assert!(sent > 0 && sent < decoded / 3, "{coding}: {sent} bytes for {decoded}");
    }
}
