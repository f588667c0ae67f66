//! The lines that `rudy serve` prints at the start.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::absolute;

use rudy_net::engine::Model;
use rudy_net::listen::BoundAddress;
use rudy_service::listen_address::{Address, Endpoint};

use super::{Options, Source};
use crate::config::{CertificateSource, Config};

const LOCAL_ACCESS: &str = "this machine only; --listen :8080 accepts other machines";
const PUBLIC_ACCESS: &str = "every machine that can reach this one can read these files";
const PUBLIC_APPLICATION: &str = "every machine that can reach this one can use this application";
const PUBLIC_MIRROR: &str = "every machine that can reach this one can use this mirror";
const NO_LISTINGS: &str = "not listed; --browse lists those without an index.html";
const NO_ACCESS_LOG: &str = "off; --access-log FILE writes one, --access-log - prints it";

/// Prints on `out` what Rudy serves, the URL of each listener on a line indented by two spaces, and the defaults that a
/// new user might not expect, each with the flag that changes it.
pub(super) fn announce(
    out: &mut impl Write,
    options: &Options,
    config: &Config,
    listening: &[(Address, Vec<BoundAddress>)],
) -> io::Result<()> {
    writeln!(out, "Rudy {} serves {}\n", env!("CARGO_PKG_VERSION"), described(&options.source, config))?;
    for (address, bound) in listening.iter().flat_map(|(address, all)| all.iter().map(move |b| (address, b)))
    {
        writeln!(out, "  {}", url(config.scheme_of(address), address, bound))?;
    }
    writeln!(out)?;
    for (label, text) in notes(&options.source, config, listening) {
        writeln!(out, "  {label:<13}{text}")?;
    }
    writeln!(out)
}

fn described(source: &Source, config: &Config) -> String {
    match source {
        Source::Folder { path, .. } => {
            format!("the folder {}", absolute(path).unwrap_or_else(|_| path.clone()).display())
        }
        Source::Proxy { upstreams, .. } => {
            let urls: Vec<_> = upstreams.iter().map(ToString::to_string).collect();
            format!("the application at {}", urls.join(", "))
        }
        Source::Mirror { table, .. } => format!("a mirror of {}", table.url),
        Source::File(path) => match config.sites.len() {
            1 => format!("{} (1 site)", path.display()),
            sites => format!("{} ({sites} sites)", path.display()),
        },
    }
}

fn notes(
    source: &Source,
    config: &Config,
    listening: &[(Address, Vec<BoundAddress>)],
) -> Vec<(&'static str, Cow<'static, str>)> {
    let mut notes = Vec::new();
    if config.engine.model != Model::default() {
        let reuse = if config.engine.keeps_alive() { "" } else { ", one request per connection" };
        notes.push(("Engine", format!("{}{reuse}", config.engine.model).into()));
    }
    let public_access = match source {
        Source::Folder { .. } => Some(PUBLIC_ACCESS),
        Source::Proxy { .. } => Some(PUBLIC_APPLICATION),
        Source::Mirror { .. } => Some(PUBLIC_MIRROR),
        Source::File(_) => None,
    };
    if let Some(public_access) = public_access {
        let is_local = listening.iter().flat_map(|(_, bound)| bound).all(is_loopback);
        notes.push(("Access", if is_local { LOCAL_ACCESS } else { public_access }.into()));
    }
    if let (Source::Mirror { table, .. }, Some((address, bound))) = (source, listening.first())
        && let (Some(preset), Some(bound)) = (table.preset(), bound.first())
    {
        let url = url(config.scheme_of(address), address, bound);
        let root = url.split(' ').next().unwrap_or_default().trim_end_matches('/');
        notes.push(("Client", preset.client_setting(root).into()));
        if let Some(folder) = config.cache.folder() {
            notes.push(("Stored in", folder.display().to_string().into()));
        }
    }
    if let Source::Folder { path, browse, .. } = source {
        if !browse {
            notes.push(("Directories", NO_LISTINGS.into()));
        }
        notes.push((
            "Not served",
            "hidden files (.env), PHP source, links that leave the folder; a configuration can allow them"
                .into(),
        ));
        let file = path.join("rudy.toml");
        if file.exists() {
            let text = format!("ignored, and served like any file; `rudy serve {}` uses it", file.display());
            notes.push(("rudy.toml", text.into()));
        }
    }
    if config.access_log.is_none() {
        notes.push(("Access log", NO_ACCESS_LOG.into()));
    }
    if !config.addresses().iter().any(|address| address.tls) {
        let how = match source {
            Source::Mirror { .. } => "none; a configuration file with `tls` encrypts",
            Source::Folder { .. } | Source::Proxy { .. } | Source::File(_) => {
                "none; --tls self-signed encrypts"
            }
        };
        notes.push(("Encryption", how.into()));
    }
    let makes =
        |kind| config.sites.iter().any(|site| site.tls.as_ref().is_some_and(|tls| tls.source == Some(kind)));
    if makes(CertificateSource::SelfSigned) {
        notes.push(("Certificate", "self-signed: browsers warn once, curl needs --insecure".into()));
    }
    if makes(CertificateSource::Auto) {
        let names = config.auto_names().join(", ");
        notes.push((
            "Certificates",
            format!("for {names}, from {}; renewed in time", config.acme.directory()).into(),
        ));
    }
    if makes(CertificateSource::Internal) {
        let note = "from the local authority, which `rudy certificates trust` installs";
        notes.push(("Certificate", note.into()));
    }
    notes
}

/// The URL of a listener with this scheme, for a browser. The wildcard address is shown as the loopback address.
pub(super) fn url(scheme: &str, address: &Address, bound: &BoundAddress) -> String {
    let option = if address.proxy_protocol { " (PROXY protocol required)" } else { "" };
    // A browser opens no other scheme than those of the web.
    let end = if scheme.starts_with("http") { "/" } else { "" };
    let url = match bound {
        // An explicit `[::]` accepts IPv6 only.
        BoundAddress::Ip(ip)
            if ip.ip().is_unspecified() && ip.is_ipv6() && matches!(address.endpoint, Endpoint::Ip(_)) =>
        {
            format!("{scheme}://[::1]:{}{end} (and every other IPv6 address of this machine)", ip.port())
        }
        BoundAddress::Ip(ip) if ip.ip().is_unspecified() => {
            format!("{scheme}://127.0.0.1:{}{end} (and every other address of this machine)", ip.port())
        }
        BoundAddress::Ip(ip) => format!("{scheme}://{ip}{end}"),
        BoundAddress::Unix(_) => bound.to_string(),
    };
    url + option
}

/// Whether only this machine can connect.
pub(super) fn is_loopback(bound: &BoundAddress) -> bool {
    match bound {
        BoundAddress::Ip(address) => address.ip().to_canonical().is_loopback(),
        BoundAddress::Unix(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_shown_as_a_url() {
        for (address, bound, shown) in [
            ("127.0.0.1:80", "127.0.0.1:80", "http://127.0.0.1:80/"),
            ("[::1]:80", "[::1]:80", "http://[::1]:80/"),
            ("[::1]:443,tls", "[::1]:443", "https://[::1]:443/"),
            (":80", "[::]:80", "http://127.0.0.1:80/ (and every other address of this machine)"),
            (":80", "0.0.0.0:80", "http://127.0.0.1:80/ (and every other address of this machine)"),
            ("[::]:80", "[::]:80", "http://[::1]:80/ (and every other IPv6 address of this machine)"),
            ("127.0.0.1:80,proxy_protocol", "127.0.0.1:80", "http://127.0.0.1:80/ (PROXY protocol required)"),
        ] {
            let scheme = if address.ends_with(",tls") { "https" } else { "http" };
            let bound = BoundAddress::Ip(bound.parse().unwrap());
            assert_eq!(url(scheme, &address.parse().unwrap(), &bound), shown);
        }
        let unix = BoundAddress::Unix("/run/rudy.sock".into());
        assert_eq!(url("http", &"unix:/run/rudy.sock".parse().unwrap(), &unix), "unix:/run/rudy.sock");
    }

    #[test]
    fn loopback_addresses_and_unix_sockets_are_local() {
        for (bound, expected) in [
            (BoundAddress::Ip(([127, 0, 0, 1], 1).into()), true),
            (BoundAddress::Ip("[::1]:1".parse().unwrap()), true),
            (BoundAddress::Unix("/s".into()), true),
            (BoundAddress::Ip("[::ffff:127.0.0.1]:1".parse().unwrap()), true),
            (BoundAddress::Ip("[::]:1".parse().unwrap()), false),
            (BoundAddress::Ip(([192, 0, 2, 1], 1).into()), false),
        ] {
            assert_eq!(is_loopback(&bound), expected, "{bound}");
        }
    }
}
