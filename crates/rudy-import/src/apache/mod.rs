//! Virtual hosts of Apache, and `.htaccess` files, as sites and routes.

mod access;
mod conditions;
mod content;
mod join;
mod known;
mod messages;
mod redirects;
mod rewrite;
mod sections;
mod site;
mod syntax;

use std::collections::BTreeMap;

pub(crate) use self::join::read;
use self::known::{Known, known};
use crate::report::Ledger;
use crate::site::{Site, common_addresses, write};
use crate::syntax::Directive;
use crate::toml::Table;

/// Whether a directive has this name: Apache does not regard case.
fn is(directive: &Directive, name: &str) -> bool {
    directive.name.eq_ignore_ascii_case(name)
}

/// The directives of a block with a name.
fn named<'a>(block: &'a [Directive], name: &'static str) -> impl DoubleEndedIterator<Item = &'a Directive> {
    block.iter().filter(move |directive| is(directive, name))
}

/// Translates the directives of all files to the text of `rudy.toml`. `folder` is that of a `.htaccess`.
pub(crate) fn translate(directives: &[Directive], folder: Option<&str>, ledger: &mut Ledger) -> String {
    let mut top = Table::default();
    let hosts: Vec<&Directive> = named(directives, "<VirtualHost").collect();
    let outer: Vec<Directive> =
        directives.iter().filter(|directive| !is(directive, "<VirtualHost")).cloned().collect();
    let mut sites: Vec<Site> = Vec::new();
    if hosts.is_empty() {
        if let Some(folder) = folder {
            let folder = if folder.is_empty() { "." } else { folder };
            top.comment(format!(
                "The rules of the folder {folder}: put its routes into the site that has it."
            ));
        }
        sites.push(site::site(None, &outer, &outer, folder, ledger));
    }
    for host in hosts {
        ledger.translated(host);
        sites.push(site::site(Some(host), host.children(), &outer, None, ledger));
    }
    join_hosts(&mut sites);
    common_addresses(&mut top, &mut sites);
    finish(directives, ledger);
    write(&top, &BTreeMap::new(), &sites)
}

/// The first site of an address has the unknown hosts. Of sites with the same hosts, the first one is used.
fn join_hosts(sites: &mut Vec<Site>) {
    let mut seen = Vec::new();
    sites.retain(|site| {
        let key = (site.table.get("listen").cloned(), site.table.get("hosts").cloned());
        let is_new = !seen.contains(&key);
        seen.push(key);
        is_new
    });
}

/// Gives a verdict to all directives that have none.
fn finish(directives: &[Directive], ledger: &mut Ledger) {
    for directive in directives {
        if !ledger.has(directive) {
            match known(&directive.name.to_ascii_lowercase()) {
                Known::Different(reason) => ledger.different(directive, reason),
                Known::Open { protects: true, advice } => ledger.unprotected(directive, advice),
                Known::Open { protects: false, advice } => ledger.open(directive, advice),
            }
        }
        finish(directive.children(), ledger);
    }
}
