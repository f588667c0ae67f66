//! The reverse proxy in front of servers with their own implementations of HTTP: Node, nginx, Go, Python and gRPC.

use rudy_tests::grpc;
use rudy_tests::prelude::*;

/// Events, an echo, the fields of the request, and a WebSocket that sends back its bytes.
const NODE: &str = r"
const http = require('http'), crypto = require('crypto');
const server = http.createServer((request, response) => {
  if (request.url === '/events') {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    let sent = 0;
    const timer = setInterval(() => {
      response.write(`data: ${++sent}\n\n`);
      if (sent === 3) { clearInterval(timer); response.end(); }
    }, 5);
  } else if (request.url === '/echo') {
    response.writeHead(200, { Trailer: 'X-Length' });
    let length = 0;
    request.on('data', piece => { length += piece.length; response.write(piece); });
    request.on('end', () => { response.addTrailers({ 'X-Length': String(length) }); response.end(); });
  } else {
    response.end(JSON.stringify(request.headers));
  }
});
server.on('upgrade', (request, socket, head) => {
  const key = request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
  const accept = crypto.createHash('sha1').update(key).digest('base64');
  socket.write(`HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
  socket.write(head);
  socket.pipe(socket);
});
server.listen(Number(process.argv[2]), '127.0.0.1');
";

/// A server of HTTP/2: an echo with its length as a trailer, the version, and a WebSocket. With a certificate, also one of HTTP/1.1, whose
/// WebSocket is the only one.
const NODE_HTTP2: &str = r"
const http2 = require('http2'), fs = require('fs'), crypto = require('crypto');
const [port, cert, key] = process.argv.slice(2);
const server = cert
  ? http2.createSecureServer({ cert: fs.readFileSync(cert), key: fs.readFileSync(key), allowHTTP1: true })
  : http2.createServer({ settings: { enableConnectProtocol: true } });
server.on('request', (request, response) => {
  if (request.url !== '/echo') { response.end(request.httpVersion); return; }
  let length = 0;
  request.on('data', piece => { length += piece.length; response.write(piece); });
  request.on('end', () => { response.addTrailers({ 'x-length': String(length) }); response.end(); });
});
server.on('connect', (request, response) => {
  response.stream.respond({ ':status': 200 });
  response.stream.pipe(response.stream);
});
server.on('upgrade', (request, socket, head) => {
  const key = request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
  const accept = crypto.createHash('sha1').update(key).digest('base64');
  socket.write(`HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
  socket.pipe(socket);
});
server.listen(Number(port), '127.0.0.1');
";

/// Starts a program, and a proxy in front of it.
pub(super) fn start(mut command: Command, port: &ReservedPort) -> (Running, Server) {
    let running = Running::listening(&mut command, port);
    let server = Server::build()
        .args(["--listen", "127.0.0.1:0", "--proxy", &format!("http://{}", port.address())])
        .start();
    (running, server)
}

/// Starts a proxy, which accepts HTTP/2, for the upstream in this table.
fn proxy(table: &str) -> Server {
    Server::config(&format!(
        "listen = [\"127.0.0.1:0,h2c\"]\n[[site]]\n[[site.route]]\npath = \"/*\"\n[site.route.proxy]\n{table}\n"
    ))
}

fn node(port: &ReservedPort) -> Option<Command> {
    let mut command = Command::new(program("node")?);
    command.args(["-e", NODE, "", &port.address().port().to_string()]);
    Some(command)
}

#[test]
fn node_receives_fields_and_sends_events_and_trailers() {
    let port = ReservedPort::new();
    let Some(command) = node(&port) else { return };
    let (_node, server) = start(command, &port);
    let fields = server.get("/fields");
    for (name, value) in
        [("x-forwarded-for", "127.0.0.1"), ("host", "localhost"), ("x-forwarded-proto", "http")]
    {
        assert_contains!(fields.text(), &format!("\"{name}\":\"{value}\""));
    }
    assert_eq!(server.get("/events").text(), "data: 1\n\ndata: 2\n\ndata: 3\n\n");
    echoes(&mut server.connect());
}

#[test]
fn node_speaks_websocket() {
    let port = ReservedPort::new();
    let Some(command) = node(&port) else { return };
    let (_node, server) = start(command, &port);
    let mut connection = server.connect();
    opens_websocket(&mut connection);
    connection.send(b"second");
    assert_eq!(connection.read_exactly(6), b"second");
}

/// The handshake of a WebSocket, and its first message.
const HANDSHAKE: &[u8] =
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\nfirst";

/// Sends the handshake, and the first bytes together with it.
fn opens_websocket(connection: &mut Connection) {
    connection.send(HANDSHAKE);
    assert_eq!(connection.response().field("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(connection.read_exactly(5), b"first");
}

/// Sends a large body, whose length is in a trailer of the response.
fn echoes(connection: &mut Connection) {
    let body = "x".repeat(300_000);
    connection.send(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    connection.send(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).as_bytes());
    let response = connection.response();
    assert!(response.text() == body);
    assert_eq!(response.trailers.to_ascii_lowercase(), "x-length: 300000\r\n");
}

#[test]
fn go_serves_requests_behind_its_own_reverse_proxy() {
    let Some(go) = program("go") else { return };
    let (port, folder) = (ReservedPort::new(), Folder::new());
    let binary = folder.join("reverse_proxy");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/applications/reverse_proxy.go");
    let built = Command::new(go).args(["build", "-o"]).arg(&binary).arg(source).status();
    assert!(built.expect("the program can be started").success());
    let mut command = Command::new(binary);
    command.arg(port.address().to_string());
    let (_go, server) = start(command, &port);
    assert_eq!(server.get("/events").text(), "data: 1\n\ndata: 2\n\ndata: 3\n\n");
    let mut connection = server.connect();
    echoes(&mut connection);
    connection.send(b"GET /fields HTTP/1.1\r\nHost: localhost\r\nConnection: x-hop\r\nX-Hop: 1\r\n\r\n");
    assert_eq!(connection.next_response().status, 103);
    let fields = connection.response();
    assert!(fields.text().contains("\"X-Forwarded-For\":[\"127.0.0.1\"]"), "{}", fields.text());
    assert!(!fields.text().contains("X-Hop"), "{}", fields.text());
    opens_websocket(&mut connection);
    connection.send(b"second");
    assert_eq!(connection.read_exactly(6), b"second");
}

fn check_http2(server: &Server, version: &str) {
    assert_eq!(server.get("/").text(), version);
    echoes(&mut server.connect());
    opens_websocket(&mut server.connect());
}

#[test]
fn node_speaks_http2_and_websocket_over_it() {
    let port = ReservedPort::new();
    let Some(node) = program("node") else { return };
    let mut command = Command::new(node);
    command.args(["-e", NODE_HTTP2, "", &port.address().port().to_string()]);
    let _node = Running::listening(&mut command, &port);
    check_http2(&proxy(&format!("upstreams = \"h2c://{}\"", port.address())), "2.0");
}

#[test]
fn node_chooses_http2_over_tls_and_speaks_websocket_over_http11_only() {
    let (port, certificates) = (ReservedPort::new(), Certificates::for_host("good", "localhost"));
    let (Some(node), Some(certificates)) = (program("node"), certificates) else { return };
    let pem = certificates.path("good");
    let number = port.address().port().to_string();
    let mut command = Command::new(node);
    command.args(["-e", NODE_HTTP2, "", &number, &pem, &pem.replace(".pem", ".key")]);
    let _node = Running::listening(&mut command, &port);
    let table = format!(
        "upstreams = \"https://localhost:{number}\"\nhost = \"upstream\"\ntrusted_certificates = \"{}\"",
        certificates.path("authority")
    );
    check_http2(&proxy(&table), "2.0");
}

#[test]
fn grpc_passes_with_streams_trailers_and_cancellation() {
    let Some(python) = grpc() else { return };
    let (port, script) =
        (ReservedPort::new(), concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/grpc_calls.py"));
    let mut command = Command::new(&python);
    command.args([script, "serve", &port.address().to_string()]);
    let _server = Running::listening(&mut command, &port);
    let server = proxy(&format!("upstreams = \"h2c://{}\"", port.address()));
    let called = Output::of(Command::new(python).args([script, "call", &server.address().to_string()]));
    assert_eq!(called.stdout.trim(), "passed", "{}", called.stderr);
}

#[test]
fn nginx_serves_files_and_ranges() {
    let nginx = rudy_tests::Peer::nginx_with(|folder, address| {
        folder.write("a.txt", b"0123456789".repeat(10_000));
        format!("server {{ listen {address}; root {}; }}", folder.display())
    });
    let Some(nginx) = nginx else { return };
    let proxied = format!("http://{}", nginx.address());
    let server = Server::build().args(["--listen", "127.0.0.1:0", "--proxy", &proxied]).start();
    assert_eq!(server.get("/a.txt").body.len(), 100_000);
    let response = server.get_with("/a.txt", &["Host: localhost", "Range: bytes=10-14"]);
    assert_eq!((response.status, response.text()), (206, "01234"));
    assert_eq!(server.get("/missing").status, 404);
}

#[test]
fn a_server_of_http10_is_used() {
    let Some(python) = program("python3") else { return };
    let (port, folder) = (ReservedPort::new(), Folder::new());
    write(folder.path(), "a.txt", "of Python");
    let mut command = Command::new(python);
    let number = port.address().port().to_string();
    command.args(["-m", "http.server", "--bind", "127.0.0.1", &number]).current_dir(folder.path());
    let (_python, server) = start(command, &port);
    for _ in 0..2 {
        assert_eq!(server.get("/a.txt").text(), "of Python");
    }
}

pub(super) fn write(folder: &Path, name: &str, text: &str) -> String {
    let file = folder.write(name, text);
    file.display().to_string()
}
