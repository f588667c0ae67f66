//! Revocation lists of authorities (RFC 5280 §5).

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use rustls::CertificateError;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};

use super::Problem;
use crate::certificate::time;
use crate::crypto::is_signed;
use crate::sections::revocation_lists;
use crate::subject::distinguished_name;

/// Revocation lists, as authorities publish them.
#[derive(Debug, Clone, Default)]
pub struct RevocationLists(Vec<CertificateRevocationListDer<'static>>);

impl RevocationLists {
    /// Adds the lists in a file, in PEM or DER.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has no list.
    pub fn read(&mut self, path: &Path) -> Result<(), String> {
        let failed = |why: &str| format!("{}: {why}", path.display());
        let bytes = fs::read(path).map_err(|error| failed(&error.to_string()))?;
        // The type of DER is the first byte, and text does not begin with it.
        let mut lists = if bytes.starts_with(b"0") {
            Vec::new()
        } else {
            revocation_lists(&bytes).map_err(|why| failed(&why))?
        };
        if lists.is_empty() {
            lists.push(bytes.into());
        }
        if lists.iter().any(|list| CertificateRevocationList::from_der(list).is_err()) {
            return Err(failed("the file has no revocation list (-----BEGIN X509 CRL-----, or DER)"));
        }
        self.0.extend(lists);
        Ok(())
    }

    /// Whether there are no lists.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that a current list of the certificate's issuer exists, and that none revokes it. Only `authorities` sign lists.
    pub(crate) fn check(
        &self,
        certificate: &X509Certificate<'_>,
        authorities: &[CertificateDer<'_>],
        now: SystemTime,
    ) -> Result<(), CertificateError> {
        let authorities = authorities.iter().filter_map(|der| X509Certificate::from_der(der).ok());
        let authorities: Vec<_> = authorities.map(|(_, certificate)| certificate).collect();
        let lists = self.0.iter().filter_map(|der| CertificateRevocationList::from_der(der).ok());
        let mut status = Err(CertificateError::UnknownRevocationStatus);
        for (_, list) in lists.filter(|(_, list)| list.issuer().as_raw() == certificate.issuer().as_raw()) {
            // A critical extension limits the list to some certificates (RFC 5280 §5.2.5), or to changes (§5.2.4).
            let is_limited = list.extensions().iter().any(|extension| extension.critical);
            if is_limited || why_unusable(&list, authorities.iter(), now).is_some() {
                continue;
            }
            if revoked(&list, certificate, now).is_some() {
                return Err(CertificateError::Revoked);
            }
            status = Ok(());
        }
        status
    }

    /// Finds the revoked certificates of a chain, and the lists that say nothing about it. `authorities` are further certificates
    /// that may have signed a list.
    pub(super) fn problems(
        &self,
        chain: &[CertificateDer<'_>],
        authorities: &[CertificateDer<'_>],
        now: SystemTime,
    ) -> Vec<Problem> {
        let parse = |der| X509Certificate::from_der(der).ok().map(|(_, certificate)| certificate);
        let chain: Vec<_> = chain.iter().filter_map(|der| parse(der)).collect();
        let authorities: Vec<_> = authorities.iter().filter_map(|der| parse(der)).collect();
        let lists = self.0.iter().filter_map(|der| CertificateRevocationList::from_der(der).ok());
        lists
            .flat_map(|(_, list)| {
                let concerned: Vec<_> =
                    chain.iter().filter(|it| it.issuer().as_raw() == list.issuer().as_raw()).collect();
                let unusable = if concerned.is_empty() {
                    let issuer = distinguished_name(list.issuer());
                    Some(format!("it is from {issuer}, which has issued none of these certificates"))
                } else {
                    why_unusable(&list, chain.iter().chain(&authorities), now)
                };
                match unusable {
                    Some(why) => vec![Problem::UnusableList(why)],
                    None => concerned.iter().filter_map(|it| revoked(&list, it, now)).collect(),
                }
            })
            .collect()
    }
}

impl From<Vec<CertificateRevocationListDer<'static>>> for RevocationLists {
    fn from(lists: Vec<CertificateRevocationListDer<'static>>) -> Self {
        Self(lists)
    }
}

/// Why a list proves nothing, if it does not.
fn why_unusable<'a>(
    list: &CertificateRevocationList<'_>,
    mut issuers: impl Iterator<Item = &'a X509Certificate<'a>>,
    now: SystemTime,
) -> Option<String> {
    let name = distinguished_name(list.issuer());
    if list.next_update().is_some_and(|next| time(next) < now) {
        return Some(format!("the list of {name} is out of date"));
    }
    let is_signed = issuers.any(|issuer| {
        issuer.subject().as_raw() == list.issuer().as_raw()
            && is_signed(&list.tbs_cert_list, &list.signature_value.data, issuer)
    });
    (!is_signed).then(|| {
        format!("no certificate of {name} is known with which it is signed (--cacert FILE adds one)")
    })
}

fn revoked(
    list: &CertificateRevocationList<'_>,
    certificate: &X509Certificate<'_>,
    now: SystemTime,
) -> Option<Problem> {
    let entry = list
        .iter_revoked_certificates()
        .find(|entry| entry.serial() == &certificate.tbs_certificate.serial)?;
    Some(Problem::Revoked {
        subject: distinguished_name(certificate.subject()),
        by: "the revocation list",
        ago: now.duration_since(time(entry.revocation_date)).unwrap_or_default(),
    })
}
