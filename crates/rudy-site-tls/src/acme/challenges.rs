//! The challenges of authorities, which every process on the state folder answers.
//!
//! They are read from the folder every few seconds and not on request: a flood of requests for challenges reads no files.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{Method, StatusCode};
use rudy_acme::Challenge;
use rudy_pipeline::CHALLENGE_PATH;
use rudy_runtime::{clock, is_planted};
use rudy_service::{Request, Response};
use rudy_tls::{TlsSite, challenge_site};

use super::folder::{hash, write};

/// The time after which all processes on the folder have read a new file: longer than [`INTERVAL`](rudy_system::watched_files::INTERVAL).
pub(super) const VISIBLE_AFTER: Duration = Duration::from_secs(3);

/// The maximum age of a file. An older one was left behind by a process that was killed.
const AGE_MAX: Duration = Duration::from_hours(24);

/// The current challenges.
#[derive(Debug, Default)]
pub struct Challenges {
    /// `None` without a state folder.
    folder: Option<PathBuf>,
    known: ArcSwap<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// What was read, by file name.
    read: HashMap<String, Challenge>,
    /// The contents of files, by token.
    files: HashMap<String, Bytes>,
    /// The settings of handshakes, by server name.
    handshakes: HashMap<String, Arc<TlsSite>>,
}

impl Challenges {
    pub(super) fn in_folder(folder: Option<PathBuf>) -> Self {
        Self { folder, known: ArcSwap::default() }
    }

    /// Responds to the request of an authority. `None` if the path is not that of a current challenge.
    pub fn respond(&self, request: &Request<'_>) -> Option<Response> {
        let token = request.uri().path().strip_prefix(CHALLENGE_PATH)?;
        let content = self.known.load().files.get(token)?.clone();
        if is_planted("a challenge that is not answered") {
            return None;
        }
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        is_read.then(|| Response::text(StatusCode::OK, "application/octet-stream", content))
    }

    /// Returns the settings for the handshake of an authority with this server name.
    pub fn tls_site(&self, server_name: &str) -> Option<Arc<TlsSite>> {
        self.known.load().handshakes.get(server_name).cloned()
    }

    /// Reads the folder again.
    pub fn refresh(&self) {
        let read = self.folder.as_deref().map(read).unwrap_or_default();
        if read != self.known.load().read {
            self.known.store(Arc::new(Known::new(read)));
        }
    }

    /// Writes the challenge for a name where all processes read it.
    pub(super) fn publish(&self, name: &str, challenge: &Challenge) -> Result<(), String> {
        let path = self.path(name).ok_or("there is no state folder")?;
        if let Challenge::TlsAlpn01 { name, digest } = challenge {
            challenge_site(name, digest).map_err(|error| format!("cannot make a certificate: {error}"))?;
        }
        let text = serde_json::to_string(challenge).map_err(|error| error.to_string())?;
        write(&path, text.as_bytes(), true)?;
        self.refresh();
        Ok(())
    }

    /// Removes the challenge for a name. One that stays does no harm: it contains no secret.
    pub(super) fn remove(&self, name: &str) {
        if let Some(path) = self.path(name) {
            let _ = fs::remove_file(path);
        }
        self.refresh();
    }

    /// Returns the challenge for a name that a process has left behind.
    pub(super) fn left_behind(&self, name: &str) -> Option<Challenge> {
        serde_json::from_slice(&fs::read(self.path(name)?).ok()?).ok()
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{}.json", hash(&[name]))))
    }
}

impl Known {
    fn new(read: HashMap<String, Challenge>) -> Self {
        let mut known = Self::default();
        for challenge in read.values() {
            match challenge {
                Challenge::Http01 { token, content } => {
                    known.files.insert(token.clone(), content.clone().into());
                }
                Challenge::TlsAlpn01 { name, digest } => {
                    if let Ok(site) = challenge_site(name, digest) {
                        known.handshakes.insert(server_name(name), Arc::new(site));
                    }
                }
                Challenge::Dns01 { .. } => {}
            }
        }
        known.read = read;
        known
    }
}

/// Reads the current files of the folder.
fn read(folder: &Path) -> HashMap<String, Challenge> {
    let Ok(entries) = fs::read_dir(folder) else { return HashMap::new() };
    let challenge = |entry: fs::DirEntry| {
        let name =
            entry.file_name().into_string().ok().filter(|name| name.strip_suffix(".json").is_some())?;
        let modified = entry.metadata().ok()?.modified().ok()?;
        if clock::utc().duration_since(modified).is_ok_and(|age| age > AGE_MAX) {
            return None;
        }
        Some((name, serde_json::from_slice(&fs::read(entry.path()).ok()?).ok()?))
    };
    entries.flatten().filter_map(challenge).collect()
}

/// Returns the server name that an authority sends for an address: its name in the reverse DNS (RFC 8738 §6).
fn server_name(name: &str) -> String {
    match name.parse() {
        Err(_) => name.to_owned(),
        Ok(std::net::IpAddr::V4(address)) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        Ok(std::net::IpAddr::V6(address)) => {
            let nibbles = address.octets().into_iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
            let nibbles: Vec<_> = nibbles.map(|nibble| format!("{nibble:x}")).collect();
            nibbles.join(".") + ".ip6.arpa"
        }
    }
}

#[cfg(test)]
mod tests {
    use rudy_service::{Body, RequestBody};

    use super::*;

    fn request(method: &str, path: &str) -> Request<'static> {
        http::Request::builder()
            .method(method)
            .uri(path)
            .body(RequestBody::empty())
            .map(Request::from)
            .unwrap()
    }

    #[test]
    fn every_process_on_the_folder_answers_until_the_challenge_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = [0, 1].map(|_| Challenges::in_folder(Some(folder.path().to_owned())));
        let file = Challenge::Http01 { token: "abc".into(), content: "abc.def".into() };
        let handshake = Challenge::TlsAlpn01 { name: "b.test".into(), digest: [7; 32] };
        one.publish("a.test", &file).unwrap();
        one.publish("b.test", &handshake).unwrap();
        for challenges in [&one, &other] {
            challenges.refresh();
            let path = format!("{CHALLENGE_PATH}abc");
            let response = challenges.respond(&request("GET", &path)).unwrap();
            assert!(matches!(response.body, Body::Bytes(body) if body == "abc.def"));
            assert!(challenges.respond(&request("POST", &path)).is_none());
            assert!(challenges.respond(&request("GET", &format!("{CHALLENGE_PATH}../abc"))).is_none());
            assert!(challenges.respond(&request("GET", "/abc")).is_none());
            assert!(challenges.tls_site("b.test").is_some());
            assert!(challenges.tls_site("a.test").is_none());
        }
        assert_eq!(other.left_behind("a.test"), Some(file));
        one.remove("a.test");
        other.refresh();
        assert!(other.respond(&request("GET", &format!("{CHALLENGE_PATH}abc"))).is_none());
    }

    #[test]
    fn the_server_name_of_an_address_is_its_name_in_the_reverse_dns() {
        assert_eq!(server_name("192.0.2.7"), "7.2.0.192.in-addr.arpa");
        let name = server_name("2001:db8::1");
        assert!(name.starts_with("1.0.0.0.") && name.ends_with(".8.b.d.0.1.0.0.2.ip6.arpa"), "{name}");
        assert_eq!(server_name("a.test"), "a.test");
    }
}
