//! Whether the cipher suites and curves of a site suffice for its versions and certificates.

use std::fmt;

use rudy_config::{Location, Problem, WordList, Words};
use rudy_tls::KeyType;

use super::algorithms::CipherSuite;
use super::table::{MinVersion, TlsTable};

/// Reports a version that nothing in a list is for.
pub(super) fn problems(table: &TlsTable, location: &Location) -> Vec<Problem> {
    let has_tls12 = table.min_version() == MinVersion::Tls12;
    let suites = table.cipher_suites.as_ref().map(WordList::as_slice);
    let curves = table.curves.as_ref().map(WordList::as_slice);
    let lacks_suites =
        |is_of_tls12| suites.is_some_and(|all| all.iter().all(|suite| suite.is_of_tls12() != is_of_tls12));
    let mut problems = Vec::new();
    let mut lacks = |key: &str, version: &str, help: &str| {
        let title = format!("`{key}` has nothing for TLS {version}");
        problems.push(Problem::value(&location.key(key), title).label("leaves out a version").help(help));
    };
    if lacks_suites(false) {
        lacks("cipher_suites", "1.3", "add \"TLS_AES_128_GCM_SHA256\" or others of TLS 1.3");
    }
    if has_tls12 && lacks_suites(true) {
        let help =
            "set `min_version = \"1.3\"`, or add \"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256\" or others";
        lacks("cipher_suites", "1.2", help);
    }
    if has_tls12 && curves.is_some_and(|all| all.iter().all(|curve| curve.is_only_for_tls13())) {
        lacks("curves", "1.2", "set `min_version = \"1.3\"`, or add \"X25519\"");
    }
    // A certificate that Rudy makes or orders may come later than this check.
    let made = table
        .source
        .filter(|_| problems.is_empty())
        .and_then(|source| misfit(table, location, KeyType::Ecdsa(256), source));
    problems.into_iter().chain(made).collect()
}

/// Reports a certificate that no suite of TLS 1.2 fits. `name` is what the configuration calls it.
pub(super) fn misfit(
    table: &TlsTable,
    location: &Location,
    key: KeyType,
    name: impl fmt::Display,
) -> Option<Problem> {
    let suites = table.cipher_suites.as_ref()?.as_slice();
    if table.min_version() == MinVersion::Tls13 || suites.iter().any(|suite| suite.fits(key)) {
        return None;
    }
    let title = format!("no suite of TLS 1.2 fits the certificate {name} ({key})");
    let all = CipherSuite::VALUES.iter().filter(|suite| suite.fits(key));
    let fitting: Vec<_> = all.map(|suite| format!("\"{}\"", suite.word())).collect();
    let problem =
        Problem::value(&location.key("cipher_suites"), title).label("has none for this type of key");
    Some(problem.help(format!("add one of {}", fitting.join(", "))))
}
