//! A TLS client that chooses its server name, certificate and tickets freely, as an attacker does.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::client::{ClientSessionMemoryCache, ClientSessionStore, Resumption};
use rustls::client::{Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, NamedGroup, RootCertStore, StreamOwned};

use crate::{Certificates, PATIENCE, Response};

/// A client that trusts an authority. It uses each ticket with any server name.
pub struct TlsClient {
    config: ClientConfig,
}

impl TlsClient {
    /// Creates a client. `certificate` is its own certificate, with the certificates it is from. `is_tls12` limits it to TLS 1.2.
    /// Panics if a file cannot be read.
    pub fn new(trusted: &Certificates, certificate: Option<(&Certificates, &str)>, is_tls12: bool) -> Self {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(trusted.path("authority")).expect("a certificate");
        roots.add(authority).expect("a certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[if is_tls12 { &TLS12 } else { &TLS13 }])
            .expect("the provider supports them")
            .with_root_certificates(roots);
        let mut config = match certificate {
            None => config.with_no_client_auth(),
            Some((owner, name)) => {
                let path = owner.path(name);
                let chain = vec![CertificateDer::from_pem_file(&path).expect("a certificate")];
                let key = fs::read(path.replace(".pem", ".key")).expect("a key");
                let key = PrivateKeyDer::from_pem_slice(&key).expect("a key");
                let key = provider.key_provider.load_private_key(key).expect("a supported key");
                // Without the check of `with_client_auth_cert`, which rejects certificates of version 1.
                let certified = SingleCertAndKey::from(CertifiedKey::new(chain, key));
                config.with_client_cert_resolver(Arc::new(certified))
            }
        };
        config.resumption = Resumption::disabled();
        Self { config }
    }

    /// Returns the same client with a memory for tickets of its own. rustls resumes sessions only with the verifier and
    /// certificate of the first handshake, which copies share.
    pub fn remembering(&self) -> Self {
        let mut config = self.config.clone();
        config.resumption = Resumption::store(Arc::new(AnyName(ClientSessionMemoryCache::new(8))));
        Self { config }
    }

    /// Returns the settings of rustls.
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::new(self.config.clone())
    }

    /// Connects with a server name. Returns `None` if the server rejects the handshake.
    /// Panics if the server does not listen.
    pub fn connect(&self, server: SocketAddr, name: &str) -> Option<TlsConnection> {
        let name = ServerName::try_from(name.to_owned()).expect("a valid name");
        let socket = TcpStream::connect(server).expect("the server listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("the timeout is not zero");
        let session =
            ClientConnection::new(Arc::new(self.config.clone()), name).expect("consistent settings");
        let mut stream = StreamOwned::new(session, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).ok()?;
        }
        Some(TlsConnection(BufReader::new(stream)))
    }

    /// Connects, and sends a request as early data with the first message. Returns `None` if the last session does not allow it.
    /// Panics if the server does not listen.
    pub fn connect_early(&self, server: SocketAddr, name: &str, request: &str) -> Option<EarlyConnection> {
        let name = ServerName::try_from(name.to_owned()).expect("a valid name");
        let mut config = self.config.clone();
        config.enable_early_data = true;
        let mut session = ClientConnection::new(Arc::new(config), name).expect("consistent settings");
        session.early_data()?.write_all(request.as_bytes()).expect("it is short");
        let mut sent = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut sent).expect("writing to memory");
        }
        let mut socket = TcpStream::connect(server).expect("the server listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("the timeout is not zero");
        socket.write_all(&sent).expect("the server reads");
        Some(EarlyConnection { session, socket, sent })
    }

    /// Connects, sends a request, and returns the status of the response; `None` if the server rejects the handshake.
    /// In TLS 1.3, a client learns only then whether its certificate is accepted.
    pub fn status(&self, server: SocketAddr, name: &str, host: &str) -> Option<u16> {
        self.connect(server, name)?.get(host).map(|response| response.status)
    }
}

/// An established session.
pub struct TlsConnection(BufReader<StreamOwned<ClientConnection, TcpStream>>);

impl TlsConnection {
    /// Whether the session was resumed with a ticket.
    pub fn is_resumed(&self) -> bool {
        self.0.get_ref().conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Returns the socket, for operations that are not here.
    pub fn socket(&self) -> &TcpStream {
        &self.0.get_ref().sock
    }

    /// Sends bytes.
    /// Panics if the connection has ended.
    pub fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("the connection is open");
    }

    /// Sends a request without a body, and returns the response.
    /// Panics if the connection has ended.
    pub fn exchange(&mut self, request: &str) -> Response {
        self.send(request.as_bytes());
        Response::read(&mut self.0, true)
    }

    /// Sends a request for `/`. Returns `None` if the connection has ended.
    pub fn get(&mut self, host: &str) -> Option<Response> {
        self.get_target(host, "/")
    }

    /// Sends a request. Returns `None` if the connection has ended.
    pub fn get_target(&mut self, host: &str, target: &str) -> Option<Response> {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        self.0.get_mut().write_all(request.as_bytes()).ok()?;
        let has_response = self.0.fill_buf().is_ok_and(|bytes| !bytes.is_empty());
        has_response.then(|| Response::read(&mut self.0, true))
    }
}

impl Read for TlsConnection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// A session whose handshake the client does not complete: it reads only.
pub struct EarlyConnection {
    session: ClientConnection,
    socket: TcpStream,
    /// The bytes that the client has sent.
    pub sent: Vec<u8>,
}

impl EarlyConnection {
    /// Reads a response. Returns `None` if the server sends none before the handshake is complete.
    pub fn response(&mut self) -> Option<Response> {
        let mut reader = BufReader::new(&mut *self);
        let has_response = reader.fill_buf().is_ok_and(|bytes| !bytes.is_empty());
        has_response.then(|| Response::read(&mut reader, true))
    }

    /// Sends an invalid record instead of the end of the handshake. Returns why the session ends.
    /// Panics if it does not end.
    pub fn fail(mut self) -> String {
        let record = [&[23, 3, 3, 0, 32][..], &[0; 32]].concat();
        self.socket.write_all(&record).expect("the server reads");
        self.read(&mut [0]).expect_err("the session ends").to_string()
    }

    /// Completes the handshake. The result says whether the server has accepted the early data.
    /// Panics if the server rejects the handshake.
    pub fn complete(self) -> (TlsConnection, bool) {
        let Self { mut session, mut socket, .. } = self;
        while session.is_handshaking() || session.wants_write() {
            session.complete_io(&mut socket).expect("the server accepts the handshake");
        }
        let is_accepted = session.is_early_data_accepted();
        (TlsConnection(BufReader::new(StreamOwned::new(session, socket))), is_accepted)
    }
}

impl Read for EarlyConnection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
            if self.session.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            self.session.process_new_packets().map_err(io::Error::other)?;
        }
    }
}

/// Stores tickets without regard to the server that they are from.
#[derive(Debug)]
struct AnyName(ClientSessionMemoryCache);

fn any() -> ServerName<'static> {
    ServerName::try_from("any.test").expect("a valid name")
}

impl ClientSessionStore for AnyName {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.0.set_kx_hint(any(), group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.0.kx_hint(&any())
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.0.set_tls12_session(any(), value);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.0.tls12_session(&any())
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.0.remove_tls12_session(&any());
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.0.insert_tls13_ticket(any(), value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.take_tls13_ticket(&any())
    }
}
