//! The report as text.

use std::fmt;
use std::time::SystemTime;

use rudy_request::{EarlyData, Url};
use rudy_tls::{Inspection, OcspState, OcspStatus, ServerCertificate, in_words};
use rudy_units::{bytes, counted, duration, visible};

use super::visit::{Step, Visit};
use crate::get::date;

/// What is known about a server.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) server: Url,
    /// The visit with a full handshake.
    pub(super) full: Visit,
    /// The visit that tries to resume its session, or why it failed.
    pub(super) resumed: Result<Visit, String>,
    pub(super) inspection: Inspection,
}

/// A phase of a visit, and what it took.
pub(super) struct Phase {
    pub(super) name: &'static str,
    /// The state at its end.
    pub(super) end: Step,
    pub(super) took: Step,
    pub(super) round_trips: u32,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({})", self.server.host_and_port(), self.full.remote)?;
        let mut line = |name: &str, value: &dyn fmt::Display| writeln!(f, "  {name:<14}{value}");
        let negotiated = &self.full.negotiated;
        line("version", &negotiated.version)?;
        line("cipher suite", &negotiated.cipher_suite)?;
        if let Some(group) = &negotiated.group {
            let strength = if negotiated.is_post_quantum() { "post-quantum" } else { "not post-quantum" };
            line("key exchange", &format_args!("{group} ({strength})"))?;
        }
        line("protocol", &negotiated.alpn.as_deref().unwrap_or("none chosen (ALPN)"))?;
        for (index, certificate) in self.inspection.certificates.iter().enumerate() {
            line(if index == 0 { "certificate" } else { "issued by" }, &describe(certificate))?;
            for detail in details(certificate, index == 0) {
                line("", &detail)?;
            }
        }
        line("OCSP", &self.ocsp())?;
        line("resumption", &self.resumption())?;
        line("early data", &self.early_data())?;
        match &self.full.status {
            Ok(status) => line("response", status)?,
            Err(why) => line("response", &format_args!("none: {why}"))?,
        }
        phases_table(f, "full handshake", &self.full)?;
        if let Ok(visit) = &self.resumed
            && visit.handshake.is_resumed
        {
            phases_table(f, "resumed", visit)?;
        }
        match &self.inspection.problems[..] {
            [] => writeln!(f, "\nNo problem with the certificates was found."),
            problems => {
                writeln!(f, "\nproblems")?;
                problems.iter().try_for_each(|problem| writeln!(f, "  {}", visible(&problem.to_string())))
            }
        }
    }
}

impl Report {
    fn ocsp(&self) -> String {
        match &self.inspection.ocsp {
            None => "no stapled response".to_owned(),
            Some(Err(why)) => format!("the stapled response is unusable: {why}"),
            Some(Ok(OcspStatus { state, this_update, next_update })) => {
                let state = match state {
                    OcspState::Good => "good".to_owned(),
                    OcspState::Revoked(since) => format!("revoked on {}", date(*since)),
                    OcspState::Unknown => "unknown to the responder".to_owned(),
                };
                let until = next_update.map(|until| format!(" to {}", date(until))).unwrap_or_default();
                format!("stapled: {state}, from {}{until}", date(*this_update))
            }
        }
    }

    fn resumption(&self) -> String {
        let tickets = match self.full.negotiated.tickets {
            0 => String::new(),
            tickets => format!(", {} offered", counted(tickets, "ticket")),
        };
        match &self.resumed {
            Ok(visit) if visit.handshake.is_resumed => format!("yes{tickets}"),
            Ok(_) => format!("no: the second handshake was a full one{tickets}"),
            Err(why) => format!("not known, because the second connection failed: {why}"),
        }
    }

    fn early_data(&self) -> &'static str {
        match &self.resumed {
            Ok(visit) => match visit.handshake.early_data {
                EarlyData::Accepted => "accepted",
                EarlyData::Rejected => "offered, and then rejected",
                EarlyData::NotSent => "not offered",
            },
            Err(_) => "not known",
        }
    }
}

impl Visit {
    /// The phases that took place, in order.
    pub(super) fn phases(&self) -> Vec<Phase> {
        let mut phases = Vec::new();
        let mut before = Step::default();
        // The handshake of TCP is one round trip. A response is one too, unless the request was sent before the handshake.
        let is_early = self.handshake.early_data == EarlyData::Accepted;
        let steps = [
            ("TCP connected", Some(self.connected), 1),
            ("TLS done", Some(self.established), self.established.traffic.round_trips),
            ("first byte", self.first_byte, u32::from(!is_early)),
        ];
        for (name, end, round_trips) in steps {
            let Some(end) = end else { continue };
            phases.push(Phase { name, end, took: end.since(&before), round_trips });
            before = end;
        }
        phases
    }
}

fn phases_table(f: &mut fmt::Formatter<'_>, title: &str, visit: &Visit) -> fmt::Result {
    writeln!(
        f,
        "\n  {title:<16}{:>10}{:>10}{:>13}{:>11}{:>11}{:>16}",
        "at", "took", "round trips", "sent", "received", "packets out/in"
    )?;
    for Phase { name, end, took, round_trips } in visit.phases() {
        let packets = format!("{}/{}", took.packets.sent, took.packets.received);
        writeln!(
            f,
            "  {name:<16}{:>10}{:>10}{round_trips:>13}{:>11}{:>11}{packets:>16}",
            duration(end.at),
            duration(took.at),
            bytes(took.traffic.sent),
            bytes(took.traffic.received),
        )?;
    }
    Ok(())
}

fn describe(certificate: &ServerCertificate) -> String {
    let names: Vec<_> = certificate.names.iter().collect();
    let names = if names.is_empty() { String::new() } else { format!(", for {}", names.join(", ")) };
    visible(&format!("{}{names}", certificate.owner))
}

fn details(certificate: &ServerCertificate, is_first: bool) -> Vec<String> {
    let key = certificate.key.map_or_else(|| "another kind of key".to_owned(), |key| key.to_string());
    let mut details =
        vec![format!("{key}; signed by {} ({})", visible(&certificate.issuer), certificate.signature)];
    let now = SystemTime::now();
    let left = match certificate.not_after.duration_since(now) {
        Ok(left) => format!("expires in {}", in_words(left)),
        Err(error) => format!("expired {} ago", in_words(error.duration())),
    };
    let from =
        if is_first { format!("valid from {} ", date(certificate.not_before)) } else { "valid ".to_owned() };
    details.push(format!("{from}to {}, {left}", date(certificate.not_after)));
    details
}
