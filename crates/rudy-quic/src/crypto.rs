//! The cryptography of connections: TLS sessions of [`rudy_tls`], with the interface of [`quinn_proto`].

use std::any::Any;
use std::io::Cursor;
use std::sync::Arc;

use quinn_proto::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use rudy_tls::quic::{ChooseSite, Session, initial_suite, retry_tag};
use rustls::quic::{DirectionalKeys, KeyChange, Secrets, Suite, Version};

/// The version of RFC 9000 §15.
pub const VERSION_1: u32 = 1;

/// The cryptography of an endpoint, whose sessions choose their sites by the first messages of their clients.
pub struct ServerCrypto {
    suite: Suite,
    choose: ChooseSite,
}

impl ServerCrypto {
    /// Creates the cryptography of an endpoint.
    #[must_use]
    pub fn new(choose: ChooseSite) -> Self {
        Self { suite: initial_suite(), choose }
    }
}

impl crypto::ServerConfig for ServerCrypto {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        let Version::V1 = version_of(version)? else { return Err(UnsupportedVersion) };
        Ok(initial_keys(self.suite, id, Side::Server))
    }

    fn retry_tag(&self, _: u32, original: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        retry_tag(original, packet)
    }

    fn start_session(self: Arc<Self>, _: u32, parameters: &TransportParameters) -> Box<dyn crypto::Session> {
        let mut encoded = Vec::new();
        parameters.write(&mut encoded);
        Box::new(ServerSession {
            tls: Session::new(Version::V1, encoded, self.choose.clone()),
            suite: self.suite,
            next: None,
            is_reported: false,
        })
    }
}

fn version_of(version: u32) -> Result<Version, UnsupportedVersion> {
    if version == VERSION_1 { Ok(Version::V1) } else { Err(UnsupportedVersion) }
}

/// The session of a connection.
struct ServerSession {
    tls: Session,
    suite: Suite,
    /// The secrets of the next update of keys.
    next: Option<Secrets>,
    /// Whether the connection knows that the handshake is complete.
    is_reported: bool,
}

impl crypto::Session for ServerSession {
    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        initial_keys(self.suite, id, side)
    }

    /// An `Arc<Tls>`, once the handshake is complete or early data is accepted; a `String` that says why the result is not accepted.
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        Some(match self.tls.outcome() {
            Some(Ok(tls)) => Box::new(tls.clone()),
            Some(Err(reason)) => Box::new(reason.clone()),
            None => Box::new(self.tls.early_outcome()?),
        })
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.tls.early_keys()?;
        Some((Box::new(keys.header), Box::new(keys.packet)))
    }

    /// For clients.
    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    fn read_handshake(&mut self, messages: &[u8]) -> Result<bool, TransportError> {
        self.tls.read(messages).map_err(|failure| TransportError {
            code: TransportErrorCode::crypto(failure.alert),
            frame: None,
            reason: failure.reason,
        })?;
        let is_complete = !self.tls.is_handshaking();
        Ok(is_complete && !std::mem::replace(&mut self.is_reported, is_complete))
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let encoded = self.tls.peer_parameters();
        let read = |encoded| TransportParameters::read(Side::Server, &mut Cursor::new(encoded));
        Ok(encoded.map(read).transpose()?)
    }

    fn write_handshake(&mut self, messages: &mut Vec<u8>) -> Option<Keys> {
        Some(match self.tls.write(messages)? {
            KeyChange::Handshake { keys } => pair(keys.local, keys.remote),
            KeyChange::OneRtt { keys, next } => {
                self.next = Some(next);
                pair(keys.local, keys.remote)
            }
        })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) })
    }

    /// Servers receive none.
    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        false
    }

    fn export_keying_material(
        &self,
        _: &mut [u8],
        _: &[u8],
        _: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

/// Returns the keys of the first packets, which everyone can derive (RFC 9001 §5.2).
fn initial_keys(suite: Suite, id: &ConnectionId, side: Side) -> Keys {
    let keys = suite.keys(id, side.into(), Version::V1);
    pair(keys.local, keys.remote)
}

fn pair(local: DirectionalKeys, remote: DirectionalKeys) -> Keys {
    Keys {
        header: KeyPair { local: Box::new(local.header), remote: Box::new(remote.header) },
        packet: KeyPair { local: Box::new(local.packet), remote: Box::new(remote.packet) },
    }
}
