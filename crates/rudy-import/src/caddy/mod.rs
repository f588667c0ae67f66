//! A Caddyfile as sites and routes.

mod content;
mod directives;
mod global;
mod logins;
mod matchers;
mod order;
mod proxy;
mod rewrites;
mod site;
mod snippets;
mod syntax;
mod text;

use std::collections::BTreeMap;

use self::directives::Context;
use crate::File;
use crate::report::Ledger;
use crate::site::{Site, common_addresses, empty, write};
use crate::syntax::Directive;
use crate::toml::Table;

use self::matchers::is_network;
pub(crate) use self::snippets::read;

/// The name of a file with users, which the command writes beside `rudy.toml`.
pub(crate) fn users_file(index: usize) -> String {
    format!("htpasswd-{}", index + 1)
}

/// Translates the blocks of a Caddyfile to the text of `rudy.toml` and files that it names.
pub(crate) fn translate(blocks: &[Directive], ledger: &mut Ledger) -> (String, Vec<File>) {
    let mut top = Table::default();
    let options: Vec<&Directive> = blocks.iter().filter(|block| block.name.is_empty()).collect();
    let order = order::Order::new(
        options.iter().flat_map(|block| block.children()).filter(|option| option.name == "order"),
    );
    let has_tls = global::apply(&mut top, &options, ledger);
    let mut users = Vec::new();
    let mut sites: Vec<Site> = Vec::new();
    for block in blocks.iter().filter(|block| !block.name.is_empty()) {
        let mut context = Context { ledger, order: &order, users: &mut users };
        sites.extend(site::sites(block, has_tls, &mut context));
    }
    if sites.is_empty() {
        sites.push(Site { routes: vec![empty("The Caddyfile has no site.")], ..Site::default() });
    }
    common_addresses(&mut top, &mut sites);
    finish(blocks, ledger);
    let file = |(index, text)| File { name: users_file(index), text };
    (write(&top, &BTreeMap::new(), &sites), users.into_iter().enumerate().map(file).collect())
}

/// Gives a verdict to all directives that have none: they are parts of one that is not translated.
fn finish(directives: &[Directive], ledger: &mut Ledger) {
    for directive in directives {
        if !ledger.has(directive) {
            ledger.open(directive, "write it by hand: see docs/from-caddy.md");
        }
        finish(directive.children(), ledger);
    }
}
