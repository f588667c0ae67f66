//! The first message of a client, from which the server chooses the site.

use std::io::Read;

use rustls::crypto::aws_lc_rs::ALL_KX_GROUPS;
use rustls::server::Acceptor;
use rustls::{CipherSuite, NamedGroup, ProtocolVersion};

use crate::crypto::provider;

/// The protocol that an authority asks for in a challenge (RFC 8737 §6.2).
pub(crate) const CHALLENGE_PROTOCOL: &[u8] = b"acme-tls/1";

/// The alert for a server name without a site (RFC 6066 §3): a record with a fatal `unrecognized_name`.
pub const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// What a client states before the server has chosen its settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// The server name (SNI), in lower case and without a dot at its end.
    pub server_name: Option<String>,
    /// Whether it prefers `ChaCha20` to AES: it is probably a phone without instructions for AES.
    pub prefers_chacha: bool,
    /// The groups of key exchanges that it can use, by their numbers in the registry of IANA. Without TLS 1.3, the groups that only that
    /// version has are not among them, even if the client lists them.
    pub groups: Vec<u16>,
    /// Whether it is an authority that verifies the control of the name (RFC 8737): it offers that protocol only.
    pub is_challenge: bool,
}

/// A first message that is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedHello {
    /// What is wrong with it.
    pub reason: String,
    /// The alert to send.
    pub alert: Vec<u8>,
}

impl ClientHello {
    /// Reads the message at the start of `bytes`. Returns `None` if it is incomplete.
    ///
    /// # Errors
    ///
    /// The message is invalid.
    pub fn read(mut bytes: &[u8]) -> Result<Option<Self>, RejectedHello> {
        let mut acceptor = Acceptor::default();
        loop {
            // Reads at most 4 KiB. Reading from memory fails only if the message is too long.
            let read = acceptor
                .read_tls(&mut bytes as &mut dyn Read)
                .map_err(|error| RejectedHello { reason: error.to_string(), alert: Vec::new() })?;
            match acceptor.accept() {
                Ok(Some(accepted)) => {
                    let hello = accepted.client_hello();
                    return Ok(Some(Self {
                        server_name: hello.server_name().map(normalized),
                        prefers_chacha: prefers_chacha(hello.cipher_suites()),
                        groups: groups(hello.named_groups().unwrap_or_default(), hello.cipher_suites()),
                        is_challenge: hello
                            .alpn()
                            .is_some_and(|protocols| protocols.eq([CHALLENGE_PROTOCOL])),
                    }));
                }
                Ok(None) if read == 0 => return Ok(None),
                Ok(None) => {}
                Err((error, mut alert)) => {
                    let mut bytes = Vec::new();
                    // Writing into memory cannot fail.
                    let _ = alert.write_all(&mut bytes);
                    return Err(RejectedHello { reason: error.to_string(), alert: bytes });
                }
            }
        }
    }
}

impl ClientHello {
    /// Explains that no site was found.
    #[must_use]
    pub fn no_site(&self) -> String {
        match &self.server_name {
            Some(name) => format!("no site with a certificate has this server name: {name}"),
            None => "the client sent no server name, and there is no default site".to_owned(),
        }
    }
}

/// Returns a server name in the form of the names of certificates. RFC 6066 §3 allows no dot at its end, but clients send it if it is
/// in the URL; nginx ignores it, too.
pub(crate) fn normalized(server_name: &str) -> String {
    server_name.strip_suffix('.').unwrap_or(server_name).to_ascii_lowercase()
}

/// Whether the first suite that we have uses `ChaCha20`. Browsers put random numbers before it (RFC 8701).
fn prefers_chacha(suites: &[CipherSuite]) -> bool {
    let known = |suite: &&CipherSuite| provider().cipher_suites.iter().any(|known| known.suite() == **suite);
    let first = suites.iter().find(known).and_then(CipherSuite::as_str);
    first.is_some_and(|name| name.contains("CHACHA20"))
}

/// Returns the groups that a client can use, which has TLS 1.3 if it offers one of its suites.
fn groups(listed: &[NamedGroup], suites: &[CipherSuite]) -> Vec<u16> {
    let is_new = |suite: &CipherSuite| suite.as_str().is_some_and(|name| name.starts_with("TLS13_"));
    let has_tls13 = suites.iter().any(is_new);
    let is_usable = |group: &&NamedGroup| {
        let known = ALL_KX_GROUPS.iter().find(|known| known.name() == **group);
        has_tls13 || known.is_some_and(|known| known.usable_for_version(ProtocolVersion::TLSv1_2))
    };
    listed.iter().filter(is_usable).map(|group| u16::from(*group)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Trust;

    #[test]
    fn a_dot_at_the_end_of_the_server_name_is_ignored() {
        let config = Trust::All.client_config().unwrap();
        // rustls sends no dot.
        let name = "A.examplex".to_owned();
        let mut client = rustls::ClientConnection::new(config, name.clone().try_into().unwrap()).unwrap();
        let mut hello = Vec::new();
        client.write_tls(&mut hello).unwrap();
        let at = hello.windows(name.len()).position(|part| part == name.as_bytes()).unwrap();
        hello[at + name.len() - 1] = b'.';
        let hello = ClientHello::read(&hello).unwrap().unwrap();
        assert_eq!(hello.server_name.as_deref(), Some("a.example"));
    }

    #[test]
    fn a_group_of_tls_1_3_counts_only_if_the_client_has_that_version() {
        use NamedGroup::{MLKEM768, X25519, X25519MLKEM768, secp256r1};
        const NEW: CipherSuite = CipherSuite::TLS13_AES_128_GCM_SHA256;
        const OLD: CipherSuite = CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256;
        let listed = [X25519MLKEM768, NamedGroup::Unknown(0x0a0a), secp256r1, MLKEM768, X25519];
        let all = listed.map(u16::from);
        assert_eq!(groups(&listed, &[OLD, NEW]), all);
        assert_eq!(groups(&listed, &[OLD]), [secp256r1, X25519].map(u16::from));
    }

    #[test]
    fn the_first_known_suite_decides_what_the_client_prefers() {
        const AES: CipherSuite = CipherSuite::TLS13_AES_256_GCM_SHA384;
        const CHACHA: CipherSuite = CipherSuite::TLS13_CHACHA20_POLY1305_SHA256;
        const RANDOM: CipherSuite = CipherSuite::Unknown(0x0a0a);
        const OLD: CipherSuite = CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA;
        assert!(prefers_chacha(&[RANDOM, OLD, CHACHA, AES]));
        assert!(!prefers_chacha(&[RANDOM, AES, CHACHA]));
        assert!(!prefers_chacha(&[OLD]));
    }
}
