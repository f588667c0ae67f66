//! Which files of a folder are taken in, and why the others are not.

use std::path::{Path, PathBuf};

use globset::GlobBuilder;

/// Most files that one `include` may take: a pattern that meets more has met the wrong folder.
const FILES_MAX: usize = 10_000;

/// What a folder holds.
#[derive(Debug, Default)]
pub(super) struct Included {
    /// The files that are taken, by name.
    pub(super) files: Vec<PathBuf>,
    /// A sentence for each that is not.
    pub(super) notices: Vec<String>,
}

/// Lists the folder of `pattern` (its last part may have `*`, `?`, `[` and `{`), which stands in the file `main`. The error
/// is what was expected.
pub(super) fn files_to_include(main: &Path, pattern: &str) -> Result<Included, String> {
    let (folder, name) = pattern
        .rsplit_once('/')
        .map_or(("", pattern), |(folder, name)| (if folder.is_empty() { "/" } else { folder }, name));
    if folder.contains(['*', '?', '[', '{']) {
        return Err("only the last part of the path may have a `*`".to_owned());
    }
    if name.is_empty() {
        return Err(format!("expected a pattern for the files, as in \"{pattern}*.toml\""));
    }
    let glob = GlobBuilder::new(name).literal_separator(true).build();
    let glob = glob.map_err(|error| error.kind().to_string())?.compile_matcher();
    let folder = main.parent().unwrap_or(Path::new("")).join(folder);
    let main = main.canonicalize().ok();
    let mut included = Included::default();
    let mut names = names_in(&folder)?;
    names.sort();
    for file_name in names {
        let path = folder.join(&file_name);
        match why_not(&path, &file_name.to_string_lossy(), name, &glob) {
            None if path.canonicalize().ok() == main => {
                included
                    .notices
                    .push(format!("{} is not included: it is the file that includes", path.display()));
            }
            None => included.files.push(path),
            Some(why) => included.notices.push(format!("{} is not included: {why}", path.display())),
        }
    }
    if included.files.len() > FILES_MAX {
        return Err(format!("this takes {} files; {FILES_MAX} is the most", included.files.len()));
    }
    if included.files.is_empty() {
        included.notices.push(format!("include = \"{pattern}\" takes no file"));
    }
    Ok(included)
}

fn names_in(folder: &Path) -> Result<Vec<std::ffi::OsString>, String> {
    // `join` with an empty path leaves a relative base empty; the kernel wants a name.
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let cannot = |error| format!("the folder {} cannot be listed: {error}", listed.display());
    let entries = std::fs::read_dir(listed).map_err(cannot)?;
    entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<_, _>>().map_err(cannot)
}

fn why_not(path: &Path, name: &str, pattern: &str, glob: &globset::GlobMatcher) -> Option<String> {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return Some("it is hidden (its name begins with a dot)".to_owned());
    }
    let kind = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => return Some(format!("it cannot be looked at: {error}")),
    };
    if kind.is_dir() {
        return Some("it is a folder".to_owned());
    }
    if !kind.is_file() {
        return Some("it is not a regular file".to_owned());
    }
    (!glob.is_match(name)).then(|| format!("its name does not match \"{pattern}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_taken_or_named_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("conf.d");
        std::fs::create_dir_all(inside.join("folder.toml")).unwrap();
        for name in ["b.toml", "a.toml", ".hidden.toml", "a.toml~", "README", "old.conf"] {
            std::fs::write(inside.join(name), "").unwrap();
        }
        std::os::unix::fs::symlink("nowhere", inside.join("broken.toml")).unwrap();
        let included = files_to_include(&folder.path().join("rudy.toml"), "conf.d/*.toml").unwrap();
        assert_eq!(included.files, [inside.join("a.toml"), inside.join("b.toml")]);
        let notices = included.notices.join("\n").replace(&inside.display().to_string(), "");
        assert_eq!(
            notices,
            "/.hidden.toml is not included: it is hidden (its name begins with a dot)\n\
             /README is not included: its name does not match \"*.toml\"\n\
             /a.toml~ is not included: its name does not match \"*.toml\"\n\
             /broken.toml is not included: it cannot be looked at: No such file or directory (os error 2)\n\
             /folder.toml is not included: it is a folder\n\
             /old.conf is not included: its name does not match \"*.toml\""
        );
    }

    #[test]
    fn a_pattern_that_cannot_be_followed_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for (pattern, says) in [
            ("missing/*.toml", "cannot be listed: No such file"),
            ("*/x.toml", "only the last part"),
            ("conf.d/", "as in \"conf.d/*.toml\""),
            ("[.toml", "unclosed character class"),
        ] {
            let error = files_to_include(&folder.path().join("rudy.toml"), pattern).unwrap_err();
            assert!(error.contains(says), "{pattern}: {error}");
        }
        let main = folder.path().join("rudy.toml");
        std::fs::write(&main, "").unwrap();
        let itself = format!("{} is not included: it is the file that includes", main.display());
        let notices = files_to_include(&main, "*.toml").unwrap().notices;
        assert_eq!(notices, [&itself, "include = \"*.toml\" takes no file"]);
    }
}
