//! What is wrong with the certificates of a server, in words.

use std::time::Duration;

use crate::{KeyType, Names};

/// What is wrong with a certificate of a server, or with the whole chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A certificate is no longer valid.
    #[error("the certificate of {subject} expired {} ago", in_words(*.ago))]
    Expired {
        /// Its owner.
        subject: String,
        /// How long ago its validity ended.
        ago: Duration,
    },
    /// A certificate is not valid yet.
    #[error("the certificate of {subject} is valid only {} from now", in_words(*.within))]
    NotYetValid {
        /// Its owner.
        subject: String,
        /// When its validity begins.
        within: Duration,
    },
    /// The certificate is not for this server.
    #[error("the certificate is for {} and not for {expected}", listed(.names))]
    WrongName {
        /// The name of the server.
        expected: String,
        /// The names of the certificate.
        names: Names,
    },
    /// The certificate is signed with its own key.
    #[error("the certificate is self-signed: no authority vouches for it (--cacert trusts it)")]
    SelfSigned,
    /// The chain ends with an authority that is not trusted.
    #[error("the chain ends with {0}, which is not trusted (--cacert FILE adds it)")]
    UntrustedAuthority(String),
    /// The server does not send the certificate that connects its own with an authority.
    #[error(
        "an intermediate certificate is missing: the server sends none of {issuer}, the issuer of {subject}, and no trusted authority has this name. Add it to the server's certificate file"
    )]
    MissingIntermediate {
        /// The owner of the last certificate that it sends.
        subject: String,
        /// The issuer of that certificate.
        issuer: String,
    },
    /// A signature in the chain does not match.
    #[error("the certificate of {0} names an authority that has not signed it")]
    BadSignature(String),
    /// A key is short enough to be computed.
    #[error("the key of {subject} is too short: {key} (RSA needs 2048 bits, ECDSA 256)")]
    WeakKey {
        /// The owner of the certificate.
        subject: String,
        /// The key.
        key: KeyType,
    },
    /// A signature uses a hash with known collisions.
    #[error("the signature of the certificate of {subject} can be forged: {algorithm}")]
    WeakSignature {
        /// The owner of the certificate.
        subject: String,
        /// The algorithm.
        algorithm: String,
    },
    /// A certificate is revoked.
    #[error("the certificate of {subject} was revoked {} ago, as {by} reports", in_words(*.ago))]
    Revoked {
        /// Its owner.
        subject: String,
        /// Who revokes it: a revocation list, or an OCSP response.
        by: &'static str,
        /// How long ago it was revoked.
        ago: Duration,
    },
    /// A revocation list cannot be used.
    #[error("a revocation list cannot be used: {0}")]
    UnusableList(String),
    /// A certificate cannot be read.
    #[error("a certificate is invalid: {0}")]
    Unreadable(String),
    /// The server has not proved that it has the key of its certificate.
    #[error("the server's signature is invalid: {0}")]
    NoProof(String),
    /// Clients reject the chain for another reason.
    #[error("clients reject the certificate: {0}")]
    Rejected(String),
}

impl Problem {
    /// The name in JSON reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Expired { .. } => "expired",
            Self::NotYetValid { .. } => "not_yet_valid",
            Self::WrongName { .. } => "wrong_name",
            Self::SelfSigned => "self_signed",
            Self::UntrustedAuthority(_) => "untrusted_authority",
            Self::MissingIntermediate { .. } => "missing_intermediate",
            Self::BadSignature(_) => "bad_signature",
            Self::WeakKey { .. } => "weak_key",
            Self::WeakSignature { .. } => "weak_signature",
            Self::Revoked { .. } => "revoked",
            Self::UnusableList(_) => "unusable_revocation_list",
            Self::Unreadable(_) => "unreadable",
            Self::NoProof(_) => "no_proof_of_key",
            Self::Rejected(_) => "rejected",
        }
    }
}

/// Formats a duration in its largest unit: `62 days`.
#[must_use]
pub fn in_words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (unit, name) = match seconds {
        0..60 => (1, "second"),
        60..3600 => (60, "minute"),
        3600..86_400 => (3600, "hour"),
        _ => (86_400, "day"),
    };
    match seconds / unit {
        1 => format!("1 {name}"),
        count => format!("{count} {name}s"),
    }
}

fn listed(names: &Names) -> String {
    let names: Vec<_> = names.iter().collect();
    if names.is_empty() { "no name at all".to_owned() } else { names.join(", ") }
}
