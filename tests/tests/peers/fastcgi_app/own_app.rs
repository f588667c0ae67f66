//! Test apps behind nginx: bodies in both directions, streams, and clients that disconnect.

use http::{Request, Response};
use rudy_fastcgi_app::{Body, Concurrency, Handler, Listen, RequestExt, Server};
use rudy_tests::prelude::*;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use super::web_server::WebServer;

const TASKS: Concurrency = Concurrency::Tasks { at_most: 10 };
const THREADS: Concurrency = Concurrency::Threads { at_most: 10 };

/// Makes nginx pass bodies on without buffering, in both directions.
const UNBUFFERED: &str =
    "fastcgi_pass app; fastcgi_keep_conn on; fastcgi_request_buffering off; fastcgi_buffering off;";

/// A running app. Dropping this stops it.
pub(super) struct App {
    /// `127.0.0.1:PORT`.
    pub(super) address: String,
    _stop: oneshot::Sender<()>,
    runtime: Runtime,
}

fn serve(concurrency: Concurrency, handler: impl Handler) -> App {
    serve_as(Server::new(concurrency), handler)
}

pub(super) fn serve_as(server: Server, handler: impl Handler) -> App {
    let runtime = Runtime::new().expect("threads can be started");
    let listen: Listen = "127.0.0.1:0".parse().expect("an address");
    let bound = server.listen(listen).bind().expect("a port is free");
    let address = bound.address().to_string();
    let (stop, stops) = oneshot::channel();
    runtime.spawn(bound.serve_until(handler, async move { drop(stops.await) }));
    App { address, _stop: stop, runtime }
}

#[test]
fn an_upload_of_20_mb_is_echoed() {
    let Some(curl) = Curl::find() else { return };
    let folder = Folder::new();
    let content: Vec<u8> = (0..20_000_000_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
    let file = folder.write("file", &content);
    let upload = format!("@{}", file.display());
    for concurrency in [TASKS, THREADS] {
        let app = serve(concurrency, |request: Request<Body>| async move {
            assert_eq!(request.param("CONTENT_LENGTH"), Some("20000000"));
            // nginx 1.22 stops sending a body when the response starts, so this reads the body first. The
            // library's own tests do both at once.
            let body = request.into_body().collect(20_000_000).await.expect("the body has this size");
            Response::new(Body::from(body))
        });
        for location in [UNBUFFERED, "fastcgi_pass app;"] {
            let Some(nginx) = WebServer::nginx(&app.address, location) else { return };
            let fetched = curl.run(["--data-binary", &upload, "--header", "Expect:", &nginx.url("/")]);
            assert_eq!(fetched.status(), 200);
            assert!(fetched.body == content, "another body of {} bytes", fetched.body.len());
        }
    }
}

#[test]
fn a_stream_is_passed_on_as_it_is_written_and_ends_with_its_client() {
    for concurrency in [TASKS, THREADS] {
        let (lines, mut received) = mpsc::channel::<ResponseHandle>(1);
        let app = serve(concurrency, move |request: Request<Body>| {
            let lines = lines.clone();
            async move {
                let (sender, body) = Body::channel();
                let mut aborted = request.abort_signal();
                let (notify, notified) = oneshot::channel();
                tokio::spawn(async move {
                    aborted.wait().await;
                    let _ = notify.send(());
                });
                lines.send((sender, notified)).await.expect("the test receives it");
                Response::new(body)
            }
        });
        let Some(nginx) = WebServer::nginx(&app.address, UNBUFFERED) else { return };
        let mut client = nginx.connect();
        client.send(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        let (mut sender, aborted) = received.blocking_recv().expect("the app gets a request");
        app.runtime.block_on(sender.send("first\n")).expect("the client receives it");
        assert_eq!(client.head().status, 200);
        assert_eq!(client.chunk().as_deref(), Some("first\n"));
        app.runtime.block_on(sender.send("second\n")).expect("the client receives it");
        assert_eq!(client.chunk().as_deref(), Some("second\n"));
        drop(client);
        let patience = async { tokio::time::timeout(PATIENCE, aborted).await };
        app.runtime
            .block_on(patience)
            .expect("nginx closes the connection")
            .expect("the handler is notified");
    }
}

/// The sender of a response body, and the notification of an abort.
type ResponseHandle = (rudy_fastcgi_app::BodySender, oneshot::Receiver<()>);
