//! Request bodies that are larger than a route allows.

use rudy_tests::prelude::*;

/// The limit of the route.
const MOST: usize = 1000;

/// A site whose route `/small/*` allows smaller bodies than the others, and an app that responds with the length of the body.
fn site() -> (Server, App) {
    let app = App::serve(|peer, params| {
        let Some(length) = peer.body() else { return };
        let at = variable(&params, "REQUEST_URI");
        peer.respond(format!("Content-Type: text/plain\r\n\r\n{length} at {at}").as_bytes());
    });
    let server = Server::config(&format!(
        "listen = '127.0.0.1:0,h2c'\nlimits = {{ body_bytes = 2000 }}\n[[site]]\nerror_pages = {{ 413 = '/too-large' }}\nresponse_headers = {{ X-Site = 'site' }}\n\
         [[site.route]]\npath = '/too-large'\nrespond = {{ body = 'too large' }}\n\
         [[site.route]]\npath = '/streamed/*'\nbody_bytes = {MOST}\n\
         fastcgi = {{ address = '{app}', request_buffering = false, buffer_chunked = false }}\n\
         [[site.route]]\npath = '/small/*'\nbody_bytes = {MOST}\nfastcgi = {{ address = '{app}' }}\n\
         [[site.route]]\npath = '/fixed'\nbody_bytes = {MOST}\nrespond = {{ status = 202, body = 'fixed' }}\n\
         [[site.route]]\npath = '/*'\nfastcgi = {{ address = '{app}' }}\n"
    ));
    (server, app)
}

fn with_length(target: &str, length: usize) -> Vec<u8> {
    let head = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
    [head.into_bytes(), vec![b'x'; length]].concat()
}

fn in_chunks(target: &str, length: usize) -> Vec<u8> {
    let head = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut request = head.into_bytes();
    for _ in 0..length / 500 {
        request.extend_from_slice(format!("1f4\r\n{}\r\n", "x".repeat(500)).as_bytes());
    }
    [&request[..], b"0\r\n\r\n"].concat()
}

fn is_rejected(connection: &mut Connection, place: &str) -> bool {
    let response = connection.response();
    assert_eq!((response.status, response.text()), (413, "too large"), "{place}");
    assert_eq!(response.field("x-site"), Some("site"), "{place}");
    response.field("connection") == Some("close")
}

#[test]
fn a_larger_body_gets_413_and_the_next_request_is_served_or_the_connection_closed() {
    let (server, _app) = site();
    for (name, request) in [("length", with_length as fn(&str, usize) -> Vec<u8>), ("chunks", in_chunks)] {
        for target in ["/small/x", "/streamed/x"] {
            let mut connection = server.send(request(target, MOST));
            assert_eq!(connection.response().text(), format!("{MOST} at {target}"), "{name}");
            connection.send(&request(target, MOST + 500));
            let place = format!("{name} {target}");
            if is_rejected(&mut connection, &place) {
                assert!(connection.is_closed(), "{place}");
                connection = server.connect();
            }
            connection.send(&request("/large", MOST + 500));
            assert_eq!(connection.response().text(), "1500 at /large", "{place}");
            // The limit of all sites.
            connection.send(&request("/large", 2500));
            is_rejected(&mut connection, &place);
        }
    }
}

#[test]
fn the_rest_of_a_much_larger_body_is_not_taken_for_a_request() {
    let (server, _app) = site();
    for target in ["/small/x", "/streamed/x"] {
        let mut connection = server.connect();
        // The rest exceeds `drain_bytes`.
        let inner = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(10_000);
        let length = inner.len();
        connection.send(
            format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{inner}")
                .as_bytes(),
        );
        assert!(is_rejected(&mut connection, target), "the connection ends");
        assert!(connection.is_closed(), "{target}");
    }
}

#[test]
fn a_body_that_is_announced_as_too_large_is_not_requested() {
    let (server, _app) = site();
    for target in ["/small/x", "/fixed"] {
        let head = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n");
        let mut connection = server.send(head + "Expect: 100-continue\r\n\r\n");
        assert_eq!(connection.next_response().status_and_text(), (413, "too large"), "{target}");
    }
}

#[test]
fn a_larger_body_over_http_2_does_not_end_the_connection() {
    let (server, _app) = site();
    let mut connection = Http2Connection::open(server.address(), &[]);
    let length = MOST + 500;
    let with_length = ("content-length", &*length.to_string());
    let cases = [("/small/x", &[with_length][..]), ("/small/x", &[]), ("/streamed/x", &[])];
    for (number, (target, fields)) in (0..).zip(cases) {
        let stream = 1 + 4 * number;
        connection.request(stream, "POST", target, fields, false);
        connection.frame(kind::DATA, END, stream, &vec![b'x'; length]);
        let response = connection.response(stream);
        assert_eq!((response.status, response.text()), (413, "too large"), "{target} {fields:?}");
        connection.request(stream + 2, "POST", "/large", &[], false);
        connection.frame(kind::DATA, END, stream + 2, &vec![b'x'; length]);
        assert_eq!(connection.response(stream + 2).text(), "1500 at /large");
    }
    connection.request(13, "POST", "/large", &[], false);
    connection.frame(kind::DATA, END, 13, &[b'x'; 2001]);
    assert_eq!(connection.response(13).text(), "too large");
}
