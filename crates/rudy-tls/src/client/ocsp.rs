//! The OCSP response that a server staples to its certificate (RFC 6066 §8, RFC 6960).

use std::time::SystemTime;

use rustls::pki_types::CertificateDer;
use x509_parser::asn1_rs::{Any, Class, FromDer as _, GeneralizedTime, Tag};
use x509_parser::prelude::{ASN1Time, X509Certificate};

use crate::certificate::time;

/// The content of a stapled OCSP response. Its signature is not verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OcspStatus {
    /// What it says about the certificate.
    pub state: OcspState,
    /// When this was known to be correct.
    pub this_update: SystemTime,
    /// When newer information is available.
    pub next_update: Option<SystemTime>,
}

/// What an OCSP response says about a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OcspState {
    /// Not revoked.
    Good,
    /// Revoked at this time.
    Revoked(SystemTime),
    /// The responder does not know the certificate.
    Unknown,
}

impl OcspStatus {
    /// Reads a response about a certificate.
    ///
    /// # Errors
    ///
    /// The response is invalid, reports an error, or is about another certificate.
    pub fn read(response: &[u8], certificate: &CertificateDer<'_>) -> Result<Self, String> {
        let (serial, status) = parse(response).ok_or("it is no successful response in DER")?;
        let (_, certificate) = X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
        if certificate.raw_serial() == serial {
            Ok(status)
        } else {
            Err("it is about another certificate".to_owned())
        }
    }
}

/// Returns the serial number of the first certificate in the response, and its status.
fn parse(response: &[u8]) -> Option<(&[u8], OcspStatus)> {
    let outer = items(response)?;
    let fields = items(outer.first()?.data)?;
    // The response bytes exist only in a successful response (RFC 6960 §4.2.1).
    let bytes = items(fields.get(1)?.data)?;
    let typed = items(bytes.first()?.data)?;
    let basic = items(typed.get(1)?.data)?;
    let signed = items(basic.first()?.data)?;
    let data = items(signed.first()?.data)?;
    let responses = data.iter().find(|item| item.tag() == Tag::Sequence)?;
    let responses = items(responses.data)?;
    let single = items(responses.first()?.data)?;
    let [id, state, this_update, rest @ ..] = &single[..] else { return None };
    let id = items(id.data)?;
    let next_update = rest.iter().find(|item| is_context(item, 0)).and_then(|item| items(item.data));
    let next_update = next_update.and_then(|inner| at(inner.first()?));
    let status = OcspStatus { state: state_of(state)?, this_update: at(this_update)?, next_update };
    Some((id.get(3)?.data, status))
}

fn state_of(item: &Any<'_>) -> Option<OcspState> {
    match item.tag().0 {
        0 => Some(OcspState::Good),
        1 => Some(OcspState::Revoked(at(items(item.data)?.first()?)?)),
        2 => Some(OcspState::Unknown),
        _ => None,
    }
}

/// The elements in the content of a constructed one.
fn items(mut bytes: &[u8]) -> Option<Vec<Any<'_>>> {
    let mut items = Vec::new();
    while !bytes.is_empty() {
        let (rest, item) = Any::from_der(bytes).ok()?;
        items.push(item);
        bytes = rest;
    }
    Some(items)
}

fn is_context(item: &Any<'_>, number: u32) -> bool {
    item.header.class() == Class::ContextSpecific && item.tag().0 == number
}

fn at(item: &Any<'_>) -> Option<SystemTime> {
    let generalized = GeneralizedTime::try_from(item.clone()).ok()?;
    Some(time(ASN1Time::from(generalized.utc_datetime().ok()?)))
}
