//! Relative references (RFC 3986 §5), as in `Location`.

/// Resolves a reference without scheme and authority against a request target: a path that starts with a slash, with or without
/// a query. The result has no fragment.
///
/// ```
/// # use rudy_message::semantics::reference::resolve;
/// assert_eq!(resolve("/b/c/d?q", "../g?y#s"), "/b/g?y");
/// ```
#[must_use]
pub fn resolve(target: &str, reference: &str) -> String {
    let reference = reference.split('#').next().unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default();
    match reference.chars().next() {
        None => target.to_owned(),
        Some('/') => remove_dot_segments(reference),
        Some('?') => format!("{path}{reference}"),
        Some(_) => {
            let folder = path.rfind('/').map_or("/", |end| &path[..=end]);
            remove_dot_segments(&format!("{folder}{reference}"))
        }
    }
}

/// Removes dot segments (RFC 3986 §5.2.4) from a path that starts with a slash and may have a query.
fn remove_dot_segments(target: &str) -> String {
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    let mut segments: Vec<&str> = Vec::new();
    let mut ends_in_folder = false;
    for segment in path.split('/').skip(1) {
        ends_in_folder = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    if ends_in_folder {
        segments.push("");
    }
    format!("/{}{query}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_as_in_rfc_3986_5_4() {
        for (reference, expected) in [
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("/g", "/g"),
            ("?y", "/b/c/d;p?y"),
            ("g?y/../x", "/b/c/g?y/../x"),
            ("g#s", "/b/c/g"),
            ("", "/b/c/d;p?q"),
            ("#s", "/b/c/d;p?q"),
            (".", "/b/c/"),
            ("..", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../../g", "/g"),
        ] {
            assert_eq!(resolve("/b/c/d;p?q", reference), expected, "{reference:?}");
        }
    }
}
