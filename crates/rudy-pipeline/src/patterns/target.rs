//! Checks the targets of redirects and rewrites, and the queries of internal redirects.

use super::template::{Invalid, Piece, Scope, TARGET_PLACEHOLDERS, Template};

/// A part of the authority that the client chooses.
const CHOSEN: char = '\0';

impl Template {
    /// Checks that the text fits into a URL, and that the client cannot choose the host: it is a literal, that of the request, or a part
    /// of the request before a literal domain.
    ///
    /// # Errors
    ///
    /// Why it is no target.
    pub fn check_target(&self, scope: Scope<'_>) -> Result<(), Invalid> {
        self.check_part_of_target(scope)?;
        let pieces = self.pieces();
        let beginning = match pieces.first() {
            Some(Piece::Path) => return Ok(()),
            Some(Piece::Map(_)) => return check_after_map(pieces.get(1)),
            Some(Piece::Literal(text)) => text,
            _ => "",
        };
        if beginning.starts_with('/') && !beginning.starts_with("//") {
            // Two slashes would start a host. `fill` makes one of two at the beginning.
            return Ok(());
        }
        let after_scheme = ["http://", "https://"].iter().find_map(|scheme| beginning.strip_prefix(scheme));
        let Some(after_scheme) = after_scheme else {
            let expected = "expected \"/...\", \"{path}...\", \"http://...\" or \"https://...\"";
            return invalid("invalid target of a redirect", expected);
        };
        let rest = pieces[1..].iter().cloned();
        check_authority(std::iter::once(Piece::Literal(after_scheme.to_owned())).chain(rest))
    }

    /// Checks that the text fits into a URL, as [`Self::check_target`], but not where it leads.
    ///
    /// # Errors
    ///
    /// Why it does not fit.
    pub fn check_part_of_target(&self, scope: Scope<'_>) -> Result<(), Invalid> {
        let has_capture = |text: &str| {
            let mut dollars = text.match_indices('$');
            dollars.any(|(at, _)| text[at + 1..].starts_with(|next: char| next.is_ascii_digit()))
        };
        let is_visible =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\{}".contains(&byte));
        for piece in self.pieces() {
            match piece {
                Piece::Literal(text) if has_capture(text) => {
                    let expected =
                        "use {1} with a path such as \"regex:^/old/(.*)$\", or %24 for a dollar sign";
                    return invalid("captures are written {1}, not $1", expected);
                }
                Piece::Literal(text) if !is_visible(text) => {
                    let expected =
                        "expected ASCII without spaces, backslashes or stray braces; encode others as %XX";
                    return invalid("invalid character in the URL", expected);
                }
                // A client could choose the host, or a path of another route, with them.
                Piece::Client
                | Piece::Cookie(_)
                | Piece::Field(_)
                | Piece::Method
                | Piece::Scheme
                | Piece::UnixTime => {
                    return invalid("this placeholder is for header fields", TARGET_PLACEHOLDERS);
                }
                _ => {}
            }
        }
        self.check(scope)
    }
}

fn invalid(title: &str, expected: &str) -> Result<(), Invalid> {
    Err((title.to_owned(), expected.to_owned()))
}

/// Checks what follows the text of a map, which can end in a host.
fn check_after_map(next: Option<&Piece>) -> Result<(), Invalid> {
    match next {
        None | Some(Piece::Path | Piece::Query) => Ok(()),
        Some(Piece::Literal(text)) if text.starts_with(['/', '?', '#']) => Ok(()),
        Some(_) => invalid("the client could choose the host", "put a slash behind the map: {map.NAME}/"),
    }
}

/// Checks the part between scheme and path. A part that the client chooses is before the end of a domain.
fn check_authority(pieces: impl Iterator<Item = Piece>) -> Result<(), Invalid> {
    let mut authority = String::new();
    for piece in pieces {
        match piece {
            Piece::Literal(text) => {
                let part = text.split(['/', '?', '#']).next().unwrap_or_default();
                authority.push_str(part);
                if part.len() < text.len() {
                    break;
                }
            }
            // A path starts with a slash, and a query with a question mark, or it is empty.
            Piece::Path | Piece::Query => break,
            Piece::Host | Piece::Map(_) => authority.push_str("any.name"),
            _ => authority.push(CHOSEN),
        }
    }
    match authority.rsplit_once(CHOSEN) {
        Some((_, domain)) if !is_domain(domain) => invalid(
            "the client could choose the host",
            "put a slash before the placeholder, or the end of a domain behind it: {1}.example.org",
        ),
        _ if authority.contains('@') => {
            invalid("the URL contains a user name", "expected only a host and a port")
        }
        _ if authority.is_empty() => invalid("the URL has no host", "expected a host after the scheme"),
        _ => Ok(()),
    }
}

/// Whether a text is the end of a host name after a part of it, with two labels at least: `.example.org`.
fn is_domain(text: &str) -> bool {
    let name = text.split(':').next().unwrap_or_default();
    let labels = name.strip_prefix('.').and_then(|domain| domain.split_once('.'));
    labels.is_some_and(|(first, rest)| !first.is_empty() && !rest.trim_matches('.').is_empty())
}
