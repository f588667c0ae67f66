//! What is said at the start: where it listens, and what it will not do.

use std::io::{self, Write};
use std::path::{Path, absolute};

use rudy_net::engine::Model;
use rudy_net::listen::{Address, Bound, Endpoint};

use super::{Options, Source};
use crate::config::Config;

const ONLY_HERE: &str = "Only this machine can reach it: --listen :8080 lets others in.";
const EVERYBODY: &str = "Whoever can reach this machine can read these files.";

/// Says on `out` what is served where. Each address stands on a line of its own, indented by two spaces.
pub(super) fn announce(
    out: &mut impl Write,
    options: &Options,
    config: &Config,
    listening: &[(Address, Vec<Bound>)],
) -> io::Result<()> {
    match &options.source {
        Source::Folder { path, .. } => {
            let path = absolute(path).unwrap_or_else(|_| path.clone());
            writeln!(out, "Rudy serves the folder {} at", path.display())?;
        }
        Source::File(path) => writeln!(out, "Rudy serves {} at", described(config.sites.len(), path))?,
    }
    for (address, bound) in listening {
        for bound in bound {
            writeln!(out, "  {}", url(address, bound))?;
        }
    }
    if config.engine.model != Model::default() {
        let answers = if config.engine.keeps_alive() { "" } else { ", one answer for each connection" };
        writeln!(out, "Engine: {}{answers}.", config.engine.model)?;
    }
    if let Source::Folder { path, browse, .. } = &options.source {
        let is_only_here = listening.iter().flat_map(|(_, bound)| bound).all(is_loopback);
        writeln!(out, "{}", if is_only_here { ONLY_HERE } else { EVERYBODY })?;
        writeln!(out, "Not served: hidden files, PHP source, and links that lead out of the folder.")?;
        if !browse {
            writeln!(out, "Folders without an index.html are not listed: --browse lists them.")?;
        }
        if path.join("rudy.toml").exists() {
            writeln!(
                out,
                "There is a rudy.toml in it, which is not used, and served like any file: `rudy serve {}` uses it.",
                path.join("rudy.toml").display()
            )?;
        }
    }
    if config.access_log.is_none() {
        writeln!(
            out,
            "Requests are not logged: --access-log FILE does, or --access-log - for standard output."
        )?;
    }
    writeln!(out, "There is no TLS: what is sent can be read on its way.")
}

fn described(sites: usize, path: &Path) -> String {
    match sites {
        1 => format!("1 site of {}", path.display()),
        sites => format!("{sites} sites of {}", path.display()),
    }
}

/// An address as a browser takes it. One that stands for all is shown as one of them.
pub(super) fn url(address: &Address, bound: &Bound) -> String {
    let option = if address.proxy_protocol { " (with the PROXY protocol only)" } else { "" };
    let url = match bound {
        // A written `[::]` takes IPv6 alone.
        Bound::Ip(ip)
            if ip.ip().is_unspecified() && ip.is_ipv6() && matches!(address.endpoint, Endpoint::Ip(_)) =>
        {
            format!("http://[::1]:{}/ and at every other IPv6 address of this machine", ip.port())
        }
        Bound::Ip(ip) if ip.ip().is_unspecified() => {
            format!("http://127.0.0.1:{}/ and at every other address of this machine", ip.port())
        }
        Bound::Ip(ip) => format!("http://{ip}/"),
        Bound::Unix(_) => bound.to_string(),
    };
    url + option
}

/// Whether only this machine gets there.
pub(super) fn is_loopback(bound: &Bound) -> bool {
    match bound {
        Bound::Ip(address) => address.ip().to_canonical().is_loopback(),
        Bound::Unix(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_as_a_browser_takes_it() {
        for (address, bound, shown) in [
            ("127.0.0.1:80", "127.0.0.1:80", "http://127.0.0.1:80/"),
            ("[::1]:80", "[::1]:80", "http://[::1]:80/"),
            (":80", "[::]:80", "http://127.0.0.1:80/ and at every other address of this machine"),
            (":80", "0.0.0.0:80", "http://127.0.0.1:80/ and at every other address of this machine"),
            ("[::]:80", "[::]:80", "http://[::1]:80/ and at every other IPv6 address of this machine"),
            (
                "127.0.0.1:80,proxy_protocol",
                "127.0.0.1:80",
                "http://127.0.0.1:80/ (with the PROXY protocol only)",
            ),
        ] {
            assert_eq!(url(&address.parse().unwrap(), &Bound::Ip(bound.parse().unwrap())), shown);
        }
        let unix = Bound::Unix("/run/rudy.sock".into());
        assert_eq!(url(&"unix:/run/rudy.sock".parse().unwrap(), &unix), "unix:/run/rudy.sock");
    }

    #[test]
    fn only_loopback_addresses_and_unix_sockets_are_for_this_machine_alone() {
        for (bound, expected) in [
            (Bound::Ip(([127, 0, 0, 1], 1).into()), true),
            (Bound::Ip("[::1]:1".parse().unwrap()), true),
            (Bound::Unix("/s".into()), true),
            (Bound::Ip("[::ffff:127.0.0.1]:1".parse().unwrap()), true),
            (Bound::Ip("[::]:1".parse().unwrap()), false),
            (Bound::Ip(([192, 0, 2, 1], 1).into()), false),
        ] {
            assert_eq!(is_loopback(&bound), expected, "{bound}");
        }
    }
}
