//! Clients that shut down their sending side, as `nc -N`, socat and health checks do. They are served. A client that has closed its
//! connection looks the same, until no write to it has succeeded for `half_close_timeout`.

use rudy_tests::prelude::*;

use crate::fastcgi::site::{Site, post, respond_with};

/// Starts a server with routes that respond late, in front of an app.
fn server(model: Model, top: &str, app: &App) -> Server {
    let address = app.address();
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\n{top}[[site]]\n\
         [[site.route]]\npath = \"/app/*\"\nfastcgi = {{ address = \"{address}\", connections = 1000, response_timeout = \"10m\" }}\n\
         [[site.route]]\npath = \"/delay\"\ndelay = {{ time = \"100ms\", body = \"late\" }}\n\
         [[site.route]]\npath = \"/long\"\ndelay = {{ time = \"10m\" }}\n\
         [[site.route]]\npath = \"/events\"\nbroadcast = {{ publish = \"loopback\", heartbeat = \"0s\" }}\n\
         [[site.route]]\npath = \"/status\"\nstatus = {{ allow = \"loopback\" }}\n"
    );
    Server::build().config(&config).engine(model).start()
}

/// Sends a request and shuts down the sending side.
fn send_and_finish(server: &Server, request: &[u8]) -> Connection {
    let mut client = server.send(request);
    client.finish();
    client
}

pub(crate) fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n").into_bytes()
}

#[test]
fn a_half_closed_client_is_served() {
    for model in engines() {
        let (go, permits) = gate::<()>();
        let app = App::start(move |mut peer| {
            while peer.request().is_some() {
                // The app is still working when the end of the client's stream arrives.
                permits.wait().expect("the test sends a permit");
                if !respond_with(&mut peer, "fine") {
                    return;
                }
            }
        });
        let server = server(model, "", &app);
        for request in [get("/app/x"), post("/app/x", b"body"), post("/app/x", &vec![b'a'; 200_000])] {
            let mut client = send_and_finish(&server, &request);
            go.send(()).expect("the app listens");
            assert_eq!(client.response().text(), "fine", "{model}");
        }
        assert_eq!(send_and_finish(&server, &get("/delay")).response().text(), "late", "{model}");
        if keeps_connections(model) {
            let mut client =
                send_and_finish(&server, &[get("/app/x"), get("/delay"), get("/app/x")].concat());
            for text in ["fine", "late", "fine"] {
                if text == "fine" {
                    go.send(()).expect("the app listens");
                }
                assert_eq!(client.response().text(), text, "{model}: requests sent at once");
            }
        }
    }
}

/// Whether connections of an engine are kept alive by default.
fn keeps_connections(model: Model) -> bool {
    !matches!(model, Model::Serial | Model::Pool(_))
}

#[test]
fn a_half_closed_subscriber_gets_messages() {
    let app = App::start(drop);
    for model in engines().into_iter().filter(|model| *model != Model::Serial) {
        let server = server(model, "", &app);
        let mut client = send_and_finish(&server, &get("/events"));
        assert_eq!(client.head().status, 200, "{model}");
        assert!(client.chunk().is_some_and(|text| text.starts_with("retry: ")), "{model}");
        for message in ["one", "two"] {
            assert_eq!(server.send(post("/events", message.as_bytes())).response().status, 204, "{model}");
            let event = client.chunk().expect("the stream has no end");
            assert!(event.contains(&format!("data: {message}\n")), "{model}: {event}");
        }
    }
}

/// Sends requests that get no response, closes, and waits until the server has closed the descriptors.
fn assert_closed_after(model: Model, clients: usize, half_close_timeout: &str, close: fn(Connection)) {
    let (sender, events) = mpsc::channel();
    let app = App::start(move |mut peer| {
        if peer.request().is_some() {
            sender.send("request".to_owned()).expect("the test listens");
            while !matches!(peer.receive(), Received::Closed) {}
        }
    });
    let server = server(model, &format!("limits.half_close_timeout = \"{half_close_timeout}\"\n"), &app);
    let site = Site { server, app, events };
    // The first request makes the server open descriptors that stay open. A second pool thread may open more.
    assert_eq!(site.server.get("/delay").text(), "late");
    let before = site.descriptors();
    for target in ["/app/silent", "/long", "/events"] {
        let mut open = Vec::new();
        for _ in 0..clients {
            let mut client = site.server.send(get(target));
            match target {
                "/app/silent" => assert_eq!(site.next_event(), "request", "{model}"),
                "/events" => assert_eq!(client.head().status, 200, "{model}"),
                _ => {}
            }
            open.push(client);
        }
        open.into_iter().for_each(close);
        site.wait_for_descriptors(before + 2, &format!("{clients} clients of {target} on {model}"));
    }
    assert_eq!(site.server.get("/delay").text(), "late", "{model}");
}

/// Number of clients that an engine serves at once, but at most 20.
fn clients(model: Model) -> usize {
    match model {
        Model::Serial => 1,
        Model::Pool(_) => 2,
        _ => 20,
    }
}

#[test]
fn closed_clients_are_dropped_after_half_close_timeout() {
    assert_closed_after(Model::PerCore, 200, "300ms", drop);
}

#[test]
fn closed_clients_are_dropped_on_every_engine() {
    thread::scope(|scope| {
        for model in engines() {
            scope.spawn(move || assert_closed_after(model, clients(model), "300ms", drop));
        }
    });
}

#[test]
fn clients_that_reset_are_dropped_at_once() {
    thread::scope(|scope| {
        for model in engines() {
            scope.spawn(move || assert_closed_after(model, clients(model), "10m", Connection::reset));
        }
    });
}
