//! The hosts for which `rudy serve FOLDER` responds. With DNS rebinding, a web page could make a browser send requests to a local
//! server under the name of the page, and read the responses. So if only this machine can connect, only its own names are served.

use std::str::FromStr;

use rudy_net::listen::{BoundAddress, InheritedSockets};
use rudy_pipeline::routing::{HostPattern, own_hosts};
use rudy_service::listen_address::{Address, Endpoint};
use rudy_tls::Names;

use super::announce::is_loopback;

/// A host that `--host` allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedHost {
    /// Every host: `*`.
    Any,
    /// A name, or all names below one.
    Pattern(HostPattern),
}

impl FromStr for AllowedHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "*" { Ok(Self::Any) } else { text.parse().map(Self::Pattern) }
    }
}

/// Returns the hosts to serve; empty for every host. Other machines may use names that this machine does not know, so all hosts
/// are served if other machines can connect and no `--host` is given.
pub(super) fn allowed_hosts(
    given: &[AllowedHost],
    listen: &[Address],
    inherited: &InheritedSockets,
    machine: &str,
) -> Vec<HostPattern> {
    let is_open = given.is_empty() && !listen.iter().all(|address| is_local_only(address, inherited));
    if is_open || given.contains(&AllowedHost::Any) {
        return Vec::new();
    }
    let given = given.iter().filter_map(|host| match host {
        AllowedHost::Pattern(pattern) => Some(pattern.clone()),
        AllowedHost::Any => None,
    });
    let mut hosts = own_hosts(machine);
    for host in given {
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    hosts
}

/// Returns the hosts to serve with a certificate from a file: its names, and those that `--host` allows.
pub(super) fn hosts_of_certificate(names: &Names, given: &[AllowedHost]) -> Vec<HostPattern> {
    if given.contains(&AllowedHost::Any) {
        return Vec::new();
    }
    let of_certificate = names.iter().filter_map(|name| name.parse().ok());
    let given = given.iter().filter_map(|host| match host {
        AllowedHost::Pattern(pattern) => Some(pattern.clone()),
        AllowedHost::Any => None,
    });
    let mut hosts = vec![HostPattern::Unnamed];
    for host in of_certificate.chain(given) {
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    hosts
}

/// Whether only this machine can connect to an address.
fn is_local_only(address: &Address, inherited: &InheritedSockets) -> bool {
    match &address.endpoint {
        Endpoint::Ip(address) => is_loopback(&BoundAddress::Ip(*address)),
        Endpoint::AllInterfaces { .. } => false,
        Endpoint::Unix { .. } => true,
        Endpoint::Inherited { name } => inherited.bound(name.as_deref()).iter().all(is_loopback),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(given: &[&str], listen: &[&str], machine: &str) -> String {
        let given: Vec<_> = given.iter().map(|host| host.parse().unwrap()).collect();
        let listen: Vec<_> = listen.iter().map(|address| address.parse().unwrap()).collect();
        let hosts = allowed_hosts(&given, &listen, &InheritedSockets::default(), machine);
        hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn local_listeners_serve_only_names_of_this_machine() {
        let own = "IP addresses, localhost, *.localhost, box, box.local";
        for listen in [
            &["127.0.0.1:8080"][..],
            &["[::1]:80", "127.8.9.1:80", "unix:/run/rudy.sock"],
            &["[::ffff:127.0.0.1]:80"],
        ] {
            assert_eq!(hosts(&[], listen, "box"), own, "{listen:?}");
        }
        for listen in [&[":8080"][..], &["127.0.0.1:8080", "192.0.2.1:80"], &["0.0.0.0:80"], &["[::]:80"]] {
            assert_eq!(hosts(&[], listen, "box"), "", "{listen:?}");
        }
    }

    #[test]
    fn a_flag_adds_a_name_and_a_star_allows_all_hosts() {
        let local = &["127.0.0.1:0"];
        let own = "IP addresses, localhost, *.localhost, box, box.local";
        assert_eq!(
            hosts(&["A.test", "*.b.test", "localhost", "a.test"], local, "box"),
            format!("{own}, a.test, *.b.test")
        );
        assert_eq!(hosts(&["a.test", "*"], local, "box"), "");
        // With --host, only these names are served to other machines too.
        assert_eq!(hosts(&["a.test"], &[":0"], "box"), format!("{own}, a.test"));
    }

    #[test]
    fn the_machine_name_may_be_fully_qualified_or_invalid() {
        let local = &["127.0.0.1:0"];
        assert_eq!(
            hosts(&[], local, "Box.example.org"),
            "IP addresses, localhost, *.localhost, box.example.org, box.local"
        );
        for odd in ["", "(none)", "a b", "localhost"] {
            let expected = if odd == "localhost" { ", localhost.local" } else { "" };
            assert_eq!(hosts(&[], local, odd), format!("IP addresses, localhost, *.localhost{expected}"));
        }
    }
}
