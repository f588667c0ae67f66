//! Explanations of rejected certificates and failed handshakes, with advice.

use std::fmt;
use std::time::Duration;

use rudy_tls::in_words;
use rustls::CertificateError;

/// Why a handshake has failed. Shown as a sentence with advice for a command.
#[derive(Debug)]
pub struct HandshakeError(pub rustls::Error);

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match explain(&self.0) {
            Some(why) => f.write_str(&why),
            None => self.0.fmt(f),
        }
    }
}

impl std::error::Error for HandshakeError {}

/// Explains why a handshake has failed. `None` for another error.
fn explain(error: &rustls::Error) -> Option<String> {
    let error = match error {
        rustls::Error::InvalidCertificate(error) => error,
        // The first bytes of a server without TLS are no record, such as `HTTP/1.1 400 Bad Request`.
        rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => {
            return Some("the server does not speak TLS on this port".to_owned());
        }
        rustls::Error::AlertReceived(
            rustls::AlertDescription::ProtocolVersion | rustls::AlertDescription::HandshakeFailure,
        ) => {
            return Some(
                "the server supports neither TLS 1.2 nor TLS 1.3 with any of the client's algorithms"
                    .to_owned(),
            );
        }
        _ => return None,
    };
    Some(match error {
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names: Vec<_> = presented.iter().map(|name| name_text(name)).collect();
            let names = if names.is_empty() { "no name at all".to_owned() } else { names.join(", ") };
            format!("the certificate is for {names} and not for {} (-k accepts it)", expected.to_str())
        }
        CertificateError::ExpiredContext { time, not_after } => format!(
            "the certificate expired {} ago (-k accepts it)",
            seconds(time.as_secs().saturating_sub(not_after.as_secs()))
        ),
        CertificateError::Expired => "the certificate has expired (-k accepts it)".to_owned(),
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "the certificate will be valid {} from now (-k accepts it)",
            seconds(not_before.as_secs().saturating_sub(time.as_secs()))
        ),
        CertificateError::UnknownIssuer => {
            "the certificate is not signed by a trusted authority (--cacert FILE adds one, -k accepts any certificate)"
                .to_owned()
        }
        CertificateError::BadSignature => {
            "the certificate names a trusted authority that has not signed it (--cacert FILE adds one, -k accepts any \
             certificate)"
                .to_owned()
        }
        // The default of `openssl req -x509` is such a certificate.
        CertificateError::Other(reason) if reason.to_string() == "CaUsedAsEndEntity" => {
            "the certificate is a CA certificate and not that of a server (--cacert with this certificate in a file \
             accepts it, -k accepts any certificate)"
                .to_owned()
        }
        other => format!("the certificate was rejected: {other} (-k accepts it)"),
    })
}

fn seconds(seconds: u64) -> String {
    in_words(Duration::from_secs(seconds))
}

/// Formats `DnsName("localhost")` as `localhost`.
fn name_text(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::pki_types::{ServerName, UnixTime};

    use super::*;

    #[test]
    fn an_explanation_has_the_problem_and_advice() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let expected = ServerName::try_from("b.test").unwrap();
        for (error, expected) in [
            (
                CertificateError::UnknownIssuer,
                "the certificate is not signed by a trusted authority (--cacert FILE",
            ),
            (
                CertificateError::ExpiredContext { time: at(900_000), not_after: at(0) },
                "the certificate expired 10 days ago",
            ),
            (
                CertificateError::NotValidYetContext { time: at(0), not_before: at(60) },
                "the certificate will be valid 1 minute from now",
            ),
            (
                CertificateError::NotValidForNameContext {
                    expected: expected.clone(),
                    presented: vec!["DnsName(\"a.test\")".into(), "IpAddress(127.0.0.1)".into()],
                },
                "the certificate is for a.test, 127.0.0.1 and not for b.test",
            ),
            (
                CertificateError::NotValidForNameContext { expected: expected.clone(), presented: vec![] },
                "the certificate is for no name at all and not for b.test",
            ),
            (
                CertificateError::BadSignature,
                "the certificate names a trusted authority that has not signed it",
            ),
            (CertificateError::Revoked, "the certificate was rejected: "),
        ] {
            let text = explain(&rustls::Error::InvalidCertificate(error)).unwrap();
            assert!(text.starts_with(expected) && text.contains("-k accepts"), "{text}");
        }
        assert_eq!(explain(&rustls::Error::DecryptError), None);
    }
}
