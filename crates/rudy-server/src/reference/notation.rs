//! Formats keys as TOML, and lists as text.

/// Formats a key, quoted if necessary.
pub(super) fn key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !name.is_empty() && name.bytes().all(is_bare) { name.to_owned() } else { format!("{name:?}") }
}

/// Formats a value in backticks.
pub(super) fn code(value: &str) -> String {
    format!("`{value}`")
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

/// The plural of a name: `times`, `addresses`, `proxies`.
pub(super) fn plural(name: &str) -> String {
    match name.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if name.ends_with('s') => format!("{name}es"),
        None => format!("{name}s"),
    }
}
