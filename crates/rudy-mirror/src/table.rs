//! The table of the `mirror` handler.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use http::uri::PathAndQuery;
use rudy_caching::CacheTable;
use rudy_config::{FilePath, Int, OneOrMany, Table, written_as_text};
use rudy_pipeline::wildcard::Wildcard;
use rudy_proxy::{HostSource, ProxyTable, UpstreamUrl};
use rudy_units::{Size, Time, Timeout, visible};

use super::Preset;

/// Mirrors a package repository: a table, or its URL alone.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(
    short(url),
    what = "the URL of a repository (\"https://repo.example/maven2\") or a table",
    example = "https://repo.example/maven2"
)]
pub struct MirrorTable {
    /// URL of the repository, as clients would use it without the mirror.
    #[setting(example = "https://repo.example/maven2")]
    pub url: RepositoryUrl,
    /// Kind of the repository, which determines what is immutable and what has links. The default is the kind that the URL names, as
    /// in `https://repo.example/maven2`.
    #[setting(example = "maven")]
    pub preset: Option<Preset>,
    /// Other hosts whose files the mirror fetches, if the index links to them, with or without a port. `*` matches any characters. The
    /// default is all hosts with a public name and a public address, but no other port of the host of `url`.
    #[setting(example = ["files.example", "*.cdn.example"])]
    pub hosts: Option<OneOrMany<Wildcard>>,
    /// How long metadata is used without asking the repository. The default is 0: it is validated before each use. Immutable files are
    /// never validated.
    #[setting(example = "5m")]
    pub metadata_freshness: Option<Time>,
    /// Maximum size of metadata whose links are rewritten, in memory.
    #[setting(default = Size(128 << 20), reason = "The largest documents of npm have some 100 MB in full, and clients request the short form.")]
    pub metadata_bytes: Size,
    /// Verifies each new file by the checksum that the repository declares, before the end of the file is sent: `.sha1` of Maven,
    /// `integrity` of npm. The default is `false`: only clients verify them.
    #[setting(default, example = true)]
    pub verify: bool,
    /// PEM file with the certificates to trust for the repository, relative to the configuration file. The default is what the
    /// operating system trusts.
    #[setting(example = "ca.pem")]
    pub trusted_certificates: Option<FilePath>,
}

/// How long a client waits for the request of another one: repositories limit requests, and package managers wait for a minute.
const WAIT_TIMEOUT: Timeout = Time(Duration::from_mins(1));

impl MirrorTable {
    /// Returns the kind of the repository, if it is known.
    #[must_use]
    pub fn preset(&self) -> Option<Preset> {
        self.preset.or_else(|| Preset::of_url(&self.url.to_string()))
    }

    /// Returns the settings of its cache, for those of the route. Package managers request a reload for each download, but their
    /// `Cache-Control` does not reach the cache: it has only that of the mirror itself.
    #[must_use]
    pub fn cache(of_route: Option<CacheTable>) -> CacheTable {
        let of_route = of_route.unwrap_or_default();
        CacheTable {
            is_off: false,
            ignore_client_cache_control: false,
            follows_no_cache: true,
            wait_timeout: Some(of_route.wait_timeout.unwrap_or(WAIT_TIMEOUT)),
            ..of_route
        }
    }

    /// Returns the settings of the proxy to a host of the repository.
    pub(super) fn proxy_to(&self, upstream: UpstreamUrl) -> ProxyTable {
        ProxyTable {
            host: HostSource::Upstream,
            trusted_certificates: self.trusted_certificates.clone(),
            // Public repositories limit those of an address.
            connections: Int(64),
            ..ProxyTable::from_iter([upstream])
        }
    }

    /// Returns the settings of the proxy to a host that the index names. Unless the configuration allows the host, its name may have the
    /// address of a machine of this network.
    pub(super) fn proxy_to_other(&self, upstream: UpstreamUrl) -> ProxyTable {
        let is_configured =
            self.hosts.is_some() || upstream.host_name().eq_ignore_ascii_case(&self.url.host());
        ProxyTable { only_public: !is_configured, ..self.proxy_to(upstream) }
    }
}

/// The URL of a repository: `https://repo.example/maven2`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RepositoryUrl {
    upstream: UpstreamUrl,
    /// Without a slash at its end.
    path: String,
}

impl RepositoryUrl {
    pub(super) fn upstream(&self) -> UpstreamUrl {
        self.upstream.clone()
    }

    /// Returns the scheme, host and port: `https://repo.example`.
    pub(super) fn origin(&self) -> String {
        self.upstream.origin().to_ascii_lowercase()
    }

    /// Returns the host without the port.
    pub(super) fn host(&self) -> String {
        self.upstream.host_name().to_ascii_lowercase()
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }
}

impl FromStr for RepositoryUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // cargo writes it before the URL of a sparse index.
        let url = text.strip_prefix("sparse+").unwrap_or(text);
        let expected =
            || format!("expected a URL such as \"https://repo.example/maven2\", not \"{}\"", visible(text));
        let (scheme, rest) = url.split_once("://").ok_or_else(expected)?;
        if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return Err(expected());
        }
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let is_path = path.is_empty()
            || path.parse::<PathAndQuery>().is_ok_and(|path| path.query().is_none()) && !path.contains('#');
        if !is_path {
            return Err(expected());
        }
        let upstream = format!("{scheme}://{authority}").parse()?;
        Ok(Self { upstream, path: path.trim_end_matches('/').to_owned() })
    }
}

impl fmt::Display for RepositoryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.upstream, self.path)
    }
}

written_as_text!(RepositoryUrl, "the URL of a repository (\"https://repo.example/maven2\")", {
    doc: "The URL of a package repository, with http or https.",
    examples: ["https://repo.example/maven2"],
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_an_origin_and_a_path() {
        for (text, origin, path) in [
            ("https://repo.example/maven2/", "https://repo.example", "/maven2"),
            ("http://Repo.example:8080", "http://repo.example:8080", ""),
            ("sparse+https://index.example/", "https://index.example", ""),
        ] {
            let url: RepositoryUrl = text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!((url.origin().as_str(), url.path()), (origin, path), "{text}");
        }
        for text in
            ["", "repo.example", "ftp://repo.example", "https://a/b?c", "https://a/#b", "https://", "unix:/a"]
        {
            assert!(text.parse::<RepositoryUrl>().is_err(), "{text}");
        }
    }
}
