//! The variables of an encrypted connection, with the names and formats of Apache's `mod_ssl`.

use std::time::SystemTime;

use jiff::{Timestamp, tz::TimeZone};
use rudy_tls::{ClientCertificate, Tls};

/// Passes all variables to `push`.
pub(super) fn encode_tls(tls: &Tls, push: &mut impl FnMut(&str, &[u8])) {
    push("SSL_PROTOCOL", tls.version.as_bytes());
    push("SSL_CIPHER", tls.cipher.as_bytes());
    if !tls.asks_clients {
        return;
    }
    match &tls.client_certificate {
        None => push("SSL_CLIENT_VERIFY", b"NONE"),
        Some(certificate) => {
            push("SSL_CLIENT_VERIFY", b"SUCCESS");
            encode_certificate(certificate, push);
        }
    }
}

fn encode_certificate(certificate: &ClientCertificate, push: &mut impl FnMut(&str, &[u8])) {
    push("SSL_CLIENT_S_DN", certificate.subject.as_bytes());
    push("SSL_CLIENT_I_DN", certificate.issuer.as_bytes());
    push("SSL_CLIENT_M_SERIAL", certificate.serial.as_bytes());
    push("SSL_CLIENT_V_START", date(certificate.not_before).as_bytes());
    push("SSL_CLIENT_V_END", date(certificate.not_after).as_bytes());
    for (number, name) in certificate.dns_names.iter().enumerate() {
        push(&format!("SSL_CLIENT_SAN_DNS_{number}"), name.as_bytes());
    }
    if let Some(pem) = &certificate.pem {
        push("SSL_CLIENT_CERT", pem.as_bytes());
    }
}

/// `Nov  3 14:31:45 2026 GMT`, as OpenSSL prints it.
fn date(time: SystemTime) -> String {
    let time = Timestamp::try_from(time).map(|time| time.to_zoned(TimeZone::UTC));
    time.map_or_else(|_| String::new(), |time| time.strftime("%b %e %H:%M:%S %Y GMT").to_string())
}
