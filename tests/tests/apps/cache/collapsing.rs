//! One request to the origin for many clients.

use rudy_tests::prelude::*;

use crate::cache::{begin, config, config_in, config_with_host, get, handled, hit, request, server, stored};

/// An origin that begins its response when the test allows it, and counts its requests.
fn gated(
    head: &'static str,
    respond: impl Fn(&mut UpstreamPeer) + Send + Sync + 'static,
) -> (Upstream, Arc<AtomicUsize>, mpsc::Sender<()>) {
    let ((open, gate), count) = (gate(), Arc::new(AtomicUsize::new(0)));
    let counter = count.clone();
    let upstream = Upstream::start(move |peer| {
        while peer.request().is_some() {
            counter.fetch_add(1, Ordering::SeqCst);
            if gate.wait().is_none() {
                return;
            }
            peer.send(head);
            respond(peer);
        }
    });
    (upstream, count, open)
}

#[test]
fn a_thousand_clients_of_a_cold_object_cause_one_request_and_receive_equal_bytes() {
    // More than the store keeps in memory, and less than the buffers of the sockets, which are read one after the other.
    const BYTES: usize = 100_000;
    let body: Arc<Vec<u8>> = Arc::new((0..BYTES).map(|at| (at % 251).to_le_bytes()[0]).collect());
    let sent = body.clone();
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nCache-Control: max-age=60\r\n\r\n";
    let (origin, count, open) = gated(head, move |peer| peer.send(&**sent));
    let server = server(&origin, "true");
    let mut clients: Vec<_> = (0..1000).map(|_| begin(&server, "/a", &[])).collect();
    open.send(()).expect("the origin waits");
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (clients, body) = (clients.split_off(clients.len() - 250), body.clone());
            thread::spawn(move || {
                for mut client in clients {
                    let response = client.response();
                    assert_eq!(response.status, 200);
                    assert!(response.body == **body, "equal bytes");
                }
            })
        })
        .collect();
    drop(open);
    for thread in threads {
        thread.join().expect("all clients receive the response");
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn clients_receive_the_response_while_it_arrives() {
    let (more, next) = gate::<&'static str>();
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=60\r\n\r\n";
    let (origin, count, open) = gated(head, move |peer| {
        while let Some(piece) = next.wait() {
            peer.send(format!("{:x}\r\n{piece}\r\n", piece.len()));
            if piece.is_empty() {
                return;
            }
        }
    });
    let server = server(&origin, "true");
    let mut first = begin(&server, "/a", &[]);
    open.send(()).expect("the origin waits");
    more.send("one").expect("the origin responds");
    assert_eq!(first.head().status, 200);
    assert_eq!(first.chunk().as_deref(), Some("one"));
    let mut second = begin(&server, "/a", &[]);
    let head = second.head();
    assert!(head.field("cache-status").is_some_and(|status| status.ends_with("collapsed")), "{}", head.head);
    assert_eq!(second.chunk().as_deref(), Some("one"));
    for piece in ["two", ""] {
        more.send(piece).expect("the origin responds");
    }
    for client in [&mut first, &mut second] {
        assert_eq!((client.chunk().as_deref(), client.chunk()), (Some("two"), None));
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
    hit(&server, "/a", &[]);
}

#[test]
fn clients_of_a_response_that_is_not_for_others_send_their_own_requests() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nCache-Control: private\r\n\r\nx";
    let (origin, count, open) = gated(head, |_| ());
    let server = server(&origin, "true");
    let mut clients = [(); 5].map(|()| begin(&server, "/a", &[]));
    for _ in 0..5 {
        open.send(()).expect("the origin waits");
    }
    assert!(clients.iter_mut().all(|client| client.response().text() == "x"));
    assert_eq!(count.load(Ordering::SeqCst), 5);
    // From now on, they do not wait for each other.
    let _clients = [(); 2].map(|()| begin(&server, "/a", &[]));
    wait_until("both requests are sent", || count.load(Ordering::SeqCst) == 7);
}

#[test]
fn a_request_that_has_waited_too_long_is_sent_too_and_its_response_is_not_stored() {
    let ((open, gate), count) = (gate::<()>(), Arc::new(AtomicUsize::new(0)));
    let counter = count.clone();
    let origin = Upstream::start(move |peer| {
        while peer.request().is_some() {
            let number = counter.fetch_add(1, Ordering::SeqCst) + 1;
            if number == 1 && gate.wait().is_none() {
                return;
            }
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nCache-Control: max-age=60";
            peer.send(format!("{head}\r\n\r\n{number}"));
        }
    });
    let server = server(&origin, "{ wait_timeout = \"10ms\" }");
    let mut first = begin(&server, "/a", &[]);
    wait_until("it is sent", || count.load(Ordering::SeqCst) == 1);
    for number in ["2", "3"] {
        let response = get(&server, "/a", &[]);
        assert_eq!((response.text(), handled(&response).as_str()), (number, "bypass"));
    }
    open.send(()).expect("the origin waits");
    assert_eq!(first.response().text(), "1");
    assert_eq!(hit(&server, "/a", &[]).text(), "1");
}

#[test]
fn a_client_with_other_fields_in_vary_leaves_at_the_head() {
    let (open, gate) = gate::<()>();
    let origin = Upstream::start(move |peer| {
        while let Some(request) = peer.request() {
            if gate.wait().is_none() {
                return;
            }
            let language = request.field("accept-language").unwrap_or("-").to_owned();
            let head =
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nCache-Control: max-age=60\r\nVary: Accept-Language";
            peer.send(format!("{head}\r\n\r\n{language}"));
        }
    });
    let server = server(&origin, "true");
    let mut clients = ["de", "en", "de", "en"]
        .map(|language| (language, begin(&server, "/a", &[&format!("Accept-Language: {language}")])));
    drop((0..4).map(|_| open.send(())).collect::<Vec<_>>());
    for (language, client) in &mut clients {
        assert_eq!(client.response().text(), *language);
    }
}

#[test]
fn a_request_that_is_redirected_internally_does_not_wait_for_itself() {
    let app = App::serve(|peer, params| {
        peer.body();
        let response = match variable(&params, "REQUEST_URI") {
            "/ok?utm_source=1" => "Location: /ok\n\n",
            "/endless" => "Location: /endless\n\n",
            _ => "Cache-Control: max-age=60\nContent-Type: text/plain\n\nbody",
        };
        peer.respond(response.as_bytes());
    });
    let root = Folder::with(&[("index.php", "")]);
    let route = |path: &str, handler: &str| format!("[[site.route]]\npath = \"{path}\"\n{handler}\n");
    let php = format!("php = {{ root = \"{root}\", address = \"{app}\" }}");
    let fastcgi = format!("fastcgi = {{ address = \"{app}\" }}");
    for (routes, targets) in [
        (route("/index.php", &php) + &route("/*", &php), &["/", "/news"][..]),
        (route("/*", &fastcgi), &["/ok?utm_source=1", "/ok"]),
    ] {
        let server = Server::config(&format!(
            "listen = [\"127.0.0.1:0\"]\n[cache]\npath = \"cache\"\n[[site]]\ncache = {{ ignore_query = \"utm_*\" }}\n{routes}"
        ));
        for target in targets {
            assert_eq!(get(&server, target, &[]).text(), "body", "{target}");
            hit(&server, target, &[]);
        }
        if routes.contains("fastcgi") {
            assert_eq!(get(&server, "/endless", &[]).status, 502);
        }
    }
}

#[test]
fn a_request_after_a_purge_does_not_wait_for_one_before_it() {
    let ((open, gate), count) = (gate::<()>(), Arc::new(AtomicUsize::new(0)));
    let counter = count.clone();
    let origin = Upstream::start(move |peer| {
        while let Some(request) = peer.request() {
            let is_get = request.head.starts_with("GET ");
            let number = if is_get { counter.fetch_add(1, Ordering::SeqCst) + 1 } else { 0 };
            // Those before a purge.
            if number % 2 == 1 && gate.wait().is_none() {
                return;
            }
            let fields = "Content-Length: 1\r\nCache-Control: max-age=600\r\nCache-Tag: a";
            peer.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{number}"));
        }
    });
    let server = Server::config(&config_with_host(&origin, "{ purge_from = \"loopback\" }"));
    let changes = [
        ("PURGE", "/0", &[][..]),
        ("PURGE", "/1*", &[]),
        ("PURGE", "/", &["Cache-Tag: a"]),
        ("POST", "/3", &["Content-Length: 0"]),
    ];
    for (case, (method, target, fields)) in changes.into_iter().enumerate() {
        let (path, first, second) = (format!("/{case}"), 2 * case + 1, 2 * case + 2);
        let mut before = begin(&server, &path, &[]);
        wait_until("it is sent", || count.load(Ordering::SeqCst) == first);
        assert_eq!(request(&server, method, target, fields).status, 200);
        assert_eq!(get(&server, &path, &[]).text(), second.to_string(), "{method} {target}");
        open.send(()).expect("the origin waits");
        assert_eq!(before.response().text(), first.to_string());
        assert_eq!(stored(&server, &path).text(), second.to_string(), "{method} {target}");
    }
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=60\r\n\r\n";

/// More than a connection has in its buffers.
const LONG_BYTES: usize = 32 << 20;

fn send_long(peer: &mut UpstreamPeer) {
    peer.send(format!("{LONG_BYTES:x}\r\n"));
    peer.send(vec![b'x'; LONG_BYTES]);
    peer.send("\r\n0\r\n\r\n");
}

/// Returns the length of a body, after its head.
fn read_body(client: &mut Connection) -> usize {
    let mut body = Vec::new();
    while client.chunk_bytes(&mut body) {}
    body.len()
}

#[test]
fn a_client_that_does_not_read_holds_no_other_if_the_response_is_too_long() {
    let (more, next) = gate();
    let (origin, count, open) = gated(CHUNKED, move |peer| {
        peer.send("1\r\na\r\n");
        next.wait().expect("the clients have the start");
        send_long(peer);
    });
    let config = config(&origin, "true").replace("[cache]\n", "[cache]\nobject_bytes = \"100k\"\n");
    let server = Server::config(&config);
    let [mut stalled, mut client] = [(); 2].map(|()| begin(&server, "/a", &[]));
    open.send(()).expect("the origin waits");
    for connection in [&mut stalled, &mut client] {
        assert_eq!((connection.head().status, connection.chunk().as_deref()), (200, Some("a")));
    }
    more.send(()).expect("the origin waits");
    assert_eq!((read_body(&mut client), count.load(Ordering::SeqCst)), (LONG_BYTES, 1));
    assert!(!stalled.read_to_end().ends_with(b"\r\n0\r\n\r\n"), "it is cut off");
}

#[test]
fn clients_of_a_long_response_that_this_process_cannot_store_send_their_own_requests() {
    let origin = Upstream::serve(|peer, _| {
        peer.send(CHUNKED);
        send_long(peer);
    });
    let folder = Folder::new();
    let config = config_in(&origin, "true", &folder);
    let (_writer, mut server) = (Server::config(&config), Server::config(&config));
    server.wait_for_line("another process uses the cache");
    let [mut stalled, mut client] = [(); 2].map(|()| begin(&server, "/a", &[]));
    for connection in [&mut stalled, &mut client] {
        assert_eq!(connection.head().status, 200);
    }
    assert_eq!(read_body(&mut client), LONG_BYTES);
}
