//! Matches the host of a request to a site.

mod listeners;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};
use rudy_config::written_as_text;
use rudy_tls::Names;

pub use self::listeners::Listeners;

/// Maximum length of a DNS name (RFC 1035 §2.3.4).
const NAME_BYTES_MAX: usize = 255;

/// A host of a site: `example.org`, `*.example.org` for all its subdomains, `example.*` for the name below every domain, or a regular
/// expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// A name or address, in lower case and without a dot at its end.
    Exact(String),
    /// All subdomains of this name at any depth, but not the name itself.
    Below(String),
    /// This name, with one more label or several at the end.
    Above(String),
    /// Names that a regular expression matches.
    Regex(HostRegex),
    /// Every IP address, and a request without a host. DNS cannot change their meaning. Only flags use it, it has no spelling in
    /// the configuration.
    Unnamed,
}

/// A regular expression for the names of hosts, which are in lower case and without a dot at the end.
#[derive(Debug, Clone)]
pub struct HostRegex {
    text: String,
    regex: Regex,
}

impl PartialEq for HostRegex {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for HostRegex {}

impl Hash for HostRegex {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl FromStr for HostRegex {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let regex = RegexBuilder::new(text).size_limit(REGEX_BYTES_MAX).build();
        let reason =
            |error: regex::Error| error.to_string().lines().last().unwrap_or_default().trim().to_owned();
        Ok(Self { text: text.to_owned(), regex: regex.map_err(reason)? })
    }
}

/// What the host of a site begins with if it is a regular expression.
const REGEX: &str = "regex:";

/// The most memory of a compiled regular expression.
const REGEX_BYTES_MAX: usize = 1 << 20;

impl HostPattern {
    /// Returns whether this is a regular expression with this group, by number or by name.
    #[must_use]
    pub fn has_group(&self, name: &str) -> bool {
        matches!(self, Self::Regex(regex) if has_group(regex.regex.capture_names(), name))
    }

    /// Returns the name of the host in a certificate. IPv6 addresses are without brackets there.
    #[must_use]
    pub fn certificate_name(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Exact(name) => Some(name.trim_matches(['[', ']']).into()),
            Self::Below(parent) => Some(format!("*.{parent}").into()),
            // No authority signs a name for all domains.
            Self::Above(_) | Self::Regex(_) | Self::Unnamed => None,
        }
    }
}

impl FromStr for HostPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(expression) = text.strip_prefix(REGEX) {
            return expression.parse().map(Self::Regex);
        }
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
            None if let Some(start) = name.strip_suffix(".*") => {
                valid_name(start).map(|()| Self::Above(start.to_owned()))
            }
            None if name == "*" => Err("remove `hosts`: a site without it serves every host".to_owned()),
            None => valid_name(name).map(|()| Self::Exact(name.to_owned())),
        }
    }
}

/// Returns whether a regular expression whose groups have these names has a group, by number or by name.
pub(crate) fn has_group<'r>(mut names: impl Iterator<Item = Option<&'r str>>, group: &str) -> bool {
    match group.parse::<usize>() {
        Ok(number) => number < names.count(),
        Err(_) => names.any(|name| name == Some(group)),
    }
}

fn valid_name(name: &str) -> Result<(), String> {
    if name.contains('*') {
        let expected =
            "expected `*` only as the first label or the last one, as in \"*.example.org\" and \"example.*\"";
        return Err(expected.to_owned());
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
            Self::Above(start) => write!(f, "{start}.*"),
            Self::Regex(regex) => write!(f, "{REGEX}{}", regex.text),
            Self::Unnamed => f.write_str("IP addresses"),
        }
    }
}

written_as_text!(HostPattern, "a host (\"example.org\")", {
    doc: "A host name, an IP address, `*.` and a domain for all names below it, a name and `.*` for it below every domain, or a regular \
          expression after `regex:`.",
    examples: ["example.org", "*.example.org", "example.*", "regex:^www[0-9]+[.]example[.]org$"],
});

/// Sites by host.
#[derive(Debug, Default)]
pub struct Hosts {
    exact: HashMap<Box<str>, usize>,
    /// By the domain above the names.
    below: HashMap<Box<str>, usize>,
    /// By the beginning of the names.
    above: HashMap<Box<str>, usize>,
    /// In the order of the sites.
    regexes: Vec<(HostRegex, usize)>,
    unnamed: Option<usize>,
    default: Option<usize>,
}

impl Hosts {
    /// Adds a pattern. Returns the site that already has it, if any.
    pub fn add(&mut self, pattern: &HostPattern, site: usize) -> Option<usize> {
        match pattern {
            HostPattern::Exact(name) => self.exact.insert(name.as_str().into(), site),
            HostPattern::Below(parent) => self.below.insert(parent.as_str().into(), site),
            HostPattern::Above(start) => self.above.insert(start.as_str().into(), site),
            HostPattern::Regex(regex) => {
                let known = self.regexes.iter().find(|(known, _)| known == regex).map(|(_, site)| *site);
                self.regexes.push((regex.clone(), site));
                known
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
        if self.has_no_name() {
            return self.default;
        }
        let host = host();
        let mut buffer = [0; NAME_BYTES_MAX];
        let name = normalise(host, &mut buffer);
        let unnamed = || self.unnamed.filter(|_| host.is_empty() || is_ip_address(name));
        self.named(name).or_else(unnamed).or(self.default)
    }

    /// Returns the part of a host, as sent in a request, that a group of the regular expression of its site matches. `None` for a host
    /// that has its site for another reason, and for a group that takes no part in the match.
    #[must_use]
    pub fn group(&self, host: &[u8], name: &str) -> Option<String> {
        with_name(host, |host| {
            let (pattern, _) = self.expression(host)?;
            let groups = pattern.regex.captures(host)?;
            let group = name.parse().map_or_else(|_| groups.name(name), |number| groups.get(number));
            Some(group?.as_str().to_owned())
        })
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
        let named = self.exact.values().chain(self.below.values()).chain(self.above.values());
        let regexes = self.regexes.iter().map(|(_, site)| site);
        let mut sites = named.chain(regexes).chain(&self.unnamed).chain(&self.default);
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
        let regex = || self.expression(name).map(|(_, site)| *site);
        self.by_domain(name).or_else(|| self.by_beginning(name)).or_else(regex)
    }

    /// Returns the first regular expression that matches a name, and its site.
    fn expression(&self, name: &str) -> Option<&(HostRegex, usize)> {
        self.regexes.iter().find(|(known, _)| known.regex.is_match(name))
    }

    /// Returns the site of the longest domain above a name.
    fn by_domain(&self, name: &str) -> Option<usize> {
        if self.below.is_empty() || name.starts_with('.') {
            return None;
        }
        let mut domains = name.match_indices('.').map(|(dot, _)| &name[dot + 1..]);
        domains.find_map(|domain| self.below.get(domain)).copied()
    }

    /// Returns the site of the longest beginning of a name.
    fn by_beginning(&self, name: &str) -> Option<usize> {
        let mut beginnings = name.rmatch_indices('.').map(|(dot, _)| &name[..dot]);
        beginnings.find_map(|beginning| self.above.get(beginning)).copied()
    }

    fn has_no_name(&self) -> bool {
        let Self { exact, below, above, regexes, unnamed, default: _ } = self;
        exact.is_empty() && below.is_empty() && above.is_empty() && regexes.is_empty() && unnamed.is_none()
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
