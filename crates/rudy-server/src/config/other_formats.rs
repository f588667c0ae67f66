//! Recognizes configurations of other servers, and other formats, in place of `rudy.toml`. A file with a line of TOML is TOML with a
//! syntax error, whatever else is in it: a wrong sentence about it would hide its errors.

use super::other_servers::is_directive;

/// The names of sections in Apache.
const APACHE_SECTIONS: &str = "VirtualHost Directory DirectoryMatch Location LocationMatch Files FilesMatch IfModule IfDefine \
    IfVersion If Proxy Limit Macro";

/// Directives with which files of Apache begin, besides those that have advice. `php_value` needs no capital.
const APACHE_WORDS: &str = "Listen ServerRoot ServerAdmin Redirect Order Deny Allow Satisfy Include IncludeOptional Define User \
    Group Timeout KeepAlive AddEncoding AddOutputFilterByType SetEnvIf FileETag IndexOptions";

/// Directives and options of Caddy, besides those that have advice, and the most common ones of Caddy 1.
const CADDY_WORDS: &str = "abort metrics method tracing acme_server debug storage servers default_sni persist_config proxy gzip fastcgi";

/// Sections of `HAProxy`.
const HAPROXY_SECTIONS: &str = "global defaults frontend backend listen userlist peers resolvers";

/// Keywords of `HAProxy`, besides those that have advice.
const HAPROXY_WORDS: &str = "log bind option server daemon user group chroot description nbthread retries http-request \
    http-response nameserver errorfile pidfile";

/// What a text is instead of TOML, and where to read on, if it is certain.
pub(super) fn other_format(text: &str) -> Option<String> {
    let text = text.trim_start_matches('\u{feff}');
    let lines: Vec<_> =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    if lines.iter().any(|line| is_toml(line)) {
        return None;
    }
    let (first, second) = (*lines.first()?, lines.get(1).copied().unwrap_or_default());
    let (what, page) = if is_json(text) {
        ("JSON", "configuration")
    } else if is_nginx(first, &lines) {
        ("a configuration of nginx", "from-nginx")
    } else if is_apache(first) {
        ("a configuration of Apache", "configuration")
    } else if is_haproxy(first, &lines) {
        ("a configuration of HAProxy", "reverse-proxy")
    } else if is_caddy(first, second) {
        ("a configuration of Caddy", "from-caddy")
    } else if is_yaml(&lines) {
        ("YAML", "configuration")
    } else {
        return None;
    };
    let how = if page == "from-nginx" { "`rudy import` translates it, and " } else { "" };
    Some(format!(
        "this is {what}, and a configuration of Rudy is TOML: {how}docs/{page}.md shows how to write it"
    ))
}

/// Whether a line is a table header or the beginning of an assignment. Spaces tell `root = "a"` from `levels=1:2`, which nginx
/// has on a line of its own.
fn is_toml(line: &str) -> bool {
    if let Some(header) = line.strip_prefix('[') {
        return header.trim_start_matches('[').starts_with(|letter: char| letter.is_ascii_lowercase());
    }
    line.split_once('=').is_some_and(|(key, value)| {
        let key = key.trim_end();
        let is_bare = |letter: char| letter.is_ascii_alphanumeric() || "_-.\"'".contains(letter);
        !key.is_empty() && key.chars().all(is_bare) && value.starts_with([' ', '"', '\'', '[', '{'])
    })
}

/// Returns the first word of a line, and the rest.
fn word(line: &str) -> (&str, &str) {
    let end =
        line.find(|letter: char| letter.is_whitespace() || "{};=".contains(letter)).unwrap_or(line.len());
    (&line[..end], line[end..].trim_start())
}

/// Whether a list, separated by spaces, has a word.
fn contains(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known.eq_ignore_ascii_case(word))
}

fn is_json(text: &str) -> bool {
    text.trim_start().strip_prefix('{').is_some_and(|rest| rest.trim_start().starts_with('"'))
}

/// A directive that nginx has, and one that ends as in nginx.
fn is_nginx(first: &str, lines: &[&str]) -> bool {
    let (directive, rest) = word(first);
    let ends = |line: &&str| line.split(" #").next().is_some_and(|line| line.trim_end().ends_with(';'));
    let has_end = lines.iter().any(ends) || rest.starts_with('{') && first.contains("; ");
    is_directive("nginx", directive) && !rest.starts_with(['=', ':']) && has_end
}

/// A section, or a directive with a capital: keys of Rudy have none.
fn is_apache(first: &str) -> bool {
    if let Some(section) = first.strip_prefix('<') {
        let name = section.split([' ', '>']).next().unwrap_or_default();
        return contains(APACHE_SECTIONS, name);
    }
    let (directive, rest) = word(first);
    let has_capital = directive.starts_with(|letter: char| letter.is_ascii_uppercase());
    let is_known = has_capital && (is_directive("apache", directive) || contains(APACHE_WORDS, directive));
    (is_known || contains("php_value php_flag", directive)) && !rest.is_empty() && !rest.starts_with('=')
}

/// A section without braces, and soon one of its keywords.
fn is_haproxy(first: &str, lines: &[&str]) -> bool {
    let (section, name) = word(first);
    let is_section = contains(HAPROXY_SECTIONS, section) && !name.contains(['{', ';', '=', '"']);
    let is_known = |keyword| is_directive("haproxy", keyword) || contains(HAPROXY_WORDS, keyword);
    is_section && lines.iter().skip(1).take(5).any(|line| is_known(word(line).0))
}

/// The addresses of a site, a snippet or the global options, and one of the directives.
fn is_caddy(first: &str, second: &str) -> bool {
    let addresses = first.trim_end_matches('{').trim_end();
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || ".-*:/{$}".contains(letter);
    let is_address = |address: &str| {
        let address = address.trim_end_matches(',');
        let is_host = address.contains(['.', ':']) || address == "localhost" || address.starts_with("{$");
        is_host && address.chars().all(is_name)
    };
    let is_snippet = addresses.starts_with('(') && addresses.ends_with(')');
    let begins = is_snippet || addresses.split_whitespace().all(is_address);
    let directive = word(second).0;
    let is_known =
        directive.starts_with('@') || is_directive("caddy", directive) || contains(CADDY_WORDS, directive);
    begins && is_known
}

/// Keys with colons, or a list.
fn is_yaml(lines: &[&str]) -> bool {
    let is_key = |line: &str| {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        line.split_once(':').is_some_and(|(key, value)| {
            !key.is_empty() && key.chars().all(is_letter) && (value.is_empty() || value.starts_with(' '))
        })
    };
    let is_line = |line: &&str| *line == "---" || line.starts_with("- ") || is_key(line);
    lines.iter().take(5).all(is_line)
}
