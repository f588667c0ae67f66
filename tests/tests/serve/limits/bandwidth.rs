//! Bytes per second: the content is complete, however it is sent. The times are tested next to the code, on a clock of the test.

use rudy_tests::prelude::*;

use crate::limits::{get, start};

/// Files of 60 kB, sent with 200 kB per second after the first 20 kB. That takes some turns of the clock.
fn server() -> Server {
    let content: Vec<u8> =
        (0..60_000_u32).map(|number| u8::try_from(number % 251).expect("a byte")).collect();
    let text = "listen = \"127.0.0.1:0,h2c\"\n[[site]]\nbandwidth = { rate = \"200000\", after = \"20000\" }\n\
                [[site.route]]\npath = \"/*\"\nfiles = \"www\"\n";
    start("a.bin", &content, text)
}

fn is_content(bytes: &[u8], start: usize) -> bool {
    bytes.iter().enumerate().all(|(at, byte)| usize::from(*byte) == (start + at) % 251)
}

#[test]
fn a_file_is_complete_over_http1() {
    let server = server();
    let mut connection = server.connect();
    let whole = get(&mut connection, "/a.bin", "");
    assert_eq!((whole.status, whole.field("content-length"), whole.body.len()), (200, Some("60000"), 60_000));
    assert!(is_content(&whole.body, 0));
    let part = get(&mut connection, "/a.bin", "Range: bytes=1000-49999\r\n");
    assert_eq!((part.status, part.body.len()), (206, 49_000));
    assert!(is_content(&part.body, 1000));
    assert_eq!(connection.exchange("HEAD", "/a.bin", &["Host: a"]).field("content-length"), Some("60000"));
    assert_eq!(get(&mut connection, "/none", "").status, 404);
}

#[test]
fn files_are_complete_over_http2() {
    let server = server();
    let mut connection = Http2Connection::open(server.address(), &[(4, 100_000)]);
    connection.open_window(0, 1_000_000);
    let streams = [1, 3, 5];
    for stream in streams {
        connection.get(stream, "/a.bin");
    }
    for response in connection.responses(&streams) {
        assert_eq!((response.status, response.body.len()), (200, 60_000));
        assert!(is_content(&response.body, 0));
    }
}

#[test]
fn a_pace_below_the_lowest_rate_of_clients_does_not_end_the_response() {
    let text = "listen = \"127.0.0.1:0\"\n\
                limits = { send_rate_min = 100000, rate_grace = \"500ms\", send_stall_timeout = \"500ms\" }\n\
                [[site]]\nbandwidth = \"1000\"\nroot = \"www\"\n";
    let server = start("a.txt", &[b'x'; 3000], text);
    assert_eq!(get(&mut server.connect(), "/a.txt", "").body.len(), 3000);
}
