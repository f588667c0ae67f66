//! Reads error pages from files.

use std::fs;
use std::path::Path;

use minijinja::UndefinedBehavior;

use super::table::check;
use super::{Pages, Source, Statuses};

/// The maximum size of a page, which is kept in memory.
const PAGE_BYTES_MAX: u64 = 1024 * 1024;

/// The extension of pages that are templates.
const TEMPLATE: &str = ".j2";

/// Adds the pages in a folder: `404.html`, `4xx.html`, `error.html`, and the same as templates (`404.html.j2`). Other files can be
/// there, too.
pub(super) fn read_folder(folder: &Path, pages: &mut Pages) -> Result<(), String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| error.to_string())? {
        let entry = entry.map_err(|error| error.to_string())?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let stem = name.strip_suffix(TEMPLATE).unwrap_or(&name).strip_suffix(".html");
        if let Some(statuses) = stem.and_then(Statuses::parse) {
            let source = read_page(&entry.path(), pages).map_err(|why| format!("{name}: {why}"))?;
            found.push((statuses, source));
        }
    }
    if found.is_empty() {
        return Err("expected files such as 404.html, 5xx.html or error.html".to_owned());
    }
    let rank = |statuses: Statuses| match statuses {
        Statuses::One(_) => 0,
        Statuses::Class(_) => 1,
        Statuses::All => 2,
    };
    found.sort_by_key(|(statuses, _)| rank(*statuses));
    pages.list.extend(found);
    Ok(())
}

/// Reads a page.
pub(super) fn read_page(file: &Path, pages: &mut Pages) -> Result<Source, String> {
    let metadata = fs::metadata(file).map_err(|error| error.to_string())?;
    if !metadata.is_file() || metadata.len() > PAGE_BYTES_MAX {
        return Err("expected a file of at most 1 MiB".to_owned());
    }
    let content = fs::read(file).map_err(|error| error.to_string())?;
    let name = file.to_string_lossy();
    let Some(html) = name.strip_suffix(TEMPLATE) else { return Ok(Source::File(content.into())) };
    let text = String::from_utf8(content).map_err(|_| "it is not UTF-8".to_owned())?;
    // A misspelt variable is an error, not an empty text. Names that end in `.html` are escaped.
    pages.templates.set_undefined_behavior(UndefinedBehavior::Strict);
    pages.templates.add_template_owned(html.to_owned(), text).map_err(|error| error.to_string())?;
    check(pages, html)?;
    Ok(Source::Template(html.to_owned()))
}
