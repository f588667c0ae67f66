//! Checks the paths in options.

/// What other servers write in `try_files`.
pub(super) const TRY_FILES: &str = "`$uri` of nginx is `{path}`, which also finds the index of a folder (`$uri/`), and `$1` is `{1}`; without a file, \
                                    the response is 404 (`=404`) or `fallback`; `@app` is the next route with `next_route = true`";

/// Returns what looks like a placeholder or an instruction of another server in a path, but is no name of a file in practice: `$uri`,
/// `{file}`, `=404`, `@app`. `is_known` is whether a name in braces is a placeholder here.
pub(super) fn unknown_placeholder(path: &str, is_known: impl Fn(&str) -> bool) -> Option<&str> {
    let is_status = |status: &str| status.len() == 3 && status.parse::<u16>().is_ok();
    if path.strip_prefix('=').is_some_and(is_status) || path.starts_with('@') {
        return Some(path);
    }
    let starts = path.char_indices().filter(|(_, letter)| matches!(letter, '$' | '{'));
    starts.map(|(start, _)| &path[start..]).find_map(|rest| {
        if let Some(inner) = rest.strip_prefix('{') {
            let end = inner.find('}').filter(|end| !is_known(&inner[..*end]))?;
            return Some(&rest[..end + 2]);
        }
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let name = rest[1..].find(|letter| !is_name(letter)).map_or(rest, |end| &rest[..=end]);
        (name.len() > 1).then_some(name)
    })
}

/// Returns whether a path in the options, which is not percent-encoded, is below the root.
pub(super) fn is_below(path: &str) -> bool {
    let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains(['\\', '\0']);
    path.split('/').all(is_name)
}
