//! A virtual host, the main server, or the folder of a `.htaccess`, as a site.

use super::content::{Content, Proxying, alias, php_address, proxy_pass};
use super::sections::{Folders, Section, of_files, of_paths};
use super::{access, is, messages, named, redirects, rewrite};
use crate::chain::{self, Step};
use crate::guard::Guard;
use crate::hoist::hoist;
use crate::report::Ledger;
use crate::site::Site;
use crate::syntax::Directive;
use crate::toml::{Table, Value};

/// Translates the directives of a site; `outer` are those of the server around it.
pub(super) fn site(
    host: Option<&Directive>,
    block: &[Directive],
    outer: &[Directive],
    folder: Option<&str>,
    ledger: &mut Ledger,
) -> Site {
    let mut table = Table::default();
    if let Some(host) = host {
        table.comment(format!("{}  {}>", host.place, host.summary()));
    }
    let names = names(block, ledger);
    let tls = tls(block, ledger);
    if !names.is_empty() {
        table.set("hosts", Value::texts(names.iter().cloned()));
    }
    table.set("listen", Value::texts(addresses(host, outer, tls.is_some(), ledger)));
    if let Some(tls) = tls {
        table.set("tls", tls);
    }
    logs(&mut table, block, ledger);
    let steps = steps(block, outer, &names, folder, ledger);
    let mut site = Site { table, routes: chain::routes(&steps) };
    hoist(&mut site);
    site
}

fn steps(
    block: &[Directive],
    outer: &[Directive],
    names: &[String],
    folder: Option<&str>,
    ledger: &mut Ledger,
) -> Vec<Step> {
    let is_main = std::ptr::eq(block, outer);
    let blocks: Vec<&[Directive]> = if is_main { vec![block] } else { vec![outer, block] };
    let mut content = content(block, outer, folder, ledger);
    let aliases: Vec<&Directive> = blocks.iter().flat_map(|block| named(block, "Alias")).collect();
    let pairs =
        aliases.iter().map(|alias| (alias.arg(0).trim_end_matches('/').to_owned(), alias.arg(1).to_owned()));
    let folders = Folders { root: content.root.clone(), aliases: pairs.collect() };
    let paths = of_paths(&blocks, ledger);
    let files = of_files(&blocks, &folders, ledger);
    for section in &files {
        of_content(section.block, &section.guard, &mut content, ledger);
    }
    let top = Section { guard: Guard::default(), block, base: "/".to_owned() };
    let mut steps = Vec::new();
    for section in std::iter::once(&top).chain(&paths) {
        steps.extend(settings(section, &paths, ledger));
    }
    let rules = rewrite::steps(block, "/", folder.is_some(), names, &mut content, ledger);
    let moved = redirects::steps(block, &Guard::default(), ledger);
    // In a folder, mod_rewrite comes last.
    steps.extend(if folder.is_some() { [moved, rules] } else { [rules, moved] }.concat());
    for section in &paths {
        steps.extend(redirects::steps(section.block, &section.guard, ledger));
    }
    steps.extend(proxies(block, &paths, &content, ledger));
    for section in files.iter().chain(&paths) {
        steps.extend(settings(section, &files, ledger));
    }
    // A folder around that of an alias has its rules for its own paths only.
    let mut seen: Vec<*const Directive> = Vec::new();
    for section in &files {
        if seen.contains(&section.block.as_ptr()) {
            continue;
        }
        seen.push(section.block.as_ptr());
        let rules = rewrite::steps(section.block, &section.base, true, names, &mut content, ledger);
        let within = |step| match step {
            Step::Handler(guard, table) => Step::Handler(section.guard.and(&guard), table),
            step => step,
        };
        steps.extend(redirects::steps(section.block, &section.guard, ledger));
        steps.extend(rules.into_iter().map(within));
    }
    for directive in aliases {
        match alias(directive) {
            Some(step) => {
                ledger.translated(directive);
                steps.push(step);
            }
            None => ledger.open(directive, "write a route with `files`"),
        }
    }
    steps.extend(content.steps());
    steps
}

/// The settings of a section: rules of access, then those about responses.
fn settings(section: &Section<'_>, around: &[Section<'_>], ledger: &mut Ledger) -> Vec<Step> {
    let is_around = |other: &&Section<'_>| section.guard.implies(&other.guard);
    let logins: Vec<&Directive> = around.iter().filter(is_around).flat_map(|other| other.block).collect();
    let mut steps = messages::steps(section.block, &section.guard, ledger);
    if let Some(table) = access::settings(section.block, &logins, ledger) {
        steps.push(Step::Setting(section.guard.clone(), table));
    }
    for directive in section.block {
        let is_except = is(directive, "<LimitExcept");
        if !is_except && !is(directive, "<Limit") {
            continue;
        }
        ledger.translated(directive);
        let methods = Guard::condition("methods", Value::texts(directive.args.iter().cloned()));
        let methods = if is_except { methods.negated() } else { Some(methods) };
        let rules = access::settings(directive.children(), &logins, ledger);
        let (Some(methods), Some(table)) = (methods, rules) else { continue };
        let guard = section.guard.and(&methods);
        // Rules of an inner section do not open what is closed for methods.
        let is_closed = access::is_closed(&table);
        let step =
            if is_closed { Step::closed(guard, &directive.summary()) } else { Step::Setting(guard, table) };
        steps.push(step);
    }
    steps
}

fn content(block: &[Directive], outer: &[Directive], folder: Option<&str>, ledger: &mut Ledger) -> Content {
    let mut content = Content::default();
    let root = named(block, "DocumentRoot").next_back().or_else(|| named(outer, "DocumentRoot").next_back());
    if let Some(root) = root {
        ledger.translated(root);
        content.root = Some(root.arg(0).to_owned());
    } else {
        content.root = folder.map(|folder| if folder.is_empty() { "." } else { folder }.to_owned());
    }
    of_content(outer, &Guard::default(), &mut content, ledger);
    of_content(block, &Guard::default(), &mut content, ledger);
    content
}

/// What a block says about files.
fn of_content(block: &[Directive], guard: &Guard, content: &mut Content, ledger: &mut Ledger) {
    for directive in block {
        match directive.name.to_ascii_lowercase().as_str() {
            "directoryindex" if guard.is_all() => {
                ledger.translated(directive);
                content.index =
                    directive.args.iter().filter(|name| !name.starts_with('/')).cloned().collect();
                content.has_scripts |=
                    content.index.iter().any(|name| name.rsplit('.').next() == Some("php"));
            }
            "options" if guard.is_all() => {
                ledger.translated(directive);
                let has = |name: &str| directive.args.iter().any(|arg| arg.eq_ignore_ascii_case(name));
                let is_set = !directive.args.iter().any(|arg| arg.starts_with(['+', '-']));
                content.browse = has("Indexes")
                    || has("+Indexes")
                    || has("All")
                    || content.browse && !is_set && !has("-Indexes");
                content.follow_symlinks |= has("FollowSymLinks") || has("+FollowSymLinks");
            }
            "sethandler" | "addhandler" | "proxypassmatch" => {
                let found = directive.args.iter().find_map(|arg| php_address(arg));
                if let Some(address) = found {
                    ledger.translated(directive);
                    content.php = Some(address);
                    content.has_scripts = true;
                } else if directive.args.iter().any(|arg| arg.contains("php")) {
                    ledger.different(directive, "Rudy runs PHP with php-fpm (docs/php.md)");
                    content.has_scripts = true;
                }
            }
            "php_value" | "php_flag" => content.has_scripts = true,
            _ => {}
        }
    }
}

/// `ProxyPass`, in the order of the file; sections come last.
fn proxies(block: &[Directive], paths: &[Section<'_>], content: &Content, ledger: &mut Ledger) -> Vec<Step> {
    let mut proxying = Proxying::default();
    for directive in block.iter().chain(paths.iter().flat_map(|section| section.block)) {
        match directive.name.to_ascii_lowercase().as_str() {
            "proxypreservehost" => {
                ledger.translated(directive);
                proxying.keeps_host = directive.arg(0).eq_ignore_ascii_case("on");
            }
            "proxypassreverse" => {
                ledger.translated(directive);
                proxying.reverses = true;
            }
            _ => {}
        }
    }
    let balancers: Vec<(String, Vec<String>)> = named(block, "<Proxy")
        .map(|proxy| {
            ledger.translated(proxy);
            let members = named(proxy.children(), "BalancerMember").map(|member| {
                ledger.translated(member);
                member.arg(0).trim_end_matches('/').to_owned()
            });
            (
                proxy.arg(0).trim_start_matches("balancer://").trim_end_matches('/').to_owned(),
                members.collect(),
            )
        })
        .collect();
    let of_sections = paths.iter().flat_map(|section| {
        named(section.block, "ProxyPass").map(|pass| (section.base.as_str(), pass.arg(0), pass, true))
    });
    let of_block = named(block, "ProxyPass").map(|pass| (pass.arg(0), pass.arg(1), pass, false));
    let mut passes: Vec<_> = of_block.chain(of_sections).collect();
    // Sections exclude paths before others are passed on, and the longest path of a section counts.
    passes.sort_by_key(|(path, url, _, is_section)| {
        let rank = usize::from(*url != "!");
        (
            if *is_section || *url == "!" { rank } else { 1 },
            if *is_section { usize::MAX - path.len() } else { 0 },
        )
    });
    let mut steps = Vec::new();
    for (path, url, pass, _) in passes {
        if url == "!" {
            ledger.translated(pass);
            let guard = Guard::paths(super::content::folder_patterns(path));
            let of_files = content.steps().into_iter().map(|step| match step {
                Step::Handler(inner, table) => Step::Handler(guard.and(&inner), table),
                step => step,
            });
            let aliased = named(block, "Alias")
                .filter(|alias| alias.arg(0).trim_end_matches('/') == path.trim_end_matches('/'));
            let aliased: Vec<Step> = aliased.filter_map(alias).collect();
            steps.extend(if aliased.is_empty() { of_files.collect() } else { aliased });
            continue;
        }
        match proxy_pass(path, url, &proxying, &balancers) {
            Ok(Step::Handler(guard, mut table)) => {
                ledger.translated(pass);
                table.comment(format!("{}  {}", pass.place, pass.summary()));
                steps.push(Step::Handler(guard, table));
            }
            Ok(step) => steps.push(step),
            Err(why) => {
                let mut table = Table::default();
                table.comment(format!("{}: {why}.", pass.summary()));
                table.set("respond", 503);
                ledger.open(pass, why);
                steps.push(Step::Handler(Guard::paths(super::content::folder_patterns(path)), table));
            }
        }
    }
    for directive in block
        .iter()
        .filter(|directive| is(directive, "ProxyPassMatch") && !ledger.has(directive))
        .collect::<Vec<_>>()
    {
        ledger.open(directive, "write a route with `proxy` or `fastcgi`");
    }
    steps
}

fn names(block: &[Directive], ledger: &mut Ledger) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for directive in named(block, "ServerName").chain(named(block, "ServerAlias")) {
        ledger.translated(directive);
        for arg in &directive.args {
            let name =
                arg.split("://").last().unwrap_or(arg).split(':').next().unwrap_or_default().to_lowercase();
            let bare = name.strip_prefix("*.").unwrap_or(&name);
            let is_letter = |letter: char| letter.is_ascii_alphanumeric() || ".-".contains(letter);
            if bare.is_empty() || !bare.chars().all(is_letter) {
                ledger.open(directive, format!("write the host instead of `{arg}`"));
            } else if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// The addresses of a virtual host.
fn addresses(
    host: Option<&Directive>,
    outer: &[Directive],
    has_tls: bool,
    ledger: &mut Ledger,
) -> Vec<String> {
    let listens: Vec<&Directive> = named(outer, "Listen").collect();
    ledger.all_translated(listens.iter().copied());
    let texts: Vec<String> = match host {
        Some(host) => host.args.clone(),
        None => listens.iter().map(|listen| listen.arg(0).to_owned()).collect(),
    };
    let mut addresses: Vec<String> = Vec::new();
    for text in &texts {
        let (address, port) = text.rsplit_once(':').unwrap_or(("*", text));
        let port = if port.parse::<u16>().is_ok() {
            port
        } else if has_tls {
            "443"
        } else {
            "80"
        };
        let is_any = ["*", "_default_", "0.0.0.0", "[::]", ""].contains(&address);
        let is_ip = address.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
        let start = if is_any || !is_ip { "" } else { address };
        let address = format!("{start}:{port}{}", if has_tls { ",tls" } else { "" });
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        addresses.push(if has_tls { ":443,tls" } else { ":80" }.to_owned());
    }
    addresses
}

fn tls(block: &[Directive], ledger: &mut Ledger) -> Option<Value> {
    let certificate = named(block, "SSLCertificateFile").next();
    let engine = named(block, "SSLEngine").next();
    ledger.all_translated(engine);
    let is_on = engine.is_some_and(|engine| engine.arg(0).eq_ignore_ascii_case("on"));
    if !is_on && certificate.is_none() {
        return None;
    }
    let Some(certificate) = certificate else {
        if let Some(engine) = engine {
            ledger.open(engine, "write `tls` with a certificate, or `tls = \"auto\"`");
        }
        return Some("self-signed".into());
    };
    ledger.translated(certificate);
    let key = named(block, "SSLCertificateKeyFile").next();
    ledger.all_translated(key);
    let key = key.unwrap_or(certificate);
    let mut keys = vec![("certificate", certificate.arg(0).into()), ("key", key.arg(0).into())];
    if let Some(chain) = named(block, "SSLCertificateChainFile").next() {
        ledger.open(chain, "append its certificates to the file of the certificate");
    }
    if let Some(protocols) = named(block, "SSLProtocol").next() {
        ledger.different(protocols, "Rudy has only TLS 1.2 and 1.3");
        if protocols.args.iter().any(|arg| arg == "-TLSv1.2") {
            keys.push(("min_version", "1.3".into()));
        }
    }
    let verify = named(block, "SSLVerifyClient").next();
    let authority = named(block, "SSLCACertificateFile").next();
    match (verify.map(|verify| verify.arg(0).to_ascii_lowercase()).as_deref(), authority) {
        (Some("require" | "optional"), Some(authority)) => {
            ledger.all_translated(verify.into_iter().chain([authority]));
            let mut clients = vec![("authority", authority.arg(0).into())];
            if verify.is_some_and(|verify| verify.arg(0).eq_ignore_ascii_case("optional")) {
                clients.push(("required", false.into()));
            }
            keys.push(("client_certificates", Value::table(clients)));
        }
        (Some("none") | None, Some(authority)) => {
            ledger.different(authority, "no client certificates are verified");
        }
        _ => {}
    }
    Some(Value::table(keys))
}

fn logs(table: &mut Table, block: &[Directive], ledger: &mut Ledger) {
    let Some(log) = named(block, "CustomLog").next() else { return };
    if log.arg(0).starts_with('|') || log.arg(0).contains(['$', '%']) || log.args.len() > 2 {
        ledger.open(log, "write `access_log` (docs/logs.md)");
        return;
    }
    if log.arg(1) == "combined" {
        ledger.translated(log);
    } else {
        ledger.different(log, "the log has the format `combined`: see docs/logs.md");
    }
    table.set("access_log", log.arg(0));
}
