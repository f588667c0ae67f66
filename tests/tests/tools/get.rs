//! Tests `rudy get` with `rudy serve`, with faulty servers and over TLS.

use std::fmt::Write as _;

use rudy_tests::prelude::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn command(arguments: &[&str]) -> Rudy {
    Rudy::command(["get"]).args(arguments)
}

fn get(arguments: &[&str]) -> Output {
    command(arguments).output()
}

/// Starts a server that accepts one connection at a time. `script` lists the responses of each connection. The server closes a
/// connection after its last response. The receiver gets the requests.
fn start_scripted_server(script: Vec<Vec<&'static str>>) -> (SocketAddr, Receiver<String>) {
    let (listener, address) = listen();
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        for responses in script {
            let Ok((stream, _)) = listener.accept() else { return };
            let mut stream = BufReader::new(stream);
            for response in responses {
                let request = read_head(&mut stream);
                if sender.send(request).is_err() || stream.get_mut().write_all(response.as_bytes()).is_err() {
                    return;
                }
            }
        }
    });
    (address, requests)
}

fn read_head(stream: &mut impl BufRead) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).is_ok_and(|read| read > 0) {}
    head
}

#[test]
fn the_body_goes_to_stdout_and_the_phases_to_stderr() {
    let server = Server::files(&[("a.txt", b"hello\n")]);
    let output = get(&[&server.url("/a.txt")]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), "hello\n"));
    let report = output.stderr;
    assert_contains!(
        report,
        "time_namelookup ",
        "time_connect ",
        "time_appconnect ",
        "time_starttransfer ",
        "time_total ",
        "6 bytes"
    );
    assert!(report.contains("by us, after the last request"), "{report}");
    let quiet = get(&["-q", "-i", &server.url("/a.txt")]);
    assert!(quiet.stdout.starts_with("HTTP/1.1 200 OK\r\n") && quiet.stdout.ends_with("\r\n\r\nhello\n"));
    assert_eq!(quiet.stderr, "");
}

#[test]
fn several_urls_share_one_connection() {
    let server = Server::files(&[("a", b"a"), ("b", b"b")]);
    let output = get(&["--json", "--repeat", "2", &server.url("/a"), &server.url("/b")]);
    let objects = output.json_lines();
    let reused: Vec<_> = objects.iter().map(|object| object["reused"] == true).collect();
    assert_eq!(reused, [false, true, true, true]);
    assert!(objects.iter().all(|object| object["local"] == objects[0]["local"]));
    for (index, object) in objects.iter().enumerate() {
        let connect = object["time_connect_s"].as_f64().expect("a number");
        assert_eq!(connect > 0.0, index == 0, "{object}");
        assert_eq!(object["closed"], if index == 3 { "by_us" } else { "kept" });
    }
    let output = get(&["--json", "--no-keepalive", "--repeat", "2", &server.url("/a")]);
    assert!(output.json_lines().iter().all(|object| object["reused"] == false));
}

#[test]
fn each_server_has_its_own_persistent_connection() {
    let (one, _one_requests) = start_scripted_server(vec![vec![OK; 4]]);
    // The second server closes after its first response, while the first server handles a request.
    let (other, _other_requests) = start_scripted_server(vec![vec![OK], vec![OK; 3]]);
    let (one, other) = (format!("http://{one}/"), format!("http://{other}/"));
    let output = get(&["--json", "--repeat", "3", "--interval", "10ms", &one, &other]);
    let objects = output.json_lines();
    let reused: Vec<_> = objects.iter().map(|object| object["reused"] == true).collect();
    assert_eq!(reused, [false, false, true, false, true, true], "{}", output.stdout);
    assert_eq!(objects[1]["new_because"], "the last one was to another server");
    assert_eq!(objects[5]["closed"], "by_us");
}

#[test]
fn an_incomplete_body_is_written_and_reported_as_an_error() {
    let (address, _requests) =
        start_scripted_server(vec![vec!["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel"]]);
    let output = get(&[&format!("http://{address}/")]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), "hel"));
    let report = output.stderr;
    assert_contains!(
        report,
        "3 bytes of 9",
        "after 3 of 9 bytes of the body",
        "by the server, before the response was complete"
    );
}

#[test]
fn interim_responses_trailers_and_close_delimited_bodies_are_reported() {
    let chunked = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 7\r\n\r\n";
    let until_close = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello";
    let (address, _requests) = start_scripted_server(vec![vec![chunked, until_close]]);
    let url = format!("http://{address}/");
    let objects = get(&["--json", &url, &url]).json_lines();
    assert_eq!(objects[0]["interim_statuses"], serde_json::json!([103]));
    assert_eq!(objects[0]["trailers"], serde_json::json!([["x-sum", "7"]]));
    assert_members!(objects[0], "body_bytes": 2, "closed": "kept");
    assert_members!(objects[1], "body_bytes": 5, "closed": "by_server");
}

#[test]
fn a_safe_request_is_retried_if_the_persistent_connection_was_closed() {
    // The second request has no response: the server closes the connection while the request is in flight.
    let (address, requests) = start_scripted_server(vec![vec![OK, ""], vec![OK]]);
    let url = format!("http://{address}/");
    let output = get(&["--json", &url, &url]);
    let objects = output.json_lines();
    assert_eq!((output.code, requests.iter().count()), (Some(0), 3));
    assert!(
        objects[1]["new_because"].as_str().is_some_and(|why| why.contains("sent again")),
        "{}",
        objects[1]
    );

    let (address, requests) = start_scripted_server(vec![vec![OK, ""], vec![OK]]);
    let url = format!("http://{address}/");
    let output = get(&["--json", "-m", "POST", &url, &url]);
    assert_eq!((output.code, requests.iter().take(2).count()), (Some(1), 2), "a POST is sent once");
}

#[test]
fn a_redirect_is_followed_only_with_the_flag_and_without_credentials() {
    let (other, other_requests) = start_scripted_server(vec![vec![OK]]);
    let mut response = String::new();
    let _ =
        write!(response, "HTTP/1.1 302 Found\r\nLocation: http://{other}/x\r\nContent-Length: 2\r\n\r\nno");
    let response: &'static str = response.leak();
    let (address, _requests) = start_scripted_server(vec![vec![response], vec![response]]);
    let url = format!("http://{address}/");
    assert_eq!(get(&[&url]).stdout, "no");
    assert_eq!(get(&["-L", "-H", "Authorization: secret", "-b", "x", &url]).stdout, "hello");
    let request = other_requests.recv().expect("a request arrives");
    assert!(request.starts_with("GET /x HTTP/1.1\r\n") && !request.contains("secret"), "{request}");
}

#[test]
fn short_flags_mean_the_same_as_for_curl() {
    let (address, requests) =
        start_scripted_server(vec![vec![OK], vec!["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"]]);
    let url = format!("http://{address}/");
    let output = get(&["-s", "-X", "PUT", "-d", "x=1", &url]);
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("hello", ""));
    assert!(requests.recv().expect("a request arrives").starts_with("PUT / HTTP/1.1\r\n"));
    assert_eq!(get(&["-sI", &url]).stdout, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    assert!(requests.recv().expect("a request arrives").starts_with("HEAD / HTTP/1.1\r\n"));
}

#[test]
fn redirects_end_at_the_limit() {
    let redirect = "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n";
    let (address, _requests) = start_scripted_server(vec![vec![redirect; 4]]);
    let output = get(&["-L", "--max-redirs", "2", &format!("http://{address}/")]).with_code(1);
    assert!(output.stderr.contains("more than 2 consecutive redirects"), "{}", output.stderr);
}

#[test]
fn an_error_status_is_exit_code_22_only_with_fail() {
    let server = Server::files(&[]);
    assert_eq!(get(&[&server.url("/none")]).code, Some(0));
    let output = get(&["--fail", &server.url("/none")]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(22), ""));
}

#[test]
fn a_proxy_is_not_used_and_a_notice_says_so() {
    let (address, _requests) = start_scripted_server(vec![vec![OK], vec![OK]]);
    let url = format!("http://{address}/");
    let with_proxy = |arguments: &[&str]| {
        // The port of no server.
        command(arguments).env("http_proxy", "http://user:secret@127.0.0.1:1").output()
    };
    let output = with_proxy(&[&url]);
    assert_eq!(output.stdout, "hello");
    let stderr = output.stderr;
    assert!(stderr.starts_with("notice: http_proxy is set, but") && !stderr.contains("secret"), "{stderr}");
    assert_eq!(with_proxy(&["-q", &url]).stderr, "");
}

/// Starts `rudy get` and waits for its first output.
fn first_bytes(arguments: &[&str]) -> (Child, String) {
    let mut child = command(arguments).spawn();
    let mut bytes = [0; 5];
    let stdout = child.stdout.as_mut().expect("the output is piped");
    stdout.read_exact(&mut bytes).expect("data is shown at once");
    (child, String::from_utf8_lossy(&bytes).into_owned())
}

#[test]
fn a_stream_is_shown_at_once_and_ctrl_c_ends_it_with_a_partial_report() {
    let endless = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    // The client sends no second request, so the connection stays open until the client closes it.
    let (address, _requests) = start_scripted_server(vec![vec![endless, ""]]);
    let (child, shown) = first_bytes(&[&format!("http://{address}/")]);
    assert_eq!(shown, "hello");
    kill_process(Pid::from_child(&child), Signal::INT).expect("rudy is running");
    assert_contains!(Output::wait(child).failed_with(130), "cut by us");
}

#[test]
fn retry_after_is_respected_until_ctrl_c() {
    let busy = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3000\r\nContent-Length: 5\r\n\r\nlater";
    let (address, _requests) = start_scripted_server(vec![vec![busy, OK]]);
    let (mut child, _) = first_bytes(&["--repeat", "2", &format!("http://{address}/")]);
    let mut lines = BufReader::new(child.stderr.take().expect("the output is piped")).lines();
    let waits = lines.by_ref().map_while(Result::ok).find(|line| line.starts_with("waiting "));
    assert!(waits.is_some_and(|line| line.contains("asks for fewer requests")));
    kill_process(Pid::from_child(&child), Signal::INT).expect("rudy is running");
    assert_eq!(child.wait().expect("rudy exits").code(), Some(130));
    let (address, _requests) = start_scripted_server(vec![vec![busy, OK]]);
    assert_eq!(get(&["--repeat", "2", "--no-backoff", &format!("http://{address}/")]).stdout, "laterhello");
}

#[test]
fn a_timeout_ends_a_request() {
    let (address, _requests) =
        start_scripted_server(vec![vec!["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel", ""]]);
    let output = get(&["--timeout", "200ms", &format!("http://{address}/")]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), "hel"));
    assert!(output.stderr.contains("within the time"), "{}", output.stderr);
}

/// Starts a TLS server with a self-signed certificate.
fn start_tls_server() -> Option<(TlsServer, Certificates)> {
    let certificates = Certificates::new()?;
    certificates.self_signed("own", "localhost", "critical,CA:FALSE");
    Some((certificates.serve("own"), certificates))
}

/// Starts a relay of one connection. With `drops_close_notify`, the client never receives the `close_notify` of TLS.
fn start_relay(to: SocketAddr, drops_close_notify: bool) -> SocketAddr {
    let (listener, address) = listen();
    thread::spawn(move || {
        let Ok((client, _)) = listener.accept() else { return };
        let server = TcpStream::connect(to).expect("the server listens");
        let (mut to_server, mut from_server) = (server.try_clone().expect("a socket can be shared"), server);
        let mut from_client = client.try_clone().expect("a socket can be shared");
        thread::spawn(move || {
            let _ = std::io::copy(&mut from_client, &mut to_server);
            let _ = to_server.shutdown(Shutdown::Write);
        });
        if drops_close_notify {
            copy_without_close_notify(&mut from_server, &mut &client);
        } else {
            let _ = std::io::copy(&mut from_server, &mut &client);
        }
        let _ = client.shutdown(Shutdown::Write);
    });
    address
}

/// Copies TLS 1.3 records up to the first alert: two bytes, their type, and 16 bytes of the cipher.
fn copy_without_close_notify(from: &mut impl Read, to: &mut impl Write) {
    let mut head = [0; 5];
    while from.read_exact(&mut head).is_ok() {
        let length = u16::from_be_bytes([head[3], head[4]]);
        let mut record = vec![0; usize::from(length)];
        let is_complete = from.read_exact(&mut record).is_ok();
        if !is_complete || length == 19 || to.write_all(&[&head[..], &record].concat()).is_err() {
            return;
        }
    }
}

#[test]
fn a_close_delimited_body_is_incomplete_without_close_notify() {
    let Some((server, _certificates)) = start_tls_server() else { return };
    for (drops_close_notify, exit) in [(false, 0), (true, 1)] {
        let relay = start_relay(([127, 0, 0, 1], server.port).into(), drops_close_notify);
        let output = get(&["-k", &format!("https://{relay}/")]).with_code(exit);
        assert!(output.stdout.contains("</HTML>") || output.stdout.contains("</html>"), "{}", output.stdout);
        assert_eq!(output.stderr.contains("may be truncated"), drops_close_notify, "{}", output.stderr);
    }
}

#[test]
fn a_reset_is_distinguished_from_a_close() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("a bound socket has an address"));
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client connects");
        let mut stream = BufReader::new(stream);
        read_head(&mut stream);
        let stream = stream.into_inner();
        (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel").expect("the client reads");
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("TCP supports it");
    });
    let output = get(&["--json", &url]);
    server.join().expect("the server does not panic");
    let object = &output.json_lines()[0];
    assert_eq!((output.code, &object["closed"]), (Some(1), &"broken".into()), "{object}");
    assert_eq!(object["error_kind"], "read");
}

#[test]
fn certificates_are_verified_and_tls_is_reported() {
    let Some((server, certificates)) = start_tls_server() else { return };
    let certificate = certificates.path("own");
    let rejected = get(&["--json", &server.url()]);
    assert_eq!((rejected.code, &rejected.json_lines()[0]["error_kind"]), (Some(1), &"tls".into()));
    for trust in [&["-k"][..], &["--cacert", &certificate]] {
        let output = get(&[trust, &["--json", &server.url()]].concat());
        let object = &output.json_lines()[0];
        assert_eq!(output.code, Some(0), "{object} {}", output.stderr);
        assert!(object["tls"].as_str().is_some_and(|tls| tls.starts_with("TLSv1.3 / TLS_")), "{object}");
        assert!(object["time_appconnect_s"].as_f64() > object["time_connect_s"].as_f64(), "{object}");
    }
}
