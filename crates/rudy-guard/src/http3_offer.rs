//! Tells clients over TCP that a listener has HTTP/3 (RFC 7838).

use std::sync::Arc;

use http::StatusCode;
use rudy_pipeline::field_changes::FieldChange;
use rudy_service::listen_address::Http3Offer;
use rudy_service::{Client, Reply};
use rudy_tls::Protocol;

use crate::fields::Changes;

/// How long clients remember a listener that no client has reached over UDP yet: a firewall may drop its packets.
const NEW_SECONDS: u32 = 60;

/// How long they remember one that has been reached: as in Caddy, a month.
const PROVEN_SECONDS: u32 = 30 * 24 * 60 * 60;

/// The offers of listeners, by their ports.
#[derive(Debug, Clone)]
pub struct Http3Offers(Arc<[Offer]>);

/// What a listener says.
#[derive(Debug)]
struct Offer {
    port: u16,
    new: Changes,
    proven: Changes,
    withdrawn: Changes,
}

impl Http3Offers {
    /// Prepares the offers of listeners with these ports.
    pub fn new(ports: impl IntoIterator<Item = u16>) -> Self {
        let changes = |value: &str| Changes::new(&[FieldChange::default("alt-svc", value)]);
        let for_time = |port: u16, seconds: u32| changes(&format!("h3=\":{port}\"; ma={seconds}"));
        let offer = |port| Offer {
            port,
            new: for_time(port, NEW_SECONDS),
            proven: for_time(port, PROVEN_SECONDS),
            withdrawn: changes("clear"),
        };
        Self(ports.into_iter().map(offer).collect())
    }

    /// Adds the offer of the client's listener to the response. A client of HTTP/3 knows it, and one without TLS could not check who makes
    /// the offer (RFC 7838 §2.1).
    #[must_use]
    pub fn add(&self, reply: Reply, client: &Client<'_>) -> Reply {
        let Some(tls) = client.tls.as_ref().filter(|tls| tls.protocol != Protocol::Http3) else {
            return reply;
        };
        let Some(listener) = &client.listener else { return reply };
        let offer = match listener.offer.get() {
            Http3Offer::None => return reply,
            Http3Offer::New | Http3Offer::Proven if !tls.has_http3 => return reply,
            offer => offer,
        };
        let port = listener.endpoint.port();
        let Some(at) = self.0.iter().position(|offer| Some(offer.port) == port) else { return reply };
        let offers = self.clone();
        reply.map(move |response| {
            let Offer { new, proven, withdrawn, .. } = &offers.0[at];
            // The client has the wrong server already (RFC 7838 §6).
            if response.status() == StatusCode::MISDIRECTED_REQUEST {
                return response;
            }
            match offer {
                Http3Offer::Proven => proven.apply(response),
                Http3Offer::Withdrawn => withdrawn.apply(response),
                Http3Offer::New | Http3Offer::None => new.apply(response),
            }
        })
    }
}
