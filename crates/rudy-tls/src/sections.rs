//! Reads PEM (RFC 7468) as other programs write it: with text around and between the sections, any line ends, and without a line end
//! before the next section, as `cat` joins files. A section that begins and cannot be read is an error: a chain or a set of
//! authorities without it would be another one.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use x509_parser::asn1_rs::{Any, FromDer};

/// How certificates begin: today, in old files, and with the trust settings of OpenSSL behind the certificate.
const CERTIFICATES: [&[u8]; 3] = [b"CERTIFICATE", b"X509 CERTIFICATE", TRUSTED];
const TRUSTED: &[u8] = b"TRUSTED CERTIFICATE";

/// What other sections contain, by the end of their label. Such a section is for others, and is not read. A label that is not here may
/// be a misspelt one, or contain certificates (`PKCS7`).
const OTHERS: [&[u8]; 5] = [b"PRIVATE KEY", b"PUBLIC KEY", b"PARAMETERS", b"CRL", b"CERTIFICATE REQUEST"];

const HYPHENS: &[u8] = b"-----";

/// Reads the certificates of a chain, whose trust settings do not matter.
///
/// # Errors
///
/// The file has none, or a section that cannot be read; the line is in the text.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    at_least_one(all_certificates(pem)?)
}

/// Reads the certificates of authorities.
///
/// # Errors
///
/// As [`certificates`]. One has trust settings, which are not applied here: it may be distrusted.
pub(crate) fn authorities(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    at_least_one(any_authorities(pem)?)
}

/// Reads the certificates of authorities, of which the file may have none.
///
/// # Errors
///
/// As [`authorities`].
pub(crate) fn any_authorities(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    for section in Section::all(pem)?.iter().filter(|section| section.label == TRUSTED) {
        let (_, settings) = section.certificate()?;
        // Uses come first: what it is trusted for (SEQUENCE), and what not ([0]). Other settings are a name.
        let first = Any::from_der(&settings).map(|(_, any)| any.data.first().copied());
        if !settings.is_empty() && !matches!(first, Ok(None | Some(0x01..=0x2F))) {
            return Err(section.problem(
                "the certificate has trust settings of OpenSSL, which Rudy does not apply; if it is an authority here, \
                 remove them with `openssl x509 -in FILE -out NEW_FILE`",
            ));
        }
    }
    all_certificates(pem)
}

fn all_certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let sections = Section::all(pem)?;
    let sections = sections.iter().filter(|section| CERTIFICATES.contains(&section.label));
    sections.map(|section| section.certificate().map(|(der, _)| der)).collect()
}

fn at_least_one(all: Vec<CertificateDer<'static>>) -> Result<Vec<CertificateDer<'static>>, String> {
    if all.is_empty() {
        return Err("the file has no certificate (-----BEGIN CERTIFICATE-----)".to_owned());
    }
    Ok(all)
}

/// Reads the first private key that is not encrypted.
///
/// # Errors
///
/// The file has none, or a section that cannot be read.
pub(crate) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let sections = Section::all(pem)?;
    let mut unusable = None;
    for section in sections.iter().filter(|section| section.is_private_key()) {
        let why = match section.label {
            _ if section.is_encrypted() => {
                "the private key is encrypted; decrypt it with `openssl pkey -in FILE -out NEW_FILE`"
            }
            b"PRIVATE KEY" => return section.decode(b"PRIVATE KEY"),
            b"RSA PRIVATE KEY" => return section.decode(b"RSA PRIVATE KEY"),
            b"EC PRIVATE KEY" => return section.decode(b"EC PRIVATE KEY"),
            _ => "the private key has a format that Rudy does not read; expected -----BEGIN PRIVATE KEY-----",
        };
        unusable.get_or_insert_with(|| section.problem(why));
    }
    Err(unusable.unwrap_or_else(|| {
        "the file has no unencrypted private key (-----BEGIN PRIVATE KEY-----)".to_owned()
    }))
}

/// Whether the file has a private key, readable or not.
pub(crate) fn has_private_key(pem: &[u8]) -> Result<bool, String> {
    Ok(Section::all(pem)?.iter().any(Section::is_private_key))
}

/// Reads the revocation lists. The result is empty if the file has none.
///
/// # Errors
///
/// A section cannot be read.
pub(crate) fn revocation_lists(pem: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    let sections = Section::all(pem)?;
    let lists = sections.iter().filter(|section| section.label == b"X509 CRL");
    lists.map(|section| section.decode(b"X509 CRL")).collect()
}

/// A section, whose content is not decoded yet.
struct Section<'a> {
    label: &'a [u8],
    /// Between the lines with hyphens.
    content: &'a [u8],
    /// The number of its first line.
    line: usize,
}

impl<'a> Section<'a> {
    fn all(pem: &'a [u8]) -> Result<Vec<Self>, String> {
        if pem.starts_with(b"\xFF\xFE") || pem.starts_with(b"\xFE\xFF") {
            return Err("the file is in UTF-16; save it as ASCII or UTF-8".to_owned());
        }
        let text = pem.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(pem);
        let (mut sections, mut position) = (Vec::new(), 0);
        while let Some(found) = Self::next(text, &mut position) {
            sections.push(found?);
        }
        Ok(sections)
    }

    /// Finds the next section after `position`, which becomes its end.
    fn next(text: &'a [u8], position: &mut usize) -> Option<Result<Self, String>> {
        let (start, is_begin) = loop {
            // The text before a marker that follows another on the same line begins behind that.
            let (from, (at, is_begin)) = (*position, marker(text, *position)?);
            let line_start = text[from..at].iter().rposition(|byte| is_line_end(*byte));
            let before = text[line_start.map_or(from, |end| from + end + 1)..at].trim_ascii();
            match before {
                b"----" => break (at, is_begin),
                // A section in a comment is not meant.
                [b'#', ..] => {
                    let rest = text[at..].iter().position(|byte| is_line_end(*byte));
                    *position = rest.map_or(text.len(), |end| at + end);
                }
                _ => {
                    return Some(Err(at_line(
                        text,
                        at,
                        "expected a section that begins its line with `-----BEGIN `",
                    )));
                }
            }
        };
        if !is_begin {
            return Some(Err(at_line(text, start, "a section ends here, but none has begun")));
        }
        let (section, end) = match Self::read(text, start) {
            Ok(read) => read,
            Err(problem) => return Some(Err(problem)),
        };
        *position = end;
        Some(section.check().map(|()| section))
    }

    /// Reads the section whose marker `-BEGIN ` is at `start`. Returns its end, too.
    fn read(text: &'a [u8], start: usize) -> Result<(Self, usize), String> {
        let line = line_of(text, start);
        let label = start + b"-BEGIN ".len();
        let label_end =
            find(text, HYPHENS, label).filter(|end| !text[label..*end].iter().any(|byte| is_line_end(*byte)));
        let label_end =
            label_end.ok_or_else(|| format!("line {line}: expected `-----` at the end of this line"))?;
        let (label, content) = (&text[label..label_end], label_end + HYPHENS.len());
        let unfinished = || {
            let label = label.escape_ascii();
            format!("line {line}: the section `{label}` has no end: is it complete?")
        };
        let content_end = find(text, HYPHENS, content).ok_or_else(unfinished)?;
        let end = [b"-----END ", label, HYPHENS].concat();
        if !text[content_end..].starts_with(&end) {
            return Err(unfinished());
        }
        Ok((Self { label, content: &text[content..content_end], line }, content_end + end.len()))
    }

    fn check(&self) -> Result<(), String> {
        if CERTIFICATES.contains(&self.label) || OTHERS.iter().any(|end| self.label.ends_with(end)) {
            return Ok(());
        }
        let label = self.label.escape_ascii();
        Err(self.problem(&format!(
            "`{label}` is no section that Rudy reads, such as `CERTIFICATE` or `PRIVATE KEY`"
        )))
    }

    fn is_private_key(&self) -> bool {
        self.label.ends_with(b"PRIVATE KEY")
    }

    /// Whether the content is encrypted (PKCS #8, or RFC 1421 §4.6.1.1).
    fn is_encrypted(&self) -> bool {
        self.label.starts_with(b"ENCRYPTED") || find(self.content, b"Proc-Type:", 0).is_some()
    }

    /// Returns a certificate, and what follows it in its section.
    fn certificate(&self) -> Result<(CertificateDer<'static>, Vec<u8>), String> {
        let mut der = self.decode::<CertificateDer<'_>>(b"CERTIFICATE")?.to_vec();
        let rest = Any::from_der(&der).map(|(rest, _)| rest.len());
        let rest = rest.map_err(|_| self.problem("the certificate is invalid"))?;
        let settings = der.split_off(der.len() - rest);
        if self.label != TRUSTED && !settings.is_empty() {
            return Err(self.problem("the certificate is invalid: there is more behind it"));
        }
        Ok((der.into(), settings))
    }

    /// Decodes the content as that of a section with this label.
    fn decode<T: PemObject>(&self, label: &[u8]) -> Result<T, String> {
        let invalid = self.content.iter().position(|byte| {
            !byte.is_ascii_alphanumeric()
                && !matches!(byte, b'+' | b'/' | b'=')
                && !byte.is_ascii_whitespace()
        });
        if let Some(at) = invalid {
            let line = self.line + line_of(self.content, at) - 1;
            return Err(format!(
                "line {line}: the section that begins at line {} is not Base64 here",
                self.line
            ));
        }
        // The decoder of rustls leaks nothing about a key by its timing; its reader of files skips sections.
        let lines =
            [b"-----BEGIN ", label, b"-----\n", self.content, b"\n-----END ", label, b"-----\n"].concat();
        T::from_pem_slice(&lines).map_err(|_| self.problem("the section is not valid Base64"))
    }

    fn problem(&self, what: &str) -> String {
        format!("line {}: {what}", self.line)
    }
}

/// Finds the next `-BEGIN ` or `-END `, and whether it is the former.
fn marker(text: &[u8], from: usize) -> Option<(usize, bool)> {
    let mut hyphens = (from..text.len()).filter(|at| text[*at] == b'-');
    hyphens.find_map(|at| {
        let is_begin = text[at..].starts_with(b"-BEGIN ");
        (is_begin || text[at..].starts_with(b"-END ")).then_some((at, is_begin))
    })
}

fn find(text: &[u8], what: &[u8], from: usize) -> Option<usize> {
    text.get(from..)?.windows(what.len()).position(|window| window == what).map(|at| from + at)
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

/// Returns the number of the line at a position. A line ends with LF, CR or both.
fn line_of(text: &[u8], position: usize) -> usize {
    let is_end = |at: &usize| text[*at] == b'\n' || text[*at] == b'\r' && text.get(at + 1) != Some(&b'\n');
    1 + (0..position).filter(is_end).count()
}

fn at_line(text: &[u8], position: usize, what: &str) -> String {
    format!("line {}: {what}", line_of(text, position))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    /// Returns two certificates without a line end behind them, and a key.
    fn parts() -> (String, String, String) {
        let make = |name: &str| {
            let pem = crate::self_signed(&[name.to_owned()], SystemTime::now()).expect("random bytes");
            let pem = pem.replace('\r', "");
            let at = pem.find("-----BEGIN CERT").expect("it is a key and a certificate");
            (pem[..at].trim_end().to_owned(), pem[at..].trim_end().to_owned())
        };
        let ((key, first), (_, second)) = (make("a.test"), make("b.test"));
        (first, second, key)
    }

    #[test]
    fn each_certificate_of_a_file_is_read() {
        let (a, b, key) = parts();
        let relabel = |label: &str| a.replace(" CERTIFICATE", &format!(" {label}"));
        let expected = certificates(format!("{a}\n{b}\n").as_bytes()).unwrap();
        assert_eq!(expected.len(), 2);
        for file in [
            format!("{a}{b}"),
            format!("{a} {b}"),
            format!("{a}\t\r\n \r\n{b}"),
            format!("{a}\r{b}\r").replace('\n', "\r"),
            format!("{a}\n{b}").replace('\n', "\r\n"),
            format!("{a}\n{b}").replace('\n', " \t\n  "),
            format!("{a}\n{b}").replace('\n', "\n\n"),
            format!("{a}\n{b}").replace('\n', " "),
            format!("\u{feff}{a}\n{b}"),
            format!("   {a}\n\t{b}"),
            format!("subject=/CN=a\n  - not a section\n--\n{a}\nBag Attributes\n{b}\nend"),
            format!("{a}# a comment\n{b}# the end"),
            format!("{a}\n# -----BEGIN CERTIFICATE-----\n# AAAA\n# -----END CERTIFICATE-----\n{b}"),
            format!("{a}\n# -----BEGIN CERTIFICATE----- AAAA -----END CERTIFICATE-----\n{b}"),
            format!("{key}{a}{key}{b}{key}"),
            format!("{}{b}", relabel("X509 CERTIFICATE")),
            format!("{}{b}", relabel("TRUSTED CERTIFICATE")),
            format!("-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----{a}{b}"),
        ] {
            assert_eq!(certificates(file.as_bytes()).as_deref(), Ok(&expected[..]), "{file}");
            assert_eq!(authorities(file.as_bytes()).as_deref(), Ok(&expected[..]), "{file}");
        }
        for file in [format!("{a}{key}"), format!("{key}{a}"), key.replace('\n', "\r")] {
            assert!(
                private_key(file.as_bytes()).is_ok() && has_private_key(file.as_bytes()) == Ok(true),
                "{file}"
            );
        }
    }

    #[test]
    fn a_section_that_cannot_be_read_is_an_error_with_its_line() {
        let (a, b, key) = parts();
        let lines = a.lines().count();
        let (of_b, in_b) = (lines + 1, lines + 3);
        let broken = |from: &str, to: &str| format!("{a}\n{}\n", b.replacen(from, to, 1));
        let third = b.lines().nth(2).expect("a certificate has several lines");
        for (file, line, problem) in [
            (broken("-----BEGIN", "----BEGIN"), of_b, "expected a section"),
            (broken("-----BEGIN", "------BEGIN"), of_b, "expected a section"),
            (broken("-----BEGIN", "x -----BEGIN"), of_b, "expected a section"),
            (broken("-----BEGIN", "----- BEGIN"), of_b + b.lines().count() - 1, "none has begun"),
            (broken("CERTIFICATE-----", "CERTIFICATE----"), of_b, "expected `-----`"),
            (broken("BEGIN CERTIFICATE", "BEGIN CERTIFCATE"), of_b, "has no end"),
            (broken("-----END", "----END"), of_b, "has no end"),
            (broken("-----END", "\n"), of_b, "has no end"),
            (b.replace("CERTIFICATE", "PKCS7"), 1, "`PKCS7` is no section"),
            (b.replace("CERTIFICATE", "certificate"), 1, "`certificate` is no section"),
            (broken(third, "M\u{e9}"), in_b, "is not Base64"),
            (broken(third, &third[..61]), of_b, "not valid Base64"),
            (broken(third, ""), of_b, "the certificate is invalid"),
            (
                broken(&b, "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----"),
                of_b,
                "the certificate is invalid",
            ),
            (format!("{a}\r\n{a}\r\n-----BEGIN CERTIFICATE-----"), 2 * lines + 1, "is it complete?"),
        ] {
            for error in
                [certificates(file.as_bytes()).unwrap_err(), authorities(file.as_bytes()).unwrap_err()]
            {
                assert!(
                    error.starts_with(&format!("line {line}: ")) && error.contains(problem),
                    "{error}: {file}"
                );
            }
        }
        for (file, problem) in [
            (
                format!("{a}{}", key.replace("PRIVATE", "ENCRYPTED PRIVATE")),
                format!("line {lines}: the private key is encr"),
            ),
            (key.replace("PRIVATE", "OPENSSH PRIVATE"), "line 1: the private key has a format".to_owned()),
            (
                key.replacen('\n', "\nProc-Type: 4,ENCRYPTED\n\n", 1),
                "line 1: the private key is encrypted".to_owned(),
            ),
            (a.clone(), "the file has no unencrypted private key".to_owned()),
        ] {
            let error = private_key(file.as_bytes()).unwrap_err();
            assert!(error.starts_with(&problem), "{error}");
        }
        assert!(certificates(b"\xFF\xFE-\0").unwrap_err().contains("UTF-16"));
    }

    #[test]
    fn an_authority_with_trust_settings_is_rejected() {
        let (a, ..) = parts();
        let der = certificates(a.as_bytes()).expect("a certificate").remove(0);
        let with = |settings: &[u8]| {
            let der = CertificateDer::from([&der[..], settings].concat());
            crate::certificate::to_pem(&der).replace(" CERTIFICATE", " TRUSTED CERTIFICATE")
        };
        let distrusted = with(&[0x30, 12, 0xA0, 10, 6, 8, 0x2B, 6, 1, 5, 5, 7, 3, 2]);
        assert!(
            authorities(distrusted.as_bytes())
                .unwrap_err()
                .starts_with("line 1: the certificate has trust settings")
        );
        assert!(certificates(distrusted.as_bytes()).is_ok(), "settings do not matter for a chain");
        for settings in [&[][..], &[0x30, 0], &[0x30, 4, 0x0C, 2, b'C', b'A']] {
            assert!(authorities(with(settings).as_bytes()).is_ok(), "{settings:?}");
        }
    }
}
