//! Finds the files of an `include` pattern, and explains which files are skipped.

use std::path::{Path, PathBuf};

use globset::GlobBuilder;

/// The maximum number of files per `include`. More means that the pattern names the wrong folder.
const FILES_MAX: usize = 10_000;

/// The result of an `include` pattern.
#[derive(Debug, Default)]
pub(super) struct Included {
    /// The files to include, sorted by name.
    pub(super) files: Vec<PathBuf>,
    /// A message for each skipped file.
    pub(super) notices: Vec<String>,
}

/// Finds the files that match `pattern` of the file `main`. Only the last part can have `*`, `?`, `[` and `{`. The error is the
/// expected value.
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
        match reason_to_skip(&path, &file_name.to_string_lossy(), name, &glob) {
            None if path.canonicalize().ok() == main => {
                included.notices.push(format!("{} is not included: it is the main file", path.display()));
            }
            None => included.files.push(path),
            Some(why) => included.notices.push(format!("{} is not included: {why}", path.display())),
        }
    }
    if included.files.len() > FILES_MAX {
        return Err(format!(
            "the pattern matches {} files; the maximum is {FILES_MAX}",
            included.files.len()
        ));
    }
    if included.files.is_empty() {
        included.notices.push(format!("include = \"{pattern}\" matches no file"));
    }
    Ok(included)
}

fn names_in(folder: &Path) -> Result<Vec<std::ffi::OsString>, String> {
    // `read_dir` does not accept the empty path of a relative main file.
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let cannot = |error| format!("cannot list the folder {}: {error}", listed.display());
    let entries = std::fs::read_dir(listed).map_err(cannot)?;
    entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<_, _>>().map_err(cannot)
}

fn reason_to_skip(path: &Path, name: &str, pattern: &str, glob: &globset::GlobMatcher) -> Option<String> {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return Some("it is hidden (its name begins with a dot)".to_owned());
    }
    let kind = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => return Some(format!("it cannot be read: {error}")),
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
    fn each_file_is_included_or_listed_with_a_reason() {
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
             /broken.toml is not included: it cannot be read: No such file or directory (os error 2)\n\
             /folder.toml is not included: it is a folder\n\
             /old.conf is not included: its name does not match \"*.toml\""
        );
    }

    #[test]
    fn an_invalid_pattern_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for (pattern, says) in [
            ("missing/*.toml", "No such file"),
            ("*/x.toml", "only the last part"),
            ("conf.d/", "as in \"conf.d/*.toml\""),
            ("[.toml", "unclosed character class"),
        ] {
            let error = files_to_include(&folder.path().join("rudy.toml"), pattern).unwrap_err();
            assert!(error.contains(says), "{pattern}: {error}");
        }
        let main = folder.path().join("rudy.toml");
        std::fs::write(&main, "").unwrap();
        let itself = format!("{} is not included: it is the main file", main.display());
        let notices = files_to_include(&main, "*.toml").unwrap().notices;
        assert_eq!(notices, [&itself, "include = \"*.toml\" matches no file"]);
    }
}
