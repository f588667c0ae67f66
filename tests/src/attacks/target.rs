//! Servers that are attacked: one worker, a small file and a large one, no access log.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;

use crate::{
    Certificates, Files as _, Folder, Http2Connection, Peer, Server, TlsClient, children, eventually,
};

/// The content of `/`.
const SMALL: &str = "hello";
/// The size of `/large.bin`.
const LARGE_BYTES: usize = 1 << 20;

/// A server. It ends when this is dropped.
pub struct Target {
    address: SocketAddr,
    pid: u32,
    tls: Option<TlsClient>,
    /// In a mutex, because threads share the target.
    _process: Mutex<Box<dyn Send>>,
}

impl Target {
    /// Starts Rudy, with HTTP/2 without TLS, or with a certificate for `localhost`.
    /// Panics if it does not start.
    pub fn rudy(certificates: Option<&Certificates>) -> Self {
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
        Self { address, pid, tls: certificates.map(client), _process: Mutex::new(Box::new(server)) }
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
        let master = peer.folder().read("pid");
        let worker = eventually("nginx has a worker", || children(master.trim()).pop());
        let pid = u32::try_from(worker.as_raw_nonzero().get()).expect("process ids are positive");
        Some(Self {
            address: peer.address(),
            pid,
            tls: certificates.map(client),
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

    /// Sends a request on a new connection. Returns whether the server responds with the file.
    pub fn serves(&self) -> bool {
        let body = || match &self.tls {
            None => {
                let mut connection = Http2Connection::open(self.address, &[]);
                connection.get(1, "/");
                connection.response(1).body
            }
            Some(client) => {
                let connection = client.connect(self.address, "localhost");
                connection
                    .and_then(|mut connection| connection.get("localhost"))
                    .map_or_else(Vec::new, |it| it.body)
            }
        };
        // The helpers of tests panic without a response.
        catch_unwind(AssertUnwindSafe(body)).is_ok_and(|body| body == SMALL.as_bytes())
    }
}

fn client(certificates: &Certificates) -> TlsClient {
    TlsClient::new(certificates, None, false)
}

fn write_files(folder: &Path) {
    folder.write("www/index.html", SMALL);
    folder.write("www/large.bin", vec![b'x'; LARGE_BYTES]);
}
