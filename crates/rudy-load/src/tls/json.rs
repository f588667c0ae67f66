//! The report as JSON. Keys name their unit; those without one are counts, texts or flags.

use std::time::{Duration, SystemTime};

use rudy_request::{EarlyData, Error, Url};
use rudy_tls::{OcspState, OcspStatus, ServerCertificate};
use serde_json::{Map, Value, json};

use super::report::Report;
use super::visit::Visit;
use crate::get::date;

/// The report of a server that could be reached.
pub(super) fn report(report: &Report) -> Value {
    let (negotiated, inspection) = (&report.full.negotiated, &report.inspection);
    let problems: Vec<_> = inspection
        .problems
        .iter()
        .map(|problem| json!({"kind": problem.name(), "text": problem.to_string()}))
        .collect();
    let expiry = inspection.expiry();
    json!({
        "server": report.server.host_and_port(),
        "remote": report.full.remote.to_string(),
        "version": negotiated.version,
        "cipher_suite": negotiated.cipher_suite,
        "key_exchange_group": negotiated.group,
        "is_post_quantum": negotiated.is_post_quantum(),
        "alpn": negotiated.alpn,
        "certificates": inspection.certificates.iter().map(certificate).collect::<Vec<_>>(),
        "expires": expiry.map(date),
        "expires_in_s": expiry.map(seconds_from_now),
        "problems": problems,
        "ocsp": inspection.ocsp.as_ref().map(ocsp),
        "tickets": negotiated.tickets,
        "is_resumed": report.resumed.as_ref().ok().map(|visit| visit.handshake.is_resumed),
        "early_data": report.resumed.as_ref().ok().map(|visit| early_data(visit.handshake.early_data)),
        "full": visit(&report.full),
        "resumed": report.resumed.as_ref().ok().map(visit),
        "resumed_error": report.resumed.as_ref().err(),
        "error": null,
    })
}

/// The report of a server that could not be reached, or whose handshake failed.
pub(super) fn failure(server: &Url, error: &Error) -> Value {
    json!({"server": server.host_and_port(), "error_kind": error.name(), "error": error.to_string()})
}

fn visit(visit: &Visit) -> Value {
    let mut phases = Map::new();
    for phase in visit.phases() {
        let value = json!({
            "at_s": seconds(phase.end.at),
            "took_s": seconds(phase.took.at),
            "round_trips": phase.round_trips,
            "sent_bytes": phase.took.traffic.sent,
            "received_bytes": phase.took.traffic.received,
            "sent_packets": phase.took.packets.sent,
            "received_packets": phase.took.packets.received,
        });
        phases.insert(phase.name.replace(' ', "_").to_lowercase(), value);
    }
    json!({
        "is_resumed": visit.handshake.is_resumed,
        "handshake_cpu_s": seconds(visit.handshake.cpu),
        "status": visit.status.as_ref().ok(),
        "no_response_because": visit.status.as_ref().err(),
        "phases": phases,
    })
}

fn certificate(certificate: &ServerCertificate) -> Value {
    json!({
        "subject": certificate.owner,
        "issuer": certificate.issuer,
        "serial": certificate.serial,
        "names": certificate.names.iter().collect::<Vec<_>>(),
        "key": certificate.key.map(|key| key.to_string()),
        "signature": certificate.signature,
        "not_before": date(certificate.not_before),
        "not_after": date(certificate.not_after),
        "expires_in_s": seconds_from_now(certificate.not_after),
    })
}

fn ocsp(response: &Result<OcspStatus, String>) -> Value {
    match response {
        Err(why) => json!({"state": "unusable", "reason": why}),
        Ok(OcspStatus { state, this_update, next_update }) => json!({
            "state": match state {
                OcspState::Good => "good",
                OcspState::Revoked(_) => "revoked",
                OcspState::Unknown => "unknown",
            },
            "this_update": date(*this_update),
            "next_update": next_update.map(date),
        }),
    }
}

fn early_data(early_data: EarlyData) -> &'static str {
    match early_data {
        EarlyData::NotSent => "not_offered",
        EarlyData::Accepted => "accepted",
        EarlyData::Rejected => "rejected",
    }
}

/// More digits would exceed the precision of the clock.
#[expect(clippy::cast_precision_loss, reason = "microseconds of 285 years are exact")]
fn seconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e6
}

/// Negative for a time in the past.
fn seconds_from_now(time: SystemTime) -> i64 {
    let whole = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::now()) {
        Ok(left) => whole(left),
        Err(error) => -whole(error.duration()),
    }
}
