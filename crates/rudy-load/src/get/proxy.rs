//! Proxies from environment variables, with curl's rules.

use std::fmt;
use std::net::IpAddr;

use http::HeaderValue;

use crate::Url;

/// The default port of a proxy, as in curl.
const DEFAULT_PORT: u16 = 1080;

/// The proxy settings of the environment.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    http: Option<String>,
    https: Option<String>,
    /// Hosts that are reached directly.
    exceptions: String,
}

/// The proxy of a request.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Proxy {
    pub(super) host: String,
    pub(super) port: u16,
    /// The value of `Proxy-Authorization`. It contains a password and must not be printed.
    pub(super) authorization: Option<HeaderValue>,
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, .. } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

impl Proxies {
    /// Reads the variables. Ignores `HTTP_PROXY`: in a CGI program, it is the request's header field `Proxy`.
    pub fn read(variable: impl Fn(&str) -> Option<String>, no_proxy: Option<&str>) -> Self {
        let first =
            |names: &[&str]| names.iter().find_map(|name| variable(name).filter(|value| !value.is_empty()));
        let all = first(&["all_proxy", "ALL_PROXY"]);
        Self {
            http: first(&["http_proxy"]).or_else(|| all.clone()),
            https: first(&["https_proxy", "HTTPS_PROXY"]).or(all),
            exceptions: no_proxy
                .map_or_else(|| first(&["no_proxy", "NO_PROXY"]).unwrap_or_default(), str::to_owned),
        }
    }

    /// The proxy for a URL, if any.
    ///
    /// # Errors
    ///
    /// The problem of the variable, without its value, which may contain a password.
    pub(super) fn choose(&self, url: &Url) -> Result<Option<Proxy>, String> {
        let (name, chosen) =
            if url.is_secure() { ("https_proxy", &self.https) } else { ("http_proxy", &self.http) };
        match chosen {
            Some(text) if !is_excepted(&self.exceptions, url.host()) => {
                parse(text).map(Some).map_err(|reason| format!("the proxy in {name} or all_proxy {reason}"))
            }
            _ => Ok(None),
        }
    }
}

fn parse(text: &str) -> Result<Proxy, String> {
    let rest = match text.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
        Some((scheme, _)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            return Err(format!("uses {scheme}: only http:// proxies are supported"));
        }
        Some(_) => return Err("is no URL".into()),
        None => text,
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (user, place) = match authority.rsplit_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, authority),
    };
    let (host, port) = split_port(place)?;
    if host.is_empty() {
        return Err("has no host".into());
    }
    let authorization = user.map(basic).transpose()?;
    Ok(Proxy { host: host.to_owned(), port, authorization })
}

fn split_port(place: &str) -> Result<(&str, u16), String> {
    let (host, rest) = match place.strip_prefix('[') {
        Some(inner) => inner.split_once(']').ok_or("has an unclosed bracket")?,
        None => place.split_at(place.find(':').unwrap_or(place.len())),
    };
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => DEFAULT_PORT,
        Some(port) => port.parse().ok().filter(|port| *port != 0).ok_or("has no port from 1 to 65535")?,
        None => return Err("is no URL".into()),
    };
    Ok((host, port))
}

/// RFC 7617 §2.
fn basic(user: &str) -> Result<HeaderValue, String> {
    use base64::Engine as _;
    let decoded = match user.split_once(':') {
        Some((name, password)) => [percent_decode(name), percent_decode(password)].join(&b':'),
        None => [percent_decode(user), Vec::new()].join(&b':'),
    };
    let text = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(decoded));
    let mut value = HeaderValue::try_from(text).map_err(|_| "has an invalid user name")?;
    value.set_sensitive(true);
    Ok(value)
}

fn percent_decode(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| byte_of(behind.get(..2)?)).flatten();
        decoded.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &behind[2..] } else { behind };
    }
    decoded
}

fn byte_of(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits)
        .ok()
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u8::from_str_radix(digits, 16).ok()
}

/// Whether a host is in `exceptions`: `*` for all, domains with their subdomains, addresses, networks.
fn is_excepted(exceptions: &str, host: &str) -> bool {
    let host = host.trim_end_matches('.');
    exceptions.split([',', ' ', '\t']).filter(|entry| !entry.is_empty()).any(|entry| {
        match host.parse::<IpAddr>() {
            _ if entry == "*" => true,
            Ok(address) => holds_address(entry, address),
            Err(_) => holds_name(entry, host),
        }
    })
}

fn holds_name(entry: &str, host: &str) -> bool {
    let entry = entry.trim_start_matches('.').trim_end_matches('.').to_ascii_lowercase();
    let before = host.strip_suffix(&entry);
    !entry.is_empty() && before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

fn holds_address(entry: &str, address: IpAddr) -> bool {
    let (network, length) = match entry.split_once('/') {
        Some((network, length)) => (network, length.parse().ok()),
        None => (entry, Some(128)),
    };
    let network = network.trim_start_matches('[').trim_end_matches(']').parse();
    match (network, address, length) {
        (Ok(IpAddr::V4(network)), IpAddr::V4(address), Some(length)) => {
            shares(u128::from(network.to_bits()) << 96, u128::from(address.to_bits()) << 96, length)
        }
        (Ok(IpAddr::V6(network)), IpAddr::V6(address), Some(length)) => {
            shares(network.to_bits(), address.to_bits(), length)
        }
        _ => false,
    }
}

fn shares(network: u128, address: u128, length: u32) -> bool {
    length <= 128 && (network ^ address).leading_zeros() >= length
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Proxies {
        Proxies::read(
            |name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()),
            None,
        )
    }

    fn chosen(variables: &[(&str, &str)], url: &str) -> Option<String> {
        proxies(variables).choose(&url.parse().unwrap()).unwrap().map(|proxy| proxy.to_string())
    }

    #[test]
    fn the_variable_of_the_scheme_counts_and_all_proxy_for_the_rest() {
        for (variables, url, meant) in [
            (&[("http_proxy", "p:1")][..], "http://a/", Some("p:1")),
            (&[("http_proxy", "p:1")], "https://a/", None),
            (&[("HTTP_PROXY", "p:1")], "http://a/", None),
            (&[("HTTPS_PROXY", "p:1")], "https://a/", Some("p:1")),
            (&[("https_proxy", "p:1"), ("HTTPS_PROXY", "q:1")], "https://a/", Some("p:1")),
            (&[("all_proxy", "p:1"), ("http_proxy", "")], "http://a/", Some("p:1")),
            (&[("ALL_PROXY", "http://p/")], "https://a/", Some("p:1080")),
            (&[("http_proxy", "http://[::1]:3128/x")], "http://a/", Some("[::1]:3128")),
        ] {
            assert_eq!(chosen(variables, url).as_deref(), meant, "{variables:?} {url}");
        }
    }

    #[test]
    fn no_proxy_names_hosts_with_what_is_below_them_addresses_and_networks() {
        for (exceptions, host, is_excepted) in [
            ("*", "a.example", true),
            ("example", "a.example", true),
            (".example", "example", true),
            ("a.example.", "a.example", true),
            ("x, Example", "b.a.example", true),
            ("ample", "a.example", false),
            ("a.example", "example", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("10.0.0.0/x", "10.1.2.3", false),
            ("::1", "[::1]", true),
            ("fd00::/8", "[fd12::1]", true),
            ("2.3", "1.1.2.3", false),
            ("", "a", false),
        ] {
            let variables = [("http_proxy", "p:1"), ("no_proxy", exceptions)];
            let through = chosen(&variables, &format!("http://{host}/")).is_some();
            assert_eq!(!through, is_excepted, "{exceptions:?} {host}");
        }
        let overridden = Proxies::read(|_| Some("p:1".into()), Some("a"));
        assert_eq!(overridden.choose(&"http://a/".parse().unwrap()), Ok(None));
    }

    #[test]
    fn a_user_is_sent_as_basic_and_never_shown() {
        let proxy = proxies(&[("http_proxy", "http://Aladdin:open%20sesame@p:1")]);
        let proxy = proxy.choose(&"http://a/".parse().unwrap()).unwrap().unwrap();
        assert_eq!(proxy.authorization.as_ref().unwrap(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert!(!format!("{proxy} {proxy:?}").contains("esame"));
    }

    #[test]
    fn a_proxy_that_is_not_spoken_is_refused_without_its_password() {
        for text in ["socks5://u:secret@p", "https://u:secret@p", "http://u:secret@", "u:secret@p:0", "[::1"]
        {
            let error = proxies(&[("http_proxy", text)]).choose(&"http://a/".parse().unwrap()).unwrap_err();
            assert!(!error.contains("secret") && error.contains("http_proxy"), "{text}: {error}");
        }
    }
}
