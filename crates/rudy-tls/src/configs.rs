//! The settings of rustls for the clients of a site.

use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use rudy_runtime::clock;
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::UnixTime;
use rustls::server::NoServerSessionStorage;
use rustls::time_provider::TimeProvider;
use rustls::{Error, ServerConfig, SupportedProtocolVersion, version};

use crate::by_key_type::ByKeyType;
use crate::crypto::provider_for;
use crate::single_use::SessionsOfPolicy;
use crate::site_settings::{SiteSettings, Version};
use crate::{ClientHello, HTTP3, Ticketer};

/// The maximum early data of a connection: a record, as in nginx. A request without a body is a tenth of it.
const EARLY_DATA_BYTES_MAX: u32 = 16 * 1024;

/// The settings of rustls for the clients of a site.
#[derive(Debug)]
pub(crate) struct Configs {
    usual: Pair,
    /// For clients that have a group of the list, in its order. rustls would choose the first group of the client. Empty without a list.
    by_group: Vec<(u16, Pair)>,
}

/// The settings for both orders of cipher suites.
#[derive(Debug)]
struct Pair {
    /// With our order.
    ours: Config,
    /// With the client's order.
    for_chacha: Config,
}

/// The settings for connections over TCP and QUIC.
#[derive(Debug)]
struct Config {
    tcp: Arc<ServerConfig>,
    /// Made for the first connection: most sites of a server with thousands have none.
    quic: OnceLock<Arc<ServerConfig>>,
}

impl Configs {
    pub(crate) fn new(
        settings: &SiteSettings,
        certificates: &Arc<ByKeyType>,
        ticketer: &Ticketer,
    ) -> Result<Self, Error> {
        let provider = provider_for(&settings.cipher_suites, &settings.groups);
        let pair = |groups: &[&'static dyn SupportedKxGroup]| {
            let provider = CryptoProvider { kx_groups: groups.to_vec(), ..provider.clone() };
            config(settings, provider, certificates, ticketer).map(Pair::new)
        };
        let groups = if settings.groups.is_empty() { &[][..] } else { &provider.kx_groups };
        let by_group = groups.iter().map(|group| Ok((group.name().into(), pair(&[*group])?)));
        Ok(Self { usual: pair(&provider.kx_groups)?, by_group: by_group.collect::<Result<_, Error>>()? })
    }

    /// Returns the settings for a client.
    pub(crate) fn of(&self, hello: &ClientHello) -> Arc<ServerConfig> {
        self.chosen(hello).tcp.clone()
    }

    /// Returns the settings for a client that connects over QUIC.
    pub(crate) fn quic_of(&self, hello: &ClientHello) -> Arc<ServerConfig> {
        let Config { tcp, quic } = self.chosen(hello);
        quic.get_or_init(|| Arc::new(over_quic(tcp))).clone()
    }

    fn chosen(&self, hello: &ClientHello) -> &Config {
        let chosen = self.by_group.iter().find(|(group, _)| hello.groups.contains(group));
        let pair = chosen.map_or(&self.usual, |(_, pair)| pair);
        if hello.prefers_chacha { &pair.for_chacha } else { &pair.ours }
    }
}

impl Pair {
    fn new(for_chacha: ServerConfig) -> Self {
        let mut ours = for_chacha.clone();
        ours.ignore_client_order = true;
        let config = |tcp| Config { tcp: Arc::new(tcp), quic: OnceLock::new() };
        Self { ours: config(ours), for_chacha: config(for_chacha) }
    }
}

/// Returns the same settings for HTTP/3.
fn over_quic(tcp: &ServerConfig) -> ServerConfig {
    let mut config = tcp.clone();
    config.alpn_protocols = vec![HTTP3.to_vec()];
    if config.max_early_data_size > 0 {
        // RFC 9001 §4.6.1: the limits of QUIC hold instead.
        config.max_early_data_size = u32::MAX;
    }
    config.send_half_rtt_data = false;
    config
}

/// The time for rustls.
#[derive(Debug)]
struct WallClock;

impl TimeProvider for WallClock {
    fn current_time(&self) -> Option<UnixTime> {
        clock::utc().duration_since(SystemTime::UNIX_EPOCH).ok().map(UnixTime::since_unix_epoch)
    }
}

fn config(
    settings: &SiteSettings,
    provider: CryptoProvider,
    certificates: &Arc<ByKeyType>,
    ticketer: &Ticketer,
) -> Result<ServerConfig, Error> {
    let versions: &[&SupportedProtocolVersion] = match settings.min_version {
        Version::Tls12 => &[&version::TLS13, &version::TLS12],
        Version::Tls13 => &[&version::TLS13],
    };
    let builder = ServerConfig::builder_with_details(Arc::new(provider), Arc::new(WallClock));
    let builder = builder.with_protocol_versions(versions)?;
    let builder = match &settings.client_certificates {
        Some(clients) => builder.with_client_cert_verifier(clients.verifier.clone()),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(certificates.clone());
    config.alpn_protocols = settings.protocols();
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if let Some(key_log) = &settings.key_log {
        config.key_log = key_log.clone();
    }
    if let Some(sessions) = &settings.early_data {
        config.max_early_data_size = EARLY_DATA_BYTES_MAX;
        // Responds to early data before the handshake is complete, which saves the round trip.
        config.send_half_rtt_data = true;
        let (sessions, ticketer) = (sessions.clone(), ticketer.clone());
        config.session_storage = Arc::new(SessionsOfPolicy { sessions, ticketer });
    } else if settings.has_no_tickets {
        config.send_tls13_tickets = 0;
    } else {
        config.ticketer = Arc::new(ticketer.clone());
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use rustls::NamedGroup::{self, X25519, X25519MLKEM768, secp256r1, secp384r1};

    use super::*;
    use crate::{TicketKeys, TlsSite};

    /// Returns the groups that a site with this list has for a client with these groups.
    fn groups(list: &[&'static str], of_client: &[NamedGroup]) -> Vec<NamedGroup> {
        let settings = SiteSettings { groups: list.to_vec(), ..SiteSettings::default() };
        let site = TlsSite::new(&settings, &Arc::<TicketKeys>::default()).unwrap();
        let groups = of_client.iter().map(|group| u16::from(*group)).collect();
        let config = site.config(&ClientHello { groups, ..ClientHello::default() });
        config.crypto_provider().kx_groups.iter().map(|group| group.name()).collect()
    }

    #[test]
    fn a_client_gets_the_first_group_of_the_list_that_it_has() {
        let list = ["X25519MLKEM768", "secp384r1", "X25519"];
        for (of_client, expected) in [
            (&[X25519, secp384r1, X25519MLKEM768][..], &[X25519MLKEM768][..]),
            (&[X25519, secp256r1, secp384r1], &[secp384r1]),
            (&[secp256r1, X25519], &[X25519]),
            // The handshake fails.
            (&[secp256r1], &[X25519MLKEM768, secp384r1, X25519]),
        ] {
            assert_eq!(groups(&list, of_client), expected, "{of_client:?}");
        }
        assert_eq!(groups(&[], &[secp256r1]), [X25519MLKEM768, X25519, secp256r1, secp384r1]);
    }
}
