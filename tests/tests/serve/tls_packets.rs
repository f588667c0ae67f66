//! Compares the packets that `rudy tls` reports with those that `ss` shows for the other end of the connection.

use rudy_tests::prelude::*;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The packets of a connection, as its server sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Packets {
    sent: u64,
    received: u64,
}

impl Packets {
    fn total(self) -> u64 {
        self.sent + self.received
    }

    /// Returns what `ss` shows for the end of the server, when the client has acknowledged everything.
    fn of(socket: &TcpStream, ss: &Path) -> Self {
        let port = |address: std::io::Result<SocketAddr>| address.expect("an address").port();
        let filter =
            format!("sport = :{} and dport = :{}", port(socket.local_addr()), port(socket.peer_addr()));
        eventually("the client acknowledges the response", || {
            let output = Command::new(ss).args(["-tinH", "state", "established", &filter]).output();
            let text = String::from_utf8(output.expect("ss can be started").stdout).expect("text");
            let value = |name: &str| text.split_whitespace().find_map(|word| word.strip_prefix(name));
            let count = |name: &str| value(name)?.parse::<u64>().ok();
            // The kernel sends the SYN with ACK before the connection has a socket of its own, which counts the others.
            let packets = Self { sent: 1 + count("segs_out:")?, received: count("segs_in:")? };
            value("unacked:").is_none().then_some(packets)
        })
    }
}

/// A server that reads the packets of each connection when the first byte of a response has arrived.
struct Observed {
    port: u16,
    config: Arc<ServerConfig>,
    listener: TcpListener,
    ss: PathBuf,
}

impl Observed {
    fn new(certificates: &Certificates) -> Option<Self> {
        let ss = program("ss")?;
        certificates.signed("a", "localhost", Valid::Now);
        let config = certificates.server_config("a");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        Some(Self { port, config: Arc::new(config), listener, ss })
    }

    /// Serves this number of connections, and returns the packets at each response.
    fn serve(self, connections: usize) -> JoinHandle<Vec<Vec<Packets>>> {
        thread::spawn(move || (0..connections).map(|_| self.serve_next()).collect())
    }

    fn serve_next(&self) -> Vec<Packets> {
        let (socket, _) = self.listener.accept().expect("a connection");
        socket.set_read_timeout(Some(PATIENCE)).expect("the timeout is not zero");
        socket.set_nodelay(true).expect("a TCP socket");
        let session = ServerConnection::new(self.config.clone()).expect("consistent settings");
        let (mut stream, mut head) = (StreamOwned::new(session, socket), Vec::new());
        let (mut packets, mut buffer) = (Vec::new(), [0; 4096]);
        // The end of a connection may lack close_notify.
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            head.extend_from_slice(&buffer[..length]);
            if head.ends_with(b"\r\n\r\n") {
                head.clear();
                // The client waits for the rest, so that no packets are in transit.
                stream.write_all(b"HTTP/1.1 200 OK\r\n").expect("the client reads");
                packets.push(Packets::of(&stream.sock, &self.ss));
                stream.write_all(b"content-length: 0\r\n\r\n").expect("the client reads");
            }
        }
        packets
    }
}

/// Returns the packets of the client until the first byte of the response.
fn reported(report: &Value, visit: &str) -> Packets {
    let phases = ["tcp_connected", "tls_done", "first_byte"].map(|name| &report[visit]["phases"][name]);
    let sum = |key: &str| phases.iter().map(|phase| phase[key].as_u64().expect("a count")).sum();
    Packets { sent: sum("sent_packets"), received: sum("received_packets") }
}

#[test]
fn the_packets_of_both_visits_are_those_of_the_other_end() {
    let Some(certificates) = Certificates::new() else { return };
    let Some(server) = Observed::new(&certificates) else { return };
    let address = format!("localhost:{}", server.port);
    // The second connection only gets a ticket for the third.
    let server = server.serve(3);
    let authority = certificates.path("authority");
    let report = Rudy::run(["tls", "--json", "--cacert", &authority, &address]).with_code(0).json();
    let of_server = server.join().expect("the server does not fail");
    assert_eq!(report["is_resumed"], true, "{report}");
    for (visit, connection) in [("full", 0), ("resumed", 2)] {
        let (client, server) = (reported(&report, visit), of_server[connection][0]);
        assert_eq!(client.received, server.sent, "{visit}: {client:?} {server:?}");
        // The acknowledgement of the response may be sent after the first byte was read.
        let missing = server.received - client.sent;
        assert!(missing <= 1, "{visit}: {client:?} {server:?}");
    }
}

/// A new connection took 12 packets where a kept one took 3, in 2010.
#[test]
fn a_kept_connection_needs_few_packets() {
    let Some(certificates) = Certificates::new() else { return };
    let Some(server) = Observed::new(&certificates) else { return };
    let url = format!("https://localhost:{}/", server.port);
    let server = server.serve(1);
    Rudy::run(["get", "--http1.1", "--cacert", &certificates.path("authority"), &url, &url]).succeeded();
    let of_server = server.join().expect("the server does not fail");
    let [first, second] = of_server[0][..] else { panic!("{of_server:?}") };
    // The rest of the first response; the request, the first byte of its response, and an acknowledgement of each of the server's.
    let more = second.total() - first.total();
    assert!((3..=5).contains(&more) && first.total() >= 2 * more, "{first:?} {second:?}");
}
