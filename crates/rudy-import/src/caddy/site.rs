//! A site block: its addresses, TLS, logs and error pages.

use super::directives::{self, Context};
use super::global::mark;
use crate::chain;
use crate::hoist::hoist;
use crate::report::Ledger;
use crate::site::{Site, empty};
use crate::syntax::Directive;
use crate::toml::{Table, VARIABLE, Value};

/// A site address: `https://example.org:8443`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    host: String,
    port: Option<String>,
    scheme: Option<bool>,
}

impl Address {
    fn of(text: &str) -> Option<Self> {
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => (Some(false), rest),
            Some(("https", rest)) => (Some(true), rest),
            Some(_) => return None,
            None => (None, text),
        };
        let rest = rest.trim_end_matches(',').trim_end_matches('/');
        if rest.contains(['/', '{', ' ']) {
            return None;
        }
        let is_port = |port: &str| port.parse::<u16>().is_ok() || port.starts_with(VARIABLE);
        // The default of a variable has a colon, too.
        let colon = match rest.rfind(VARIABLE) {
            Some(0) => None,
            Some(at) => Some(at - 1).filter(|at| rest.as_bytes().get(*at) == Some(&b':')),
            None => rest.rfind(':'),
        };
        let (host, port) = match colon {
            Some(at) if is_port(&rest[at + 1..]) => (&rest[..at], Some(rest[at + 1..].to_owned())),
            _ => (rest, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Some(Self { host, port, scheme })
    }

    /// Whether it has TLS: Caddy has HTTPS for all names, unless the port or the scheme is that of HTTP.
    fn has_tls(&self, default: bool, is_written: bool) -> bool {
        let port = self.port.as_deref();
        let is_name = !self.host.is_empty();
        self.scheme.unwrap_or(port != Some("80") && (is_written || default && is_name || port == Some("443")))
    }

    fn listen(&self, has_tls: bool) -> String {
        let port = self.port.as_deref().unwrap_or(if has_tls { "443" } else { "80" });
        format!(":{port}{}", if has_tls { ",tls" } else { "" })
    }
}

/// The sites of a block: addresses with and without TLS are apart.
pub(super) fn sites(block: &Directive, default_tls: bool, context: &mut Context<'_>) -> Vec<Site> {
    context.ledger.translated(block);
    let texts = std::iter::once(&block.name).chain(&block.args);
    let texts: Vec<&str> = texts.flat_map(|text| text.split(',')).filter(|text| !text.is_empty()).collect();
    let mut addresses = Vec::new();
    for text in texts {
        match Address::of(text) {
            Some(address) => {
                let host = address.host.trim_start_matches("*.");
                let is_letter = |letter: char| letter.is_ascii_alphanumeric() || ".-_:".contains(letter);
                if host.contains(VARIABLE) || host.chars().all(is_letter) {
                    addresses.push(address);
                } else {
                    context.ledger.open(block, format!("write the host instead of `{text}`"));
                    let letters = host.chars().filter(char::is_ascii_alphanumeric);
                    let host = format!("{}.example", letters.collect::<String>().to_lowercase());
                    addresses.push(Address { host, ..address });
                }
            }
            None => context
                .ledger
                .open(block, format!("write a site for `{text}`: it has a path or a placeholder")),
        }
    }
    let tls: Vec<&Directive> = block.children().iter().filter(|directive| directive.name == "tls").collect();
    let has_tls = |address: &Address| address.has_tls(default_tls, !tls.is_empty());
    let steps = directives::steps(block.children(), context);
    let mut base = Table::default();
    base.comment(format!("{}  {}", block.place, block.summary()));
    settings(&mut base, block, context.ledger);
    let binds: Vec<&Directive> =
        block.children().iter().filter(|directive| directive.name == "bind").collect();
    context.ledger.all_translated(binds.iter().copied());
    let binds: Vec<String> = binds.iter().flat_map(|bind| bind.args.clone()).collect();
    let mut sites = Vec::new();
    for secure in [false, true] {
        let mine: Vec<&Address> = addresses.iter().filter(|address| has_tls(address) == secure).collect();
        if mine.is_empty() {
            continue;
        }
        let mut site = Site { table: base.clone(), routes: chain::routes(&steps) };
        let hosts: Vec<String> = mine.iter().map(|address| address.host.clone()).collect();
        if !hosts.iter().any(String::is_empty) {
            site.table.set_first("hosts", Value::texts(unique(hosts)));
        }
        let mut listen = unique(mine.iter().map(|address| address.listen(secure)).collect());
        if !binds.is_empty() {
            let with = |at: &String| binds.iter().map(|bind| bound(bind, at)).collect::<Vec<_>>();
            listen = listen.iter().flat_map(with).collect();
        }
        let is_usual = listen.iter().any(|address| address == ":443,tls") && binds.is_empty();
        if secure {
            certificate(&mut site.table, &tls, &mine, context.ledger);
            if is_usual && default_tls {
                // Caddy redirects from HTTP by itself.
                listen.insert(0, ":80".to_owned());
                site.table.set("redirect_to_https", true);
            }
        }
        site.table.set("listen", Value::texts(listen));
        if site.routes.is_empty() {
            site.routes.push(respond_empty());
        }
        hoist(&mut site);
        sites.push(site);
    }
    if addresses.is_empty() {
        let mut table = base;
        table.comment("The site has no address that Rudy can have.");
        table.set("hosts", "unknown.example");
        sites.push(Site { table, routes: vec![empty("Its address is not translated.")] });
    }
    sites
}

fn respond_empty() -> Table {
    let mut route = Table::default();
    route.set("path", "/*");
    route.comment("Without a handler, Caddy responds with an empty 200.");
    route.set("respond", 200);
    route
}

fn unique(texts: Vec<String>) -> Vec<String> {
    let mut result: Vec<String> = Vec::new();
    for text in texts {
        if !result.contains(&text) {
            result.push(text);
        }
    }
    result
}

fn bound(bind: &str, listen: &str) -> String {
    if let Some(path) = bind.strip_prefix("unix/") {
        return format!("unix:{path}");
    }
    if bind.contains(':') {
        format!("[{}]{listen}", bind.trim_matches(['[', ']']))
    } else {
        format!("{bind}{listen}")
    }
}

/// `tls`: nothing for an authority of the internet, `internal`, or files.
fn certificate(site: &mut Table, tls: &[&Directive], addresses: &[&Address], ledger: &mut Ledger) {
    let is_local = |address: &&Address| {
        let host = &address.host;
        host.is_empty()
            || host == "localhost"
            || [".localhost", ".local", ".internal", ".example"].iter().any(|end| host.ends_with(end))
            || host.parse::<std::net::IpAddr>().is_ok()
            || !host.contains('.')
            || host.contains(VARIABLE)
    };
    let is_internal = addresses.iter().any(is_local);
    let mut value: Value = if is_internal { "internal" } else { "auto" }.into();
    if addresses.iter().any(|address| address.host.contains(VARIABLE)) {
        site.comment("The host is not known here: with a name of the internet, write tls = \"auto\".");
    }
    for directive in tls {
        match &directive.args[..] {
            [] => {}
            [one] if one == "internal" => value = "internal".into(),
            [one] if one.contains('@') => {
                ledger.different(directive, "`email` of `acme` at the top is for all sites");
            }
            [certificate, key] => {
                value = Value::table([
                    ("certificate", certificate.as_str().into()),
                    ("key", key.as_str().into()),
                ]);
            }
            _ => ledger.open(directive, "write `tls` by hand (docs/tls.md)"),
        }
        ledger.translated(directive);
        for option in directive.children() {
            match option.name.as_str() {
                "client_auth" => {
                    ledger.unprotected(
                        option,
                        "write `client_certificates` in `tls` (docs/tls.md#client-certificates)",
                    );
                    option
                        .children()
                        .iter()
                        .for_each(|inner| ledger.open(inner, "it belongs to `client_auth`"));
                }
                "dns" => ledger.open(option, "write `dns_hook` into `acme` (docs/internet.md)"),
                "on_demand" => {
                    ledger.open(option, "Rudy orders certificates for names in the configuration only");
                }
                _ => mark(option, ledger),
            }
        }
    }
    site.set("tls", value);
}

/// `log` and `handle_errors`.
fn settings(site: &mut Table, block: &Directive, ledger: &mut Ledger) {
    for directive in block.children() {
        match directive.name.as_str() {
            "log" => log(site, directive, ledger),
            "handle_errors" => error_pages(site, directive, ledger),
            _ => {}
        }
    }
}

fn log(site: &mut Table, log: &Directive, ledger: &mut Ledger) {
    ledger.translated(log);
    let (mut path, mut format) = ("-".to_owned(), "json".to_owned());
    for option in log.children() {
        match (option.name.as_str(), option.arg(0)) {
            ("output", "file") => option.arg(1).clone_into(&mut path),
            ("output", "stdout" | "stderr") | ("format", "json") => {}
            ("output", "discard") => {
                ledger.translated(option);
                site.set("access_log", false);
                return;
            }
            ("format", "console") => "combined".clone_into(&mut format),
            _ => {
                mark(option, ledger);
                continue;
            }
        }
        ledger.translated(option);
        option.children().iter().for_each(|inner| mark(inner, ledger));
    }
    ledger.different(log, "the fields of the log have other names (docs/logs.md)");
    site.set("access_log", Value::table([("path", path.into()), ("format", format.into())]));
}

/// `handle_errors { rewrite * /404.html; file_server }` is a page; other blocks are by hand.
fn error_pages(site: &mut Table, errors: &Directive, ledger: &mut Ledger) {
    let rewrite = errors.children().iter().find(|inner| inner.name == "rewrite");
    let has_files = errors.children().iter().any(|inner| inner.name == "file_server");
    let is_known = |inner: &Directive| ["rewrite", "file_server", "root"].contains(&inner.name.as_str());
    let path = rewrite.and_then(|rewrite| rewrite.args.last()).filter(|path| path.starts_with('/'));
    let path = path.filter(|path| !path.contains('{') && has_files && errors.children().iter().all(is_known));
    let root = errors.children().iter().find(|inner| inner.name == "root");
    let (Some(path), None) = (path, root) else {
        ledger.open(errors, "write `error_pages` (docs/headers-and-errors.md#error-pages)");
        errors.children().iter().for_each(|inner| ledger.open(inner, "it belongs to `handle_errors`"));
        return;
    };
    ledger.translated(errors);
    ledger.all_translated(errors.children());
    let is_status = |status: &&String| status.len() == 3 && status.starts_with(['4', '5']);
    let mut statuses: Vec<String> = errors.args.iter().filter(is_status).cloned().collect();
    if statuses.is_empty() {
        statuses = vec!["4xx".to_owned(), "5xx".to_owned()];
    }
    let pages = statuses.into_iter().map(|status| (status, path.as_str().into())).collect();
    crate::site::extend(site, "error_pages", pages);
}
