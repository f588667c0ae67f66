//! What lines of the access log show of the bytes of an exchange, and of its upstreams.

use rudy_tests::prelude::*;

/// The first lines of the log.
fn lines(server: &Server, count: usize) -> Vec<Value> {
    let path = server.path().join("access.log");
    let text = Path::new("/").wait_until(&path, |text| text.lines().count() >= count);
    text.lines().map(|line| serde_json::from_str(line).expect("a line is an object")).collect()
}

fn server(routes: &str) -> Server {
    Server::config(&format!(
        "listen = ['127.0.0.1:0,h2c']\naccess_log = {{ path = 'access.log', format = 'json' }}\n[[site]]\n{routes}"
    ))
}

#[test]
fn the_bytes_of_a_message_are_those_on_the_connection() {
    let upstream = Upstream::serve(|peer, _| {
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    });
    let routes = format!(
        "[[site.route]]\npath = '/fixed'\nrespond = 'ok'\n[[site.route]]\npath = '/large'\nfiles = '.'\n\
         [[site.route]]\npath = '/*'\nproxy = '{upstream}'\n"
    );
    let server = server(&routes);
    fs::write(server.path().join("large"), vec![b'x'; 3_000_000]).expect("the folder is writable");
    let end = "Host: localhost\r\nConnection: close\r\n\r\n";
    let chunked = "Host: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n4;a=b\r\nwxyz\r\n0\r\nA: b\r\n\r\n";
    let requests = [
        format!("GET /fixed HTTP/1.1\r\n{end}"),
        format!("GET /large HTTP/1.1\r\n{end}"),
        format!("HEAD /large HTTP/1.1\r\n{end}"),
        format!("GET /a HTTP/1.1\r\n{end}"),
        format!("POST /a HTTP/1.1\r\n{chunked}"),
        format!("POST /a HTTP/1.1\r\nContent-Length: 5\r\n{end}hello"),
    ];
    for (at, request) in requests.iter().enumerate() {
        let sent = server.exchange(request.as_bytes()).len();
        let line = &lines(&server, at + 1)[at];
        assert_members!(line, "received_bytes": request.len(), "sent_bytes": sent);
    }
}

#[test]
fn the_bytes_of_pipelined_responses_are_counted_for_each() {
    let upstream = Upstream::serve(|peer, _| peer.respond("of-app"));
    let server = server(&format!(
        "[[site.route]]\npath = '/fixed'\nrespond = 'ok'\n[[site.route]]\npath = '/*'\nproxy = '{upstream}'\n"
    ));
    let get = |path: &str, end: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{end}\r\n");
    let requests =
        [get("/fixed", ""), get("/fixed", ""), get("/a", ""), get("/fixed", "Connection: close\r\n")];
    let sent = server.exchange(requests.concat().as_bytes()).len();
    let sum = |name: &str| lines(&server, 4).iter().filter_map(|line| line[name].as_u64()).sum::<u64>();
    assert_eq!((sum("sent_bytes"), sum("received_bytes")), (sent as u64, requests.concat().len() as u64));
}

#[test]
fn the_bytes_over_http2_are_those_of_the_frames_of_the_stream() {
    let server = server("[[site.route]]\npath = '/*'\nrespond = 'ok'\n");
    let mut connection = Http2Connection::open(server.address(), &[]);
    connection.get(1, "/");
    assert_eq!(connection.response(1).status, 200);
    let line = &lines(&server, 1)[0];
    assert_members!(line, "body_bytes": 2);
    // Two heads of frames, and fields that HPACK compresses.
    let sent = line["sent_bytes"].as_u64().unwrap();
    assert!((20..150).contains(&sent), "{line}");
    assert!(line["received_bytes"].is_u64(), "{line}");
}

#[test]
fn a_line_lists_all_attempts_and_the_times_of_the_last_one() {
    let down = ReservedPort::new();
    let failing = Upstream::serve(|peer, _| {
        peer.send("HTTP/1.1 503 X\r\nContent-Length: 0\r\nX-Backend: a\r\n\r\n");
    });
    let healthy = Upstream::serve(|peer, _| {
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Backend: b?token=1\r\n\r\nok");
    });
    let format = "{upstream_addresses} {upstream_statuses} {upstream.x-backend} {upstream.x-none} \
                  {upstream_head_us} {upstream_response_us} {response.x-backend}";
    let server = Server::config(&format!(
        "listen = ['127.0.0.1:0']\n\
         access_log = {{ path = 'access.log', mask_query = 'token', format = '{format}' }}\n[[site]]\n\
         response_headers = {{ X-Backend = false }}\n[[site.route]]\npath = '/fixed'\nrespond = 'ok'\n\
         [[site.route]]\npath = '/*'\n[site.route.proxy]\n\
         upstreams = ['http://{}', '{failing}', '{healthy}']\nretry_statuses = [503]\nchoice = 'round-robin'\n",
        down.address()
    ));
    assert_eq!(server.get("/a").text(), "ok");
    server.get("/fixed");
    let path = server.path().join("access.log");
    let text = Path::new("/").wait_until(&path, |text| text.lines().count() >= 2);
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines[0], "- - - - - - -");
    let parts: Vec<_> = lines[1].split(' ').collect();
    let addresses = format!("{},{},{}", down.address(), failing.address(), healthy.address());
    assert_eq!(parts[..4], [&*addresses, "-,503,200", "b?token=***", "-"]);
    let [head, response] = [4, 5].map(|at| parts[at].parse::<u64>().unwrap());
    assert!(head <= response && parts[6] == "-", "{text}");
}

#[test]
fn json_lists_attempts_only_if_there_are_several() {
    let upstream = Upstream::serve(|peer, _| peer.respond("ok"));
    let down = ReservedPort::new();
    let server = server(&format!(
        "[[site.route]]\npath = '/down'\nproxy = 'http://{}'\n[[site.route]]\npath = '/*'\nproxy = '{upstream}'\n",
        down.address()
    ));
    assert_eq!(server.get("/a").text(), "ok");
    let line = &lines(&server, 1)[0];
    assert!(line["upstream_response_us"].as_u64() >= line["upstream_wait_us"].as_u64(), "{line}");
    assert_eq!((line.get("upstream_addresses"), line.get("upstream_statuses")), (None, None));
    assert_eq!(server.get("/down").status, 502);
    let line = &lines(&server, 2)[1];
    assert_eq!((line.get("upstream_response_us"), line.get("upstream_statuses")), (None, None), "{line}");
}
