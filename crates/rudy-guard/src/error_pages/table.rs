//! The settings of error pages.

use std::sync::Arc;

use http::StatusCode;
use rudy_config::{FilePath, Invalid, Location, Problem, Setting, Shape, Table, Value, two_lines};
use rudy_message::semantics::path::RequestPath;

use rudy_pipeline::routing::template::{Piece, Template};

use super::folder::{read_folder, read_page};
use super::{Pages, Source, Statuses};

/// Error pages: a folder, or a table by status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorPagesTable {
    folder: Option<FilePath>,
    pages: Vec<PageSetting>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct PageSetting {
    key: String,
    statuses: Statuses,
    page: PageTable,
}

/// Where a page comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PageTable {
    Path(String),
    Rewrite(String),
    File(FilePath),
}

impl ErrorPagesTable {
    /// Returns the table with a path of the site as the page for 404.
    #[must_use]
    pub fn of_missing(path: &str) -> Self {
        let statuses = Statuses::One(StatusCode::NOT_FOUND);
        let page = PageTable::Path(path.to_owned());
        Self { folder: None, pages: vec![PageSetting { key: "404".to_owned(), statuses, page }] }
    }

    /// Reads all pages: first those of single statuses, then those of classes, then the folder, then those of the site.
    pub fn read(
        &self,
        of_site: Option<Arc<Pages>>,
        location: &Location,
        problems: &mut Vec<Problem>,
    ) -> Pages {
        let mut pages = Pages { of_site, ..Pages::default() };
        let is_single = |setting: &&PageSetting| matches!(setting.statuses, Statuses::One(_));
        let singles = self.pages.iter().filter(is_single);
        for setting in singles.chain(self.pages.iter().filter(|setting| !is_single(setting))) {
            match setting.page.source(&mut pages) {
                Ok(source) => pages.list.push((setting.statuses, source)),
                Err(why) => {
                    let title = format!("cannot use the error page for {}", setting.key);
                    problems.push(Problem::value(&location.key(&setting.key), title).label(why));
                }
            }
        }
        if let Some(folder) = &self.folder
            && let Err(why) = read_folder(folder, &mut pages)
        {
            let title = format!("cannot use the error pages in {}", folder.display());
            problems.push(Problem::value(location, title).label(why));
        }
        pages
    }

    /// The files and folders with the pages.
    pub fn paths_read(&self) -> impl Iterator<Item = &FilePath> {
        let files = self.pages.iter().filter_map(|setting| match &setting.page {
            PageTable::File(file) => Some(file),
            PageTable::Path(_) | PageTable::Rewrite(_) => None,
        });
        self.folder.iter().chain(files)
    }
}

impl PageTable {
    fn source(&self, pages: &mut Pages) -> Result<Source, String> {
        match self {
            Self::File(file) => read_page(file, pages),
            Self::Rewrite(to) => target(to).map(Source::Rewrite),
            Self::Path(path) => {
                let path = RequestPath::parse(path).map_err(|error| error.to_string())?;
                Ok(Source::Path(path.into_owned()))
            }
        }
    }
}

/// A key: a status, a class of statuses, or `folder`.
struct Key(String, Option<Statuses>);

impl Setting for Key {
    const SHAPE: Shape = String::SHAPE;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let key = value.text()?.to_owned();
        let statuses = Statuses::parse(&key).filter(|_| key != "error");
        if statuses.is_none() && key != "folder" {
            let title = format!("\"{}\" is not the status of an error", key.escape_debug());
            return value
                .invalid(two_lines(title, "expected a status such as 404, `4xx`, `5xx` or `folder`"));
        }
        Ok(Self(key, statuses))
    }
}

impl Setting for PageTable {
    const SHAPE: Shape = Shape::Either(&[&String::SHAPE, &OtherPageTable::SHAPE]);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        if value.is_table() {
            return match value.table()? {
                OtherPageTable { file: Some(file), rewrite: None } => Ok(Self::File(file)),
                OtherPageTable { file: None, rewrite: Some(to) } => Ok(Self::Rewrite(to)),
                _ => value.invalid("an error page has either `file` or `rewrite`"),
            };
        }
        let Some(path) = value.as_text() else {
            return value.expected("a path of the site (\"/not-found\") or { file = \"404.html\" }");
        };
        if path.starts_with('/') {
            return Ok(Self::Path(path.to_owned()));
        }
        let label =
            format!("write {{ file = \"{path}\" }} for a file, or a path of the site such as \"/{path}\"");
        value.invalid(two_lines("a path of the site begins with a slash", label))
    }
}

/// A file as a page, or a path of the site that responds instead.
#[derive(Table)]
struct OtherPageTable {
    /// The file, relative to the configuration file.
    #[setting(example = "404.html")]
    file: Option<FilePath>,
    /// Path of the site that responds instead, with its own status and fields, such as a redirect. `{path}`, `{query}` and `{host}` are
    /// filled in. Without a question mark, the query of the request is kept.
    #[setting(example = "/missing{path}")]
    rewrite: Option<String>,
}

fn target(to: &str) -> Result<Template, String> {
    let template = Template::parse(to).map_err(|(title, _)| title)?;
    let is_known =
        |piece: &Piece| matches!(piece, Piece::Literal(_) | Piece::Path | Piece::Query | Piece::Host);
    if !to.starts_with('/') || !template.pieces().iter().all(is_known) {
        return Err("expected a path of the site, with {path}, {query} or {host}".to_owned());
    }
    Ok(template)
}

/// What a key of the table leads to.
enum Entry {
    Folder(FilePath),
    Page(PageSetting),
}

impl Setting for ErrorPagesTable {
    const SHAPE: Shape = Shape::Either(&[
        &FilePath::SHAPE,
        &Shape::Map(&PageTable::SHAPE, Some("^([45][0-9][0-9]|4xx|5xx|folder)$")),
    ]);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        if value.may_be::<FilePath>() {
            return Ok(Self { folder: Some(FilePath::read(value)?), pages: Vec::new() });
        }
        if !value.is_table() {
            return value.expected("a folder (\"errors\") or a table by status");
        }
        let entries = value.entries_with(|Key(key, statuses), value| match statuses {
            None => FilePath::read(value).map(Entry::Folder),
            Some(statuses) => {
                let page = PageTable::read(value)?;
                Ok(Entry::Page(PageSetting { key: key.clone(), statuses: *statuses, page }))
            }
        })?;
        let mut read = Self::default();
        for (_, entry) in entries {
            match entry {
                Entry::Folder(folder) => read.folder = Some(folder),
                Entry::Page(page) => read.pages.push(page),
            }
        }
        if read == Self::default() && value.is_empty() {
            return value.invalid("there is no error page\nexpected for example 404 = \"/not-found\"");
        }
        Ok(read)
    }
}

/// Checks that a template can be rendered: it may use an unknown variable.
pub(super) fn check(pages: &Pages, name: &str) -> Result<(), String> {
    let request = rudy_service::Request::default();
    let rendered = pages.render(name, StatusCode::NOT_FOUND, "", &request);
    rendered.map(drop).map_err(|error| error.to_string())
}
