//! Early data: requests that clients send before the handshake is complete.

use rudy_tests::prelude::*;

/// Sites `early.test` and `late.test` share a certificate, and only the first accepts early data. An app responds with the method and the
/// variable of the field `Early-Data`.
struct Setup {
    certificates: Certificates,
    app: App,
}

impl Setup {
    fn new() -> Option<Self> {
        let certificates = Certificates::for_host("a", "early.test,DNS:late.test")?;
        let app = App::serve(|peer, params| {
            let text = ["REQUEST_METHOD", "HTTP_EARLY_DATA"].map(|name| variable(&params, name)).join(" ");
            peer.respond(format!("Content-Type: text/plain\r\n\r\n{text}").as_bytes());
        });
        Some(Self { certificates, app })
    }

    fn config(&self) -> String {
        let (tls, app) = (self.certificates.settings("a"), &self.app);
        let site = |host: &str, early_data: bool| {
            format!(
                "[[site]]\nhosts = ['{host}']\n\
                 tls = {{ {tls}, early_data = {early_data} }}\n\
                 [[site.route]]\npath = '/*'\nfastcgi = {{ address = '{app}' }}\n"
            )
        };
        let (early, late) = (site("early.test", true), site("late.test", false));
        let log = "access_log = { path = 'log', format = 'json' }";
        format!("listen = '127.0.0.1:0,tls'\nkeep_alive = true\n{log}\n{early}{late}")
    }

    /// Returns a client that has a session with the server.
    fn client(&self, server: &Server, host: &str) -> TlsClient {
        let client = TlsClient::new(&self.certificates, None, false).remembering();
        // The tickets are behind the response.
        assert_eq!(client.status(server.address(), host, host), Some(200));
        client
    }
}

fn request(method: &str, host: &str) -> String {
    format!("{method} / HTTP/1.1\r\nHost: {host}\r\nEarly-Data: 0\r\nContent-Length: 0\r\n\r\n")
}

#[test]
fn a_safe_request_is_answered_before_the_handshake_is_complete() {
    let Some(setup) = Setup::new() else { return };
    for engine in engines() {
        let server = Server::build().config(&setup.config()).engine(engine).start();
        let client = setup.client(&server, "early.test");
        let get = request("GET", "early.test");
        let mut early = client.connect_early(server.address(), "early.test", &get).unwrap();
        assert_eq!(early.response().unwrap().text(), "GET 1", "{engine}");
        let (mut connection, is_accepted) = early.complete();
        assert!(is_accepted && connection.is_resumed());
        // The field of a client that is itself a gateway is passed on.
        assert_eq!(connection.exchange(&get).text(), "GET 0", "no longer early, {engine}");
        let line = ",\"early_data\":true,";
        let log = server.path().wait_until("log", |log| log.lines().count() == 3);
        assert_eq!(log.lines().filter(|logged| logged.contains(line)).count(), 1, "{log}");
    }
}

#[test]
fn other_requests_are_too_early() {
    let Some(setup) = Setup::new() else { return };
    let server = Server::config(&setup.config());
    for (method, host) in
        [("POST", "early.test"), ("DELETE", "early.test"), ("GET", "late.test"), ("X", "early.test")]
    {
        let client = setup.client(&server, "early.test");
        let request = request(method, host);
        let mut early = client.connect_early(server.address(), "early.test", &request).unwrap();
        assert_eq!(early.response().unwrap().status, 425, "{method} {host}");
        let (mut connection, _) = early.complete();
        assert_eq!(connection.exchange(&request).status, 200, "{method} {host}");
    }
    let client = setup.client(&server, "late.test");
    assert!(client.connect_early(server.address(), "late.test", "").is_none(), "it was not offered");
}

#[test]
fn recorded_early_data_is_not_accepted_again() {
    let Some(setup) = Setup::new() else { return };
    let server = Server::config(&setup.config());
    let client = setup.client(&server, "early.test");
    let get = request("GET", "early.test");
    let mut early = client.connect_early(server.address(), "early.test", &get).unwrap();
    assert_eq!(early.response().unwrap().status, 200);
    for _ in 0..3 {
        let mut replayed = TcpStream::connect(server.address()).unwrap();
        replayed.write_all(&early.sent).unwrap();
        // The server continues with a full handshake, which needs the client's key.
        let mut start = [0; 5];
        replayed.read_exact(&mut start).unwrap();
        assert_eq!(start[0], 22, "a handshake message");
    }
    assert_eq!(setup.app.accepted(), 1);
    drop(early);
    let client = setup.client(&server, "early.test");
    let log = server.path().wait_until("log", |log| log.lines().count() >= 3);
    assert_eq!(log.lines().count(), 3, "{log}");
    drop(client);
}

#[test]
fn sessions_survive_a_reload_and_are_forgotten_at_a_restart() {
    let Some(setup) = Setup::new() else { return };
    let state = Folder::new();
    let start = || Server::build().config(&setup.config()).env("STATE_DIRECTORY", state.path()).start();
    let mut server = start();
    let client = setup.client(&server, "early.test");
    let get = request("GET", "early.test");
    server.reload("reloaded");
    let mut early = client.connect_early(server.address(), "early.test", &get).unwrap();
    assert_eq!(early.response().unwrap().status, 200);
    // The tickets are behind the next response.
    assert_eq!(early.complete().0.exchange(&get).status, 200);
    drop(server);
    let server = start();
    let early = client.connect_early(server.address(), "early.test", &get).unwrap();
    let (mut connection, is_accepted) = early.complete();
    assert!(!is_accepted && !connection.is_resumed());
    assert_eq!(connection.exchange(&get).text(), "GET 0", "sent again");
}

/// The client goes at different points of its first messages, or sends an invalid end of the handshake.
#[test]
fn a_client_that_does_not_complete_the_handshake_harms_only_itself() {
    let Some(setup) = Setup::new() else { return };
    let server = Server::config(&setup.config());
    let get = request("GET", "early.test");
    let client = setup.client(&server, "early.test");
    let sent = client.connect_early(server.address(), "early.test", &get).unwrap().sent;
    for length in [1, 5, 100, sent.len() - 1] {
        let mut connection = TcpStream::connect(server.address()).unwrap();
        connection.write_all(&sent[..length]).unwrap();
    }
    let client = setup.client(&server, "early.test");
    let mut early = client.connect_early(server.address(), "early.test", &get).unwrap();
    assert_eq!(early.response().unwrap().status, 200);
    assert_contains!(early.fail(), "alert");
    setup.client(&server, "early.test");
}
