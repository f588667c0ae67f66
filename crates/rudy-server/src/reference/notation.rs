//! Formats values as TOML, and lists as text.

use serde_json::Value;

/// Formats a value on one line.
pub(super) fn value(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", join(items.iter().map(self::value))),
        Value::Object(entries) if entries.is_empty() => "{}".to_owned(),
        Value::Object(entries) => {
            let entries =
                entries.iter().map(|(name, entry)| format!("{} = {}", key(name), self::value(entry)));
            format!("{{ {} }}", join(entries))
        }
        // TOML supports all escapes of JSON, and requires one for DEL.
        Value::String(_) => value.to_string().replace('\u{7f}', "\\u007F"),
        _ => value.to_string(),
    }
}

/// Formats a key, quoted if necessary.
pub(super) fn key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !name.is_empty() && name.bytes().all(is_bare) { name.to_owned() } else { value(&name.into()) }
}

/// Formats a value in backticks.
pub(super) fn code(value: &Value) -> String {
    format!("`{}`", self::value(value))
}

/// Formats `a, b or c`, without duplicates.
pub(super) fn list(items: impl Iterator<Item = String>) -> String {
    let mut unique: Vec<String> = Vec::new();
    for item in items {
        if !unique.contains(&item) {
            unique.push(item);
        }
    }
    match unique.pop() {
        Some(last) if unique.is_empty() => last,
        Some(last) => format!("{} or {last}", unique.join(", ")),
        None => String::new(),
    }
}

fn join(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

/// The plural of a name: `times`, `addresses`, `proxies`.
pub(super) fn plural(name: &str) -> String {
    match name.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if name.ends_with('s') => format!("{name}es"),
        None => format!("{name}s"),
    }
}
