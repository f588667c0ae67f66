//! Puts the keys of other files into tables that name them with `include`.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostics::Problem;
use crate::location::Location;
use crate::sources::Sources;
use crate::text::{read_text, syntax_errors};

/// The key of a table that names the files.
const KEY: &str = "include";

/// How many files may include each other in a row.
const DEPTH_MAX: usize = 8;

/// The texts of files, which documents borrow.
#[derive(Default)]
pub(crate) struct Texts {
    text: OnceCell<String>,
    next: OnceCell<Box<Self>>,
}

impl Texts {
    /// Stores a text as long as the others.
    pub(crate) fn keep(&self, mut text: String) -> &str {
        let mut texts = self;
        while let Err(rejected) = texts.text.set(text) {
            text = rejected;
            texts = texts.next.get_or_init(Box::default);
        }
        texts.text.get().map_or("", String::as_str)
    }
}

/// Includes files in one document.
pub(crate) struct Includer<'f, 't> {
    pub(crate) texts: &'t Texts,
    /// The files that were read, each with its number: many sites may include the same one.
    pub(crate) read: BTreeMap<PathBuf, (usize, &'t str)>,
    /// The tables that may have the key, as in their headers: `site.route`.
    pub(crate) tables: &'static [&'static str],
    pub(crate) sources: &'f mut Sources,
    pub(crate) problems: &'f mut Vec<Problem>,
    /// The locations of invalid keys.
    pub(crate) invalid: Vec<Location>,
    /// The files that include each other.
    pub(crate) open: Vec<PathBuf>,
}

impl<'t> Includer<'_, 't> {
    /// Includes the files of a table and of the tables in it. `table` is read at `location`.
    pub(crate) fn table(&mut self, table: &mut DeTable<'t>, location: &Location) {
        if self.tables.contains(&location.keys().as_str()) {
            for path in paths_of(table) {
                self.file(table, location, &path, &location.key(KEY));
            }
        }
        for (key, value) in table.iter_mut() {
            let location = location.key(key.get_ref());
            let keys = location.keys();
            if !self.tables.iter().any(|table| *table == keys || table.starts_with(&format!("{keys}."))) {
                continue;
            }
            match value.get_mut() {
                DeValue::Table(table) => self.table(table, &location),
                DeValue::Array(array) => {
                    for (index, element) in array.iter_mut().enumerate() {
                        if let DeValue::Table(table) = element.get_mut() {
                            self.table(table, &location.index(index));
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds the keys of a file to a table. The file is named `at` this location.
    fn file(&mut self, table: &mut DeTable<'t>, location: &Location, name: &str, at: &Location) {
        let path = self.sources.folder_of(at).join(name);
        let cannot = |why: String| Problem::value(at, format!("cannot include \"{name}\"")).label(why);
        let identity = path.canonicalize().unwrap_or_else(|_| path.clone());
        if self.open.contains(&identity) {
            self.problems.push(cannot("the file includes itself".to_owned()));
            return;
        }
        if self.open.len() > DEPTH_MAX {
            self.problems.push(cannot(format!("more than {DEPTH_MAX} files include each other in a row")));
            return;
        }
        let (number, text) = match self.text(&path) {
            Ok(read) => read,
            Err(why) => {
                self.problems.push(cannot(why));
                self.invalid.push(location.key(KEY));
                return;
            }
        };
        let (document, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            self.problems.extend(syntax_errors(number, text, &errors));
            self.invalid.push(location.key(KEY));
            return;
        }
        let included = document.into_inner();
        self.merge(table, location, included, &Location::file(number));
        self.open.push(identity);
        self.nested(table, location);
        self.open.pop();
    }

    /// The number and the text of a file.
    fn text(&mut self, path: &Path) -> Result<(usize, &'t str), String> {
        if let Some(read) = self.read.get(path) {
            return Ok(*read);
        }
        let text = self.texts.keep(read_text(path)?);
        let number = self.sources.add(path.display().to_string(), text.to_owned());
        self.read.insert(path.to_owned(), (number, text));
        Ok((number, text))
    }

    /// Includes the files that an included file names: its key `include` is in the table now.
    fn nested(&mut self, table: &mut DeTable<'t>, location: &Location) {
        // Of this file alone: the next one in the list of the table has a key of its own.
        let Some(origin) = self.sources.mounts.0.remove(&location.key(KEY)) else { return };
        for path in paths_of(table) {
            self.file(table, location, &path, &origin);
        }
    }

    fn merge(
        &mut self,
        table: &mut DeTable<'t>,
        location: &Location,
        included: DeTable<'t>,
        origin: &Location,
    ) {
        for (key, value) in included {
            let (at, from) = (location.key(key.get_ref()), origin.key(key.get_ref()));
            match table.get_mut(key.get_ref().as_ref()).map(Spanned::get_mut) {
                None => {
                    self.sources.mounts.0.insert(at, from);
                    table.insert(key, value);
                }
                // Lists of tables, such as routes, are joined.
                Some(DeValue::Array(own)) if matches!(value.get_ref(), DeValue::Array(_)) => {
                    let DeValue::Array(more) = value.into_inner() else { continue };
                    for (index, element) in more.into_iter().enumerate() {
                        self.sources.mounts.0.insert(at.index(own.len()), from.index(index));
                        own.push(element);
                    }
                }
                Some(_) => {
                    let title = format!("duplicate key `{}`", key.get_ref());
                    let problem = Problem::key(&from, title).label("the second, in an included file");
                    self.problems.push(problem.also(&at, "the first"));
                }
            }
        }
    }
}

/// Removes the key from a table, and returns the paths. Other values stay, for the reader to report.
fn paths_of(table: &mut DeTable<'_>) -> Vec<String> {
    let text =
        |value: &DeValue<'_>| if let DeValue::String(text) = value { Some(text.to_string()) } else { None };
    let paths = match table.get(KEY).map(Spanned::get_ref) {
        Some(DeValue::Array(list)) => list.iter().map(|one| text(one.get_ref())).collect::<Option<Vec<_>>>(),
        Some(value) => text(value).map(|one| vec![one]),
        None => None,
    };
    let paths = paths.unwrap_or_default();
    if !paths.is_empty() {
        table.remove(KEY);
    }
    paths
}
