//! Checks whether certificates fit their site.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rudy_log::utc;
use rudy_pipeline::routing::HostPattern;
use rudy_tls::Certificate;
use rudy_units::counted;

/// Reports a certificate that is not valid now, or not for a host of the site. One of several is valid for at least one host.
pub(super) fn misfit(
    certificate: &Certificate,
    hosts: &[HostPattern],
    is_alone: bool,
    now: SystemTime,
) -> Option<String> {
    if now > certificate.not_after {
        return Some(format!("the certificate has expired ({})", utc(certificate.not_after)));
    }
    if now < certificate.not_before {
        return Some(format!("the certificate is not valid before {}", utc(certificate.not_before)));
    }
    let missing = hosts.iter().find(|host| !is_valid_for(certificate, host))?;
    if !is_alone && hosts.iter().any(|host| is_valid_for(certificate, host)) {
        return None;
    }
    let names: Vec<_> = certificate.names.iter().collect();
    let names = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
    Some(format!("the certificate is not valid for {missing}, but for {names}"))
}

/// Returns a host of the site that none of the certificates is valid for.
pub(super) fn host_without<'h>(
    certificates: &[Arc<Certificate>],
    hosts: &'h [HostPattern],
) -> Option<&'h HostPattern> {
    hosts.iter().find(|host| !certificates.iter().any(|certificate| is_valid_for(certificate, host)))
}

/// Hosts without one name are for any certificate.
fn is_valid_for(certificate: &Certificate, host: &HostPattern) -> bool {
    host.certificate_name().is_none_or(|name| certificate.names.include(name.as_ref()))
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
    let (source, end) = (&certificate.source, utc(certificate.not_after));
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
