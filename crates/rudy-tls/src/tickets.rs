//! Session tickets (RFC 5077 §4): keys that processes and machines can share, and tickets that are bound to a policy.
//!
//! rustls has tickets too, but its keys cannot be exported, so a session would not survive a restart.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use aws_lc_rs::error::Unspecified;
use rudy_runtime::clock;
use rustls::server::ProducesTickets;

/// A ticket is the name of its key, a nonce, and the encrypted state with its time of issue.
const NAME_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
const TIME_BYTES: usize = 8;

/// The lifetime of tickets, as in nginx (`ssl_session_timeout` is shorter, but OpenSSL's tickets are valid for two
/// hours). RFC 8446 §4.6.1 allows seven days, at the cost of forward secrecy.
const LIFETIME: Duration = Duration::from_hours(12);

/// The lifetime for sites that ask for client certificates, which may be revoked or expire meanwhile.
const LIFETIME_WITH_CLIENT_CERTIFICATES: Duration = Duration::from_hours(1);

/// The length of a key in a file: 16 bytes of name and 32 bytes of secret. nginx has the same format
/// (`ssl_session_ticket_key`).
pub const TICKET_KEY_BYTES: usize = NAME_BYTES + 32;

/// A key that encrypts tickets.
pub struct TicketKey {
    name: [u8; NAME_BYTES],
    key: RandomizedNonceKey,
}

impl TicketKey {
    /// Returns random bytes for [`Self::new`].
    ///
    /// # Errors
    ///
    /// The system provides no random bytes.
    pub fn random() -> Result<[u8; TICKET_KEY_BYTES], Unspecified> {
        let mut bytes = [0; TICKET_KEY_BYTES];
        aws_lc_rs::rand::fill(&mut bytes)?;
        Ok(bytes)
    }

    /// Creates a key from 16 bytes of name and 32 bytes of secret.
    #[must_use]
    pub fn new(bytes: &[u8; TICKET_KEY_BYTES]) -> Option<Self> {
        let (name, secret) = bytes.split_first_chunk::<NAME_BYTES>()?;
        Some(Self { name: *name, key: RandomizedNonceKey::new(&AES_256_GCM, secret).ok()? })
    }
}

/// Shows the name only.
impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TicketKey({:x?})", self.name)
    }
}

/// The keys of all sites: the first encrypts, all decrypt.
#[derive(Debug, Default)]
pub struct TicketKeys(ArcSwap<Vec<TicketKey>>);

impl TicketKeys {
    /// Replaces the keys with those in a file, one behind the other. Returns whether it consists of keys.
    pub fn set_from(&self, bytes: &[u8]) -> bool {
        let (keys, rest) = bytes.as_chunks::<TICKET_KEY_BYTES>();
        let keys: Option<Vec<_>> = keys.iter().map(TicketKey::new).collect();
        let keys = keys.filter(|keys| rest.is_empty() && !keys.is_empty());
        keys.map(|keys| self.set(keys)).is_some()
    }

    /// Replaces the keys.
    fn set(&self, keys: Vec<TicketKey>) {
        self.0.store(Arc::new(keys));
    }
}

/// The hash of everything that decides whether a client is accepted: the minimum version, cipher suites and groups, whether there are
/// tickets, and what client certificates are requested and used. A session of another policy is never resumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Policy(pub [u8; 32]);

/// Encrypts and decrypts the tickets of sites with one TLS policy.
///
/// The hash of the policy is authenticated with each ticket. A ticket from before a change of the policy, such as new
/// authorities of client certificates, leads to a full handshake (CVE-2025-23419 is a server that does not check this).
#[derive(Debug, Clone)]
pub struct Ticketer {
    keys: Arc<TicketKeys>,
    policy: Policy,
    lifetime: Duration,
}

impl Ticketer {
    /// Creates the ticketer of sites with this policy, which ask for client certificates or do not.
    #[must_use]
    pub fn new(keys: Arc<TicketKeys>, policy: Policy, asks_clients: bool) -> Self {
        let lifetime = if asks_clients { LIFETIME_WITH_CLIENT_CERTIFICATES } else { LIFETIME };
        Self { keys, policy, lifetime }
    }

    fn authenticated(&self, key: &TicketKey) -> [u8; NAME_BYTES + 32] {
        let mut data = [0; NAME_BYTES + 32];
        data[..NAME_BYTES].copy_from_slice(&key.name);
        data[NAME_BYTES..].copy_from_slice(&self.policy.0);
        data
    }

    /// Encrypts a state at this time. `None` without keys.
    #[must_use]
    pub fn encrypt_at(&self, plain: &[u8], now: SystemTime) -> Option<Vec<u8>> {
        let keys = self.keys.0.load();
        let key = keys.first()?;
        let now_s = now.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
        let mut state = [&now_s.to_be_bytes(), plain].concat();
        let nonce = key.key.seal_in_place_append_tag(Aad::from(self.authenticated(key)), &mut state).ok()?;
        Some([&key.name, &nonce.as_ref()[..], &state].concat())
    }

    /// Decrypts a ticket at this time. `None` if it has expired, or is from other keys or another policy.
    #[must_use]
    pub fn decrypt_at(&self, ticket: &[u8], now: SystemTime) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, state) = rest.split_first_chunk::<NONCE_BYTES>()?;
        let keys = self.keys.0.load();
        let key = keys.iter().find(|key| key.name == *name)?;
        let mut state = state.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = key.key.open_in_place(nonce, Aad::from(self.authenticated(key)), &mut state).ok()?;
        let (issued_s, plain) = plain.split_first_chunk::<TIME_BYTES>()?;
        let issued =
            SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(u64::from_be_bytes(*issued_s)))?;
        // A ticket from the future is from a machine whose clock is fast.
        let age = now.duration_since(issued).unwrap_or_default();
        (age <= self.lifetime).then(|| plain.to_vec())
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        !self.keys.0.load().is_empty()
    }

    fn lifetime(&self) -> u32 {
        self.lifetime.as_secs().try_into().unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.encrypt_at(plain, clock::utc())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.decrypt_at(cipher, clock::utc())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn keys(numbers: &[u8]) -> Arc<TicketKeys> {
        let keys = Arc::<TicketKeys>::default();
        keys.set(numbers.iter().map(|number| TicketKey::new(&[*number; 48]).unwrap()).collect());
        keys
    }

    fn ticketer(keys: &Arc<TicketKeys>, policy: u8) -> Ticketer {
        Ticketer::new(keys.clone(), Policy([policy; 32]), false)
    }

    #[test]
    fn the_first_key_encrypts_and_all_decrypt() {
        let [old, both, new] = [&[1][..], &[2, 1], &[2]].map(keys);
        let [old, both, new] = [&old, &both, &new].map(|keys| ticketer(keys, 0));
        let open = |by: &Ticketer, ticket: &[u8]| by.decrypt_at(ticket, NOW);
        let ticket = old.encrypt_at(b"state", NOW).unwrap();
        assert_eq!(open(&both, &ticket).as_deref(), Some(&b"state"[..]));
        assert_eq!(open(&new, &ticket), None);
        let ticket = both.encrypt_at(b"state", NOW).unwrap();
        assert_eq!(open(&new, &ticket).as_deref(), Some(&b"state"[..]));
        assert_eq!(open(&old, &ticket), None);
        assert!(!ticketer(&keys(&[]), 0).enabled());
    }

    #[test]
    fn a_ticket_is_valid_for_its_policy_and_lifetime_and_unchanged() {
        let keys = keys(&[1]);
        let site = ticketer(&keys, 0);
        let ticket = site.encrypt_at(b"state", NOW).unwrap();
        assert_eq!(ticketer(&keys, 1).decrypt_at(&ticket, NOW), None);
        let after = |time: Duration| site.decrypt_at(&ticket, NOW + time).is_some();
        assert!(after(LIFETIME) && !after(LIFETIME + Duration::from_secs(1)));
        let with_clients = Ticketer::new(keys.clone(), Policy([0; 32]), true);
        assert!(with_clients.decrypt_at(&ticket, NOW + Duration::from_hours(1)).is_some());
        assert_eq!(with_clients.decrypt_at(&ticket, NOW + Duration::from_secs(3601)), None);
        for index in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[index] ^= 1;
            assert_eq!(site.decrypt_at(&changed, NOW), None, "byte {index}");
            assert_eq!(site.decrypt_at(&ticket[..index], NOW), None, "{index} bytes");
        }
        assert_ne!(site.encrypt_at(b"state", NOW).unwrap(), ticket, "the nonce is random");
    }
}
