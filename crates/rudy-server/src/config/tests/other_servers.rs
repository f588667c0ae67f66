//! The advice for directives of other servers: it must be true, and the documentation must have the same.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rudy_config::Files;

use crate::config::Config;
use crate::config::hints::TablesHints;
use crate::config::other_servers::{Row, is_directive, rows};

/// How often the directives are used, in public configurations.
const USES: &str = include_str!("nginx_directives.tsv");

/// Where an advice may belong, without the rest of a configuration.
const PLACES: [&str; 18] = [
    "CODE\n[[site]]\nroot = '.'",
    "[[site]]\nCODE",
    "[[site]]\nroot = '.'\nCODE",
    "[[site]]\n[[site.route]]\npath = '/*'\nCODE",
    "[[site]]\n[[site.route]]\npath = '/*'\nrespond = 404\nCODE",
    "[[site]]\n[[site.route]]\nrespond = 404\nCODE",
    "[[site]]\nroot = '.'\ntls = { certificate = 'a', key = 'b', CODE }",
    "[[site]]\nphp = { root = '.', CODE }",
    "[[site]]\nphp = { CODE, root = '.' }",
    "access_log = { path = 'a', CODE }\n[[site]]\nroot = '.'",
    "[[site]]\nroute = [{ path = '/*', files = { root = '.', CODE } }]",
    "[[site]]\nroute = [{ path = '/*', fastcgi = { address = 'a:1', CODE } }]",
    "[[site]]\nroute = [{ path = '/*', fastcgi = { CODE } }]",
    "[[site]]\nroute = [{ path = '/*', proxy = { upstreams = 'http://a', CODE } }]",
    "[[site]]\nroute = [{ path = '/*', stream = { CODE } }]",
    "[[site]]\nroute = [{ path = '/*', redirect = { to = '/a', CODE } }]",
    "[[site]]\nroute = [{ path = '/*', basic_auth = { file = 'a', CODE }, respond = 404 }]",
    "[[site]]\nroute = [{ path = '/*', CODE, respond = 404 }]",
];

/// What is in backticks and neither a key nor a directive: values of other servers, and commands.
const OTHER_CODE: [&str; 18] = [
    ",tls",
    "FollowSymLinks",
    "Indexes",
    "Server",
    "Vary",
    "always",
    "deny all",
    "grpcs",
    "http-socket",
    "if=",
    "location ~",
    "off",
    "on",
    "permanent",
    "rudy reload",
    "satisfy all",
    "satisfy any",
    "last",
];

fn docs(page: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs")).join(page)
}

fn page(name: &str) -> String {
    std::fs::read_to_string(docs(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The code of a text: what is in backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether all keys of a configuration are known, and their values valid.
fn is_valid(text: &str) -> bool {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let mut files = Files::new(&TablesHints, &[]);
    files.read::<Config>(file.path());
    files.problems.is_empty()
}

#[test]
fn every_line_that_an_advice_gives_is_valid_in_some_table() {
    for Row { advice, .. } in rows() {
        assert!(!advice.contains('|'), "it is in a table: {advice}");
        for line in code(advice).filter(|code| code.contains(" = ")) {
            let is_valid = PLACES.iter().any(|place| is_valid(&place.replace("CODE", line)));
            assert!(is_valid, "`{line}` is not valid anywhere: {advice}");
        }
    }
}

#[test]
fn every_key_that_an_advice_names_exists() {
    let reference = page("reference.md");
    let keys: HashSet<_> =
        reference.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`')).collect();
    for row in rows() {
        for name in code(row.advice).filter(|code| !code.contains(" = ")) {
            let is_known =
                keys.contains(name) || is_directive(row.server, name) || OTHER_CODE.contains(&name);
            assert!(is_known, "there is no key `{name}`: {}", row.advice);
        }
    }
}

#[test]
fn every_page_that_an_advice_names_exists() {
    for target in rows().iter().flat_map(|row| &row.pages) {
        let (name, anchor) = target.split_once('#').unwrap_or((target, ""));
        let text = page(name);
        let has_heading = |line: &str| {
            let heading =
                line.strip_prefix('#').map(|rest| rest.trim_start_matches('#').trim().to_lowercase());
            heading
                .is_some_and(|heading| heading.replace(['(', ')', ',', '/'], "").replace(' ', "-") == anchor)
        };
        let is_found = anchor.is_empty()
            || text.contains(&format!("<a id=\"{anchor}\"></a>"))
            || text.lines().any(has_heading);
        assert!(is_found, "{target} does not exist");
    }
}

#[test]
fn every_directive_of_a_server_has_one_advice() {
    let mut seen = HashSet::new();
    for row in rows() {
        assert!(["nginx", "caddy", "apache", "haproxy", "any"].contains(&row.server), "{}", row.server);
        for directive in &row.directives {
            assert!(seen.insert((row.server, directive.to_lowercase())), "{} {directive}", row.server);
        }
    }
}

#[test]
fn most_directives_of_nginx_in_use_have_advice() {
    let directives: Vec<(u32, &str)> = USES
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(uses, name)| (uses.parse().unwrap(), name))
        .collect();
    let has_advice = |name: &str| is_directive("nginx", name);
    let sum =
        |directives: &mut dyn Iterator<Item = &(u32, &str)>| directives.map(|(uses, _)| uses).sum::<u32>();
    let known = directives.iter().filter(|(_, name)| has_advice(name)).count();
    let uses = sum(&mut directives.iter());
    let known_uses = sum(&mut directives.iter().filter(|(_, name)| has_advice(name)));
    assert_eq!(
        format!("{known} of {} names, {known_uses} of {uses} uses", directives.len()),
        "188 of 191 names, 8474 of 8478 uses"
    );
    assert!(directives.iter().take(100).all(|(_, name)| has_advice(name)));
}

/// The table of a server in its page.
fn table(server: &str, title: &str) -> String {
    let mut table = format!("| {title} | Rudy |\n|---|---|\n");
    for row in rows().iter().filter(|row| row.server == server) {
        let directives: Vec<_> = row.directives.iter().map(|name| format!("`{name}`")).collect();
        let advice = row.advice.strip_prefix("write ").unwrap_or(row.advice);
        let advice = advice
            .replace("remove it: ", "not needed: ")
            .replace("[[site]]", "`[[site]]`")
            .replace("[[site.route]]", "`[[site.route]]`");
        let links: Vec<_> =
            row.pages.iter().map(|target| format!("[{}]({target})", link_text(target))).collect();
        let more = if links.is_empty() { String::new() } else { format!(" ({})", links.join(", ")) };
        table.extend(["| ", &directives.join(", "), " | ", &advice, &more, " |\n"]);
    }
    table
}

/// The key or the heading to which a link leads, or else its page.
fn link_text(target: &str) -> String {
    let (page, anchor) = target.split_once('#').unwrap_or((target, ""));
    match (page, anchor) {
        ("reference.md", key) => {
            format!("`{}`", key.trim_start_matches("site.route.").trim_start_matches("site."))
        }
        (page, "") => page.trim_end_matches(".md").replace('-', " "),
        (_, heading) => heading.replace('-', " "),
    }
}

#[test]
fn the_documentation_for_users_of_other_servers_has_the_same_advice() {
    for (server, title) in [("nginx", "nginx"), ("caddy", "Caddy")] {
        let name = format!("from-{server}.md");
        let text = page(&name);
        let (before, rest) = text.split_once("\n## Directives\n\n").unwrap();
        let (_, after) = rest.split_once("\n## ").unwrap();
        let current = format!("{before}\n## Directives\n\n{}\n## {after}", table(server, title));
        if std::env::var_os("RUDY_WRITE_SCHEMA").is_some() {
            std::fs::write(docs(&name), &current).unwrap();
        }
        assert!(
            page(&name) == current,
            "docs/{name} is stale: RUDY_WRITE_SCHEMA=1 cargo test -p rudy-server other_servers"
        );
    }
}
