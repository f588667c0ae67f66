//! Checks whether certificates fit their site.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use rudy_tls::Certificate;
use rudy_units::counted;

use crate::config::{Config, Location, Problem, Site};
use crate::routing::HostPattern;

/// Reports a certificate that is not valid now, or not for a host of the site.
pub(super) fn misfit(certificate: &Certificate, hosts: &[HostPattern], now: SystemTime) -> Option<String> {
    if now > certificate.not_after {
        return Some(format!("the certificate has expired ({})", date(certificate.not_after)));
    }
    if now < certificate.not_before {
        return Some(format!("the certificate is not valid before {}", date(certificate.not_before)));
    }
    let missing =
        hosts.iter().find(|host| name(host).is_some_and(|name| !certificate.names.include(name.as_ref())))?;
    let names: Vec<_> = certificate.names.iter().collect();
    let names = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
    Some(format!("the certificate is not valid for {missing}, but for {names}"))
}

/// The remaining time of a certificate at which the operator should know about it: tools renew a third of the validity before its
/// end, so something is wrong.
const SOON: Duration = Duration::from_hours(14 * 24);

/// Returns a line about a certificate that expires soon.
pub(super) fn expiry_notice(certificate: &Certificate, now: SystemTime) -> Option<String> {
    let left = certificate.not_after.duration_since(now).ok().filter(|left| *left < SOON)?;
    let left = counted(left.as_secs() / (24 * 3600), "day");
    let source = &certificate.source;
    Some(format!("the certificate in {source} expires in {left} ({})", date(certificate.not_after)))
}

/// The name of a host in a certificate. IPv6 addresses are without brackets there.
pub(super) fn name(host: &HostPattern) -> Option<std::borrow::Cow<'_, str>> {
    match host {
        HostPattern::Exact(name) => Some(name.trim_matches(['[', ']']).into()),
        HostPattern::Below(parent) => Some(format!("*.{parent}").into()),
        HostPattern::Unnamed => None,
    }
}

pub(super) fn date(time: SystemTime) -> String {
    Timestamp::try_from(time).map_or_else(|_| "an unknown time".to_owned(), |time| time.to_string())
}

/// Reports sites with TLS that no address serves, and addresses with TLS that serve no site.
pub(crate) fn listeners(config: &Config) -> Option<Problem> {
    let address = config.listen.iter().position(|address| address.tls);
    let site = config.sites.iter().find(|site| site.tls.is_some());
    match (address, site) {
        (Some(index), None) => {
            let problem = Problem::value(&Location::file(0).key("listen").index(index), "no site has TLS");
            Some(
                problem.label("expects HTTPS").help(
                    "add `tls = \"self-signed\"`, or `tls` with `certificate` and `key`, to a [[site]]",
                ),
            )
        }
        (None, Some(site)) => Some(without_listener(site)),
        _ => None,
    }
}

fn without_listener(site: &Site) -> Problem {
    let problem = Problem::key(&site.location.key("tls"), "no address accepts HTTPS");
    problem.label("a site with TLS").help("append `,tls` to an address: `listen = [\":443,tls\", \":80\"]`")
}

/// Returns a line about sessions that are in memory only, because early data must not be accepted twice.
pub(crate) fn early_data_notice(config: &Config) -> Option<String> {
    let has_early_data = |site: &Site| site.tls.as_ref().is_some_and(|tls| tls.early_data);
    config.sites.iter().any(has_early_data).then(|| {
        "sites with `early_data` keep their sessions in memory: after a restart, and at another machine, clients \
         make a full handshake"
            .to_owned()
    })
}
