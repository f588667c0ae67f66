//! An authority for tests: pebble, by the developers of Let's Encrypt, and its name server.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};

use crate::program::go_program;
use crate::{Certificates, ReservedPort, Running, Valid, eventually, free_port};

/// A running authority, which verifies names at two ports of this machine. Killed when dropped.
pub struct Pebble {
    _authority: Running,
    _names: Running,
    certificates: Arc<Certificates>,
    directory: ReservedPort,
    management: ReservedPort,
    names_management: ReservedPort,
    /// Where it looks for files.
    pub http: ReservedPort,
    /// Where it makes handshakes.
    pub tls: ReservedPort,
}

impl Pebble {
    /// Starts an authority. Returns `None` after [`crate::skip`].
    pub fn start() -> Option<Self> {
        Self::with_validity(7_776_000)
    }

    /// Starts an authority whose certificates are valid for this time, in seconds.
    pub fn with_validity(seconds: u32) -> Option<Self> {
        Self::with(
            &json!({ "profiles": { "default": { "description": "the only one", "validityPeriod": seconds } } }),
        )
    }

    /// Starts an authority with these settings of pebble.
    /// Panics if it does not start.
    pub fn with(settings: &Value) -> Option<Self> {
        let (pebble, challenges) = (go_program("pebble")?, go_program("pebble-challtestsrv")?);
        let certificates = Arc::new(Certificates::new()?);
        certificates.signed("authority-server", "localhost", Valid::Now);
        let [directory, management, names_management, http, tls] = [(); 5].map(|()| ReservedPort::new());
        let path = PathBuf::from(certificates.path("authority-server"));
        let mut config = json!({ "pebble": {
            "listenAddress": directory.address(), "managementListenAddress": management.address(),
            "certificate": path, "privateKey": path.with_extension("key"),
            "httpPort": http.address().port(), "tlsPort": tls.address().port(),
            "retryAfter": { "authz": 1, "order": 1 }, "keyAlgorithm": "ecdsa",
        } });
        for (key, value) in settings.as_object().into_iter().flatten() {
            config["pebble"][key] = value.clone();
        }
        let folder = path.parent().expect("it is in a folder");
        fs::write(folder.join("pebble.json"), config.to_string()).expect("a temp folder can be written");
        let resolver = format!("127.0.0.1:{}", free_port());
        let start = |program: &Path, arguments: &[&str]| {
            let log = File::create(folder.join("log")).expect("a temp folder can be written");
            let mut command = Command::new(program);
            command
                .args(arguments)
                .current_dir(folder)
                .stdin(Stdio::null())
                .stdout(log)
                .stderr(Stdio::null());
            // Half of the nonces are rejected, and nothing is remembered, so that clients become robust.
            command.envs([
                ("PEBBLE_VA_NOSLEEP", "1"),
                ("PEBBLE_WFE_NONCEREJECT", "50"),
                ("PEBBLE_AUTHZREUSE", "0"),
            ]);
            Running::start(&mut command)
        };
        let names_at = names_management.address().to_string();
        let off = ["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-defaultIPv6", ""];
        let names = start(
            &challenges,
            &[&["-dnsserver", &resolver, "-management", &names_at, "-defaultIPv4", "127.0.0.1"][..], &off]
                .concat(),
        );
        let authority = start(&pebble, &["-config", "pebble.json", "-dnsserver", &resolver]);
        for port in [&directory, &management, &names_management] {
            eventually("pebble listens", || TcpStream::connect(port.address()).ok());
        }
        Some(Self {
            _authority: authority,
            _names: names,
            certificates,
            directory,
            management,
            names_management,
            http,
            tls,
        })
    }

    /// The URL of its directory.
    pub fn directory(&self) -> String {
        format!("https://localhost:{}/dir", self.directory.address().port())
    }

    /// The file with the certificate that its own server is trusted by.
    pub fn authority(&self) -> String {
        self.certificates.path("authority")
    }

    /// The start of a configuration that uses it.
    pub fn config(&self, acme: &str) -> String {
        format!(
            "listen = [\"{}\", \"{},tls\"]\n[acme]\ndirectory = \"{}\"\nauthority = \"{}\"\n{acme}\n",
            self.http.address(),
            self.tls.address(),
            self.directory(),
            self.authority()
        )
    }

    /// Writes the certificate that signs those of names to a file, and returns it.
    /// Panics if the authority does not respond.
    pub fn root(&self) -> String {
        let (_, body) = self.exchange(self.management.address(), "GET", "/roots/0", "");
        let path = PathBuf::from(self.certificates.path("root"));
        fs::write(&path, body).expect("a temp folder can be written");
        path.display().to_string()
    }

    /// Sets what the authority responds about the renewal of a certificate.
    /// Panics if it does not know the certificate.
    pub fn set_renewal_info(&self, certificate: &str, info: &Value) {
        let body = json!({ "Certificate": certificate, "ARIResponse": info.to_string() }).to_string();
        let (status, why) = self.exchange(self.management.address(), "POST", "/set-renewal-info/", &body);
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&why));
    }

    /// Changes the name server: `/set-default-ipv4`, `/set-txt` and so on.
    /// Panics if it does not respond.
    pub fn set_names(&self, path: &str, body: &Value) {
        let mut stream = TcpStream::connect(self.names_management.address()).expect("it listens");
        let (status, _) = request(&mut stream, "POST", path, &body.to_string());
        assert_eq!(status, 200, "{path}");
    }

    /// The URL that changes the name server.
    pub fn names_url(&self) -> String {
        format!("http://{}", self.names_management.address())
    }

    /// Sends a request to the authority, and returns the status and the body.
    fn exchange(&self, address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, Vec<u8>) {
        let mut stream = connect(&self.certificates, address);
        request(&mut stream, method, path, body)
    }
}

fn connect(trusted: &Certificates, address: SocketAddr) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(trusted.path("authority")).expect("a certificate"))
        .expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a valid name");
    let session = ClientConnection::new(Arc::new(config), name).expect("consistent settings");
    StreamOwned::new(session, TcpStream::connect(address).expect("it listens"))
}

fn request(stream: &mut (impl Read + Write), method: &str, path: &str, body: &str) -> (u16, Vec<u8>) {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: tests\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("it reads");
    let response = crate::Response::read(&mut BufReader::new(stream), true);
    (response.status, response.body)
}

/// What a proxy does with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Passes it to the authority, and the response back.
    Pass,
    /// Responds itself, with the response up to the end of the connection.
    Respond(&'static str),
    /// Passes it to the authority, and half of the response back.
    Cut,
    /// Never responds.
    Hang,
}

/// A proxy before an authority that fails on purpose.
pub struct Proxy {
    address: SocketAddr,
}

impl Pebble {
    /// Starts a proxy before the authority. `decide` gets the path of each request.
    /// Panics if it cannot listen.
    pub fn proxy(&self, decide: impl FnMut(&str) -> Step + Send + 'static) -> Proxy {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let (certificates, authority) = (self.certificates.clone(), self.directory.address());
        let config = certificates.server_config("authority-server");
        let (config, decide) = (Arc::new(config), Arc::new(std::sync::Mutex::new(decide)));
        // Ends with the process of the test.
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (config, decide, certificates) = (config.clone(), decide.clone(), certificates.clone());
                std::thread::spawn(move || {
                    let session = rustls::ServerConnection::new(config).expect("consistent settings");
                    let client = StreamOwned::new(session, socket);
                    pass_on(client, &mut |path| (decide.lock().expect("no test panics"))(path), || {
                        connect(&certificates, authority)
                    })
                });
            }
        });
        Proxy { address }
    }
}

impl Proxy {
    /// The URL of the directory.
    pub fn directory(&self) -> String {
        format!("https://localhost:{}/dir", self.address.port())
    }
}

/// Passes the request of a connection on. `None` if the client is gone.
fn pass_on(
    client: StreamOwned<rustls::ServerConnection, TcpStream>,
    decide: &mut dyn FnMut(&str) -> Step,
    connect: impl Fn() -> StreamOwned<ClientConnection, TcpStream>,
) -> Option<()> {
    let mut client = BufReader::new(client);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        client.read_line(&mut line).ok().filter(|read| *read > 0)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&line);
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    client.read_exact(&mut body).ok()?;
    let step = decide(head.split(' ').nth(1)?);
    let mut response = Vec::new();
    match step {
        Step::Respond(text) => response.extend_from_slice(text.as_bytes()),
        Step::Hang => loop {
            std::thread::park();
        },
        Step::Pass | Step::Cut => {
            let mut authority = connect();
            authority.write_all(head.as_bytes()).ok()?;
            authority.write_all(&body).ok()?;
            // The authority may not say goodbye.
            let _ = authority.read_to_end(&mut response);
        }
    }
    if step == Step::Cut {
        response.truncate(response.len() / 2);
    }
    let client = client.get_mut();
    client.write_all(&response).ok()?;
    client.conn.send_close_notify();
    client.flush().ok()
}
