//! Texts with placeholders of Caddy.

/// Where a text is used: Rudy has fewer placeholders in the targets of redirects and rewrites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Target,
    Field,
}

/// Translates a text. The error names the placeholder that Rudy does not have there.
pub(super) fn translate(text: &str, place: Use) -> Result<String, String> {
    let text = text.replace("?{query}", "\u{1}").replace("&{query}", "\u{1}");
    let mut result = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find('{') {
        result.push_str(&rest[..at]);
        let Some((name, after)) = rest[at + 1..].split_once('}') else { break };
        let name = name.strip_prefix("http.request.").unwrap_or(name);
        let unknown = || format!("Rudy has no placeholder for {{{name}}} here");
        result.push_str(&placeholder(name, place).ok_or_else(unknown)?);
        rest = after;
    }
    Ok((result + rest).replace('\u{1}', "{query}"))
}

fn placeholder(name: &str, place: Use) -> Option<String> {
    let is_field = place == Use::Field;
    Some(match name {
        "path" | "uri.path" | "orig_uri.path" => "{path}".to_owned(),
        "uri" | "orig_uri" => "{path}{query}".to_owned(),
        "?query" => "{query}".to_owned(),
        "host" => "{host}".to_owned(),
        "hostport" if is_field => "{header.Host}".to_owned(),
        "method" if is_field => "{method}".to_owned(),
        "scheme" if is_field => "{scheme}".to_owned(),
        "remote_host" | "client_ip" | "remote" | "remote.host" if is_field => "{client}".to_owned(),
        "http.auth.user.id" if is_field => "{header.Remote-User}".to_owned(),
        "time.now.unix" if is_field => "{unix_time}".to_owned(),
        _ => {
            if let Some(group) = name.strip_prefix("re.").or_else(|| name.strip_prefix("http.regexp.")) {
                let group = group.rsplit('.').next().unwrap_or(group);
                return group.parse::<u8>().is_ok().then(|| format!("{{{group}}}"));
            }
            if let Some(parameter) = name.strip_prefix("query.").or_else(|| name.strip_prefix("uri.query.")) {
                return Some(format!("{{query.{parameter}}}"));
            }
            if let Some(field) = name.strip_prefix("header.").filter(|_| is_field) {
                return Some(format!("{{header.{field}}}"));
            }
            if let Some(cookie) = name.strip_prefix("cookie.").filter(|_| is_field) {
                return Some(format!("{{cookie.{cookie}}}"));
            }
            let name = name.strip_prefix("env.")?;
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            (!name.is_empty() && name.bytes().all(is_name))
                .then(|| format!("{}{name}:-}}", crate::toml::VARIABLE))?
        }
    })
}

/// A time in Rudy's notation. Go writes `1m30s`.
pub(super) fn time(text: &str) -> Option<String> {
    let mut result = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let unit_end =
            rest[end..].find(|letter: char| letter.is_ascii_digit()).map_or(rest.len(), |at| end + at);
        ["ms", "s", "m", "h", "d"].contains(&&rest[end..unit_end]).then_some(())?;
        result.push(&rest[..unit_end]);
        rest = &rest[unit_end..];
    }
    (!result.is_empty()).then(|| result.join(" "))
}

/// A size in Rudy's notation: the units of Caddy are powers of 1000, or of 1024 with an i.
pub(super) fn size(text: &str) -> Option<String> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..end].parse::<u64>().ok()?;
    let unit = match text[end..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => "",
        "k" | "kb" => "kB",
        "m" | "mb" => "MB",
        "g" | "gb" => "GB",
        "kib" => "KiB",
        "mib" => "MiB",
        "gib" => "GiB",
        _ => return None,
    };
    Some(format!("{number}{unit}"))
}
