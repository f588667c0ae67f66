//! The hosts that a folder is served for. A web page can have a browser ask a server of this machine under a name of its own, which
//! its DNS server leads here (DNS rebinding), and read the responses. So only names of this machine are responded to where only
//! this machine can connect.

use std::str::FromStr;

use rudy_net::listen::{Address, BoundAddress, Endpoint, InheritedSockets};

use super::announce::is_loopback;
use crate::routing::HostPattern;

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

/// The hosts to respond to, each once; none for every host. Other machines know this one by names that it does not know itself,
/// so that every host is responded to where they can connect and no name is given.
pub(super) fn allowed_hosts(
    given: &[AllowedHost],
    listen: &[Address],
    inherited: &InheritedSockets,
    machine: &str,
) -> Vec<HostPattern> {
    let is_open = given.is_empty() && !listen.iter().all(|address| is_only_here(address, inherited));
    if is_open || given.contains(&AllowedHost::Any) {
        return Vec::new();
    }
    let short = machine.split('.').next().unwrap_or_default();
    // Its name in the local network is that of multicast DNS (RFC 6762 §3). What is no host name cannot be asked for.
    let own = ["localhost", "*.localhost", machine, &format!("{short}.local")];
    let own = own.into_iter().filter_map(|name| name.parse().ok());
    let given = given.iter().filter_map(|host| match host {
        AllowedHost::Pattern(pattern) => Some(pattern.clone()),
        AllowedHost::Any => None,
    });
    let mut hosts = vec![HostPattern::Unnamed];
    for host in own.chain(given) {
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    hosts
}

/// The name of this machine, as `hostname` has it.
pub(super) fn machine_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Whether only this machine can connect to an address.
fn is_only_here(address: &Address, inherited: &InheritedSockets) -> bool {
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
    fn only_names_of_this_machine_are_allowed_where_only_it_can_connect() {
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
    fn a_flag_adds_a_name_and_a_star_allows_all() {
        let local = &["127.0.0.1:0"];
        let own = "IP addresses, localhost, *.localhost, box, box.local";
        assert_eq!(
            hosts(&["A.test", "*.b.test", "localhost", "a.test"], local, "box"),
            format!("{own}, a.test, *.b.test")
        );
        assert_eq!(hosts(&["a.test", "*"], local, "box"), "");
        // Who gives names where others can connect means these names.
        assert_eq!(hosts(&["a.test"], &[":0"], "box"), format!("{own}, a.test"));
    }

    #[test]
    fn a_machine_may_have_a_long_name_or_none_that_can_be_asked_for() {
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
