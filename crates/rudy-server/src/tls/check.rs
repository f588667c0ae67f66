//! Checks whether certificates fit their site.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use rudy_config::Problem;
use rudy_net::listen::Address;
use rudy_tls::Certificate;
use rudy_units::counted;

use crate::config::{Config, Site};
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

/// The remaining time of a certificate that was reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Expiry {
    Days(u64),
    Expired,
}

/// When the remaining time is reported: these days before the end, but not in the first seven tenths of the
/// validity: tools renew after two thirds.
const DAYS: [u64; 3] = [1, 7, 30];

const DAY: Duration = Duration::from_hours(24);

/// Returns the last time at which it should have been reported.
pub(super) fn expiry(certificate: &Certificate, now: SystemTime) -> Option<Expiry> {
    let Ok(left) = certificate.not_after.duration_since(now) else { return Some(Expiry::Expired) };
    let validity = certificate.not_after.duration_since(certificate.not_before).unwrap_or_default();
    if left > validity.mul_f64(0.3) {
        return None;
    }
    DAYS.into_iter().find(|days| left <= DAY * u32::try_from(*days).unwrap_or(u32::MAX)).map(Expiry::Days)
}

/// Returns a line about a certificate that expires soon.
pub(super) fn expiry_notice(certificate: &Certificate, now: SystemTime) -> String {
    let names = certificate.names.iter().collect::<Vec<_>>().join(", ");
    let (source, end) = (&certificate.source, date(certificate.not_after));
    match certificate.not_after.duration_since(now) {
        Ok(left) if left < 2 * DAY => {
            format!(
                "the certificate for {names} ({source}) expires in {} ({end})",
                counted(left.as_secs() / 3600, "hour")
            )
        }
        Ok(left) => format!(
            "the certificate for {names} ({source}) expires in {} ({end})",
            counted(left.as_secs() / DAY.as_secs(), "day")
        ),
        Err(_) => format!("the certificate for {names} ({source}) has expired ({end})"),
    }
}

/// The name of a host in a certificate. IPv6 addresses are without brackets there.
pub(crate) fn name(host: &HostPattern) -> Option<std::borrow::Cow<'_, str>> {
    match host {
        HostPattern::Exact(name) => Some(name.trim_matches(['[', ']']).into()),
        HostPattern::Below(parent) => Some(format!("*.{parent}").into()),
        HostPattern::Unnamed => None,
    }
}

/// Formats a time in RFC 3339, without fractions of a second.
pub(crate) fn date(time: SystemTime) -> String {
    let time = Timestamp::try_from(time).and_then(|time| Timestamp::from_second(time.as_second()));
    time.map_or_else(|_| "an unknown time".to_owned(), |time| time.to_string())
}

/// Reports an address whose connections may speak HTTP/2, which the engine does not.
pub(crate) fn h2c(config: &Config) -> Option<Problem> {
    let (_, location) = config.located_addresses().into_iter().find(|(address, _)| address.h2c)?;
    config.engine.model.has_thread_per_connection().then(|| {
        Problem::value(&location, format!("the engine `{}` speaks only HTTP/1.1", config.engine.model))
            .label("expects HTTP/2")
            .help("use the engine `percore`, `task` or `mailbox`, or remove `,h2c`")
    })
}

/// Reports an address with TLS that serves no site with TLS, and a site with TLS that no address with TLS serves.
pub(crate) fn listeners(config: &Config) -> impl Iterator<Item = Problem> {
    let has_no_site =
        |address: &Address| address.tls && config.sites_at(address).all(|site| site.tls.is_none());
    let address = config.located_addresses().into_iter().find(|(address, _)| has_no_site(address));
    let address = address.map(|(_, location)| {
        let help = "add `tls = \"self-signed\"`, or `tls` with `certificate` and `key`, to a [[site]]";
        Problem::value(&location, "no site has TLS").label("expects HTTPS").help(help)
    });
    let has_no_address =
        |site: &&Site| site.tls.is_some() && config.addresses_of(site).iter().all(|address| !address.tls);
    let site = config.sites.iter().find(has_no_address).map(|site| {
        let problem = Problem::key(&site.location.key("tls"), "no address accepts HTTPS");
        let help = "append `,tls` to an address: `listen = [\":443,tls\", \":80\"]`";
        problem.label("a site with TLS").help(help)
    });
    address.into_iter().chain(site)
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
