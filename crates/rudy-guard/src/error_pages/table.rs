//! The settings of error pages.

use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use rudy_config::{FilePath, Location, Problem, inline_schema, marker, two_lines};
use rudy_message::semantics::path::RequestPath;
use schemars::json_schema;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

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
            PageTable::Path(_) => None,
        });
        self.folder.iter().chain(files)
    }
}

impl PageTable {
    fn source(&self, pages: &mut Pages) -> Result<Source, String> {
        match self {
            Self::File(file) => read_page(file, pages),
            Self::Path(path) => {
                let path = RequestPath::parse(path).map_err(|error| error.to_string())?;
                Ok(Source::Path(path.into_owned()))
            }
        }
    }
}

/// A key: a status, a class of statuses, or `folder`.
struct Key(String, Option<Statuses>);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let key = String::deserialize(deserializer)?;
        let statuses = Statuses::parse(&key).filter(|_| key != "error");
        if statuses.is_none() && key != "folder" {
            let title = format!("\"{}\" is not the status of an error", key.escape_debug());
            return Err(D::Error::custom(two_lines(
                title,
                "expected a status such as 404, `4xx`, `5xx` or `folder`",
            )));
        }
        Ok(Self(key, statuses))
    }
}

impl<'de> Deserialize<'de> for PageTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Page;

        impl<'de> Visitor<'de> for Page {
            type Value = PageTable;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path of the site (\"/not-found\") or { file = \"404.html\" }")
            }

            fn visit_str<E: Error>(self, path: &str) -> Result<PageTable, E> {
                if path.starts_with('/') {
                    return Ok(PageTable::Path(path.to_owned()));
                }
                let label = format!(
                    "write {{ file = \"{path}\" }} for a file, or a path of the site such as \"/{path}\""
                );
                Err(E::custom(two_lines("a path of the site begins with a slash", &label)))
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(self, table: D) -> Result<PageTable, D::Error> {
                FileTable::deserialize(table).map(|table| PageTable::File(table.file))
            }
        }

        deserializer.deserialize_newtype_struct(marker::SHORT, Page)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTable {
    file: FilePath,
}

impl<'de> Deserialize<'de> for ErrorPagesTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Table;

        impl<'de> Visitor<'de> for Table {
            type Value = ErrorPagesTable;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a folder (\"errors\") or a table by status")
            }

            fn visit_bytes<E: Error>(self, folder: &[u8]) -> Result<ErrorPagesTable, E> {
                use std::os::unix::ffi::OsStrExt;
                let folder = std::ffi::OsStr::from_bytes(folder);
                Ok(ErrorPagesTable { folder: Some(FilePath(folder.into())), pages: Vec::new() })
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                table: D,
            ) -> Result<ErrorPagesTable, D::Error> {
                table.deserialize_map(self)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<ErrorPagesTable, A::Error> {
                let mut read = ErrorPagesTable::default();
                while let Some(Key(key, statuses)) = table.next_key()? {
                    match statuses {
                        None => read.folder = Some(table.next_value()?),
                        Some(statuses) => {
                            let page = table.next_value()?;
                            read.pages.push(PageSetting { key, statuses, page });
                        }
                    }
                }
                if read == ErrorPagesTable::default() {
                    return Err(A::Error::custom(two_lines(
                        "there is no error page",
                        "expected for example 404 = \"/not-found\"",
                    )));
                }
                Ok(read)
            }
        }

        deserializer.deserialize_newtype_struct(marker::SHORT_PATH, Table)
    }
}

inline_schema!([] ErrorPagesTable, |_generator| {
    let file = json_schema!({ "type": "object", "properties": { "file": { "type": "string" } }, "required": ["file"], "additionalProperties": false });
    let page = json_schema!({ "anyOf": [{ "type": "string", "pattern": "^/" }, file] });
    json_schema!({ "anyOf": [
        { "type": "string", "minLength": 1 },
        {
            "type": "object",
            "properties": { "folder": { "type": "string", "minLength": 1, "description": "Folder with pages such as `404.html`, `5xx.html`, `error.html` or `error.html.j2`.", "examples": ["errors"] } },
            "minProperties": 1,
            "patternProperties": { "^([45][0-9][0-9]|4xx|5xx)$": page },
            "additionalProperties": false
        }
    ], "examples": ["errors", { "404": "/not-found", "5xx": { "file": "down.html" } }] })
});

/// Checks that a template can be rendered: it may use an unknown variable.
pub(super) fn check(pages: &Pages, name: &str) -> Result<(), String> {
    let request = rudy_service::Request::default();
    let rendered = pages.render(name, StatusCode::NOT_FOUND, "", &request);
    rendered.map(drop).map_err(|error| error.to_string())
}
