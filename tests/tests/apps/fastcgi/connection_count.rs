//! The default number of connections to an app: as many as it reports, or one.

use rudy_tests::prelude::*;

use crate::fastcgi::half_close::get;

/// Starts a server that spawns one process of the tests' app.
fn server(kind: &str) -> Server {
    let app = env!("CARGO_BIN_EXE_fastcgi-app");
    Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/app/*\"\n\
         fastcgi = {{ command = [\"{app}\", \"{kind}\"], processes.max = 1 }}\n"
    ))
}

#[test]
fn a_process_that_reports_many_connections_gets_them() {
    let server = server("events");
    let mut clients: Vec<_> = (0..200).map(|_| server.send(get("/app/events"))).collect();
    // No response ends, so all of them use a connection to the app at the same time.
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.head().status, 200, "{number}");
        assert_eq!(client.chunk().as_deref(), Some("data: first\n\n"), "{number}");
    }
}

#[test]
fn a_process_that_ignores_the_query_gets_one_request_at_a_time() {
    let server = server("silent");
    for round in 0..20 {
        let mut clients = [(); 16].map(|()| server.send(get("/app/x")));
        for client in &mut clients {
            assert_eq!(client.response().text(), "1", "{round}");
        }
    }
}
