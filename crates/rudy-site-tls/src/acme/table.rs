//! The `acme` table.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rudy_acme::{AccountRequest, Authority, ChallengeKind, ExternalAccount};
use rudy_config::{Command, FilePath, OneOrMany, Table, Words};
use rudy_tls::Trust;
use rudy_units::Time;

use super::hook::Hook;

/// The directory of Let's Encrypt.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// Its directory for tests, whose certificates browsers reject.
const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

/// The time that the name servers of most providers need.
const DNS_DELAY: Duration = Duration::from_secs(10);

/// The authority that signs the certificates of sites with `tls = "auto"`, and how it verifies that their names lead here.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(default)]
pub struct AcmeTable {
    /// E-mail address that the authority may write to, for example about a security problem.
    #[setting(example = "admin@example.org")]
    pub email: Option<String>,
    /// URL of the authority's directory (RFC 8555). The default is Let's Encrypt.
    #[setting(example = "https://acme.example.org/directory")]
    pub directory: Option<String>,
    /// Uses the test authority, whose certificates browsers reject, and which has generous limits.
    #[setting(example = true)]
    pub staging: bool,
    /// URL of the directory of a test authority, which is asked after two failures until it can verify a name, so that the limits of
    /// `directory` are not used up. The default is that of Let's Encrypt, if `directory` is.
    #[setting(example = "https://acme-staging.example.org/directory")]
    pub test_directory: Option<String>,
    /// File with the certificates that the authority's own server is trusted by, in PEM, for an authority in a company. The default
    /// is those of the operating system.
    #[setting(example = "/etc/ssl/company.pem")]
    pub authority: Option<FilePath>,
    /// Profile of the certificates, of those that the authority offers: `shortlived` of Let's Encrypt is valid for six days.
    #[setting(example = "shortlived")]
    pub profile: Option<String>,
    /// Key for an account of another kind that the authority requires.
    #[setting(example = { key_id = "kid-1", key = "${ACME_KEY}" })]
    pub external_account: Option<ExternalAccountTable>,
    /// How the authority verifies a name, tried in turn: `http-01` (a file over plain HTTP on port 80), `tls-alpn-01` (a handshake on
    /// port 443), `dns-01` (a TXT record, through `dns_hook`; the only way for wildcards). The default is `dns-01` with a `dns_hook`,
    /// and otherwise the first two, as far as there are addresses for them.
    #[setting(example = ["tls-alpn-01"])]
    pub challenges: Option<OneOrMany<ChallengeName>>,
    /// Program that sets and removes TXT records, and its arguments. It is called with `present` or `cleanup`, the name of the record
    /// and its value, like the programs for lego and Traefik. A program name with a slash is relative to the configuration file.
    #[setting(example = ["/usr/local/bin/dns-record"])]
    pub dns_hook: Option<Command>,
    /// Time that all name servers need for a new record, after the hook has ended. The default is 10 s.
    #[setting(example = "2m")]
    pub dns_delay: Option<Time>,
}

/// A key that binds the account to one of another kind (RFC 8555 §7.3.4).
#[derive(Clone, PartialEq, Eq, Table)]
pub struct ExternalAccountTable {
    /// Identifier of the key.
    #[setting(example = "kid-1")]
    pub key_id: String,
    /// Key as the authority shows it, in Base64 for URLs.
    #[setting(example = "${ACME_KEY}")]
    pub key: String,
}

impl fmt::Debug for ExternalAccountTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is a secret.
        f.debug_struct("ExternalAccountTable").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// A kind of challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum ChallengeName {
    /// A file over plain HTTP, on port 80.
    #[setting(name = "http-01")]
    Http01,
    /// A handshake, on port 443.
    #[setting(name = "tls-alpn-01")]
    TlsAlpn01,
    /// A TXT record, which `dns_hook` sets.
    #[setting(name = "dns-01")]
    Dns01,
}

impl From<ChallengeName> for ChallengeKind {
    fn from(name: ChallengeName) -> Self {
        match name {
            ChallengeName::Http01 => Self::Http01,
            ChallengeName::TlsAlpn01 => Self::TlsAlpn01,
            ChallengeName::Dns01 => Self::Dns01,
        }
    }
}

impl AcmeTable {
    /// The directory of the authority whose certificates are served.
    #[must_use]
    pub fn directory(&self) -> &str {
        match (&self.directory, self.staging) {
            (_, true) => self.test_directory().unwrap_or(LETS_ENCRYPT_STAGING),
            (Some(directory), false) => directory,
            (None, false) => LETS_ENCRYPT,
        }
    }

    /// The directory of the authority for tests.
    fn test_directory(&self) -> Option<&str> {
        let of_lets_encrypt = || {
            let is_default = self.directory.as_deref().is_none_or(|directory| directory == LETS_ENCRYPT);
            is_default.then_some(LETS_ENCRYPT_STAGING)
        };
        self.test_directory.as_deref().or_else(of_lets_encrypt)
    }

    /// Returns the authority that signs.
    #[must_use]
    pub fn authority(&self) -> Authority {
        Authority { directory: self.directory().to_owned(), trust: self.trust() }
    }

    /// The authority for tests, if it is another one.
    #[must_use]
    pub fn test_authority(&self) -> Option<Authority> {
        let directory = self.test_directory().filter(|test| *test != self.directory())?.to_owned();
        Some(Authority { directory, trust: self.trust() })
    }

    fn trust(&self) -> Trust {
        self.authority.as_ref().map_or(Trust::Platform, |file| Trust::File(file.0.clone()))
    }

    /// What a new account needs. `None` if the key is not valid.
    #[must_use]
    pub fn account(&self) -> Option<AccountRequest> {
        let external = |table: &ExternalAccountTable| {
            let key = BASE64_URL_SAFE_NO_PAD.decode(table.key.trim_end_matches('=')).ok()?;
            Some(ExternalAccount { key_id: table.key_id.clone(), key })
        };
        let external_account = match &self.external_account {
            Some(table) => Some(external(table)?),
            None => None,
        };
        Some(AccountRequest { email: self.email.clone(), external_account })
    }

    pub(super) fn hook(&self) -> Option<Hook> {
        let command = self.dns_hook.as_ref()?.0.clone();
        let delay = self.dns_delay.map_or(DNS_DELAY, |delay| delay.0);
        Some(Hook { command, delay })
    }

    /// The challenges for a name, in the order in which they are tried. `has_http` is whether an address accepts plain HTTP.
    pub fn kinds(&self, name: &str, has_http: bool) -> Vec<ChallengeKind> {
        if name.starts_with("*.") {
            return self.dns_hook.iter().map(|_| ChallengeKind::Dns01).collect();
        }
        match &self.challenges {
            Some(names) => names.as_slice().iter().copied().map(ChallengeKind::from).collect(),
            None if self.dns_hook.is_some() => vec![ChallengeKind::Dns01],
            None if has_http => vec![ChallengeKind::Http01, ChallengeKind::TlsAlpn01],
            None => vec![ChallengeKind::TlsAlpn01],
        }
    }
}
