//! HTTP/2 over real sockets: what a client may do to a server, and what the server makes of it.

use rudy_http::h2::PREFACE;
use rudy_tests::prelude::*;
use rustix::net::sockopt::set_socket_recv_buffer_size;

/// Error codes (RFC 9113 §7).
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;

/// A server with HTTP/2 without TLS, for a site with these routes.
fn server(limits: &str, routes: &str) -> Server {
    let site = format!("[[site]]\nhosts = 'localhost'\nroute = [{routes}]\n");
    Server::config(&format!(
        "listen = '127.0.0.1:0,h2c'\nlimits = {{ {limits} }}\naccess_log = 'access.log'\n{site}"
    ))
}

const HELLO: &str = "{ path = '/*', respond = { body = 'hello' } }";
const SLOW: &str = "{ path = '/slow', delay = { time = '300ms' } }, { path = '/never', delay = { time = '10m' } }, { path = '/*', respond = { body = 'hello' } }";

fn open(server: &Server) -> Http2Connection {
    Http2Connection::open(server.address(), &[])
}

fn go_away_code(payload: &[u8]) -> u32 {
    u32::from_be_bytes(payload[4..8].try_into().expect("four bytes"))
}

fn log(server: &Server, lines: usize) -> String {
    server.path().wait_until("access.log", |log| log.lines().count() >= lines)
}

/// Reads a frame, and adds updates of the window of the connection. Returns the type of the frame.
fn read_frame(connection: &mut Http2Connection, window: &mut usize) -> u8 {
    let frame = connection.next_frame().expect("the connection is open");
    if (frame.kind, frame.stream) == (kind::WINDOW_UPDATE, 0) {
        *window += u32::from_be_bytes(frame.payload.try_into().expect("four bytes")) as usize;
    }
    frame.kind
}

#[test]
fn a_file_that_shrinks_ends_its_stream_and_one_that_grows_is_sent_as_announced() {
    let mut server =
        server("", "{ path = '/a.bin', files = '.' }, { path = '/*', respond = { body = 'hello' } }");
    let (path, content) = (server.path().join("a.bin"), vec![b'x'; 1 << 20]);
    fs::write(&path, &content).unwrap();
    // Without a window, a response waits behind its head.
    let mut connection = Http2Connection::open(server.address(), &[(4, 0)]);
    for (stream, is_whole) in [(1, true), (3, false)] {
        connection.get(stream, "/a.bin");
        let mut responses = [Http2Response::default()];
        while responses[0].status == 0 {
            assert!(connection.read_part(&[stream], &mut responses), "the connection is open");
        }
        let file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.set_len(if is_whole { 2 << 20 } else { 1 << 19 }).unwrap();
        connection.open_window(stream, 4 << 20);
        while !responses[0].is_over {
            assert!(connection.read_part(&[stream], &mut responses), "the connection is open");
        }
        let [response] = responses;
        assert_eq!((response.status, response.reset.is_none()), (200, is_whole), "stream {stream}");
        assert_eq!(response.body == content, is_whole, "stream {stream}: {} bytes", response.body.len());
        fs::write(&path, &content).unwrap();
    }
    server.wait_for_line("a.bin: it became shorter while it was sent");
    connection.get(5, "/");
    connection.open_window(5, 100);
    assert_eq!(connection.responses(&[5])[0].body, b"hello");
}

/// Otherwise a client with many cancelled uploads could send no other one.
#[test]
fn what_is_stored_of_a_dropped_body_no_longer_counts_in_the_window_of_the_connection() {
    let routes = "{ path = '/never', delay = { time = '10m' } }, { path = '/late', delay = { time = '10m' }, request_timeout = '10ms' }";
    let server = server("", routes);
    for path in ["/never", "/late"] {
        let mut connection = open(&server);
        let (mut window, body) = (65_535, vec![b'x'; 50_000]);
        // More than twice the window of the connection.
        for stream in (1..100).step_by(2) {
            connection.request(stream, "POST", path, &[], false);
            let mut rest = &body[..];
            while !rest.is_empty() {
                while window < 10_000 {
                    read_frame(&mut connection, &mut window);
                }
                let (piece, after) = rest.split_at(10_000);
                connection.frame(kind::DATA, 0, stream, piece);
                (rest, window) = (after, window - piece.len());
            }
            match path {
                "/never" => connection.frame(kind::RST_STREAM, 0, stream, &CANCEL.to_be_bytes()),
                _ => while read_frame(&mut connection, &mut window) != kind::HEADERS {},
            }
        }
    }
}

#[test]
fn a_listener_speaks_both_protocols_wherever_the_preface_is_split() {
    let server = server("", HELLO);
    assert_eq!(server.get("/").text(), "hello");
    let input = [&PREFACE[..], &encode(kind::SETTINGS, 0, 0, &[])].concat();
    for at in 0..input.len() {
        let mut connection = Http2Connection::connect(server.address());
        connection.send(&input[..at]);
        // The next request is read only after the first part.
        connection.socket().flush().unwrap();
        thread::yield_now();
        connection.send(&input[at..]);
        connection.get(1, "/");
        assert_eq!(connection.response(1).text(), "hello", "{at}");
    }
}

#[test]
fn without_the_option_a_preface_is_rejected() {
    let server = Server::files(&[("index.html", b"hello")]);
    let response = server.exchange(PREFACE);
    assert!(response.starts_with(b"HTTP/1.1 505 "), "{}", response.escape_ascii());
}

#[test]
fn requests_on_one_connection_are_answered_concurrently_and_logged() {
    let server = server("", SLOW);
    let mut connection = open(&server);
    connection.get(1, "/slow");
    for stream in [3, 5, 7] {
        connection.get(stream, "/");
    }
    // Each is complete while the first waits.
    let fast = connection.responses(&[3, 5, 7]);
    assert!(fast.iter().all(|response| response.text() == "hello"));
    assert_eq!(connection.response(1).status, 200);
    let log = log(&server, 4);
    assert_eq!(log.matches("\"GET / HTTP/2.0\" 200 5").count(), 3, "{log}");
}

#[test]
fn responses_are_the_same_over_http_1_and_2() {
    let Some(curl) = Curl::find() else { return };
    let server = Server::build().files(&[("index.html", b"hello"), ("a.txt", &vec![b'x'; 100_000])]);
    let server = server.args(["--listen", "127.0.0.1:0,h2c"]).start();
    let url = server.addresses()[1].clone();
    for arguments in [
        &["index.html"][..],
        &["a.txt"],
        &["--head", "a.txt"],
        &["-r", "10-20", "a.txt"],
        &["-r", "0-1,5-6", "a.txt"],
        &["-r", "200000-", "a.txt"],
        &["-H", "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT", "a.txt"],
        &["-H", "If-Match: \"x\"", "a.txt"],
        &["-H", "Accept-Encoding: gzip", "a.txt"],
        &["-X", "DELETE", "a.txt"],
        &["-X", "OPTIONS", "a.txt"],
        &["-d", "body", "a.txt"],
        &["missing"],
        &["%2e%2e/x"],
        &["a.txt/"],
        &["-H", "Expect: nothing", "a.txt"],
    ] {
        let (target, options) = arguments.split_last().unwrap();
        let get = |version: &str| {
            let result = curl.run([&[version], options, &[&format!("{url}{target}")]].concat());
            assert_eq!(result.exit, 0, "{version} {arguments:?}");
            let fields = result.heads.lines().skip(1).map(str::to_ascii_lowercase);
            // The rest depends on the time, or is for the connection.
            let of_message = |line: &String| {
                !["date:", "connection:", "transfer-encoding:"].iter().any(|name| line.starts_with(name))
            };
            let mut fields: Vec<_> = fields.filter(of_message).collect();
            fields.sort();
            // With `--head`, curl prints the head as the body.
            let body = if options.contains(&"--head") { Vec::new() } else { result.body.clone() };
            (result.status(), fields, body)
        };
        let boundary = |(status, mut fields, body): (u64, Vec<String>, Vec<u8>)| {
            fields.retain(|field| !field.contains("boundary"));
            (status, fields, body.len())
        };
        assert_eq!(boundary(get("--http1.1")), boundary(get("--http2-prior-knowledge")), "{arguments:?}");
    }
}

#[test]
fn engines_with_a_thread_per_connection_offer_only_http_1() {
    let Some(curl) = Curl::find() else { return };
    let Some(certificates) = Certificates::for_host("a", "a.test") else { return };
    let (path, authority) = (certificates.path("a"), certificates.path("authority"));
    let key = path.replace(".pem", ".key");
    for (engine, more, version) in [
        ("percore", "", "2"),
        ("task", "", "2"),
        ("mailbox", "", "2"),
        ("percore", "http2 = false", "1.1"),
        ("thread", "", "1.1"),
        ("pool:2", "", "1.1"),
        ("serial", "", "1.1"),
    ] {
        let server = Server::config(&format!(
            "listen = '127.0.0.1:0,tls'\nengine = '{engine}'\n{more}\n[[site]]\nhosts = 'a.test'\nroute = [{HELLO}]\n\
             tls = {{ certificate = '{path}', key = '{key}' }}\n"
        ));
        let connect = format!("a.test:443:{}", server.address());
        let result = curl.run(["--cacert", &authority, "--connect-to", &connect, "https://a.test/"]);
        assert_eq!(result.status(), 200);
        assert_eq!(result.number_or_text("http_version"), version, "{engine}");
    }
    let output = |config: &str| Rudy::check(config).text();
    let notice = "does not offer HTTP/2; `percore`, `task` and `mailbox` do";
    for (engine, http2, protocols, has_notice) in [
        ("pool:2", true, "HTTP/1.1", true),
        ("pool:2", false, "HTTP/1.1", false),
        ("percore", true, "HTTP/1.1, HTTP/2, HTTP/3 (udp)", false),
        ("percore", false, "HTTP/1.1, HTTP/3 (udp)", false),
        ("task", true, "HTTP/1.1, HTTP/2", false),
    ] {
        let text = output(&format!(
            "listen = ['127.0.0.1:0', '127.0.0.1:0,tls']\nengine = '{engine}'\nhttp2 = {http2}\n[[site]]\nroot = '/usr'\ntls = 'self-signed'\n"
        ));
        let listens = format!("  127.0.0.1:0      HTTP/1.1\n  127.0.0.1:0,tls  {protocols}\n");
        assert!(text.contains(&listens), "{text}");
        assert_eq!(text.matches(notice).count(), usize::from(has_notice), "{text}");
    }
    let text = output("listen = '127.0.0.1:0,h2c'\nengine = 'pool:2'\n[[site]]\nroot = '/usr'\n");
    assert!(text.contains("error: the engine `pool:2` speaks only HTTP/1.1"), "{text}");
}

#[test]
fn a_response_never_exceeds_the_windows_of_the_client() {
    let server = server("", "{ path = '/*', respond = { body = 'hello, world' } }");
    // SETTINGS_INITIAL_WINDOW_SIZE.
    let mut connection = Http2Connection::open(server.address(), &[(4, 5)]);
    connection.get(1, "/");
    assert_eq!(connection.wait_for(kind::DATA).payload, b"hello");
    connection.open_window(1, 1);
    assert_eq!(connection.wait_for(kind::DATA).payload, b",");
    // A smaller window counts for open streams, too, and may be negative (RFC 9113 §6.9.2).
    connection.frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 3]);
    connection.open_window(1, 2);
    connection.frame(kind::PING, 0, 0, b"12345678");
    let frame = connection.wait_for(kind::PING);
    assert_eq!((frame.flags, &frame.payload[..]), (END, &b"12345678"[..]), "no DATA before");
    connection.open_window(1, 100);
    let last = connection.wait_for(kind::DATA);
    assert_eq!((&last.payload[..], last.flags), (&b" world"[..], END));
}

#[test]
fn a_client_that_opens_no_window_loses_its_stream_and_no_other() {
    let server = server("send_stall_timeout = '1s', rate_grace = '1s'", HELLO);
    let mut connection = Http2Connection::open(server.address(), &[(4, 0)]);
    connection.get(1, "/");
    let response = connection.response(1);
    assert_eq!((response.status, response.reset), (200, Some(CANCEL)));
    connection.frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 1, 0]);
    connection.get(3, "/");
    assert_eq!(connection.response(3).text(), "hello");
}

/// A stream waits for its next chunk while another response fills the socket.
#[test]
fn streams_go_on_when_a_client_reads_again() {
    let server = Server::config(
        "listen = '127.0.0.1:0,h2c'\n[[site]]\nroute = [{ path = '/large', files = '.' },\n\
         { path = '/ticks', stream = { interval = '10ms', count = 60, queue = 1000, format = 'sse' } }]\n",
    );
    server.path().write("large", vec![7; 64 << 20]);
    let mut connection = Http2Connection::open(server.address(), &[(4, 0x7fff_ffff)]);
    connection.open_window(0, 0x7000_0000);
    let streams: Vec<_> = (0..20).map(|number| 1 + 2 * number).collect();
    for stream in &streams {
        connection.get(*stream, "/ticks");
    }
    // It is sent after what is there of the streams, whose requests came first.
    connection.get(41, "/large");
    let mut before = 0;
    wait_until("nothing more has room", || {
        let unread = rustix::io::ioctl_fionread(connection.socket()).unwrap();
        unread > 0 && std::mem::replace(&mut before, unread) == unread
    });
    let responses = connection.responses(&streams);
    assert!(responses.iter().all(|response| response.text().contains("60")));
}

#[test]
fn urgent_responses_overtake_others() {
    let server = Server::build().files(&[("large", &vec![7; 64 << 20]), ("small", b"hello")]);
    let server = server.args(["--listen", "127.0.0.1:0,h2c"]).start();
    let address = server.address_of(1);
    let mut connection = Http2Connection::open(address, &[(4, 0x7fff_ffff)]);
    connection.open_window(0, 0x7000_0000);
    connection.request(1, "GET", "/large", &[("priority", "u=7")], true);
    // Now the file is open: its second response does not begin before the first.
    connection.wait_for(kind::DATA);
    connection.request(3, "GET", "/large", &[("priority", "u=7")], true);
    connection.request(5, "GET", "/small", &[("priority", "u=0")], true);
    let mut before = [0, 0];
    loop {
        let frame = connection.wait_for(kind::DATA);
        match frame.stream {
            5 => break,
            stream => before[usize::from(stream == 3)] += frame.payload.len(),
        }
    }
    // What the kernel has already is sent before: at most 32 MiB, by the defaults of Linux 6.17.
    assert!(before[0] < 48 << 20, "{before:?} bytes before the urgent response");
    // Responses that are not incremental are sent one after the other, unless the first must be read from the disk.
    assert!(before[1] <= before[0] / 4, "{before:?}");
}

#[test]
fn a_request_body_arrives_whatever_its_framing() {
    let app = App::serve(|peer, params| {
        let Some(body) = peer.body_bytes() else { return };
        let text = format!("Content-Type: text/plain\r\n\r\n{} ", variable(&params, "SERVER_PROTOCOL"));
        peer.respond(&[text.as_bytes(), &body].concat());
    });
    let server = server("", &format!("{{ path = '/*', fastcgi = {{ address = '{app}' }} }}"));
    let mut connection = open(&server);
    connection.request(1, "POST", "/x", &[], false);
    connection.frame(kind::DATA, 8, 1, b"\x03abc\0\0\0");
    connection.frame(kind::DATA, 0, 1, b"def");
    connection.frame(kind::HEADERS, END | END_HEADERS, 1, &block(&[("checksum", "1")]));
    assert_eq!(connection.response(1).text(), "HTTP/2.0 abcdef");
    connection.request(3, "POST", "/x", &[("expect", "100-continue"), ("content-length", "5")], false);
    assert_eq!(connection.wait_for(kind::HEADERS).flags & END, 0, "100 Continue does not end the stream");
    connection.frame(kind::DATA, END, 3, b"hello");
    assert_eq!(connection.response(3).text(), "HTTP/2.0 hello");
}

#[test]
fn a_body_over_the_limit_is_413_and_a_slow_one_408() {
    let route = "{ path = '/*', fastcgi = { command = ['/bin/cat'] } }";
    let server = server("body_bytes = 10, body_rate_min = 1000, rate_grace = '1s'", route);
    let mut connection = open(&server);
    connection.request(1, "POST", "/", &[("content-length", "11")], false);
    assert_eq!(connection.response(1).status, 413);
    connection.request(3, "POST", "/", &[], false);
    connection.frame(kind::DATA, 0, 3, &[b'x'; 11]);
    assert_eq!(connection.response(3).status, 413);
    connection.request(5, "POST", "/", &[], false);
    assert_eq!(connection.response(5).status, 408);
    let log = log(&server, 3);
    // The number of bytes may be 413, too.
    let with_413 = log.lines().filter(|line| line.contains("\" 413 ")).count();
    assert!(with_413 == 2 && log.contains(" 408 "), "{log}");
}

#[test]
fn cancelled_requests_are_logged_and_free_their_streams() {
    let server = server("http2_streams = 2, half_close_timeout = '300ms'", SLOW);
    let mut connection = open(&server);
    connection.get(1, "/never");
    connection.get(3, "/never");
    connection.get(5, "/");
    // REFUSED_STREAM: the client may repeat it.
    assert_eq!(connection.response(5).reset, Some(7));
    connection.frame(kind::RST_STREAM, 0, 1, &CANCEL.to_be_bytes());
    connection.get(7, "/");
    assert_eq!(connection.response(7).text(), "hello");
    drop(connection);
    let log = log(&server, 4);
    assert_eq!(log.matches("\"GET /never HTTP/2.0\" 000 ").count(), 2, "{log}");
}

#[test]
fn a_half_closed_client_is_served() {
    let server = server("", SLOW);
    let mut connection = open(&server);
    connection.get(1, "/slow");
    connection.get(3, "/");
    connection.socket().shutdown(Shutdown::Write).unwrap();
    assert_eq!(connection.responses(&[3, 1]).len(), 2);
    while connection.next_frame().is_some() {}
}

#[test]
fn rapid_resets_end_the_connection_and_harm_no_other() {
    let server = server("http2_resets = 100", SLOW);
    let (mut connection, mut other) = (open(&server), open(&server));
    for stream in (1..2000).step_by(2) {
        connection.get(stream, "/never");
        connection.frame(kind::RST_STREAM, 0, stream, &CANCEL.to_be_bytes());
    }
    let frame = connection.wait_for(kind::GOAWAY);
    assert_eq!(go_away_code(&frame.payload), ENHANCE_YOUR_CALM);
    while connection.next_frame().is_some() {}
    other.get(1, "/");
    assert_eq!(other.response(1).text(), "hello");
}

#[test]
fn a_flood_of_pings_without_a_reader_is_bounded() {
    let server = server("http2_control_frames = 1000", HELLO);
    let mut connection = open(&server);
    let flood = encode(kind::PING, 0, 0, b"12345678").repeat(100_000);
    connection.send(&flood);
    // A part of the flood may arrive as a reset.
    while let Some(frame) = connection.next_frame() {
        if frame.kind == kind::GOAWAY {
            assert_eq!(go_away_code(&frame.payload), ENHANCE_YOUR_CALM);
        }
    }
    assert_eq!(server.get("/").text(), "hello");
}

#[test]
fn a_client_that_reads_no_rejections_is_not_read_or_the_connection_ends() {
    let server = server("", HELLO);
    let mut connection = open(&server);
    set_socket_recv_buffer_size(connection.socket(), 16 * 1024).unwrap();
    connection.socket().set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let head =
        [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/"), ("expect", "x")];
    let block = block(&head);
    // More than the kernel buffers for both sides.
    let is_blocked = (0..20).any(|round| {
        let first = 1 + round * 40_000;
        let streams = (first..first + 40_000).step_by(2);
        let flood: Vec<u8> =
            streams.flat_map(|stream| encode(kind::HEADERS, END | END_HEADERS, stream, &block)).collect();
        connection.socket().write_all(&flood).is_err()
    });
    let mut frames = std::iter::from_fn(|| connection.next_frame());
    assert!(is_blocked || frames.any(|frame| frame.kind == kind::GOAWAY));
    assert_eq!(server.get("/").text(), "hello");
}

#[test]
fn a_header_block_that_does_not_end_is_closed_in_time() {
    let server = server("head_timeout = '1s'", HELLO);
    for begin in [&encode(kind::HEADERS, END, 1, &block(&[(":method", "GET")]))[..], &[0, 0, 100, 1, 5]] {
        let mut connection = open(&server);
        connection.send(begin);
        // An acknowledgement of SETTINGS would interrupt the block.
        let frame = std::iter::from_fn(|| connection.next_frame()).find(|frame| frame.kind == kind::GOAWAY);
        assert_eq!(go_away_code(&frame.expect("GOAWAY").payload), ENHANCE_YOUR_CALM);
    }
}

#[test]
fn an_idle_connection_is_closed_with_a_goaway() {
    let server = server("idle_timeout = '1s', first_request_timeout = '1s'", HELLO);
    for requests in [0, 1] {
        let mut connection = open(&server);
        if requests > 0 {
            connection.get(1, "/");
            connection.response(1);
        }
        assert_eq!(go_away_code(&connection.wait_for(kind::GOAWAY).payload), 0);
        assert_eq!(connection.next_frame(), None);
    }
}

#[test]
fn a_reload_and_a_stop_lose_no_request() {
    let mut server = server("", SLOW);
    let mut connection = open(&server);
    connection.get(1, "/slow");
    server.reload("reloaded");
    connection.get(3, "/slow");
    assert_eq!(connection.responses(&[1, 3]).iter().filter(|response| response.status == 200).count(), 2);
    connection.get(5, "/slow");
    connection.frame(kind::PING, 0, 0, b"received");
    connection.wait_for(kind::PING);
    server.signal(Signal::TERM);
    // A request in transit while the server announces its end.
    connection.wait_for(kind::GOAWAY);
    connection.get(7, "/");
    let responses = connection.responses(&[7, 5]);
    assert!(responses.iter().all(|response| response.status == 200), "{responses:?}");
    while connection.next_frame().is_some() {}
    assert!(server.wait().0.success());
}

#[test]
fn after_its_last_request_a_connection_ends() {
    let server = server("requests_per_connection = 2", SLOW);
    let mut connection = open(&server);
    connection.get(1, "/");
    connection.get(3, "/slow");
    assert_eq!(connection.responses(&[1, 3]).len(), 2);
    while connection.next_frame().is_some() {}
}

#[test]
fn an_event_stream_arrives_piece_by_piece_and_ends_with_the_server() {
    let folder = Folder::with(&[("a.log", "")]);
    let route = format!("{{ path = '/*', tail = {{ files = '{folder}/a.log', allow = 'loopback' }} }}");
    let server = server("", &route);
    let mut connection = open(&server);
    connection.get(1, "/");
    connection.wait_for(kind::HEADERS);
    for line in ["one", "two"] {
        folder.append("a.log", &format!("{line}\n"));
        let piece = connection.wait_for(kind::DATA);
        assert!(String::from_utf8_lossy(&piece.payload).contains(line), "{piece:?}");
    }
    server.signal(Signal::TERM);
    while connection.next_frame().is_some() {}
}
