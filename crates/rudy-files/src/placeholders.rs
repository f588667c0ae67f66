//! The placeholder of `try_files`, and those of other servers.

/// The placeholder for the requested path in `try_files`.
pub(super) const PATH: &str = "{path}";

/// What other servers write in `try_files`.
pub(super) const TRY_FILES: &str = "`$uri` of nginx is `{path}`, which also finds the index of a folder (`$uri/`); without a file, the response is 404 \
                         (`=404`) or `fallback`";

/// Returns what looks like a placeholder or an instruction of another server in a path, but is no name of a file in practice: `$uri`,
/// `{file}`, `=404`.
pub(super) fn unknown_placeholder(path: &str) -> Option<&str> {
    if path.strip_prefix('=').is_some_and(|status| status.len() == 3 && status.parse::<u16>().is_ok()) {
        return Some(path);
    }
    let starts = path.char_indices().filter(|(_, letter)| matches!(letter, '$' | '{'));
    starts.map(|(start, _)| &path[start..]).filter(|rest| !rest.starts_with(PATH)).find_map(|rest| {
        if rest.starts_with('{') {
            return rest.find('}').map(|end| &rest[..=end]);
        }
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let name = rest[1..].find(|letter| !is_name(letter)).map_or(rest, |end| &rest[..=end]);
        (name.len() > 1).then_some(name)
    })
}
