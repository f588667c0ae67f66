//! `rudy certificates`: the certificates of a running server.

use jiff::Timestamp;
use rudy_admin::{CertificateStatus, Request, Response, RunningServer};
use rudy_server::run::Exit;
use rudy_units::{counted, visible};
use serde_json::json;

use super::{json_line, print_response};

/// The options of `rudy certificates`.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The server.
    pub(crate) server: RunningServer,
    /// Prints JSON.
    pub(crate) json: bool,
}

/// Asks the server and prints its certificates.
#[must_use]
pub(crate) fn run(options: &Options) -> Exit {
    print_response(&options.server, &Request::Certificates, |response| match response {
        Response::Certificates(all) if options.json => Ok(json_line(&json!({ "certificates": all }))),
        Response::Certificates(all) => Ok(text(&all, Timestamp::now())),
        other => Err(other),
    })
}

/// The server's words are shown without control characters.
fn text(all: &[CertificateStatus], now: Timestamp) -> String {
    if all.is_empty() {
        return "no site of this server has TLS\n".to_owned();
    }
    let blocks = all.iter().map(|certificate| {
        let error = certificate.last_error.as_ref();
        let error = error.map(|error| ("error", format!("{} ({})", error.message, error.time)));
        let expires = certificate.not_after.as_ref();
        let facts = [
            (
                "expires",
                Some(expires.map_or_else(|| "(no certificate yet)".to_owned(), |time| expiry(time, now))),
            ),
            ("issuer", certificate.issuer.clone()),
            ("key", certificate.key_type.clone()),
            ("source", Some(certificate.source.clone())),
            ("next", certificate.next_attempt.as_ref().map(|time| format!("attempt at {time}"))),
        ];
        let facts = facts.into_iter().filter_map(|(what, value)| Some((what, value?))).chain(error);
        let lines = facts.map(|(what, value)| format!("  {what:<8} {}", visible(&value)));
        let lines: Vec<_> = std::iter::once(names(&certificate.names)).chain(lines).collect();
        lines.join("\n") + "\n"
    });
    blocks.collect::<Vec<_>>().join("\n")
}

fn names(names: &[String]) -> String {
    if names.is_empty() { "(no name)".to_owned() } else { visible(&names.join(", ")) }
}

/// `2027-01-12 (in 50 days)`
fn expiry(time: &str, now: Timestamp) -> String {
    let Ok(end) = time.parse::<Timestamp>() else { return time.to_owned() };
    let (date, hours) = (end.strftime("%Y-%m-%d"), (end.as_second() - now.as_second()) / 3600);
    match hours {
        ..0 => format!("{date} (expired)"),
        0..48 => format!("{date} (in {})", counted(hours.unsigned_abs(), "hour")),
        _ => format!("{date} (in {})", counted(hours.unsigned_abs() / 24, "day")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_is_in_days_or_hours() {
        let now = "2026-11-23T12:00:00Z".parse().unwrap();
        for (time, expected) in [
            ("2027-01-12T12:00:00Z", "2027-01-12 (in 50 days)"),
            ("2026-11-24T13:00:00Z", "2026-11-24 (in 25 hours)"),
            ("2026-11-23T13:00:00Z", "2026-11-23 (in 1 hour)"),
            ("2026-11-23T11:00:00Z", "2026-11-23 (expired)"),
            ("soon", "soon"),
        ] {
            assert_eq!(expiry(time, now), expected);
        }
    }
}
