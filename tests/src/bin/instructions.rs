//! Counts the instructions in user space that requests cost, with callgrind. Unlike times, the counts hardly depend on the machine.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool prints")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use bytes::BytesMut;
use rudy_fastcgi::record::{Kind, encode_end, encode_stream, encode_stream_end};
use rudy_fastcgi::{ProtocolStatus, RequestId};
use rudy_tests::{Connection, Folder, Server};

/// The requests of a measurement.
const REQUESTS: u64 = 1000;

/// The requests before it: the server has its connections, buffers and files open then.
const WARM_UP: u64 = 300;

/// A head as `wrk` sends it.
const SHORT: &str = "Host: 127.0.0.1:8080\r\n\r\n";

/// A head as a browser sends it.
const LONG: &str = "Host: www.example.org\r\nConnection: keep-alive\r\n\
    sec-ch-ua: \"Chromium\";v=\"130\", \"Not?A_Brand\";v=\"99\"\r\nsec-ch-ua-mobile: ?0\r\nsec-ch-ua-platform: \"Linux\"\r\n\
    Upgrade-Insecure-Requests: 1\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
    Chrome/130.0.0.0 Safari/537.36\r\nAccept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
    Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-User: ?1\r\nSec-Fetch-Dest: document\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-US,en;q=0.9\r\nCookie: session=0123456789abcdef\r\n\r\n";

/// A response as nginx sends it.
const HEAD: &str = "HTTP/1.1 200 OK\r\nServer: nginx/1.31.0\r\nDate: Fri, 27 Nov 2026 10:00:00 GMT\r\nContent-Type: text/plain\r\n\
    Content-Length: 1024\r\nLast-Modified: Fri, 27 Nov 2026 09:00:00 GMT\r\nConnection: keep-alive\r\nETag: \"6744e1f0-400\"\r\n\
    Accept-Ranges: bytes\r\n\r\n";

/// The response of a collector.
const ACCEPTED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// The time between two requests. Above 0.5 ms, each request is a sample for `rudy status`; below, the speed of the machine would decide how many
/// are.
const PAUSE: Duration = Duration::from_millis(1);

/// What is measured: the name, the path and the head, and the most instructions: the count when it was last changed, and 2 %.
type Row = (&'static str, &'static str, &'static str, u64);

const ROWS: [Row; 6] = [
    ("static file", "/a.txt", SHORT, 11_900),
    ("proxied", "/proxied", SHORT, 32_230),
    ("proxied, browser", "/proxied", LONG, 40_520),
    ("proxied, with steps", "/steps", SHORT, 43_340),
    ("FastCGI", "/app", SHORT, 29_770),
    ("FastCGI, browser", "/app", LONG, 44_360),
];

/// With traces of which none is recorded.
const NOT_RECORDED: [Row; 3] = [
    ("static, not recorded", "/a.txt", SHORT, 11_900),
    ("proxied, not recorded", "/proxied", SHORT, 32_980),
    ("FastCGI, not recorded", "/app", SHORT, 31_770),
];

/// With traces of which all are recorded and exported.
const RECORDED: [Row; 3] = [
    ("static, recorded", "/a.txt", SHORT, 21_810),
    ("proxied, recorded", "/proxied", SHORT, 48_340),
    ("FastCGI, recorded", "/app", SHORT, 44_770),
];

fn main() -> ExitCode {
    let upstream =
        respond_to_all(|request| request.ends_with(b"\r\n\r\n").then(|| [HEAD.as_bytes(), &body()].concat()));
    // An empty record ends the body of the request.
    let app = respond_to_all(|records| match records {
        [.., 1, 5, high, low, 0, 0, 0, 0] => Some(fastcgi_response(u16::from_be_bytes([*high, *low]))),
        _ => None,
    });
    let collector = respond_to_all(|request| is_whole(request).then(|| ACCEPTED.as_bytes().to_vec()));
    let counts = Folder::new();
    let mut exit_code = ExitCode::SUCCESS;
    println!("{:21}  instructions  at most", "request");
    let tracing =
        |sample: &str| format!("tracing = {{ endpoint = 'http://{collector}', sample = '{sample}' }}");
    for (tracing, rows) in
        [(String::new(), &ROWS[..]), (tracing("0%"), &NOT_RECORDED), (tracing("100%"), &RECORDED)]
    {
        if !costs_at_most(rows, &(tracing + &config(upstream, app))) {
            exit_code = ExitCode::FAILURE;
        }
    }
    for (name, settings) in [("check of a site", ""), ("and of its mistakes", MISTAKES)] {
        if !check_is_linear(name, settings, &counts) {
            eprintln!("error: it costs more than in proportion to the number of sites: {name}");
            exit_code = ExitCode::FAILURE;
        }
    }
    exit_code
}

/// Whether requests to a server with this configuration cost no more than they may.
fn costs_at_most(rows: &[Row], config: &str) -> bool {
    let counts = Folder::new();
    let folder = Folder::with(&[("a.txt", &body()[..]), ("rudy.toml", config.as_bytes())]);
    let valgrind = format!(
        "exec valgrind -q --tool=callgrind --instr-atstart=no --callgrind-out-file={}/counts \"$@\"",
        counts.display()
    );
    let server = Server::build().config_of(folder).through_shell(&valgrind).start();
    let mut client = server.connect();
    let mut is_within = true;
    for (name, path, head, most) in rows {
        let request = format!("GET {path} HTTP/1.1\r\n{head}");
        let count = measure(&server, &mut client, &request, &counts);
        println!("{name:21}  {count:12}  {most:7}");
        if count > *most {
            eprintln!("error: a request costs more than before: {name}");
            is_within = false;
        }
    }
    is_within
}

/// Whether the whole body of a request to the collector has arrived.
fn is_whole(request: &[u8]) -> bool {
    let head_end = request.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let Some((head, body)) = head_end.map(|end| request.split_at(end + 4)) else { return false };
    let head = String::from_utf8_lossy(head);
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    Some(body.len()) == length
}

/// Settings of a route that are wrong: an unknown key, a key that is missing because of it, an invalid value, and two that conflict.
const MISTAKES: &str = "[[site.route]]\npath = '/other/*'\nproxy = { upstream = 'http://a' }\nrequest_timeout = 'long'\n\
    [[site.route]]\npath = '/app/a'\nrespond = 404\n";

/// Whether a check costs twice as much for the third and the fourth thousand of sites as for the second. With the square of their number, it
/// would cost four times as much. Each number is the double of the one before, so that tables grow at the same shares of it.
fn check_is_linear(name: &str, settings: &str, counts: &Path) -> bool {
    let [first, second, fourth] = [1000, 2000, 4000].map(|sites| check(sites, settings, counts));
    let percent = (fourth - second) * 50 / (second - first);
    let each = (fourth - first) / 3000;
    println!("{name:20}  {each:12}  the third and the fourth thousand cost {percent} % of the second");
    percent < 115
}

/// Returns the instructions of `rudy check` for a number of sites, each with hosts, a folder, a proxy and these settings.
fn check(sites: usize, settings: &str, counts: &Path) -> u64 {
    let site = |number| {
        format!(
            "[[site]]\nhosts = ['{number}.example', 'www.{number}.example']\nroot = '.'\n\
             [[site.route]]\npath = '/app/*'\nproxy = 'http://127.0.0.1:{}'\n{settings}",
            number + 10_000
        )
    };
    let text: String = (0..sites).map(site).collect();
    let folder = Folder::with(&[("rudy.toml", &text)]);
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["-q", "--tool=callgrind"])
        .arg(format!("--callgrind-out-file={}/check.1", counts.display()));
    let output = valgrind.arg(rudy_tests::binary()).arg("check").arg(folder.join("rudy.toml")).output();
    let output = output.expect("valgrind is installed");
    assert_eq!(output.status.success(), settings.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(counts.join("check.1")).expect("the counts");
    totals(&text)
}

fn config(upstream: SocketAddr, app: SocketAddr) -> String {
    format!(
        r#"
        listen = "127.0.0.1:0"
        cores = 1
        [[site]]
        [[site.route]]
        path = "/a.txt"
        files = "."
        [[site.route]]
        path = "/proxied"
        proxy = "http://{upstream}"
        [[site.route]]
        path = "/steps"
        proxy = "http://{upstream}"
        compression = true
        response_headers = {{ X-A = "b" }}
        error_pages = {{ 404 = {{ file = "a.txt" }} }}
        rate_limit = {{ rate = "1000000/s" }}
        concurrent_requests = 1000
        [[site.route]]
        path = "/app"
        fastcgi = {{ address = "{app}", connections = 1 }}
        "#
    )
}

fn body() -> [u8; 1024] {
    [b'x'; 1024]
}

/// Returns the instructions that a request costs.
fn measure(server: &Server, client: &mut Connection, request: &str, counts: &Path) -> u64 {
    let control = |argument: &str| {
        let mut control = Command::new("callgrind_control");
        let output =
            control.arg(argument).arg(server.pid().to_string()).output().expect("valgrind is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    send(client, request, WARM_UP);
    control("--instr=on");
    // The first ones are translated.
    send(client, request, 5);
    control("--zero");
    send(client, request, REQUESTS);
    control("--dump");
    control("--instr=off");
    total(counts) / REQUESTS
}

fn send(client: &mut Connection, request: &str, times: u64) {
    for _ in 0..times {
        thread::sleep(PAUSE);
        client.send(request.as_bytes());
        assert_eq!(client.response().status, 200, "{request}");
    }
}

/// Takes the total of the last dump, the file with the highest number.
fn total(counts: &Path) -> u64 {
    let number = |path: &Path| path.extension()?.to_str()?.parse::<u32>().ok();
    let dumps = fs::read_dir(counts).expect("the folder").flatten().map(|dump| dump.path());
    let last = dumps.max_by_key(|path| number(path)).expect("a dump");
    totals(&fs::read_to_string(last).expect("a dump"))
}

/// Returns the sum of the counts in a dump.
fn totals(dump: &str) -> u64 {
    let summary = dump.lines().find_map(|line| line.strip_prefix("summary: ")).expect("a summary");
    summary.trim().parse().expect("a number")
}

/// Starts an upstream that sends what `respond` returns for what it has received since its last response, in one packet; `None` if that is
/// incomplete.
fn respond_to_all(respond: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + Copy + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let (mut received, buffer) = (Vec::new(), &mut [0; 8192]);
                while let Ok(length @ 1..) = stream.read(buffer) {
                    received.extend_from_slice(&buffer[..length]);
                    if let Some(response) = respond(&received) {
                        received.clear();
                        stream.write_all(&response).expect("the server reads");
                    }
                }
            });
        }
    });
    address
}

fn fastcgi_response(id: u16) -> Vec<u8> {
    let id = RequestId::new(id).expect("the id of a request");
    let mut out = BytesMut::new();
    let head = b"Content-Type: text/plain\r\nContent-Length: 1024\r\n\r\n";
    encode_stream(Kind::Stdout, id, &[&head[..], &body()].concat(), &mut out);
    encode_stream_end(Kind::Stdout, id, &mut out);
    encode_end(id, 0, ProtocolStatus::RequestComplete, &mut out);
    out.to_vec()
}
