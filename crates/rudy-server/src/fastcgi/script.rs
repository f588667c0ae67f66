//! Which script a path names, and what is behind it.

/// A request's path as CGI sees it (RFC 3875 §4.1.5, §4.1.13), decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    /// The path of the script: `/blog/index.php`.
    pub(super) name: String,
    /// What follows it: `/2026/november`, or nothing.
    pub(super) path_info: String,
    /// How much of the name's beginning is the route's and no folder beneath the root: 5 for `/blog/*`.
    mount: usize,
}

impl Script {
    /// A script by its path beneath the root, which has no slash before it, below what the route takes of the path.
    pub(crate) fn new(mount: &str, file: &str, path_info: String) -> Self {
        Self { name: format!("{mount}/{file}"), path_info, mount: mount.len() }
    }

    /// Splits a path behind the route that it was found by: `below` is the length of what is below it.
    pub(super) fn mounted(path: &str, below: usize) -> Self {
        let (name, path_info) = path.split_at(path.len().saturating_sub(below));
        Self { name: name.to_owned(), path_info: path_info.to_owned(), mount: 0 }
    }

    /// Splits a path behind the first part of what is below the route that ends with `ending`, such as `.php`. `None` if no
    /// part does.
    ///
    /// A script is a whole part: `/a.php/b` has one and `/a.phpx/b` has none, so that nothing else is run under its name.
    pub(super) fn split(path: &str, below: usize, ending: &str) -> Option<Self> {
        let mount = path.len().saturating_sub(below);
        let mut end = mount;
        for part in path[mount..].split_inclusive('/') {
            end += part.len();
            let name = part.trim_end_matches('/');
            if name.len() > ending.len() && name.ends_with(ending) {
                let at = end - (part.len() - name.len());
                return Some(Self { name: path[..at].to_owned(), path_info: path[at..].to_owned(), mount });
            }
        }
        None
    }

    /// Its path beneath the root, with the slash before it.
    pub(super) fn file(&self) -> &str {
        &self.name[self.mount..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_the_first_whole_part_with_the_ending() {
        for (path, script) in [
            ("/index.php", Some(("/index.php", ""))),
            ("/a/index.php/b/c", Some(("/a/index.php", "/b/c"))),
            ("/a.php/b.php", Some(("/a.php", "/b.php"))),
            ("/a.php/", Some(("/a.php", "/"))),
            ("/a.phpx/b", None),
            ("/a.php5", None),
            ("/.php", None),
            ("/a/.php/b", None),
            ("/php", None),
            ("/", None),
            ("/picture.jpg/x.php", Some(("/picture.jpg/x.php", ""))),
        ] {
            let found = Script::split(path, path.len(), ".php");
            let found = found.as_ref().map(|script| (script.name.as_str(), script.path_info.as_str()));
            assert_eq!(found, script, "{path}");
        }
    }

    #[test]
    fn the_path_of_the_route_is_no_folder_beneath_the_root() {
        let script = Script::split("/blog.php/a/x.php/y", 10, ".php").unwrap();
        assert_eq!((script.name.as_str(), script.file()), ("/blog.php/a/x.php", "/a/x.php"));
        let script = Script::new("/blog", "index.php", String::new());
        assert_eq!((script.name.as_str(), script.file()), ("/blog/index.php", "/index.php"));
    }

    #[test]
    fn behind_a_route_everything_is_what_follows() {
        for (path, below, name, path_info) in
            [("/app/a/b", 4, "/app", "/a/b"), ("/app", 0, "/app", ""), ("/a", 2, "", "/a")]
        {
            let Script { name: is_name, path_info: is_path_info, .. } = Script::mounted(path, below);
            assert_eq!((is_name.as_str(), is_path_info.as_str()), (name, path_info), "{path}");
        }
    }
}
