//! TLS certificates and servers with `openssl`, and a server and client in this process.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rudy_tls::{Certificate, SiteSettings, TicketKey, TicketKeys, TlsSite};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};

use crate::{Files as _, Folder, Running, program};

/// The configuration of `openssl ca`. Signed certificates have the requested names.
const CONFIG: &str = "\
[ca]
default_ca = signing
[signing]
database = index.txt
serial = serial
new_certs_dir = .
policy = policy
default_md = sha256
copy_extensions = copy
unique_subject = no
default_crl_days = 2
crlnumber = crlnumber
crl_extensions = list
[list]
authorityKeyIdentifier = keyid
[policy]
countryName = optional
organizationName = optional
commonName = supplied
";

/// Arguments for a new key without a password, on the fastest curve.
const NEW_KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

/// A folder with a certificate authority and its certificates.
pub struct Certificates {
    openssl: PathBuf,
    folder: Folder,
}

/// The validity period of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Valid {
    /// Valid now and for decades.
    Now,
    /// Valid only in 2100.
    Later,
    /// Valid only on the first day of 2020.
    Once,
    /// Valid since 2020 and for 36 hours.
    ForAnotherDayAndAHalf,
}

impl Certificates {
    /// Creates an authority, `authority.pem`. Returns `None` after [`crate::skip`].
    /// Panics if `openssl` fails.
    pub fn new() -> Option<Self> {
        let openssl = program("openssl")?;
        let files = [("ca.cnf", CONFIG), ("index.txt", ""), ("serial", "01\n"), ("crlnumber", "01\n")];
        let folder = Folder::with(&files);
        let certificates = Self { openssl, folder };
        certificates.self_signed("authority", "authority", "critical,CA:TRUE");
        Some(certificates)
    }

    /// Creates an authority, and a certificate for a host. Returns `None` after [`crate::skip`].
    pub fn for_host(name: &str, host: &str) -> Option<Self> {
        let certificates = Self::new()?;
        certificates.signed(name, host, Valid::Now);
        Some(certificates)
    }

    /// Returns the settings of a site with a certificate: `certificate = '…', key = '…'`.
    pub fn settings(&self, name: &str) -> String {
        let path = self.path(name);
        format!("certificate = '{path}', key = '{}'", path.replace(".pem", ".key"))
    }

    /// Returns the path of a certificate.
    pub fn path(&self, name: &str) -> String {
        self.folder.text(&format!("{name}.pem"))
    }

    /// Returns the settings of a server of rustls with a certificate.
    /// Panics if the files are not valid.
    pub fn server_config(&self, name: &str) -> ServerConfig {
        let path = self.path(name);
        let chain = vec![CertificateDer::from_pem_file(&path).expect("a certificate")];
        let key = PrivateKeyDer::from_pem_file(path.replace(".pem", ".key")).expect("a key");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("the provider supports them").with_no_client_auth();
        config.with_single_cert(chain, key).expect("its key matches")
    }

    /// Copies a certificate and its key into a folder.
    /// Panics if a file cannot be written.
    pub fn copy(&self, name: &str, folder: &Path) {
        for end in ["pem", "key"] {
            let file = format!("{name}.{end}");
            fs::copy(self.folder.join(&file), folder.join(&file)).expect("the file can be written");
        }
    }

    /// Creates a self-signed certificate. `constraints` sets whether it is an authority.
    pub fn self_signed(&self, name: &str, host: &str, constraints: &str) {
        let constraints = format!("basicConstraints={constraints}");
        let (alternative, key, file) = names(name, host);
        let days = ["-days", "2", "-addext", &constraints, "-addext", &alternative];
        let files = ["-subj", &subject(name), "-keyout", &key, "-out", &file];
        self.openssl(&[&["req", "-x509"], &NEW_KEY[..], &days, &files].concat());
    }

    /// Creates a certificate signed by the authority.
    pub fn signed(&self, name: &str, host: &str, valid: Valid) {
        self.signed_for(&subject(name), name, host, valid);
    }

    /// Creates a certificate signed by the authority for a subject, such as `/C=DE/CN=alice`.
    pub fn signed_for(&self, subject: &str, name: &str, host: &str, valid: Valid) {
        let (alternative, key, file) = names(name, host);
        let files = ["-subj", subject, "-addext", &alternative, "-keyout", &key, "-out", "request"];
        self.openssl(&[&["req", "-utf8"], &NEW_KEY[..], &files].concat());
        let end = match valid {
            Valid::Later | Valid::Now => "21200101000000Z".to_owned(),
            Valid::Once => "20200102000000Z".to_owned(),
            Valid::ForAnotherDayAndAHalf => {
                let date = Command::new("date").args(["-u", "-d", "+36 hours", "+%Y%m%d%H%M%SZ"]).output();
                String::from_utf8_lossy(&date.expect("date can be started").stdout).trim().to_owned()
            }
        };
        let authority = ["-config", "ca.cnf", "-cert", "authority.pem", "-keyfile", "authority.key"];
        let start = if valid == Valid::Later { "21000101000000Z" } else { "20200101000000Z" };
        let dates = ["-startdate", start, "-enddate", &end];
        let files = ["-in", "request", "-out", &file, "-notext"];
        self.openssl(&[&["ca", "-batch"], &authority[..], &dates, &files].concat());
    }

    /// Creates a certificate signed by another one of this folder. `extension` is one of `openssl x509`, such as that it is an
    /// authority itself; `arguments` are further ones of `openssl req`, such as the key, and of `openssl x509`.
    pub fn issued(&self, issuer: &str, name: &str, extension: &str, arguments: [&[&str]; 2]) {
        let (alternative, key, file) = names(name, "localhost");
        let [of_request, of_certificate] = arguments;
        let new_key = if of_request.is_empty() { &NEW_KEY[..] } else { of_request };
        let subject = subject(name);
        let files = ["-subj", &subject, "-addext", &alternative, "-addext", extension];
        let files = [&files[..], &["-keyout", &key, "-out", "request"]].concat();
        self.openssl(&[&["req"], new_key, &files].concat());
        let (issuer, issuer_key) = (format!("{issuer}.pem"), format!("{issuer}.key"));
        let issuer = ["-CA", &issuer, "-CAkey", &issuer_key, "-CAcreateserial", "-days", "30"];
        let copied = ["-copy_extensions", "copyall", "-in", "request", "-out", &file];
        self.openssl(&[&["x509", "-req"], &issuer[..], &copied, of_certificate].concat());
    }

    /// Creates a certificate without extensions, which is of version 1 with OpenSSL 3.0. The issuer may be itself.
    pub fn without_extensions(&self, issuer: &str, name: &str) {
        let (subject, (_, key, file)) = (subject(name), names(name, ""));
        let files = ["-subj", &subject, "-keyout", &key, "-out", "request"];
        self.openssl(&[&["req"], &NEW_KEY[..], &files].concat());
        let (certificate, issuer_key) = (format!("{issuer}.pem"), format!("{issuer}.key"));
        let signed = ["-CA", &certificate, "-CAkey", &issuer_key, "-CAcreateserial"];
        let signed = if issuer == name { &["-signkey", &key][..] } else { &signed[..] };
        self.openssl(&[&["x509", "-req", "-days", "30", "-in", "request", "-out", &file], signed].concat());
    }

    /// Writes an OCSP response of the authority about a certificate it has signed to `ocsp.der`.
    pub fn ocsp(&self, name: &str) {
        let (authority, key) = (self.path("authority"), "authority.key");
        let responder = ["-index", "index.txt", "-CA", &authority, "-rsigner", &authority, "-rkey", key];
        let path = self.path(name);
        let question = ["-issuer", &authority, "-cert", &path, "-ndays", "2", "-respout", "ocsp.der"];
        self.openssl(&[&["ocsp", "-noverify"], &responder[..], &question].concat());
    }

    /// Revokes these certificates, and writes the revocation list of the authority to `crl.pem`.
    pub fn revoke(&self, names: &[&str]) {
        let authority = ["ca", "-config", "ca.cnf", "-cert", "authority.pem", "-keyfile", "authority.key"];
        for name in names {
            self.openssl(&[&authority[..], &["-revoke", &self.path(name)]].concat());
        }
        self.openssl(&[&authority[..], &["-gencrl", "-out", "crl.pem"]].concat());
    }

    /// Returns what `openssl x509` prints about a certificate.
    pub fn facts(&self, name: &str, arguments: &[&str]) -> String {
        let path = self.path(name);
        self.openssl(&[&["x509", "-noout", "-in", &path], arguments].concat())
    }

    /// Starts a server with a certificate. It responds to each request with a page about the connection, and closes the connection.
    /// Panics if `openssl s_server` does not listen.
    pub fn serve(&self, name: &str) -> TlsServer {
        self.serve_with(name, &["-www"])
    }

    /// Starts a server with a certificate and further arguments of `openssl s_server`.
    /// Panics if `openssl s_server` does not listen.
    pub fn serve_with(&self, name: &str, arguments: &[&str]) -> TlsServer {
        let (key, file) = (format!("{name}.key"), format!("{name}.pem"));
        let mut child: Running = Command::new(&self.openssl)
            .args(["s_server", "-accept", "127.0.0.1:0", "-cert", &file, "-key", &key])
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl can be started")
            .into();
        let mut lines = BufReader::new(child.stdout.as_mut().expect("the stream is piped")).lines();
        let port = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("ACCEPT ")?.rsplit(':').next()?.parse().ok());
        TlsServer { _child: child, port: port.expect("openssl prints its address") }
    }

    fn openssl(&self, arguments: &[&str]) -> String {
        let output = Command::new(&self.openssl).args(arguments).current_dir(self.folder.path()).output();
        let output = output.expect("openssl can be started");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// Returns the extension with the host, and the names of the files.
fn names(name: &str, host: &str) -> (String, String, String) {
    (format!("subjectAltName=DNS:{host}"), format!("{name}.key"), format!("{name}.pem"))
}

fn subject(name: &str) -> String {
    format!("/CN={name}")
}

/// An `openssl s_server`; killed when dropped.
pub struct TlsServer {
    _child: Running,
    /// The port on 127.0.0.1.
    pub port: u16,
}

impl TlsServer {
    /// Returns the URL with the host name of most certificates here.
    pub fn url(&self) -> String {
        format!("https://localhost:{}/", self.port)
    }
}

/// The settings of a site for `localhost` with a certificate of its own, and of a client that trusts it.
pub struct LocalTls {
    /// The server's settings.
    pub site: Arc<TlsSite>,
    /// The client's settings.
    pub client: Arc<ClientConfig>,
}

impl LocalTls {
    /// Creates a certificate and the settings.
    /// Panics if the system provides no random bytes.
    pub fn new() -> Self {
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let certificate =
            Certificate::from_pem(cert.pem().as_bytes(), signing_key.serialize_pem().as_bytes());
        let settings = SiteSettings {
            certificates: vec![Arc::new(certificate.expect("its key matches"))],
            http3: true,
            ..SiteSettings::default()
        };
        let keys = Arc::<TicketKeys>::default();
        keys.set_from(&TicketKey::random().expect("random bytes"));
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(cert.der().to_vec())).expect("a valid certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider supports them")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let site = TlsSite::new(&settings, &keys).expect("consistent settings");
        Self { site: Arc::new(site), client: Arc::new(client) }
    }
}

impl Default for LocalTls {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns a client for `localhost`.
/// Panics if the settings are inconsistent.
pub fn client(settings: &Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from("localhost").expect("a valid name");
    ClientConnection::new(settings.clone(), name).expect("consistent settings")
}
