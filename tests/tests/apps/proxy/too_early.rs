//! Requests in early data, and upstreams that do not serve them (RFC 8470).

use rudy_tests::prelude::*;

/// Starts an upstream that responds with 425 to requests with `Early-Data`, and reports the field of each; a server with TLS in front of
/// it, and a client that has a session.
fn start(certificates: &Certificates) -> (Upstream, mpsc::Receiver<Option<String>>, Server, TlsClient) {
    certificates.signed("a", "early.test", Valid::Now);
    let (sender, fields) = mpsc::channel();
    let upstream = Upstream::serve(move |peer, request| {
        let field = request.field("early-data").map(str::to_owned);
        if field.as_deref() == Some("1") {
            peer.send("HTTP/1.1 425 Too Early\r\nContent-Length: 5\r\n\r\nearly");
        } else {
            peer.respond("fine");
        }
        sender.send(field).expect("the test runs");
    });
    let tls = certificates.settings("a");
    let server = Server::config(&format!(
        "listen = '127.0.0.1:0,tls'\n[[site]]\nhosts = ['early.test']\n\
         tls = {{ {tls}, early_data = true }}\n\
         [[site.route]]\npath = '/*'\nproxy = '{upstream}'\n"
    ));
    let client = TlsClient::new(certificates, None, false).remembering();
    // The tickets are behind the response.
    assert_eq!(client.status(server.address(), "early.test", "early.test"), Some(200));
    assert_eq!(fields.recv().expect("a request"), None);
    (upstream, fields, server, client)
}

#[test]
fn a_request_that_is_too_early_is_sent_again_after_the_handshake() {
    let Some(certificates) = Certificates::new() else { return };
    let (_upstream, fields, server, client) = start(&certificates);
    let get = "GET / HTTP/1.1\r\nHost: early.test\r\n\r\n";
    let early = client.connect_early(server.address(), "early.test", get).expect("a session");
    assert_eq!(fields.recv().expect("a request"), Some("1".to_owned()));
    let (mut connection, is_accepted) = early.complete();
    assert!(is_accepted);
    assert_eq!(connection.exchange("").status_and_text(), (200, "fine"));
    assert_eq!(fields.recv().expect("a second request"), None);
}

#[test]
fn if_the_client_is_an_intermediary_it_gets_the_425() {
    let Some(certificates) = Certificates::new() else { return };
    let (_upstream, fields, server, client) = start(&certificates);
    let get = "GET / HTTP/1.1\r\nHost: early.test\r\nEarly-Data: 1\r\n\r\n";
    let mut early = client.connect_early(server.address(), "early.test", get).expect("a session");
    assert_eq!(early.response().expect("a response").status, 425);
    let (mut connection, _) = early.complete();
    assert_eq!(connection.exchange(get).status, 425, "it did not arrive early, but the field is passed on");
    let received = [(); 2].map(|()| fields.recv().expect("a request"));
    assert_eq!(received.map(Option::unwrap_or_default), ["1", "1"]);
}
