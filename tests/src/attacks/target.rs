//! Servers that are attacked: one worker, a small file and a large one, no access log.

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::time::UNIX_EPOCH;

use super::Attack;
use crate::{
    Certificates, Files as _, Folder, Http2Connection, Http3Client, Peer, Server, TlsClient, children,
    eventually,
};

/// The content of `/`.
const SMALL: &str = "hello";
/// The requests for each file before an attack.
const WARM_UP: u32 = 10;
/// The size of `/large.bin`.
const LARGE_BYTES: usize = 1 << 20;
/// The size of `/huge.bin`, which Rudy does not cache.
const HUGE_BYTES: usize = 10 << 20;

/// A server. It ends when this is dropped.
pub struct Target {
    address: SocketAddr,
    pid: u32,
    tls: Option<TlsClient>,
    /// The client of requests, if they use HTTP/3.
    http3: Option<Http3Client>,
    /// In a mutex, because threads share the target.
    _process: Mutex<Box<dyn Send>>,
}

impl Target {
    /// Starts Rudy with what an attack needs.
    /// Panics if it does not start.
    pub fn rudy_for(attack: &Attack, certificates: &Certificates) -> Self {
        if !attack.is_quic() {
            return Self::rudy(attack.is_tls().then_some(certificates));
        }
        let mut target = Self::rudy(Some(certificates));
        let tls = target.tls.as_ref().map(TlsClient::config);
        target.http3 = tls.map(Http3Client::with_tls);
        target
    }

    /// Starts Rudy, with HTTP/2 without TLS, or with a certificate for `localhost`.
    /// Panics if it does not start.
    fn rudy(certificates: Option<&Certificates>) -> Self {
        let (listen, certificate) = match certificates {
            None => ("h2c", String::new()),
            Some(certificates) => ("tls", format!("tls = {{ {} }}", certificates.settings("localhost"))),
        };
        let folder = Folder::new();
        write_files(&folder);
        folder.write(
            "rudy.toml",
            format!("listen = '127.0.0.1:0,{listen}'\ncores = 1\n[[site]]\nroot = 'www'\n{certificate}\n"),
        );
        let server = Server::build().config_of(folder).start();
        let (address, pid) = (server.address(), server.pid());
        Self {
            address,
            pid,
            tls: certificates.map(client),
            http3: None,
            _process: Mutex::new(Box::new(server)),
        }
    }

    /// Starts nginx, in the same way. `None` if it is not installed.
    /// Panics if it does not start.
    pub fn nginx(certificates: Option<&Certificates>) -> Option<Self> {
        let (ssl, certificate) = match certificates.map(|certificates| certificates.path("localhost")) {
            None => ("", String::new()),
            Some(path) => (
                " ssl",
                format!(
                    "ssl_protocols TLSv1.3; ssl_certificate {path}; ssl_certificate_key {};",
                    path.replace(".pem", ".key")
                ),
            ),
        };
        let peer = Peer::nginx_with(|folder, address| {
            write_files(folder);
            // `sendfile` and `tcp_nopush` as in the configuration of Debian: without them, each response has a buffer.
            format!(
                "sendfile on; tcp_nopush on;\n\
                 server {{ listen {address}{ssl} http2; {certificate} root {}/www; }}",
                folder.display()
            )
        })?;
        let worker = eventually("nginx has a worker", || children(peer.pid()).pop());
        let pid = u32::try_from(worker.as_raw_nonzero().get()).expect("process ids are positive");
        Some(Self {
            address: peer.address(),
            pid,
            tls: certificates.map(client),
            http3: None,
            _process: Mutex::new(Box::new(peer)),
        })
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process whose CPU and memory count.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// A client that trusts its certificate.
    pub(super) fn tls(&self) -> Option<&TlsClient> {
        self.tls.as_ref()
    }

    /// A client over HTTP/3 that trusts its certificate.
    pub(super) fn http3(&self) -> Option<&Http3Client> {
        self.http3.as_ref()
    }

    /// Sends a request on a new connection. Returns whether the server responds with the small file.
    pub fn serves(&self) -> bool {
        // The helpers of tests panic without a response.
        catch_unwind(AssertUnwindSafe(|| self.get("/"))).is_ok_and(|body| body == SMALL.as_bytes())
    }

    /// Sends requests for both files, so that the server has its buffers and the files open before an attack.
    /// Panics if it does not serve them.
    pub(super) fn warm_up(&self) {
        for _ in 0..WARM_UP {
            assert!(self.serves(), "the server serves the small file before the attack");
            assert_eq!(
                self.get("/large.bin").len(),
                LARGE_BYTES,
                "the server serves the large file before the attack"
            );
        }
    }

    fn get(&self, path: &str) -> Vec<u8> {
        if let Some(client) = &self.http3 {
            let mut connection = client.open(self.address);
            let stream = connection.get(path);
            return connection.response(stream).body;
        }
        let Some(client) = &self.tls else {
            let mut connection = Http2Connection::open(self.address, &[]);
            connection.get(1, path);
            return connection.response(1).body;
        };
        let mut connection = client.connect(self.address, "localhost").expect("a handshake succeeds");
        connection.get_target("localhost", path).expect("the connection is open").body
    }
}

fn client(certificates: &Certificates) -> TlsClient {
    TlsClient::new(certificates, None, false)
}

/// Writes the files as if they were old: Rudy caches no file that has just changed.
fn write_files(folder: &Path) {
    let (large, huge) = (vec![b'x'; LARGE_BYTES], vec![b'x'; HUGE_BYTES]);
    for (name, content) in [("index.html", SMALL.as_bytes()), ("large.bin", &large), ("huge.bin", &huge)] {
        let path = folder.write(&format!("www/{name}"), content);
        let file = OpenOptions::new().append(true).open(path);
        file.and_then(|file| file.set_modified(UNIX_EPOCH)).expect("the file is ours");
    }
}
