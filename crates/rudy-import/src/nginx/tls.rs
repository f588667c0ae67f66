//! Certificates and versions of TLS.

use super::Context;
use super::scope::Scope;
use super::text::substitute;
use crate::syntax::Directive;
use crate::toml::{Table, Value};

/// Sets `tls` of a site.
pub(super) fn apply(site: &mut Table, server: &Scope<'_>, context: &mut Context<'_>) {
    let files = |name: &str| server.all(name);
    let (certificates, keys) = (files("ssl_certificate"), files("ssl_certificate_key"));
    context.ledger.all_translated(certificates.iter().chain(&keys).copied());
    let mut pairs = certificates
        .iter()
        .zip(&keys)
        .map(|(certificate, key)| [("certificate", path(certificate, server)), ("key", path(key, server))]);
    let Some(first) = pairs.next() else {
        site.comment("The certificate is not in the imported files.");
        if let Some(listen) = server.all("listen").first() {
            context.ledger.open(listen, "write `tls` with a certificate, or `tls = \"auto\"`");
        }
        site.set("tls", "self-signed");
        return;
    };
    let mut table: Vec<(String, Value)> =
        first.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let further: Vec<_> = pairs.map(Value::table).collect();
    if !further.is_empty() {
        table.push(("certificates".to_owned(), Value::List(further)));
    }
    versions(&mut table, server, context);
    if let Some(tickets) = server.find("ssl_session_tickets") {
        context.ledger.translated(tickets);
        if tickets.arg(0) == "off" {
            table.push(("tickets".to_owned(), false.into()));
        }
    }
    clients(&mut table, server, context);
    site.set("tls", Value::Table(table));
}

fn path(directive: &Directive, server: &Scope<'_>) -> Value {
    substitute(directive.arg(0), server).into()
}

fn versions(table: &mut Vec<(String, Value)>, server: &Scope<'_>, context: &mut Context<'_>) {
    let Some(protocols) = server.find("ssl_protocols") else { return };
    let is_old = |version: &String| !["TLSv1.2", "TLSv1.3"].contains(&version.as_str());
    if protocols.args.iter().any(is_old) {
        context.ledger.different(protocols, "Rudy has only TLS 1.2 and 1.3");
    } else {
        context.ledger.translated(protocols);
    }
    if protocols.args.iter().all(|version| version == "TLSv1.3") {
        table.push(("min_version".to_owned(), "1.3".into()));
    }
}

fn clients(table: &mut Vec<(String, Value)>, server: &Scope<'_>, context: &mut Context<'_>) {
    let Some(verify) = server.find("ssl_verify_client") else { return };
    if verify.arg(0) == "off" {
        context.ledger.translated(verify);
        return;
    }
    let Some(authority) = server.find("ssl_client_certificate").filter(|_| verify.arg(0) != "optional_no_ca")
    else {
        context.ledger.unprotected(
            verify,
            "Rudy verifies client certificates by their authority: write `client_certificates`",
        );
        return;
    };
    context.ledger.all_translated([verify, authority]);
    let mut clients = vec![("authority", path(authority, server))];
    if let Some(crl) = server.find("ssl_crl") {
        context.ledger.translated(crl);
        clients.push(("crl", path(crl, server)));
    }
    if verify.arg(0) == "optional" {
        clients.push(("required", false.into()));
    }
    table.push(("client_certificates".to_owned(), Value::table(clients)));
}
