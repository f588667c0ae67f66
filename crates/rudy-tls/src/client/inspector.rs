//! Looks at the certificates of a server without rejecting any.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use super::{OcspState, OcspStatus, Problem, RevocationLists, ServerCertificate};
use crate::KeyType;

/// The minimum size of RSA keys and curves (NIST SP 800-131A).
const RSA_BITS_MIN: usize = 2048;
const CURVE_BITS_MIN: usize = 256;

/// Accepts every certificate, so that a report can have all problems and not just the first. Do not send anything
/// confidential on such a connection.
#[derive(Debug)]
pub struct Inspector {
    verifier: Arc<dyn ServerCertVerifier>,
    /// The certificates of `--cacert`.
    authorities: Vec<CertificateDer<'static>>,
    seen: Mutex<Seen>,
}

/// What the last full handshake has shown.
#[derive(Debug, Default, Clone)]
struct Seen {
    ocsp: Vec<u8>,
    /// Why the signature of the handshake is invalid.
    invalid_proof: Option<String>,
}

/// The certificates of a server, and what is wrong with them.
#[derive(Debug, Clone, Default)]
pub struct Inspection {
    /// The chain as the server sent it, its own certificate first.
    pub certificates: Vec<ServerCertificate>,
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// The stapled OCSP response, or why it is unusable; `None` without one.
    pub ocsp: Option<Result<OcspStatus, String>>,
}

impl Inspection {
    /// The time at which the first certificate of the chain expires.
    #[must_use]
    pub fn expiry(&self) -> Option<SystemTime> {
        self.certificates.iter().map(|certificate| certificate.not_after).min()
    }
}

impl Inspector {
    pub(super) fn new(
        verifier: Arc<dyn ServerCertVerifier>,
        authorities: Vec<CertificateDer<'static>>,
    ) -> Self {
        Self { verifier, authorities, seen: Mutex::default() }
    }

    /// Finds what is wrong with the chain of the server `name` at this time.
    #[must_use]
    pub fn inspect(
        &self,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: SystemTime,
        lists: &RevocationLists,
    ) -> Inspection {
        let seen = self.seen.lock().clone();
        let (mut certificates, mut problems) = (Vec::new(), Vec::new());
        for der in chain {
            match ServerCertificate::read(der) {
                Ok(certificate) => certificates.push(certificate),
                Err(why) => problems.push(Problem::Unreadable(why)),
            }
        }
        problems.extend(certificates.iter().filter_map(|certificate| validity_problem(certificate, now)));
        if let (Some(der), Some(first)) = (chain.first(), certificates.first()) {
            problems.extend(name_problem(der, first, name));
            problems.extend(self.trust_problem(chain, &certificates, name, now));
        }
        problems.extend(certificates.iter().flat_map(weaknesses));
        problems.extend(lists.problems(chain, &self.authorities, now));
        let first = chain.first().filter(|_| !seen.ocsp.is_empty());
        let ocsp = first.map(|first| OcspStatus::read(&seen.ocsp, first));
        if let (Some(Ok(OcspStatus { state: OcspState::Revoked(since), .. })), Some(first)) =
            (&ocsp, certificates.first())
        {
            let ago = now.duration_since(*since).unwrap_or_default();
            problems.push(Problem::Revoked {
                subject: first.owner.clone(),
                by: "the stapled OCSP response",
                ago,
            });
        }
        problems.extend(seen.invalid_proof.map(Problem::NoProof));
        Inspection { certificates, problems, ocsp }
    }

    /// Whether the chain leads to a trusted authority. Asks the verifier at a time at which all certificates are valid, because it
    /// reports an invalid time first.
    fn trust_problem(
        &self,
        chain: &[CertificateDer<'_>],
        certificates: &[ServerCertificate],
        name: &ServerName<'_>,
        now: SystemTime,
    ) -> Option<Problem> {
        let begins = certificates.iter().map(|it| it.not_before).max()?;
        let ends = certificates.iter().map(|it| it.not_after).min()?;
        let at = if begins <= ends { now.clamp(begins, ends) } else { now };
        let at = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let (first, others) = chain.split_first()?;
        let result =
            self.verifier.verify_server_cert(first, others, name, &[], UnixTime::since_unix_epoch(at));
        let own = certificates.first()?;
        match result {
            Ok(_) => None,
            Err(Error::InvalidCertificate(error)) => match error {
                // Times and names have problems of their own. The name is verified last, so the chain is trusted.
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. }
                | CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. } => None,
                _ if own.is_self_issued => Some(Problem::SelfSigned),
                CertificateError::UnknownIssuer => Some(why_unknown(certificates)),
                CertificateError::BadSignature => Some(Problem::BadSignature(own.owner.clone())),
                error => Some(Problem::Rejected(error.to_string())),
            },
            Err(error) => Some(Problem::Rejected(error.to_string())),
        }
    }
}

/// Why no authority is found: the chain ends too early, or at one that is not trusted.
fn why_unknown(certificates: &[ServerCertificate]) -> Problem {
    let mut last = &certificates[0];
    // A certificate of the chain is visited once, because names can form a circle.
    for _ in certificates {
        match certificates.iter().find(|next| next.owner == last.issuer) {
            Some(next) if !last.is_self_issued => last = next,
            _ => break,
        }
    }
    if last.is_self_issued {
        Problem::UntrustedAuthority(last.owner.clone())
    } else {
        Problem::MissingIntermediate { subject: last.owner.clone(), issuer: last.issuer.clone() }
    }
}

fn validity_problem(certificate: &ServerCertificate, now: SystemTime) -> Option<Problem> {
    let subject = || certificate.owner.clone();
    if let Ok(ago) = now.duration_since(certificate.not_after)
        && !ago.is_zero()
    {
        return Some(Problem::Expired { subject: subject(), ago });
    }
    let within = certificate.not_before.duration_since(now).ok().filter(|within| !within.is_zero())?;
    Some(Problem::NotYetValid { subject: subject(), within })
}

fn name_problem(
    der: &CertificateDer<'_>,
    first: &ServerCertificate,
    name: &ServerName<'_>,
) -> Option<Problem> {
    let parsed = ParsedCertificate::try_from(der).ok()?;
    verify_server_name(&parsed, name)
        .is_err()
        .then(|| Problem::WrongName { expected: name.to_str().into_owned(), names: first.names.clone() })
}

/// A root's own signature proves nothing, so its hash does not matter.
fn weaknesses(certificate: &ServerCertificate) -> impl Iterator<Item = Problem> {
    let subject = || certificate.owner.clone();
    let is_weak = |key: &KeyType| match key {
        KeyType::Rsa(bits) => *bits < RSA_BITS_MIN,
        KeyType::Ecdsa(bits) => *bits < CURVE_BITS_MIN,
        KeyType::Ed25519 => false,
    };
    let key = certificate.key.filter(is_weak).map(|key| Problem::WeakKey { subject: subject(), key });
    let signature = (certificate.has_weak_signature && !certificate.is_self_issued)
        .then(|| Problem::WeakSignature { subject: subject(), algorithm: certificate.signature.clone() });
    key.into_iter().chain(signature)
}

impl ServerCertVerifier for Inspector {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let seen = Seen { ocsp: ocsp_response.to_vec(), invalid_proof: None };
        *self.seen.lock() = seen;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(self.record_proof(&self.verifier.verify_tls12_signature(message, certificate, signature)))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(self.record_proof(&self.verifier.verify_tls13_signature(message, certificate, signature)))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

impl Inspector {
    fn record_proof(&self, result: &Result<HandshakeSignatureValid, Error>) -> HandshakeSignatureValid {
        let mut seen = self.seen.lock();
        seen.invalid_proof = result.as_ref().err().map(ToString::to_string);
        HandshakeSignatureValid::assertion()
    }
}
