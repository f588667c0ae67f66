//! The number of open descriptors of a process, and its limit.

use crate::Error;
use crate::folder::Folder;

/// The open descriptors of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// The number of open descriptors. `None` without permission: before Linux 6.2, only the process's user
    /// and root have it.
    pub open: Option<u64>,
    /// The soft limit, at which `open`, `socket` and `accept` fail with EMFILE. `None` if unlimited.
    pub limit: Option<u64>,
}

impl Descriptors {
    pub(crate) fn read(folder: &Folder, buffer: &mut Vec<u8>) -> Result<Self, Error> {
        folder.read("limits", buffer)?;
        let limit = limit(buffer).ok_or_else(|| folder.unexpected("limits", "a line `Max open files`"))?;
        Ok(Self { open: open(folder)?, limit: Some(limit).filter(|limit| *limit < UNLIMITED) })
    }
}

/// Since Linux 6.2, the size of the folder is their number, which avoids listing twenty thousand names.
/// Before, it is 0.
pub(crate) fn open(folder: &Folder) -> Result<Option<u64>, Error> {
    let size = folder.size("fd")?;
    if size > 0 {
        return Ok(Some(size));
    }
    match folder.list("fd") {
        Ok(descriptors) => Ok(Some(descriptors.len() as u64)),
        Err(Error::Denied { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The word for no limit (`RLIM_INFINITY`).
const UNLIMITED: u64 = u64::MAX;

/// Parses the soft limit: the first number of its line.
fn limit(limits: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(limits);
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files "))?;
    match line.split_ascii_whitespace().next()? {
        "unlimited" => Some(UNLIMITED),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_the_one_that_counts() {
        let text = |limit: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max processes             96365                96365                processes \n\
                 Max open files            {limit}                524288               files     \n"
            )
        };
        assert_eq!(limit(text("1024").as_bytes()), Some(1024));
        assert_eq!(limit(text("unlimited").as_bytes()), Some(UNLIMITED));
        assert_eq!(limit(text("many").as_bytes()), None);
        assert_eq!(limit(b"Max processes 1 1 processes\n"), None);
    }
}
