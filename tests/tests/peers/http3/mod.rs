//! HTTP/3 with programs that have their own implementations: aioquic, quic-go, libcurl with ngtcp2, Chromium and Firefox. QPACK with ls-qpack.

mod attacks;
mod browsers;
mod qpack;

use rudy_tests::prelude::*;
use rudy_tests::{Peer, http3_program, write_files};

use crate::http2_client::check;

/// The path of a file beside this one.
pub(crate) fn script(name: &str) -> String {
    format!("{}/tests/peers/http3/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A server with files and an upstream for the scripts of clients.
struct Site {
    server: Server,
    certificates: Certificates,
    _upstream: Upstream,
}

impl Site {
    /// Starts the server. `None` if `openssl` is not installed.
    fn start() -> Option<Self> {
        let certificates = Certificates::for_host("server", "localhost")?;
        let upstream = Upstream::serve(|peer, request| peer.respond(&request.body.len().to_string()));
        let (tls, port) = (certificates.settings("server"), free_port());
        let folder = Folder::new();
        write_files(folder.path());
        let config = format!(
            "listen = '127.0.0.1:{port},tls'\naccess_log = 'access.log'\n[[site]]\nhosts = 'localhost'\ntls = {{ {tls}, early_data = true }}\n\
             route = [{{ path = '/up', proxy = '{upstream}' }}, {{ path = '/*', files = 'www' }}]\n"
        );
        folder.write("rudy.toml", config);
        let server = Server::build().config_of(folder).start();
        Some(Self { server, certificates, _upstream: upstream })
    }

    fn port(&self) -> String {
        self.server.address().port().to_string()
    }

    fn authority(&self) -> String {
        self.certificates.path("authority")
    }

    /// Checks that the access log has requests, all over HTTP/3.
    fn check_log(&self) {
        let log = self.server.path().wait_for("access.log", "/hello");
        let others = log.lines().find(|line| !line.contains(" HTTP/3.0\" "));
        assert!(others.is_none(), "{others:?}");
    }
}

/// Runs a script with Python, the port of a server and its authority.
fn run_client(name: &str) {
    let Some(python) = http3_program("python") else { return };
    let Some(site) = Site::start() else { return };
    let mut client = Command::new(python);
    Output::of(client.args([script(name), site.port(), site.authority()])).succeeded();
    site.check_log();
}

#[test]
fn the_client_of_aioquic() {
    run_client("client.py");
}

#[test]
fn the_client_of_curl() {
    run_client("curl.py");
}

#[test]
fn the_client_of_quic_go() {
    let Some(quic_go) = quic_go() else { return };
    let Some(site) = Site::start() else { return };
    let url = format!("https://localhost:{}", site.port());
    Output::of(Command::new(quic_go).args(["fetch", &url, &site.authority()])).succeeded();
    site.check_log();
}

fn quic_go() -> Option<PathBuf> {
    if long() { go_program("quic-go") } else { None }
}

/// Checks our client with a program that gets these arguments, then the address, the files of a certificate and its key, and a folder.
fn check_server(program: &Path, arguments: &[String], splits_address: bool, requests: u32) {
    let Some(certificates) = Certificates::for_host("server", "localhost") else { return };
    let (file, authority) = (certificates.path("server"), certificates.path("authority"));
    let key = file.replace(".pem", ".key");
    let program = program.display().to_string();
    let peer = Peer::start("env", |folder, address| {
        write_files(folder);
        let root = folder.join("www").display().to_string();
        let (ip, port) = (address.ip().to_string(), address.port().to_string());
        let address = if splits_address { vec![ip, port] } else { vec![address.to_string()] };
        [&[program][..], arguments, &address, &[file, key, root]].concat()
    });
    if let Some(peer) = peer {
        check(&peer, &["--cacert", &authority, "--http3"], "3", requests);
    }
}

#[test]
fn the_server_of_aioquic() {
    let Some(python) = http3_program("python") else { return };
    // A server in Python takes seconds for more.
    check_server(&python, &[script("server.py")], true, 120);
}

#[test]
fn the_server_of_quic_go() {
    let Some(quic_go) = quic_go() else { return };
    check_server(&quic_go, &["serve".into()], false, 1200);
}
