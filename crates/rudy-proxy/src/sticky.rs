//! Upstreams that keep the requests of a client, by a cookie.
//!
//! The value of the cookie is a keyed hash (HMAC) of the URL of the upstream: a client can neither learn nor choose an upstream with it. It is
//! valid as long as the URL is in the configuration and the key exists, which is a file in the state folder.

use std::fmt::{self, Display};
use std::fs;
use std::io;
use std::path::Path;

use aws_lc_rs::{hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{HeaderMap, HeaderValue, SET_COOKIE};
use http::uri::Scheme;
use rudy_config::{Table, Words};
use rudy_message::LazyHead;
use rudy_pipeline::parts::{CookieName, cookies};
use rudy_service::Client;
use rudy_system::state_dir;
use rudy_units::Time;

/// How many bytes of a hash are in a cookie: too many to guess.
const TOKEN_BYTES: usize = 16;

/// The size of the key: that of the hash (RFC 2104 §3).
const KEY_BYTES: usize = 32;

/// The file of the key in the state folder.
const KEY_FILE: &str = "sticky-key";

/// A cookie that sends the requests of a client to the same upstream: a table, or its name alone.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(short(cookie), what = "the name of a cookie (\"upstream\") or a table")]
pub struct StickyTable {
    /// Name of the cookie.
    #[setting(example = "upstream")]
    pub cookie: CookieName,
    /// From which other sites browsers send the cookie: `lax` from links to a page, `strict` from none, `none` from all, over HTTPS only.
    #[setting(default)]
    pub same_site: SameSite,
    /// How long browsers keep the cookie. The default is until they are closed.
    #[setting(example = "7d")]
    pub max_age: Option<Time<1000, 34_560_000_000>>,
}

/// From which other sites browsers send a cookie (RFC 6265bis §5.6.7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Words)]
pub enum SameSite {
    /// From links to a page.
    #[default]
    Lax,
    /// From none.
    Strict,
    /// From all, over HTTPS only.
    None,
}

/// The cookies of a proxy.
#[derive(Debug)]
pub(super) struct Sticky {
    table: StickyTable,
    /// The value of the cookie for each upstream, by its id.
    tokens: Vec<String>,
}

/// What the cookie of a request says, and how to set it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stickiness {
    /// The id of the upstream that the client is sent to.
    pub(super) preferred: Option<u64>,
    is_https: bool,
}

impl Sticky {
    /// Creates the cookies for these upstreams.
    pub(super) fn new(
        table: &StickyTable,
        urls: impl Iterator<Item = impl Display>,
        key: &StickyKey,
    ) -> Self {
        let token = |url| key.token(&format!("{}={url}", table.cookie));
        Self { table: table.clone(), tokens: urls.map(token).collect() }
    }

    /// Returns what the cookie of a request says.
    pub(super) fn of(&self, head: &LazyHead<'_>, client: &Client<'_>) -> Stickiness {
        let token = cookies(head, &self.table.cookie.0).next();
        let preferred =
            token.and_then(|given| (0..).zip(&self.tokens).find(|(_, token)| token.as_bytes() == given));
        Stickiness { preferred: preferred.map(|(id, _)| id), is_https: client.scheme() == Scheme::HTTPS }
    }

    /// Adds the cookie for the upstream that has served a request, unless the client has it, or there is no other upstream.
    pub(super) fn set(&self, fields: &mut HeaderMap, stickiness: Stickiness, member: u64) {
        let Stickiness { preferred, is_https } = stickiness;
        let token = usize::try_from(member).ok().and_then(|id| self.tokens.get(id));
        let Some(token) = token.filter(|_| preferred != Some(member) && self.tokens.len() > 1) else {
            return;
        };
        let StickyTable { cookie, same_site, max_age } = &self.table;
        let max_age = max_age.as_ref().map(|time| format!("; Max-Age={}", time.0.as_secs()));
        let secure = if is_https { "; Secure" } else { "" };
        let cookie = format!(
            "{cookie}={token}; Path=/{}{secure}; HttpOnly; SameSite={same_site:?}",
            max_age.unwrap_or_default()
        );
        // Tokens, numbers and words.
        if let Ok(cookie) = HeaderValue::try_from(cookie) {
            fields.append(SET_COOKIE, cookie);
        }
    }
}

/// The key of the cookies of all proxies, and of the links of mirrors to other hosts.
#[derive(Clone)]
pub struct StickyKey(hmac::Key);

impl fmt::Debug for StickyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StickyKey(..)")
    }
}

impl StickyKey {
    /// Reads the key in a state folder, or creates it. If that fails, also returns a line for the log, and the key is in memory.
    #[must_use]
    pub fn in_folder(folder: Option<&Path>) -> (Self, Option<String>) {
        let stored = folder.map(|folder| read_or_create(&folder.join(KEY_FILE)));
        let (bytes, error) = match stored {
            Some(Ok(bytes)) => (bytes, None),
            Some(Err(error)) => (random(), Some(error.to_string())),
            None => (random(), Some("there is no state folder".to_owned())),
        };
        let notice = error.map(|why| {
            format!(
                "cookies of `sticky` do not survive a restart, nor do links of `mirror` to other hosts, because their key cannot be \
                 stored: {why}; set \
                 `StateDirectory=rudy` in the systemd unit, or $XDG_STATE_HOME"
            )
        });
        (Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)), notice)
    }

    /// Returns a text that only the holder of the key can make of this one.
    #[must_use]
    pub fn token(&self, text: &str) -> String {
        let tag = hmac::sign(&self.0, text.as_bytes());
        URL_SAFE_NO_PAD.encode(&tag.as_ref()[..TOKEN_BYTES])
    }
}

fn random() -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    // Without random bytes, no TLS works either; the hash then only hides URLs from those who do not know this.
    let _ = rand::fill(&mut bytes);
    bytes
}

/// Returns the key in a file, which is created if it is missing. Two processes may do so at once.
fn read_or_create(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let read = || {
        let bytes = fs::read(path)?;
        let length = bytes.len();
        bytes.try_into().map_err(|_| {
            io::Error::other(format!("{} has {length} bytes, expected {KEY_BYTES}", path.display()))
        })
    };
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let bytes = random();
            match state_dir::write(path, &bytes, false) {
                Ok(()) => Ok(bytes),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(),
                Err(error) => Err(error),
            }
        }
        stored => stored,
    }
}

#[cfg(test)]
mod tests {
    use rudy_service::Peer;

    use super::*;

    fn sticky(folder: &Path, urls: &[&str]) -> Sticky {
        let table = StickyTable::from("lb".parse::<CookieName>().unwrap());
        Sticky::new(&table, urls.iter(), &StickyKey::in_folder(Some(folder)).0)
    }

    fn client() -> Client<'static> {
        Client::new(Peer::Unix, 1, 1)
    }

    fn stickiness(sticky: &Sticky, cookie: &str) -> Option<u64> {
        let mut head = LazyHead::default();
        head.set(http::header::COOKIE, HeaderValue::try_from(cookie).unwrap());
        sticky.of(&head, &client()).preferred
    }

    /// Returns the cookie that is set for an upstream.
    fn set(sticky: &Sticky, stickiness: Stickiness, member: u64) -> Option<String> {
        let mut fields = HeaderMap::new();
        sticky.set(&mut fields, stickiness, member);
        fields.get(SET_COOKIE).map(|value| value.to_str().unwrap().to_owned())
    }

    const NONE: Stickiness = Stickiness { preferred: None, is_https: true };

    #[test]
    fn a_cookie_leads_to_its_upstream_also_after_a_restart_in_another_order() {
        let folder = tempfile::tempdir().unwrap();
        let first = sticky(folder.path(), &["http://a", "http://b"]);
        let cookie = set(&first, NONE, 1).unwrap();
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        assert_eq!(attributes, "Path=/; Secure; HttpOnly; SameSite=Lax");
        assert_eq!(stickiness(&first, &format!("x=y; {pair}")), Some(1));
        let second = sticky(folder.path(), &["http://c", "http://b", "http://a"]);
        assert_eq!(stickiness(&second, pair), Some(1));
        assert_eq!(
            stickiness(&sticky(folder.path(), &["http://c", "http://a"]), pair),
            None,
            "it was removed"
        );
        let other = tempfile::tempdir().unwrap();
        assert_eq!(stickiness(&sticky(other.path(), &["http://a", "http://b"]), pair), None, "another key");
        for forged in ["lb=", "lb=http://b", "lb=1", "other=1"] {
            assert_eq!(stickiness(&first, forged), None, "{forged}");
        }
    }

    #[test]
    fn a_cookie_is_set_if_the_upstream_changes() {
        let folder = tempfile::tempdir().unwrap();
        let two = sticky(folder.path(), &["http://a", "http://b"]);
        let plain = Stickiness { preferred: Some(1), is_https: false };
        assert_eq!(set(&two, plain, 1), None);
        assert!(!set(&two, plain, 0).unwrap().contains("Secure"));
        assert_eq!(set(&sticky(folder.path(), &["http://a"]), NONE, 0), None);
        let (max_age, cookie) = (Time(std::time::Duration::from_mins(1)), "lb".parse().unwrap());
        let table = StickyTable { cookie, same_site: SameSite::None, max_age: Some(max_age) };
        let kept = Sticky { table, ..two };
        let cookie = set(&kept, NONE, 0).unwrap();
        assert!(cookie.ends_with("; Path=/; Max-Age=60; Secure; HttpOnly; SameSite=None"), "{cookie}");
    }

    #[test]
    fn without_a_folder_the_key_is_in_memory() {
        let (_, notice) = StickyKey::in_folder(Some("/proc/no".as_ref()));
        assert!(notice.unwrap().starts_with("cookies of `sticky` do not survive a restart"));
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(KEY_FILE), "short").unwrap();
        let (_, notice) = StickyKey::in_folder(Some(folder.path()));
        assert!(notice.unwrap().contains("has 5 bytes, expected 32"));
    }
}
