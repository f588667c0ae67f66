//! TLS in the world: what clients trust, and the [authority](authority::Authority) that signs the certificate of the server.

pub(crate) mod authority;
mod signatures;
mod socket;

use std::io;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::time::Instant;

pub(crate) use self::socket::Socket;
use crate::tls::authority::{ISSUER, signed};

/// The name of the applications behind HTTP/1.1.
pub(crate) const ORIGIN: &str = "origin.test";

/// The name of the site.
pub(crate) const SITE: &str = "site.test";

/// The time of the wall clock in the world.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WallClock {
    pub(crate) start: (Instant, SystemTime),
}

impl WallClock {
    pub(crate) fn now(&self) -> SystemTime {
        self.start.1 + self.start.0.elapsed()
    }
}

impl TimeProvider for WallClock {
    fn current_time(&self) -> Option<UnixTime> {
        self.now().duration_since(SystemTime::UNIX_EPOCH).ok().map(UnixTime::since_unix_epoch)
    }
}

/// Whether a handshake has failed because of the certificate: the client rejects it, or the server has none.
pub(crate) fn is_about_certificate(error: &io::Error) -> bool {
    use rustls::Error::{AlertReceived, InvalidCertificate};
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(inner, Some(InvalidCertificate(_) | AlertReceived(_)))
}

/// Returns the settings of a client that trusts the authority and speaks this protocol.
pub(crate) fn client_config(clock: WallClock, protocol: &str) -> Arc<ClientConfig> {
    static ROOTS: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
        let mut roots = RootCertStore::empty();
        roots.add(ISSUER.der().clone()).expect("the certificate of the model");
        Arc::new(roots)
    });
    let builder = ClientConfig::builder_with_details(signatures::provider(), Arc::new(clock));
    let builder = builder.with_safe_default_protocol_versions().expect("versions of the library");
    let mut config = builder.with_root_certificates(ROOTS.clone()).with_no_client_auth();
    config.alpn_protocols = vec![protocol.into()];
    Arc::new(config)
}

/// Returns the settings of applications.
pub(crate) fn server_config() -> Arc<ServerConfig> {
    static CONFIG: LazyLock<Arc<ServerConfig>> = LazyLock::new(|| {
        let (key, certificate) = signed(ORIGIN);
        let builder = ServerConfig::builder_with_provider(signatures::provider());
        let builder = builder.with_safe_default_protocol_versions().expect("versions of the library");
        let config = builder.with_no_client_auth().with_single_cert(vec![certificate], key);
        Arc::new(config.expect("a key of the model"))
    });
    CONFIG.clone()
}

/// How long after its start the server may be without a certificate that is valid: it orders one, or reads that of another process.
pub(crate) const ORDER_TIME: Duration = Duration::from_mins(1);
