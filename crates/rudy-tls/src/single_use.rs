//! Sessions that are resumed at most once, which makes early data safe from replay (RFC 8446 §8.1).

use std::fmt;
use std::sync::Arc;

use rudy_runtime::clock;
use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};

use crate::Ticketer;

/// The maximum number of sessions, of all sites. Each takes about half a KiB. A handshake adds two.
const SESSIONS_MAX: usize = 16 * 1024;

/// The sessions of all sites with early data, in the memory of this process. The oldest are dropped first.
#[derive(Clone)]
pub struct SingleUseSessions(Arc<ServerSessionMemoryCache>);

impl SingleUseSessions {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self(ServerSessionMemoryCache::new(SESSIONS_MAX))
    }
}

impl Default for SingleUseSessions {
    fn default() -> Self {
        Self::new()
    }
}

/// Shows no sessions: they have secrets.
impl fmt::Debug for SingleUseSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SingleUseSessions")
    }
}

/// The sessions of sites with one policy. The store has tickets instead of the sessions themselves, because tickets are bound to the
/// policy and have a lifetime.
#[derive(Debug)]
pub(crate) struct SessionsOfPolicy {
    pub(crate) sessions: SingleUseSessions,
    pub(crate) ticketer: Ticketer,
}

impl StoresServerSessions for SessionsOfPolicy {
    fn put(&self, id: Vec<u8>, session: Vec<u8>) -> bool {
        let ticket = self.ticketer.encrypt_at(&session, clock::utc());
        ticket.is_some_and(|ticket| self.sessions.0.put(id, ticket))
    }

    /// For TLS 1.2, which has no early data.
    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.ticketer.decrypt_at(&self.sessions.0.get(id)?, clock::utc())
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.ticketer.decrypt_at(&self.sessions.0.take(id)?, clock::utc())
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, TICKET_KEY_BYTES, TicketKeys};

    #[test]
    fn a_session_is_resumed_once_and_only_with_its_policy() {
        let keys = Arc::<TicketKeys>::default();
        assert!(keys.set_from(&[7; TICKET_KEY_BYTES]));
        let sessions = SingleUseSessions::new();
        let of_policy = |policy| SessionsOfPolicy {
            sessions: sessions.clone(),
            ticketer: Ticketer::new(keys.clone(), Policy([policy; 32]), false),
        };
        let (one, other) = (of_policy(1), of_policy(2));
        for id in [b"a", b"b"] {
            assert!(one.put(id.to_vec(), b"session".to_vec()));
        }
        assert_eq!(one.get(b"a").as_deref(), Some(&b"session"[..]));
        assert_eq!(one.take(b"a").as_deref(), Some(&b"session"[..]));
        assert_eq!(one.take(b"a"), None);
        assert_eq!(other.take(b"b"), None, "another policy");
        for number in 0..=SESSIONS_MAX {
            one.put(number.to_be_bytes().to_vec(), b"session".to_vec());
        }
        assert_eq!(one.take(&0_usize.to_be_bytes()), None, "the oldest is dropped");
        assert!(one.take(&SESSIONS_MAX.to_be_bytes()).is_some());
    }
}
