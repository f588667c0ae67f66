//! Finds programs: in `PATH`, and in the folder of this program.

use std::path::{Path, PathBuf};

/// Folders of servers that are not in every user's `PATH`.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Whether the requirements of a variant are met.
#[must_use]
pub fn is_installed(program: &str) -> bool {
    program.contains('{') || find(program).is_some()
}

/// The path of a program: a path relative to the current folder, or a name in `PATH` and the system folders.
pub fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return std::path::absolute(name).ok().filter(|path| path.exists());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The folder of this program, in which other programs of this repository are built: the value of `{programs}`.
pub fn folder() -> PathBuf {
    let rudy = std::env::current_exe().unwrap_or_default();
    rudy.parent().map(Path::to_owned).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_its_name_or_its_path() {
        assert!(find("sh").is_some_and(|path| path.is_absolute() && path.ends_with("sh")));
        assert_eq!(find("/bin/sh"), Some(PathBuf::from("/bin/sh")));
        assert_eq!((find("/bin/no-such-program"), find("no-such-program")), (None, None));
        assert!(is_installed("{rudy}") && !is_installed("no-such-program"));
    }
}
