//! Frontends of `HAProxy` as sites and routes.

mod backend;
mod conditions;
mod rules;
mod syntax;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::conditions::acls;
use crate::File;
use crate::chain::{self, Step};
use crate::guard::Guard;
use crate::hoist::hoist;
use crate::report::Ledger;
use crate::site::{Site, common_addresses, empty, write};
use crate::syntax::{Directive, SyntaxError};
use crate::toml::{Table, Value};

/// Reads the sections of a file.
pub(crate) fn read(main: &File) -> Result<Vec<Directive>, SyntaxError> {
    syntax::parse(&Arc::from(main.name.as_str()), &main.text)
}

/// A section with the defaults before it.
struct Section<'a> {
    section: &'a Directive,
    defaults: &'a [Directive],
}

impl<'a> Section<'a> {
    fn block(&self) -> &'a [Directive] {
        self.section.children()
    }

    /// The last directive with a name and a first argument, of the section or of the defaults.
    fn find(&self, name: &str) -> Option<&'a Directive> {
        let own = self.block().iter().rev().find(|directive| directive.name == name);
        own.or_else(|| self.defaults.iter().rev().find(|directive| directive.name == name))
    }

    /// `HAProxy` passes on connections, unless a mode says otherwise.
    fn is_http(&self) -> bool {
        self.find("mode").is_some_and(|mode| mode.arg(0) == "http")
    }
}

/// Translates the sections to the text of `rudy.toml`.
pub(crate) fn translate(sections: &[Directive], ledger: &mut Ledger) -> String {
    let mut top = Table::default();
    let mut all = Vec::new();
    let mut defaults: &[Directive] = &[];
    for section in sections {
        if section.name == "defaults" {
            ledger.translated(section);
            defaults = section.children();
        } else {
            all.push(Section { section, defaults });
        }
    }
    let backends: BTreeMap<&str, &Section<'_>> = all
        .iter()
        .filter(|section| ["backend", "listen"].contains(&section.section.name.as_str()))
        .map(|section| (section.section.arg(0), section))
        .collect();
    let mut sites = Vec::new();
    for section in
        all.iter().filter(|section| ["frontend", "listen"].contains(&section.section.name.as_str()))
    {
        if section.is_http() {
            sites.push(site(section, &backends, ledger));
        } else {
            mark(section.section, "it passes on connections (`mode tcp`), which is not translated", ledger);
        }
    }
    if sites.is_empty() {
        sites.push(Site {
            routes: vec![empty("The imported file has no frontend for HTTP.")],
            ..Site::default()
        });
    }
    part_defaults(&mut sites);
    common_addresses(&mut top, &mut sites);
    finish(sections, ledger);
    write(&top, &BTreeMap::new(), &sites)
}

fn site(section: &Section<'_>, backends: &BTreeMap<&str, &Section<'_>>, ledger: &mut Ledger) -> Site {
    let mut table = Table::default();
    table.comment(format!("{}  {}", section.section.place, section.section.summary()));
    ledger.translated(section.section);
    binds(&mut table, section, ledger);
    let block = section.block();
    let acls = acls(&[section.defaults, block]);
    let mut steps = rules::steps(section.defaults, &acls, ledger);
    steps.extend(rules::steps(block, &acls, ledger));
    let mut blocks = Vec::new();
    for directive in block.iter().filter(|directive| directive.name == "use_backend") {
        let (target, words) = conditions::split(&directive.args);
        let inner = backend(directive, target.first().map_or("", String::as_str), backends, ledger);
        match conditions::condition(words, &acls) {
            Ok(guards) => blocks.extend(guards.into_iter().map(|guard| (guard, inner.clone()))),
            // Other requests would reach another backend.
            Err(why) => ledger.unprotected(directive, format!("{why}: write its route with `when`")),
        }
    }
    if let Some(default) = section.find("default_backend") {
        let inner = backend(default, default.arg(0), backends, ledger);
        blocks.push((Guard::default(), inner));
    }
    steps.push(Step::Blocks(blocks));
    if section.section.name == "listen" {
        steps.extend(servers(section.section, section, ledger));
    }
    let mut unavailable = Table::default();
    unavailable.comment("No backend is for these requests.");
    unavailable.set("respond", 503);
    steps.push(Step::Handler(Guard::default(), unavailable));
    let mut site = Site { table, routes: chain::routes(&steps) };
    hoist(&mut site);
    site
}

/// An address has one site for all hosts. Frontends whose addresses are not known get hosts that exist nowhere.
fn part_defaults(sites: &mut [Site]) {
    let mut seen: Vec<Value> = Vec::new();
    for (index, site) in sites.iter_mut().enumerate() {
        let Some(listen) = site.table.get("listen").cloned() else { continue };
        if seen.contains(&listen) {
            site.table.comment("Its address is not known: write `listen`, and remove `hosts`.");
            site.table.set("hosts", format!("frontend-{}.example", index + 1));
        } else {
            seen.push(listen);
        }
    }
}

/// The steps of the backend that a rule names.
fn backend(
    rule: &Directive,
    name: &str,
    backends: &BTreeMap<&str, &Section<'_>>,
    ledger: &mut Ledger,
) -> Vec<Step> {
    ledger.translated(rule);
    let Some(section) = backends.get(name) else {
        ledger.open(rule, "write a route with `proxy`: its backend is not here");
        return unavailable(rule, "its backend is not in the imported file");
    };
    ledger.translated(section.section);
    let acls = acls(&[section.defaults, section.block()]);
    let mut steps = rules::steps(section.block(), &acls, ledger);
    steps.extend(servers(rule, section, ledger));
    steps
}

fn servers(rule: &Directive, section: &Section<'_>, ledger: &mut Ledger) -> Vec<Step> {
    match backend::proxy(&[section.defaults, section.block()], ledger) {
        Ok(mut table) => {
            table.comment(format!("{}  {}", rule.place, rule.summary()));
            vec![Step::Handler(Guard::default(), table)]
        }
        Err(why) => {
            ledger.open(section.section, why.clone());
            unavailable(rule, &why)
        }
    }
}

fn unavailable(rule: &Directive, why: &str) -> Vec<Step> {
    let mut table = Table::default();
    table.comment(format!("{}  {}", rule.place, rule.summary()));
    table.comment(format!("{why}."));
    table.set("respond", 503);
    vec![Step::Handler(Guard::default(), table)]
}

/// The addresses of a frontend, and its certificate.
fn binds(table: &mut Table, section: &Section<'_>, ledger: &mut Ledger) {
    let mut listen: Vec<String> = Vec::new();
    let mut certificates: Vec<Value> = Vec::new();
    let mut clients = None;
    let inline = section.section.args.get(1).map(|address| (address.clone(), section.section));
    let binds = section.block().iter().filter(|directive| directive.name == "bind");
    let texts = binds.flat_map(|bind| bind.arg(0).split(',').map(move |text| (text.to_owned(), bind)));
    for (text, bind) in inline.into_iter().chain(texts) {
        ledger.translated(bind);
        let after =
            |name: &str| bind.args.iter().position(|arg| arg == name).and_then(|at| bind.args.get(at + 1));
        let has = |name: &str| bind.args.iter().any(|arg| arg == name);
        let (host, port) = text.rsplit_once(':').unwrap_or((&text, ""));
        if port.parse::<u16>().is_err() {
            ledger.open(bind, "write its address into `listen`");
            continue;
        }
        let host = host.trim_start_matches("ipv4@").trim_start_matches("ipv6@");
        let is_any = ["*", "", "0.0.0.0", "::", "[::]"].contains(&host);
        let host = match host.parse::<std::net::Ipv6Addr>() {
            Ok(address) => format!("[{address}]"),
            Err(_) => host.to_owned(),
        };
        let start = if is_any { String::new() } else { host };
        let options = [(has("ssl"), ",tls"), (has("accept-proxy"), ",proxy_protocol")];
        let options: String = options.iter().filter(|(has, _)| *has).map(|(_, option)| *option).collect();
        let address = format!("{start}:{port}{options}");
        if !listen.contains(&address) {
            listen.push(address);
        }
        if has("accept-proxy") {
            ledger.different(bind, "write `trusted_proxies` with the addresses that send the PROXY protocol");
        }
        if let Some(file) = after("crt") {
            if file.ends_with('/') || !file.contains('.') {
                ledger.open(bind, "write the certificates: Rudy reads files, and no folders");
            } else {
                certificates.push(Value::table([
                    ("certificate", file.as_str().into()),
                    ("key", file.as_str().into()),
                ]));
            }
        }
        if let Some(authority) =
            after("ca-file").filter(|_| after("verify").is_some_and(|verify| verify != "none"))
        {
            let is_required = after("verify").is_some_and(|verify| verify == "required");
            clients = Some(Value::table([
                ("authority", authority.as_str().into()),
                ("required", is_required.into()),
            ]));
        }
    }
    if listen.is_empty() {
        listen.push(":80".to_owned());
    }
    let has_tls = listen.iter().any(|address| address.contains(",tls"));
    table.set("listen", Value::texts(listen));
    if !has_tls {
        return;
    }
    let mut certificates = certificates.into_iter();
    let Some(Value::Table(mut first)) = certificates.next() else {
        table.comment("The certificate is not translated.");
        table.set("tls", "self-signed");
        return;
    };
    let further: Vec<Value> = certificates.collect();
    if !further.is_empty() {
        first.push(("certificates".to_owned(), Value::List(further)));
    }
    first.extend(clients.map(|clients| ("client_certificates".to_owned(), clients)));
    table.set("tls", Value::Table(first));
}

fn mark(section: &Directive, why: &str, ledger: &mut Ledger) {
    ledger.open(section, why);
    for directive in section.children() {
        ledger.open(directive, why);
    }
}

/// Gives a verdict to all directives that have none.
fn finish(sections: &[Directive], ledger: &mut Ledger) {
    for section in sections {
        if !ledger.has(section) {
            ledger.different(section, "no frontend for HTTP uses it, or Rudy does not need it");
        }
        let is_used = ["frontend", "listen", "backend", "defaults"].contains(&section.name.as_str());
        for directive in section.children() {
            if ledger.has(directive) {
                continue;
            }
            if is_used {
                rules::verdict(directive, ledger);
            } else {
                ledger.different(directive, "Rudy has its own processes, logs and defaults");
            }
        }
    }
}
