//! Sets of metadata in a repository for apt: `InRelease` or `Release` has the checksums of the other files of its folder, `Release.gpg` its
//! signature. After one of them has changed, the mirror updates the others, so that those it sends are of the same version, also while the
//! repository is down.
//!
//! Files by hash are in no set: their names are those of a version.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CACHE_CONTROL, HeaderValue};
use http::{Method, StatusCode};
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use rudy_caching::Origin;
use rudy_pipeline::internal_redirect::CONDITIONAL_FIELDS;
use rudy_pipeline::request_state::{HasRequestState, HasResponseState};
use rudy_service::{Body, Response, poll_time};
use tokio::time::timeout;

use super::{Preset, Resource};

/// The files that describe a set, in its folder.
const HEADS: [&str; 3] = ["InRelease", "Release", "Release.gpg"];

/// The number of sets to remember: suites of a repository. The files of others are validated each by itself.
const SETS: usize = 256;

/// The number of files of a set to remember.
const MEMBERS_MAX: usize = 32;

/// After how many updates a file is forgotten that no client has requested meanwhile. The first requests for the heads count, too.
const UNUSED_MAX: u8 = 8;

/// How long a response waits for the update of the other files, which goes on after it.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The most bytes to receive at a time.
const PIECE_BYTES: u64 = 256 * 1024;

/// The sets of a mirror, by their origin and folder.
#[derive(Debug)]
pub(super) struct Sets(Cache<String, Arc<Mutex<Vec<Member>>>>);

/// A file of a set.
#[derive(Debug)]
struct Member {
    resource: Resource,
    /// The number of updates since a client has requested it.
    unused: u8,
}

/// The set of a resource.
#[derive(Debug)]
pub(super) struct Set {
    members: Arc<Mutex<Vec<Member>>>,
    resource: Resource,
}

impl Default for Sets {
    fn default() -> Self {
        Self(Cache::new(SETS))
    }
}

impl Sets {
    /// Returns the set of a resource: that of the innermost folder of which a client has requested a head.
    pub(super) fn of(&self, preset: Preset, resource: &Resource) -> Option<Set> {
        if preset != Preset::Apt || preset.is_immutable(&resource.path) {
            return None;
        }
        let key = |folder: &str| format!("{}{folder}", resource.origin);
        let (folder, _) = resource.path.rsplit_once('/')?;
        let members = if is_head(resource) {
            let Ok(members) = self.0.get_or_insert_with(&key(folder), || Ok::<_, ()>(Arc::default())) else {
                return None;
            };
            members
        } else {
            let mut folders = std::iter::successors(Some(folder), |folder| Some(folder.rsplit_once('/')?.0));
            folders.find_map(|folder| self.0.get(&key(folder)))?
        };
        Some(Set { members, resource: resource.clone() })
    }
}

impl Set {
    /// Notes that a client uses the resource. If its content is new, updates the other files of the set, and waits for them a while.
    pub(super) fn complete(self, response: &Response, origin: Origin) -> impl Future<Output = ()> + use<> {
        let is_used = matches!(response.status(), StatusCode::OK | StatusCode::NOT_MODIFIED);
        if is_used {
            self.note();
        }
        let is_new = is_used && is_new(response);
        async move {
            if is_new {
                let update = rudy_runtime::spawn(async move { self.update(origin).await });
                // An error means a panic, which is logged, or that the time is over.
                drop(timeout(WAIT_MAX, update).await);
            }
        }
    }

    fn note(&self) {
        let mut members = self.members.lock();
        if let Some(member) = members.iter_mut().find(|member| member.resource.target == self.resource.target)
        {
            member.unused = 0;
        } else if members.len() < MEMBERS_MAX {
            members.push(Member { resource: self.resource.clone(), unused: 0 });
        }
    }

    /// Updates the heads, and the other files if a head is new.
    async fn update(self, origin: Origin) {
        let (heads, others): (Vec<_>, Vec<_>) = self.others().into_iter().partition(is_head);
        let mut is_other = is_head(&self.resource);
        for head in heads {
            is_other |= update(&origin, head).await;
        }
        if !is_other {
            return;
        }
        for other in others {
            update(&origin, other).await;
        }
        let mut members = self.members.lock();
        members.retain_mut(|member| {
            member.unused += 1;
            member.unused < UNUSED_MAX
        });
    }

    fn others(&self) -> Vec<Resource> {
        let members = self.members.lock();
        let resources = members.iter().map(|member| &member.resource);
        resources.filter(|resource| resource.target != self.resource.target).cloned().collect()
    }
}

fn is_head(resource: &Resource) -> bool {
    HEADS.contains(&resource.path.rsplit('/').next().unwrap_or_default())
}

/// Whether the cache has received the content of a response from the repository for it.
fn is_new(response: &Response) -> bool {
    let lines = response.headers().get_all("cache-status");
    let line = lines.iter().next_back().map_or(b"".as_slice(), HeaderValue::as_bytes);
    let line = String::from_utf8_lossy(line);
    line.contains("fwd-status=200") && !line.contains("; collapsed")
}

/// Has a resource validated, and receives it whole if it has changed. Returns whether it has.
async fn update(origin: &Origin, resource: Resource) -> bool {
    let mut request = origin.request();
    request.set_method(Method::GET);
    for name in &CONDITIONAL_FIELDS {
        request.remove(name);
    }
    request.set(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    resource.note(&mut request);
    request.state_mut().follows_storing = true;
    let mut response = origin.send(request).await;
    let (is_new, storing) = (is_new(&response), response.take(|state| &mut state.storing));
    if let Body::Stream(mut body) = response.body {
        while let Some(Ok(_)) = poll_fn(|cx| body.poll_piece(cx, poll_time(), PIECE_BYTES)).await {}
    }
    if let Some(storing) = storing {
        storing.end().await;
    }
    is_new
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(path: &str) -> Resource {
        let (origin, target) = ("https://a.example".to_owned(), format!("/debian{path}"));
        Resource { origin, target, path: path.to_owned(), is_of_index: true }
    }

    fn paths(set: &Set) -> Vec<String> {
        set.others().into_iter().map(|resource| resource.path).collect()
    }

    #[test]
    fn a_file_belongs_to_the_innermost_set_that_a_client_uses() {
        let sets = Sets::default();
        let of = |path| sets.of(Preset::Apt, &resource(path));
        assert!(of("/dists/a/main/Packages").is_none(), "no head is known");
        for path in ["/dists/a/InRelease", "/dists/a/updates/Release", "/InRelease"] {
            of(path).unwrap().note();
        }
        for path in ["/dists/a/main/binary-amd64/Packages.xz", "/dists/a/updates/main/Packages", "/Packages"]
        {
            of(path).unwrap().note();
        }
        assert_eq!(
            paths(&of("/dists/a/Release.gpg").unwrap()),
            ["/dists/a/InRelease", "/dists/a/main/binary-amd64/Packages.xz"]
        );
        assert_eq!(
            paths(&of("/dists/a/updates/x").unwrap()),
            ["/dists/a/updates/Release", "/dists/a/updates/main/Packages"]
        );
        assert_eq!(paths(&of("/dists/b/x").unwrap()), ["/InRelease", "/Packages"]);
        for path in ["/x/pool/a.deb", "/dists/a/main/by-hash/SHA256/00"] {
            assert!(of(path).is_none(), "{path}");
        }
        assert!(sets.of(Preset::Maven, &resource("/dists/a/InRelease")).is_none());
    }

    #[test]
    fn the_files_of_a_set_are_limited() {
        let sets = Sets::default();
        for index in 0..2 * MEMBERS_MAX {
            sets.of(Preset::Apt, &resource("/InRelease")).unwrap().note();
            sets.of(Preset::Apt, &resource(&format!("/{index}"))).unwrap().note();
        }
        assert_eq!(sets.of(Preset::Apt, &resource("/InRelease")).unwrap().others().len(), MEMBERS_MAX - 1);
    }

    #[test]
    fn content_is_new_if_it_is_from_the_repository() {
        for (line, expected) in [
            ("Rudy; fwd=uri-miss; fwd-status=200; stored", true),
            ("Rudy; fwd=stale; fwd-status=200; stored", true),
            ("Rudy; fwd=stale; fwd-status=304", false),
            ("Rudy; fwd=uri-miss; fwd-status=404; stored", false),
            ("Rudy; fwd=stale; fwd-status=200; stored; collapsed", false),
            ("Rudy; hit; ttl=5", false),
        ] {
            let mut response = Response::new(StatusCode::OK);
            response.headers_mut().insert("cache-status", HeaderValue::from_static(line));
            assert_eq!(is_new(&response), expected, "{line}");
        }
        assert!(!is_new(&Response::new(StatusCode::OK)));
    }
}
