//! The entries of `try_files`.

use std::fmt;
use std::str::FromStr;

use rudy_config::{two_lines, written_as_text};
use rudy_message::semantics::path::RequestPath;
use rudy_pipeline::routing::PathPattern;
use rudy_pipeline::routing::template::{Piece, Template};

use super::placeholders::{is_below, unknown_placeholder};

/// The path of a file to try, relative to the root, with the query for the route that has it: `index.php?q={path}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TriedFile {
    path: Template,
    query: Option<Template>,
}

impl TriedFile {
    /// Returns whether this is the path of the request.
    pub(super) fn is_request_path(&self) -> bool {
        self.path.pieces() == [Piece::Path] && self.query.is_none()
    }

    /// Returns whether the path of the request is a part.
    pub(super) fn has_request_path(&self) -> bool {
        self.path.pieces().contains(&Piece::Path)
    }

    /// Returns whether a group of the route's path is a part.
    pub(super) fn has_group(&self) -> bool {
        self.path.pieces().iter().any(|piece| matches!(piece, Piece::Group(_)))
    }

    /// Returns the path if it is always the same.
    #[must_use]
    pub fn fixed(&self) -> Option<&str> {
        self.path.as_fixed()
    }

    /// Returns the query for the route that has the path, with its question mark.
    #[must_use]
    pub fn query(&self) -> Option<&Template> {
        self.query.as_ref()
    }

    /// Returns the path for a request, whose path is `whole`, and `name` without slashes at the ends below the route. `paths` are those of the
    /// route. `None` if no file can have it.
    pub(super) fn file(
        &self,
        (name, whole): (&str, &RequestPath<'_>),
        paths: &[PathPattern],
        is_hidden_served: bool,
    ) -> Option<String> {
        let mut file = String::new();
        for piece in self.path.pieces() {
            match piece {
                Piece::Literal(text) => file.push_str(text),
                Piece::Path => file.push_str(name),
                Piece::Group(group) => {
                    let pattern = paths.iter().find(|pattern| pattern.matches(whole.as_bytes()))?;
                    let group = pattern.group_range(whole, group).unwrap_or_default();
                    file.push_str(std::str::from_utf8(&whole.as_bytes()[group]).ok()?);
                }
                _ => return None,
            }
        }
        // The root has an empty name: `{path}/index.html` becomes `index.html`.
        let file = file.trim_start_matches('/');
        let is_hidden = || file.split('/').any(|name| name.starts_with('.'));
        let is_served = !self.has_group() || is_below(file) && (is_hidden_served || !is_hidden());
        is_served.then(|| file.to_owned())
    }

    /// Returns the first placeholder that is neither the path nor a group of all `paths`, or what is one in other servers.
    pub(super) fn unknown_placeholder(&self, paths: &[PathPattern]) -> Option<String> {
        let has_group = |name: &str| !paths.is_empty() && paths.iter().all(|path| path.has_group(name));
        let path = self.path.to_string();
        unknown_placeholder(&path, |name| name == "path" || has_group(name)).map(str::to_owned)
    }

    /// Returns whether the path is below the root.
    pub(super) fn is_below_root(&self) -> bool {
        let text =
            |piece: &Piece| if let Piece::Literal(text) = piece { text.clone() } else { "part".to_owned() };
        is_below(&self.path.pieces().iter().map(text).collect::<String>())
    }
}

impl fmt::Display for TriedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)?;
        self.query.iter().try_for_each(|query| query.fmt(f))
    }
}

impl FromStr for TriedFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('/').unwrap_or(text);
        let (path, query) = text.split_at(text.find('?').unwrap_or(text.len()));
        let template = |text| Template::parse(text).map_err(|(title, expected)| two_lines(title, expected));
        let query = if query.is_empty() { None } else { Some(template(query)?) };
        Ok(Self { path: template(path)?, query })
    }
}

written_as_text!(TriedFile, "a path (\"{path}.html\")", {
    doc: "The path of a file below the root, or of another route. A query is for the other route.",
    examples: ["{path}", "{path}.html", "/index.php?page={path}"],
});
