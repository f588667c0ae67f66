//! Writes the manual pages.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{Exit, cannot, print};
use rudy_config::Table;

use crate::config::Config;
use crate::reference::man_page;

/// A manual page.
#[derive(Debug)]
pub struct Page {
    /// The file name: `rudy.1`.
    pub name: String,
    /// The section of the manual.
    pub section: u8,
    /// The content.
    pub text: Vec<u8>,
}

/// Writes `pages` and the page of the configuration below `folder`, in the layout of `man`, and prints the file names.
#[must_use]
pub fn write_manual(folder: &Path, mut pages: Vec<Page>) -> Exit {
    let text =
        man_page("rudy.toml", Config::TABLE, &["rudy(1)", "rudy-serve(1)", "rudy-check(1)"]).into_bytes();
    pages.push(Page { name: "rudy.toml.5".to_owned(), section: 5, text });
    let mut names = Vec::new();
    for page in pages {
        let path = folder.join(format!("man{}", page.section)).join(&page.name);
        if let Err(error) = write(&path, &page.text) {
            return cannot(&format!("write {}: {error}", path.display()));
        }
        names.extend_from_slice(path.as_os_str().as_bytes());
        names.push(b'\n');
    }
    print(&names)
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, text)
}
