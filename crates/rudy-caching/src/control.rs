//! What operators and applications do with the cache: purge, statistics, lists.

use std::ops::ControlFlow;
use std::sync::Arc;

use rudy_admin::{CacheObject, CacheStats, PurgeRequest, PurgedBy, Request, Response};
use rudy_cache::{Content, Key, Seconds};
use rudy_runtime::is_planted;
use rudy_store::{Object, Purge, SITE, Stats, Target};
use rudy_units::visible;

use super::now;
use super::step::Cache;
use super::store::OpenStore;
use super::successor::NO_CACHE;

/// The maximum number of objects in a list.
const LIST_MAX: usize = 100_000;

/// Responds to a request about the caches of the current configuration. Blocks.
#[must_use]
pub fn respond(request: &Request, caches: &[&Cache]) -> Response {
    let result = match request {
        Request::CachePurge(purge) => purge_all(caches, purge),
        Request::CacheStats => {
            Ok(Response::CacheStats(stores(caches).iter().map(|open| stats(open)).collect()))
        }
        Request::CacheList { prefix, limit } => Ok(list(caches, prefix.as_deref(), *limit)),
        Request::CacheGet { url } => get(caches, url),
        _ => Err("this is no request about a cache".to_owned()),
    };
    match result {
        Ok(_) if stores(caches).is_empty() => Response::Error(NO_CACHE.to_owned()),
        Ok(response) => response,
        Err(why) => Response::Error(why),
    }
}

/// The open stores of the caches, each once.
fn stores(caches: &[&Cache]) -> Vec<Arc<OpenStore>> {
    let mut stores: Vec<Arc<OpenStore>> = Vec::new();
    for open in caches.iter().filter_map(|cache| cache.open()) {
        if !stores.iter().any(|known| Arc::ptr_eq(known, open)) {
            stores.push(open.clone());
        }
    }
    stores
}

fn purge_all(caches: &[&Cache], request: &PurgeRequest) -> Result<Response, String> {
    let mut purges = Vec::new();
    for by in &request.by {
        let targets = match by {
            PurgedBy::Url(url) => keys(caches, url)?.into_iter().map(Target::Key).collect(),
            PurgedBy::Prefix(prefix) => vec![Target::Prefix(parse_prefix(prefix)?)],
            PurgedBy::Tag(tag) => vec![Target::Tag(tag.clone().into_bytes())],
        };
        purges.extend(targets.into_iter().map(|target| Purge { target, soft: request.soft }));
    }
    let stores = stores(caches);
    let purged = || stores.iter().map(|open| open.store.stats().purged).sum::<u64>();
    let before = purged();
    for open in &stores {
        open.purge(&purges)?;
    }
    if !request.wait {
        return Ok(Response::CachePurged);
    }
    match stores.iter().find(|open| !open.store.sweep()) {
        Some(open) => Err(format!(
            "the purge has its effect, but some files in {} cannot be removed yet: the error log says why",
            open.folder.display()
        )),
        None => Ok(Response::CacheSwept(purged() - before)),
    }
}

/// Returns the keys of a URL: they depend on the settings of the routes.
fn keys(caches: &[&Cache], url: &str) -> Result<Vec<Key>, String> {
    let (is_secure, host, target) = parse_url(url)?;
    let mut keys: Vec<Key> = Vec::new();
    for cache in caches {
        let key = cache.policy().key(is_secure, host.as_bytes(), target.as_bytes());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    Ok(keys)
}

/// Returns the beginning of URLs as it is in keys. It may end in a host, or in the scope of a key.
fn parse_prefix(prefix: &str) -> Result<Vec<u8>, String> {
    let (is_secure, host, rest) = split_url(prefix)?;
    if is_planted("a prefix of purges in another spelling") {
        return Ok(prefix.into());
    }
    let key = Key::new(is_secure, host.as_bytes(), rest.as_bytes());
    let end = key.as_bytes().len() - usize::from(rest.is_empty());
    // A key always has a path.
    Ok(key.as_bytes()[..end].to_vec())
}

/// Splits a URL into whether it is https, its host and its target.
fn parse_url(url: &str) -> Result<(bool, &str, &str), String> {
    let (is_secure, host, rest) = split_url(url)?;
    Ok((is_secure, host, rest.split('#').next().unwrap_or_default()))
}

/// Splits a URL into whether it is https, its host and what follows.
fn split_url(url: &str) -> Result<(bool, &str, &str), String> {
    let (is_secure, rest) = match url.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
        _ => return Err(format!("\"{}\" is no URL: it begins with https:// or http://", visible(url))),
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, rest) = rest.split_at(end);
    if host.is_empty() {
        return Err(format!("\"{}\" has no host", visible(url)));
    }
    Ok((is_secure, host, rest))
}

fn stats(open: &OpenStore) -> CacheStats {
    let Stats {
        objects,
        bytes,
        capacity,
        memory_objects,
        memory_bytes,
        is_writer,
        is_indexed,
        evicted,
        damaged,
        read_errors,
        write_errors,
        purges_pending,
        tags_unswept,
        ..
    } = open.store.stats();
    CacheStats {
        folder: open.folder.display().to_string(),
        objects,
        objects_max: capacity.objects.into(),
        bytes,
        bytes_max: capacity.bytes,
        memory_objects,
        memory_bytes,
        compressed_bytes: open.variants.load().bytes(),
        is_writer,
        is_indexed,
        evicted,
        damaged,
        read_errors,
        write_errors,
        is_suspended: open.is_suspended(),
        purges_pending,
        tags_unswept,
    }
}

/// Returns the numbers of failed reads and writes of all stores of these caches. `None` without one.
#[must_use]
pub fn disk_errors(caches: &[&Cache]) -> Option<[u64; 2]> {
    let all = stores(caches).into_iter().map(|open| open.store.stats());
    let errors = all.map(|stats| [stats.read_errors, stats.write_errors]);
    errors.reduce(|[reads, writes], [more_reads, more_writes]| [reads + more_reads, writes + more_writes])
}

fn list(caches: &[&Cache], prefix: Option<&str>, limit: usize) -> Response {
    let mut objects = Vec::new();
    for open in stores(caches) {
        open.store.for_each(|listed| {
            let is_listed = prefix.is_none_or(|prefix| listed.key.starts_with(prefix.as_bytes()));
            if is_listed {
                objects.push(describe(&listed.key, &listed.stored, listed.body_bytes));
            }
            if objects.len() < limit.min(LIST_MAX) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
    }
    objects.sort_by(|a, b| a.url.cmp(&b.url));
    Response::CacheObjects(objects)
}

fn get(caches: &[&Cache], url: &str) -> Result<Response, String> {
    let mut objects = Vec::new();
    let keys = keys(caches, url)?;
    for open in stores(caches) {
        let found = keys.iter().flat_map(|key| open.store.objects(key));
        objects.extend(found.map(|object| with_fields(&object)));
    }
    Ok(Response::CacheObjects(objects))
}

fn with_fields(object: &Object) -> CacheObject {
    let stored = object.stored();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let fields = stored.fields().iter().filter(|(name, _)| **name != SITE);
    let fields = fields.map(|(name, value)| (name.to_string(), text(value.as_bytes())));
    CacheObject { fields: fields.collect(), ..describe(object.key(), stored, object.body().len()) }
}

fn describe(key: &[u8], stored: &rudy_cache::Stored, body_bytes: u64) -> CacheObject {
    let age = stored.age(now());
    let fresh_s = stored.fresh_at(now()).map_or(0, |(_, left): (Seconds, Seconds)| left.get());
    CacheObject {
        url: String::from_utf8_lossy(key).into_owned(),
        status: stored.status().as_u16(),
        body_bytes,
        age_s: age.get(),
        fresh_s,
        is_whole: *stored.content() == Content::Whole,
        vary: stored.variant().names().iter().map(ToString::to_string).collect(),
        fields: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_scheme_and_a_host() {
        assert_eq!(parse_url("https://a.org/b?c#d"), Ok((true, "a.org", "/b?c")));
        assert_eq!(parse_url("HTTP://a.org:81?c"), Ok((false, "a.org:81", "?c")));
        for url in ["a.org/b", "ftp://a.org/", "https:///b", ""] {
            assert!(parse_url(url).is_err(), "{url}");
        }
    }

    #[test]
    fn the_scheme_and_the_host_of_a_prefix_are_normalized() {
        for (prefix, expected) in [
            ("http://ab.Example/A", "http://ab.example/A"),
            ("HTTPS://ab.example:443/", "https://ab.example/"),
            ("http://ab.example:80", "http://ab.example"),
            ("http://ab.example:8080/a?b", "http://ab.example:8080/a?b"),
            ("http://ab.example/a#127.0.0.1:80", "http://ab.example/a#127.0.0.1:80"),
        ] {
            assert_eq!(parse_prefix(prefix).unwrap(), expected.as_bytes());
        }
        assert!(parse_prefix("/a").is_err());
    }
}
