//! Clients that read slowly, but faster than `send_rate_min`.

use std::thread::sleep;

use rudy_tests::prelude::*;
use rustix::net::sockopt::set_socket_recv_buffer_size;

/// More than the kernel buffers for a client that reads slowly.
const FILE_BYTES: usize = 12 << 20;

/// The rate of a client in bytes per millisecond.
const RATE: u128 = 80;

/// Reads at a rate for longer than `rate_grace`: what is due by now, however late the thread wakes up. Panics at the end of the stream.
fn read_slowly(mut stream: impl Read) {
    let (begin, mut piece, mut read) = (Instant::now(), [0; 4096], 0);
    while begin.elapsed() < Duration::from_millis(2500) {
        while read < begin.elapsed().as_millis() * RATE {
            let bytes = stream.read(&mut piece).expect("the server waits");
            assert_ne!(bytes, 0);
            read += bytes as u128;
        }
        sleep(Duration::from_millis(50));
    }
}

/// The kernel accepts a megabyte at once, and no more before the client has read a third of it.
#[test]
fn a_client_above_the_minimum_rate_is_not_dropped() {
    let Some(certificates) = Certificates::for_host("a", "a.test") else { return };
    let folder = Folder::with(&[("file", vec![7; FILE_BYTES])]);
    let (path, root) = (certificates.path("a"), folder.path().display());
    let server = Server::config(&format!(
        "listen = ['127.0.0.1:0', '127.0.0.1:0,tls']\nlimits = {{ rate_grace = '1s' }}\n\
         [[site]]\nhosts = ['a.test']\nroot = '{root}'\ntls = {{ certificate = '{path}', key = '{}' }}\n",
        path.replace(".pem", ".key")
    ));
    let request = b"GET /file HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
    let mut plain = TcpStream::connect(server.address()).unwrap();
    set_socket_recv_buffer_size(&plain, 16 * 1024).unwrap();
    plain.write_all(request).unwrap();
    let address = server.addresses()[1].trim_start_matches("https://").trim_end_matches('/').parse().unwrap();
    let mut tls = TlsClient::new(&certificates, None, false).connect(address, "a.test").unwrap();
    set_socket_recv_buffer_size(tls.socket(), 16 * 1024).unwrap();
    tls.send(request);
    let threads = [thread::spawn(|| read_slowly(plain)), thread::spawn(|| read_slowly(tls))];
    for thread in threads {
        thread.join().unwrap();
    }
}
