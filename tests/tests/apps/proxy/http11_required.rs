//! Upstreams that choose HTTP/2, and require HTTP/1.1 for a request (RFC 9113 §7).

use rudy_tests::prelude::*;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::proxy::{assert_error, h2c_upstream, proxy_h2c, proxy_http2};

/// The error code.
const HTTP_1_1_REQUIRED: u32 = 0xd;

/// Returns a frame without flags.
fn frame(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    rudy_tests::http2::encode(kind, 0, stream, payload)
}

/// Rejects each request of a connection with the preface behind it.
fn reject(stream: &mut (impl Read + Write), with_goaway: bool) -> std::io::Result<()> {
    stream.write_all(&frame(kind::SETTINGS, 0, &[]))?;
    stream.read_exact(&mut [0; 24])?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).expect("a length of 24 bits")];
        stream.read_exact(&mut payload)?;
        if head[3] == kind::HEADERS {
            let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let code = HTTP_1_1_REQUIRED.to_be_bytes();
            stream.write_all(&if with_goaway {
                frame(kind::GOAWAY, 0, &[[0; 4], code].concat())
            } else {
                frame(kind::RST_STREAM, id, &code)
            })?;
        }
    }
}

/// Starts a server that chooses HTTP/2 if it is offered, and serves requests over HTTP/1.1 only.
fn upstream(certificates: &Certificates, with_goaway: bool) -> SocketAddr {
    let mut config = certificates.server_config("good");
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let (config, (listener, address)) = (Arc::new(config), listen());
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (socket, config) = (socket.expect("a connection can be accepted"), config.clone());
            thread::spawn(move || serve(socket, config, with_goaway));
        }
    });
    address
}

fn serve(socket: TcpStream, config: Arc<ServerConfig>, with_goaway: bool) {
    let session = ServerConnection::new(config).expect("consistent settings");
    let mut stream = StreamOwned::new(session, socket);
    while stream.conn.is_handshaking() {
        if stream.conn.complete_io(&mut stream.sock).is_err() {
            return;
        }
    }
    if stream.conn.alpn_protocol() == Some(b"h2") {
        // The end of the connection is an error here.
        let _ = reject(&mut stream, with_goaway);
        return;
    }
    let mut stream = BufReader::new(stream);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            if !matches!(stream.read_line(&mut line), Ok(1..)) {
                return;
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().expect("a number");
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).expect("the body follows");
        let response = [b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", &body[..]].concat();
        stream.get_mut().write_all(&response).expect("the proxy reads");
    }
}

#[test]
fn the_request_is_sent_again_over_http11_also_a_post() {
    let Some(certificates) = Certificates::for_host("good", "localhost") else { return };
    for with_goaway in [false, true] {
        let url = format!("https://localhost:{}", upstream(&certificates, with_goaway).port());
        let trusted = format!("trusted_certificates = \"{}\"\n", certificates.path("authority"));
        let server = proxy_http2(&url, &trusted);
        for _ in 0..2 {
            assert_eq!(server.send_body("POST", "/app/a", "abc").text(), "abc", "with GOAWAY: {with_goaway}");
        }
    }
}

#[test]
fn without_tls_there_is_no_other_version_to_choose() {
    let upstream = h2c_upstream(|connection, stream| {
        connection.frame(kind::RST_STREAM, 0, stream, &HTTP_1_1_REQUIRED.to_be_bytes());
    });
    let mut server = proxy_h2c(&upstream, "");
    assert_error(&server.get("/app/a"), 502, "http_protocol_error");
    server.wait_for_line("the upstream requires HTTP/1.1 (HTTP_1_1_REQUIRED)");
    assert_eq!(upstream.accepted(), 1);
}
