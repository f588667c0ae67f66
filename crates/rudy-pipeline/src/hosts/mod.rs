//! Matches the host of a request to a site.

mod listeners;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::LazyLock;

use rudy_config::written_as_text;
use rudy_tls::Names;

pub use self::listeners::Listeners;

/// Maximum length of a DNS name (RFC 1035 §2.3.4).
const NAME_BYTES_MAX: usize = 255;

/// A host of a site: `example.org`, or `*.example.org` for all its subdomains.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// A name or address, in lower case and without a dot at its end.
    Exact(String),
    /// All subdomains of this name at any depth, but not the name itself.
    Below(String),
    /// Every IP address, and a request without a host. DNS cannot change their meaning. Only flags use it, it has no spelling in
    /// the configuration.
    Unnamed,
}

impl HostPattern {
    /// Returns the name of the host in a certificate. IPv6 addresses are without brackets there.
    #[must_use]
    pub fn certificate_name(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Exact(name) => Some(name.trim_matches(['[', ']']).into()),
            Self::Below(parent) => Some(format!("*.{parent}").into()),
            Self::Unnamed => None,
        }
    }
}

impl FromStr for HostPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains("://") {
            return Err("expected the host alone, without the scheme".to_owned());
        }
        if !text.is_ascii() {
            return Err("expected ASCII: browsers send such a name in its \"xn--\" form".to_owned());
        }
        let name = text.to_ascii_lowercase();
        if let Some(address) = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            // Use the canonical spelling, so that `[::1]` and `[0:0:0:0:0:0:0:1]` are equal.
            let address = address.parse::<Ipv6Addr>();
            return address
                .map(|address| Self::Exact(format!("[{address}]")))
                .map_err(|_| "expected an IPv6 address between the brackets, as in \"[::1]\"".to_owned());
        }
        if name.parse::<Ipv6Addr>().is_ok() {
            return Err(format!("expected the IPv6 address in brackets: \"[{name}]\""));
        }
        if name.contains(':') {
            return Err("expected the host alone, without a port".to_owned());
        }
        let name = name.strip_suffix('.').unwrap_or(&name);
        match name.strip_prefix("*.") {
            Some(parent) => valid_name(parent).map(|()| Self::Below(parent.to_owned())),
            None if name == "*" => Err("remove `hosts`: a site without it serves every host".to_owned()),
            None => valid_name(name).map(|()| Self::Exact(name.to_owned())),
        }
    }
}

fn valid_name(name: &str) -> Result<(), String> {
    if name.contains('*') {
        return Err("expected `*` only as the first label, as in \"*.example.org\"".to_owned());
    }
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let fits = |part: &str| !part.is_empty() && part.len() <= 63 && part.bytes().all(letter);
    if name.len() <= NAME_BYTES_MAX && name.split('.').all(fits) {
        Ok(())
    } else {
        Err("expected a name such as \"example.org\" or \"*.example.org\", or an IP address".to_owned())
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Below(parent) => write!(f, "*.{parent}"),
            Self::Unnamed => f.write_str("IP addresses"),
        }
    }
}

written_as_text!(HostPattern, "a host (\"example.org\")", {
    doc: "A host name, an IP address, or `*.` and a domain for all names below it.",
    examples: ["example.org", "*.example.org"],
});

/// Sites by host.
#[derive(Debug, Default)]
pub struct Hosts {
    exact: HashMap<Box<str>, usize>,
    /// Suffixes such as `.example.org` and their sites, the longest first, because the most specific pattern wins.
    below: Vec<(Box<str>, usize)>,
    unnamed: Option<usize>,
    default: Option<usize>,
}

impl Hosts {
    /// Adds a pattern. Returns the site that already has it, if any.
    pub fn add(&mut self, pattern: &HostPattern, site: usize) -> Option<usize> {
        match pattern {
            HostPattern::Exact(name) => self.exact.insert(name.as_str().into(), site),
            HostPattern::Below(parent) => {
                let suffix: Box<str> = format!(".{parent}").into();
                if let Some((_, other)) = self.below.iter().find(|(known, _)| *known == suffix) {
                    return Some(*other);
                }
                self.below.push((suffix, site));
                self.below.sort_by_key(|(suffix, _)| std::cmp::Reverse(suffix.len()));
                None
            }
            HostPattern::Unnamed => self.unnamed.replace(site),
        }
    }

    /// Returns whether flags select the allowed hosts, not a configuration.
    #[must_use]
    pub fn is_by_flags(&self) -> bool {
        self.unnamed.is_some()
    }

    /// Sets the site for all other hosts. Returns the previous one, if any.
    pub fn set_default(&mut self, site: usize) -> Option<usize> {
        self.default.replace(site)
    }

    /// Returns the site for a host as sent in a request: in any case, with or without a port and a dot at the end. Calls `host` only
    /// if there are several sites.
    pub fn find<'h>(&self, host: impl FnOnce() -> &'h [u8]) -> Option<usize> {
        if self.exact.is_empty() && self.below.is_empty() && self.unnamed.is_none() {
            return self.default;
        }
        let host = host();
        let mut buffer = [0; NAME_BYTES_MAX];
        let name = normalise(host, &mut buffer);
        let unnamed = || self.unnamed.filter(|_| host.is_empty() || is_ip_address(name));
        self.named(name).or_else(unnamed).or(self.default)
    }

    /// Returns the site for a server name in lower case, and whether it is only the default site.
    #[must_use]
    pub fn find_or_default(&self, name: &str) -> Option<(usize, bool)> {
        let named = self.named(name).map(|site| (site, false));
        named.or_else(|| self.default.map(|site| (site, true)))
    }

    /// Returns the site with this address as a host.
    pub(super) fn at_address(&self, address: IpAddr) -> Option<usize> {
        if self.exact.is_empty() {
            return None;
        }
        self.named(&match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        })
    }

    /// Returns the site if it is the only one.
    pub(super) fn only(&self) -> Option<usize> {
        let below = self.below.iter().map(|(_, site)| site);
        let mut sites = self.exact.values().chain(below).chain(&self.unnamed).chain(&self.default);
        let first = sites.next()?;
        sites.all(|site| site == first).then_some(*first)
    }

    /// Returns whether a site has this host, as it was sent, in its configuration.
    pub(super) fn has_name(&self, host: &[u8]) -> bool {
        with_name(host, |name| self.named(name).is_some())
    }

    fn named(&self, name: &str) -> Option<usize> {
        if let Some(site) = self.exact.get(name) {
            return Some(*site);
        }
        let below =
            self.below.iter().find(|(suffix, _)| name.len() > suffix.len() && name.ends_with(&**suffix));
        below.map(|(_, site)| *site)
    }
}

/// Returns the name in lower case without the port, or an empty name if no pattern can match. Does not allocate.
fn normalise<'a>(host: &[u8], buffer: &'a mut [u8; NAME_BYTES_MAX]) -> &'a str {
    let name = without_port(host);
    let name = name.strip_suffix(b".").unwrap_or(name);
    let Some(lower) = buffer.get_mut(..name.len()) else { return "" };
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    std::str::from_utf8(lower).unwrap_or("")
}

/// Passes the name of a host as sent in a request on: in lower case, without the port and a dot at the end. Empty for a host that no
/// site can have as its name.
pub fn with_name<T>(host: &[u8], then: impl FnOnce(&str) -> T) -> T {
    then(normalise(host, &mut [0; NAME_BYTES_MAX]))
}

/// Whether the names of a certificate include a host as sent in a request.
pub(super) fn includes(names: &Names, host: &[u8]) -> bool {
    let mut buffer = [0; NAME_BYTES_MAX];
    let name = normalise(host, &mut buffer);
    names.include(name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name))
}

/// Returns whether a name is an IP address in its usual spelling. Browsers send `127.0.0.1` for `127.1`.
fn is_ip_address(name: &str) -> bool {
    match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => name.parse::<Ipv4Addr>().is_ok(),
    }
}

/// Returns the hosts that no web page can have: IP addresses, whose meaning DNS cannot change, and the names of this machine.
#[must_use]
pub fn own_hosts(machine: &str) -> Vec<HostPattern> {
    let short = machine.split('.').next().unwrap_or_default();
    let mut hosts = vec![HostPattern::Unnamed];
    // `.local` is the name in multicast DNS (RFC 6762 §3). Invalid host names are skipped.
    for name in ["localhost", "*.localhost", machine, &format!("{short}.local")] {
        if let Ok(host) = name.parse()
            && !hosts.contains(&host)
        {
            hosts.push(host);
        }
    }
    hosts
}

/// The name of this machine, as printed by `hostname`.
#[must_use]
pub fn machine_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The hosts of [`own_hosts`].
static OWN_HOSTS: LazyLock<Hosts> = LazyLock::new(|| {
    let mut hosts = Hosts::default();
    for host in own_hosts(&machine_name()) {
        hosts.add(&host, 0);
    }
    hosts
});

/// Whether a request for this host, as it was sent, is for this machine, and not for a web page whose name resolves to it. Names without a
/// dot are those of a local network, of containers and of `/etc/hosts`: no public name is one (ICANN prohibits dotless domains).
pub(super) fn is_own_host(host: &[u8]) -> bool {
    OWN_HOSTS.find(|| host).is_some() || with_name(host, |name| !name.is_empty() && !name.contains('.'))
}

/// Returns the explanation for a client whose host no flag allows.
#[must_use]
pub fn explain_rejected(host: &[u8]) -> String {
    let host = String::from_utf8_lossy(without_port(host)).parse::<HostPattern>().ok();
    let (this, name) = match host {
        Some(HostPattern::Exact(name)) => (format!("\"{name}\""), name),
        _ => ("this host".to_owned(), "NAME".to_owned()),
    };
    format!(
        "Rudy accepts requests for IP addresses, localhost, the name of this machine, and names that --host allows, but not \
         for {this}. This protects local files from web pages whose name resolves to this machine (DNS rebinding). Start \
         Rudy with --host {name} to allow the name."
    )
}

/// Removes the port: `example.org:80` becomes `example.org`, and `[::1]:80` becomes `[::1]`.
#[must_use]
pub fn without_port(host: &[u8]) -> &[u8] {
    let end = match host.first() {
        Some(b'[') => host.iter().position(|byte| *byte == b']').map(|at| at + 1),
        _ => host.iter().position(|byte| *byte == b':'),
    };
    &host[..end.unwrap_or(host.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(patterns: &[&str]) -> Hosts {
        let mut hosts = Hosts::default();
        for (site, pattern) in patterns.iter().enumerate() {
            assert_eq!(hosts.add(&pattern.parse().unwrap(), site), None);
        }
        hosts
    }

    #[test]
    fn the_most_specific_host_wins_in_any_spelling() {
        let mut hosts = hosts(&["example.org", "*.example.org", "*.deep.example.org", "[::1]", "127.0.0.1"]);
        for (host, site) in [
            ("example.org", Some(0)),
            ("EXAMPLE.org:8080", Some(0)),
            ("example.org.", Some(0)),
            ("example.org.:80", Some(0)),
            ("www.example.org", Some(1)),
            ("a.b.example.org", Some(1)),
            ("x.deep.example.org", Some(2)),
            ("deep.example.org", Some(1)),
            ("[::1]", Some(3)),
            ("[::1]:443", Some(3)),
            ("127.0.0.1:1", Some(4)),
            (".example.org", None),
            ("badexample.org", None),
            ("example.com", None),
            ("", None),
            ("[", None),
        ] {
            assert_eq!(hosts.find(|| host.as_bytes()), site, "{host}");
        }
        assert_eq!(hosts.find(|| &[b'a'; 300]), None);
        assert_eq!(hosts.find(|| b"\xff"), None);
        hosts.set_default(9);
        assert_eq!(hosts.find(|| b"example.com"), Some(9));
        assert_eq!(hosts.find(|| b""), Some(9));
        assert_eq!(hosts.find(|| &[b'a'; 300]), Some(9));
    }

    #[test]
    fn the_unnamed_pattern_matches_addresses_and_absent_hosts() {
        let mut hosts = hosts(&["localhost", "*.localhost"]);
        assert!(!hosts.is_by_flags());
        assert_eq!(hosts.find(|| b"127.0.0.1"), None);
        assert_eq!(hosts.add(&HostPattern::Unnamed, 2), None);
        assert!(hosts.is_by_flags());
        for (host, site) in [
            ("", Some(2)),
            ("127.0.0.1", Some(2)),
            ("127.0.0.1:8080", Some(2)),
            ("192.0.2.1.", Some(2)),
            ("[::1]:8080", Some(2)),
            ("[::ffff:127.0.0.1]", Some(2)),
            ("LocalHost:8080", Some(0)),
            ("a.b.localhost.", Some(1)),
            ("127.0.0.1.evil.example", None),
            ("localhost.evil.example", None),
            ("evillocalhost", None),
            ("[evil.example]", None),
            ("[127.0.0.1]", None),
            ("127.0.0.1@evil.example", None),
            ("0x7f.1", None),
            ("127.1", None),
            ("2130706433", None),
            (".", None),
            (":80", None),
        ] {
            assert_eq!(hosts.find(|| host.as_bytes()), site, "{host}");
        }
        assert_eq!(hosts.find(|| &[b'1'; 300]), None);
        assert_eq!(hosts.find(|| b"\xff"), None);
    }

    #[test]
    fn a_web_page_has_no_host_of_this_machine() {
        let machine = machine_name();
        for host in
            ["", "127.0.0.1:80", "[::1]", "192.0.2.1", "LocalHost.", "a.localhost:8080", "nas:80", &machine]
        {
            assert!(is_own_host(host.as_bytes()), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example.", "127.0.0.1.evil.example:80", "127.1", ".", ":80"]
        {
            assert!(!is_own_host(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn the_explanation_shows_the_flag_and_only_valid_names() {
        let explained = explain_rejected(b"Evil.Example:8080");
        assert!(
            explained.contains("not for \"evil.example\".") && explained.contains("--host evil.example to")
        );
        for invalid in [&b"<b>"[..], b"\xff", b"a b", b"*.example", b"a$(x)"] {
            let explained = explain_rejected(invalid);
            let is_general = explained.contains("not for this host.") && explained.contains("--host NAME to");
            assert!(is_general, "{explained}");
        }
    }

    #[test]
    fn a_duplicate_pattern_returns_its_first_site() {
        let mut hosts = hosts(&["example.org", "*.example.org"]);
        assert_eq!(hosts.add(&"Example.Org.".parse().unwrap(), 5), Some(0));
        assert_eq!(hosts.add(&"*.EXAMPLE.org".parse().unwrap(), 5), Some(1));
    }

    #[test]
    fn the_error_of_an_invalid_host_shows_the_expected_syntax() {
        for (text, message) in [
            ("http://example.org", "without the scheme"),
            ("example.org:80", "without a port"),
            ("::1", "in brackets: \"[::1]\""),
            ("[::g]", "an IPv6 address between"),
            ("*", "remove `hosts`"),
            ("www.*.org", "only as the first label"),
            ("bücher.de", "xn--"),
            ("", "expected a name"),
            ("a..b", "expected a name"),
            ("a b", "expected a name"),
        ] {
            let error = text.parse::<HostPattern>().unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
