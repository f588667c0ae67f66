//! The sessions that a load generator resumes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Maximum number of unused tickets. A ticket has a few kilobytes, with the certificates of the server.
const TICKETS_MAX: usize = 4096;

/// The sessions with one server. rustls keeps eight tickets at most, so that of many connections that are opened at once, most would
/// not be resumed.
#[derive(Debug, Default)]
pub struct SessionStore(Mutex<Stored>);

#[derive(Debug, Default)]
struct Stored {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    /// Each is used once (RFC 8446 §C.4), the newest first.
    tickets: Vec<Tls13ClientSessionValue>,
}

impl SessionStore {
    fn lock(&self) -> MutexGuard<'_, Stored> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for SessionStore {
    fn set_kx_hint(&self, _server: ServerName<'static>, group: NamedGroup) {
        self.lock().group = Some(group);
    }

    fn kx_hint(&self, _server: &ServerName<'_>) -> Option<NamedGroup> {
        self.lock().group
    }

    fn set_tls12_session(&self, _server: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.lock().tls12 = Some(value);
    }

    fn tls12_session(&self, _server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.lock().tls12.clone()
    }

    fn remove_tls12_session(&self, _server: &ServerName<'static>) {
        self.lock().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _server: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut stored = self.lock();
        if stored.tickets.len() < TICKETS_MAX {
            stored.tickets.push(value);
        }
    }

    fn take_tls13_ticket(&self, _server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.lock().tickets.pop()
    }
}
