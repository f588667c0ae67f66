//! Splits a path into a script and its path info.

use rudy_message::semantics::path::{PathBelow, PathError};

/// The path of a request as CGI defines it (RFC 3875 §4.1.5, §4.1.13), decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The path of the script (`SCRIPT_NAME`): `/blog/index.php`.
    pub(super) name: Vec<u8>,
    /// The rest of the path (`PATH_INFO`): `/2026/november`, or empty.
    pub(super) path_info: Vec<u8>,
    /// Whether the rest is a valid path in a folder, so that there is a `PATH_TRANSLATED`.
    pub(super) is_translatable: bool,
    /// The length of the route's prefix in the name, which is not part of the path below the root: 5 for
    /// `/blog/*`.
    mount: usize,
}

impl Script {
    /// Creates a script whose name is the first `end` bytes below the route. The rest is passed on decoded.
    pub fn until(path: PathBelow<'_>, end: usize) -> Result<Self, PathError> {
        let mut script = Self::new(path.mount(), &path.as_bytes()[..end]);
        script.path_info = path.path_info(end)?.into_owned();
        script.is_translatable = path.part_in_folder(end..path.as_bytes().len()).is_ok();
        Ok(script)
    }

    /// Creates a script from its path below the root, with a leading slash, on a route with the prefix
    /// `mount`.
    #[must_use]
    pub fn new(mount: &[u8], file: &[u8]) -> Self {
        let name = [mount, file].concat();
        Self { name, path_info: Vec::new(), is_translatable: true, mount: mount.len() }
    }

    /// Creates the script of a route for a folder, which handles all paths of the route.
    pub(super) fn mounted(path: PathBelow<'_>) -> Result<Self, PathError> {
        Ok(Self { mount: 0, ..Self::until(path, 0)? })
    }

    /// Splits a path after the first segment below the route that ends with `suffix`, such as `.php`. Returns
    /// `None` if no segment does.
    ///
    /// A script is a whole segment: `/a.php/b` contains one, `/a.phpx/b` does not, so nothing else runs under
    /// its name.
    ///
    /// # Errors
    ///
    /// The name of the script has characters that a file name cannot have, or as [`Self::until`].
    pub(super) fn split(path: PathBelow<'_>, suffix: &str) -> Result<Option<Self>, PathError> {
        let mut end = 0;
        for segment in path.as_bytes().split_inclusive(|byte| *byte == b'/') {
            let name = segment.strip_suffix(b"/").unwrap_or(segment);
            if name.len() > suffix.len() && name.ends_with(suffix.as_bytes()) {
                let end = end + name.len();
                path.check_separators(0..end)?;
                return Self::until(path, end).map(Some);
            }
            end += segment.len();
        }
        Ok(None)
    }

    /// Returns its path below the root, with a leading slash.
    pub(super) fn file(&self) -> &[u8] {
        &self.name[self.mount..]
    }
}

#[cfg(test)]
mod tests {
    use rudy_message::semantics::path::RequestPath;

    use super::*;

    fn texts(script: &Script) -> (&str, &str) {
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        (text(&script.name), text(&script.path_info))
    }

    #[test]
    fn a_script_is_the_first_whole_segment_with_the_suffix() {
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
    fn the_name_of_a_script_must_be_a_valid_file_name() {
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
    fn path_info_is_translatable_if_it_is_a_valid_path() {
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
    fn the_prefix_of_the_route_is_not_part_of_the_file() {
        let path = RequestPath::parse("/blog.php/a/x.php/y").unwrap();
        let script = Script::split(path.below(9), ".php").unwrap().unwrap();
        assert_eq!((texts(&script).0, script.file()), ("/blog.php/a/x.php", &b"/a/x.php"[..]));
        let script = Script::new(b"/blog", b"/index.php");
        assert_eq!((texts(&script).0, script.file()), ("/blog/index.php", &b"/index.php"[..]));
    }

    #[test]
    fn the_path_below_a_mounted_route_is_path_info() {
        for (path, mount, name, path_info) in
            [("/app/a/b", 4, "/app", "/a/b"), ("/app", 4, "/app", ""), ("/a", 0, "", "/a")]
        {
            let path = RequestPath::parse(path).unwrap();
            let script = Script::mounted(path.below(mount)).unwrap();
            assert_eq!(texts(&script), (name, path_info), "{path:?}");
        }
    }
}
