//! Deliberately slow clients, together with an ordinary one.

use rudy_tests::prelude::*;
use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};

/// Clients that send a head byte by byte and never finish it.
const DRIBBLING: usize = 1500;

/// Clients that request a large file and do not read it. There are fewer, because the kernel buffers a
/// megabyte for each.
const NOT_READING: usize = 500;

/// Requests of the ordinary client, on each kind of connection.
const REQUESTS: usize = 500;

/// More than the socket buffers hold.
const LARGE_BYTES: u64 = 64 * 1024 * 1024;

/// Starts a server with longer timeouts than the defaults, so that it disconnects no slow client during the
/// test.
fn serve() -> Server {
    let server = Server::config(
        "listen = [\"127.0.0.1:0\"]\n\
         limits = { head_timeout = \"10m\", send_stall_timeout = \"10m\", rate_grace = \"10m\" }\n\
         [[site]]\n\
         [[site.route]]\npath = \"/status\"\nstatus = { allow = \"loopback\" }\n\
         [[site.route]]\npath = \"/*\"\nfiles = { root = \".\" }\n",
    );
    server.path().write("page.html", "x".repeat(1024));
    let large = fs::File::create(server.path().join("large")).expect("a temp folder can be written");
    large.set_len(LARGE_BYTES).expect("a hole costs nothing");
    server
}

fn begin_heads(address: SocketAddr) -> Vec<TcpStream> {
    let begin = |_| {
        let mut stream = TcpStream::connect(address).expect("the server accepts");
        stream.write_all(b"GET / HTTP/1.1\r\nX-Slow: ").expect("the server reads");
        stream
    };
    (0..DRIBBLING).map(begin).collect()
}

/// Requests the large file on connections with a small receive buffer.
fn request_without_reading(address: SocketAddr) -> Vec<TcpStream> {
    let request = |_| {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a descriptor is free");
        // Before connecting, so that the peer never sees a larger window.
        sockopt::set_socket_recv_buffer_size(&socket, 4096).expect("the system allows so little");
        connect(&socket, &address).expect("the server accepts");
        let mut stream = TcpStream::from(socket);
        stream.write_all(b"GET /large HTTP/1.1\r\nHost: test\r\n\r\n").expect("the server reads");
        stream
    };
    (0..NOT_READING).map(request).collect()
}

/// Sends one byte per second on each connection until `stop` is set.
fn dribble(streams: &[TcpStream], stop: &AtomicBool) {
    for mut stream in streams.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        stream.write_all(b"a").expect("the server allows slow clients for ten minutes");
        thread::sleep(Duration::from_secs(1) / u32::try_from(streams.len()).expect("thousands"));
    }
}

fn open_connections(server: &Server) -> u64 {
    let status: Value = server.json("/status");
    status["connections"]["open"].as_u64().expect("a number")
}

/// The lab measures the speed; here every request must get its response while all slow clients are connected.
#[test]
fn an_ordinary_client_is_served_among_two_thousand_slow_ones() {
    needs!(descriptors(3000));
    let server = serve();
    let heads = begin_heads(server.address());
    let unread = request_without_reading(server.address());
    let mut reused = server.connect();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| dribble(&heads, &stop));
        let _stop = StopAtEnd(&stop);
        for _ in 0..REQUESTS {
            assert_eq!(reused.get("/page.html", &[]).status, 200);
            assert_eq!(server.get("/page.html").status, 200);
        }
    });
    let open = open_connections(&server);
    assert!(open >= (DRIBBLING + NOT_READING) as u64, "only {open} connections are left");
    for stream in &unread {
        assert!(is_open(stream), "an unread response was aborted");
    }
}

/// Sets the flag at the end of a test, also when it fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns whether the peer has neither closed nor reset the connection, as far as that is visible without
/// reading.
fn is_open(stream: &TcpStream) -> bool {
    stream.take_error().is_ok_and(|error| error.is_none()) && stream.peek(&mut [0]).is_ok_and(|n| n == 1)
}
