//! Which script a path names, and what is behind it.

use rudy_http::semantics::path::{PathBelow, PathError};

/// A request's path as CGI sees it (RFC 3875 §4.1.5, §4.1.13), decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    /// The path of the script: `/blog/index.php`.
    pub(super) name: Vec<u8>,
    /// What follows it: `/2026/november`, or nothing.
    pub(super) path_info: Vec<u8>,
    /// Whether what follows it is a path that could be in a folder, so that there is a `PATH_TRANSLATED`.
    pub(super) is_translatable: bool,
    /// How much of the name's beginning is the route's and no folder beneath the root: 5 for `/blog/*`.
    mount: usize,
}

impl Script {
    /// The script whose name is the first `end` bytes of what is below the route; what follows is passed on decoded.
    ///
    /// # Errors
    ///
    /// As [`PathBelow::path_info`].
    pub(crate) fn until(path: PathBelow<'_>, end: usize) -> Result<Self, PathError> {
        let mut script = Self::new(path.mount(), &path.as_bytes()[..end]);
        script.path_info = path.path_info(end)?.into_owned();
        script.is_translatable = path.part_in_folder(end..path.as_bytes().len()).is_ok();
        Ok(script)
    }

    /// A script by its path beneath the root, with its slash, below what the route takes of the path.
    pub(crate) fn new(mount: &[u8], file: &[u8]) -> Self {
        let name = [mount, file].concat();
        Self { name, path_info: Vec::new(), is_translatable: true, mount: mount.len() }
    }

    /// The script of a route for a folder, all of whose paths it answers.
    ///
    /// # Errors
    ///
    /// As [`Self::until`].
    pub(super) fn mounted(path: PathBelow<'_>) -> Result<Self, PathError> {
        Ok(Self { mount: 0, ..Self::until(path, 0)? })
    }

    /// Splits a path behind the first part of what is below the route that ends with `ending`, such as `.php`. `None` if no
    /// part does.
    ///
    /// A script is a whole part: `/a.php/b` has one and `/a.phpx/b` has none, so that nothing else is run under its name.
    ///
    /// # Errors
    ///
    /// The name of the script has what a folder refuses, or as [`Self::until`].
    pub(super) fn split(path: PathBelow<'_>, ending: &str) -> Result<Option<Self>, PathError> {
        let mut end = 0;
        for part in path.as_bytes().split_inclusive(|byte| *byte == b'/') {
            let name = part.strip_suffix(b"/").unwrap_or(part);
            if name.len() > ending.len() && name.ends_with(ending.as_bytes()) {
                let end = end + name.len();
                path.check_separators(0..end)?;
                return Self::until(path, end).map(Some);
            }
            end += part.len();
        }
        Ok(None)
    }

    /// Its path beneath the root, with the slash before it.
    pub(super) fn file(&self) -> &[u8] {
        &self.name[self.mount..]
    }
}

#[cfg(test)]
mod tests {
    use rudy_http::semantics::path::RequestPath;

    use super::*;

    fn texts(script: &Script) -> (&str, &str) {
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        (text(&script.name), text(&script.path_info))
    }

    #[test]
    fn a_script_is_the_first_whole_part_with_the_ending() {
        for (path, expected) in [
            ("/index.php", Some(("/index.php", ""))),
            ("/a/index.php/b/c", Some(("/a/index.php", "/b/c"))),
            ("/a.php/b.php", Some(("/a.php", "/b.php"))),
            ("/a.php/", Some(("/a.php", "/"))),
            ("/a.php/b%2Fc%5Cd", Some(("/a.php", "/b/c\\d"))),
            ("/a.phpx/b", None),
            ("/a.php5", None),
            ("/.php", None),
            ("/a/.php/b", None),
            ("/php", None),
            ("/", None),
            ("/picture.jpg/x.php", Some(("/picture.jpg/x.php", ""))),
        ] {
            let path = RequestPath::parse(path).unwrap();
            let script = Script::split(path.below(0), ".php").unwrap();
            assert_eq!(script.as_ref().map(texts), expected, "{path:?}");
        }
    }

    #[test]
    fn the_name_of_a_script_is_one_that_a_folder_can_hold() {
        for (path, expected) in [
            ("/a%2Fb.php", PathError::EncodedSlash),
            ("/a%2Fb/c.php/d", PathError::EncodedSlash),
            ("/a%5Cb.php", PathError::Backslash),
            ("/a.php/..%2Fb", PathError::DotSegment),
        ] {
            let path = RequestPath::parse(path).unwrap();
            assert_eq!(Script::split(path.below(0), ".php"), Err(expected), "{path:?}");
        }
    }

    #[test]
    fn what_follows_has_a_path_in_the_folder_unless_a_folder_refuses_it() {
        for (path, expected) in [
            ("/a.php/b", true),
            ("/a.php", true),
            ("/a.php/b%2Fc", false),
            ("/a.php/b%5C", false),
            ("/a.php/%FF", false),
        ] {
            let path = RequestPath::parse(path).unwrap();
            let script = Script::split(path.below(0), ".php").unwrap().unwrap();
            assert_eq!(script.is_translatable, expected, "{path:?}");
        }
    }

    #[test]
    fn the_path_of_the_route_is_no_folder_beneath_the_root() {
        let path = RequestPath::parse("/blog.php/a/x.php/y").unwrap();
        let script = Script::split(path.below(9), ".php").unwrap().unwrap();
        assert_eq!((texts(&script).0, script.file()), ("/blog.php/a/x.php", &b"/a/x.php"[..]));
        let script = Script::new(b"/blog", b"/index.php");
        assert_eq!((texts(&script).0, script.file()), ("/blog/index.php", &b"/index.php"[..]));
    }

    #[test]
    fn behind_a_route_everything_is_what_follows() {
        for (path, mount, name, path_info) in
            [("/app/a/b", 4, "/app", "/a/b"), ("/app", 4, "/app", ""), ("/a", 0, "", "/a")]
        {
            let path = RequestPath::parse(path).unwrap();
            let script = Script::mounted(path.below(mount)).unwrap();
            assert_eq!(texts(&script), (name, path_info), "{path:?}");
        }
    }
}
