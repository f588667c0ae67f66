//! Directory listings as HTML or JSON.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::LazyLock;

use jiff::Timestamp;
use minijinja::{Environment, UndefinedBehavior, Value, context};
use rudy_message::semantics::percent::encode;
use rudy_system::file_access::Access;
use rustix::fs::Dir;
use serde::Serialize;

use super::browse::ListingTemplate;
use super::folders::Root;
use super::options::FilesOptions;
use super::source;
use super::stat::Kind;

/// The sort order of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    by: Column,
    descending: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Column {
    Name,
    Size,
    Date,
}

impl Order {
    /// Parses `sort=name|size|date` and `order=asc|desc`. Ignores everything else.
    pub(super) fn from_query(query: &str) -> Self {
        let mut order = Self { by: Column::Name, descending: false };
        for parameter in query.split('&') {
            match parameter {
                "sort=name" => order.by = Column::Name,
                "sort=size" => order.by = Column::Size,
                "sort=date" => order.by = Column::Date,
                "order=asc" => order.descending = false,
                "order=desc" => order.descending = true,
                _ => {}
            }
        }
        order
    }
}

/// The listing of a folder.
#[derive(Debug, Serialize)]
pub(super) struct Listing {
    /// The path of the folder below the root, with a slash at either end.
    path: String,
    entries: Vec<Item>,
    /// Whether the folder has more entries than the limit.
    truncated: bool,
    #[serde(skip)]
    order: Order,
}

#[derive(Debug, Serialize)]
struct Item {
    name: String,
    #[serde(rename = "type")]
    kind: ItemKind,
    /// Absent for a folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
    modified: String,
    #[serde(skip)]
    href: String,
    #[serde(skip)]
    modified_ns: i128,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum ItemKind {
    Directory,
    File,
}

impl Listing {
    /// Reads a folder below the root, on the thread pool for blocking work. Omits entries that would not be served: hidden files,
    /// source code, links that lead out of the root, devices, and names that no URL can express (not UTF-8, or with a backslash).
    pub(super) fn read(root: &Root, options: &FilesOptions, folder: &str, order: Order) -> io::Result<Self> {
        let opened = root.open_file(folder, Access::Blocking)?;
        let mut entries = Vec::new();
        let mut truncated = false;
        for entry in Dir::new(opened.file)? {
            let entry = entry?;
            let Some(name) =
                entry.file_name().to_str().ok().filter(|name| is_shown(name, options.serve_hidden))
            else {
                continue;
            };
            if entries.len() == options.listing_entries {
                truncated = true;
                break;
            }
            let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            let is_sent =
                |item: &Item| item.kind == ItemKind::Directory || !source::is_withheld(&item.name, options);
            entries.extend(Item::of(root, &path, name).filter(is_sent));
        }
        sort(&mut entries, order);
        let path = if folder.is_empty() { "/".to_owned() } else { format!("/{folder}/") };
        Ok(Self { path, entries, truncated, order })
    }

    pub(super) fn to_json(&self) -> io::Result<String> {
        Ok(serde_json::to_string(self)?)
    }

    /// Returns the page, of the built-in template without another one.
    pub(super) fn to_html(&self, templates: Option<&Environment<'_>>) -> io::Result<String> {
        self.render(templates.unwrap_or(&TEMPLATES)).map_err(io::Error::other)
    }

    fn render(&self, templates: &Environment<'_>) -> Result<String, minijinja::Error> {
        let rows: Vec<_> = self.entries.iter().map(Item::row).collect();
        let column = |by: Column, title: &str| {
            let current = self.order.by == by;
            // A click on the current column reverses the order. Size and date start with the largest and the newest.
            let descending = if current { !self.order.descending } else { by != Column::Name };
            let sorted = match (current, self.order.descending) {
                (false, _) => "none",
                (true, false) => "ascending",
                (true, true) => "descending",
            };
            let direction = if descending { "desc" } else { "asc" };
            context! { by, title, direction, sorted }
        };
        let columns = [
            column(Column::Name, "Name"),
            column(Column::Size, "Size"),
            column(Column::Date, "Modified (UTC)"),
        ];
        templates.get_template(NAME)?.render(context! {
            path => self.path,
            crumbs => crumbs(&self.path),
            top => up(self.path.matches('/').count() - 1),
            columns,
            rows,
            truncated => self.truncated,
        })
    }
}

impl Item {
    /// Returns the item for a path; `None` if it is not served or was removed meanwhile.
    fn of(root: &Root, path: &str, name: &str) -> Option<Self> {
        let stat = root.stat(path, Access::Blocking).ok()??;
        let (kind, slash) = match stat.kind {
            Kind::File => (ItemKind::File, ""),
            Kind::Directory => (ItemKind::Directory, "/"),
            Kind::Other => return None,
        };
        let seconds = i64::try_from(stat.modified_ns.div_euclid(1_000_000_000)).unwrap_or(0);
        Some(Self {
            name: name.to_owned(),
            kind,
            size_bytes: (kind == ItemKind::File).then_some(stat.size),
            modified: Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH).to_string(),
            // Colons are encoded, so that a name cannot look like a scheme.
            href: format!("{}{slash}", encode(name)),
            modified_ns: stat.modified_ns,
        })
    }

    fn row(&self) -> Value {
        context! {
            href => Value::from_safe_string(self.href.clone()),
            name => self.name,
            slash => if self.kind == ItemKind::Directory { "/" } else { "" },
            size => self.size_bytes.map(readable_size).unwrap_or_default(),
            bytes => self.size_bytes,
            modified => self.modified,
            // "2026-11-21 04:20", of "2026-11-21T04:20:59Z".
            date => self.modified.get(..16).unwrap_or(&self.modified).replace('T', " "),
        }
    }
}

/// The maximum size of a template, which is kept in memory.
const TEMPLATE_BYTES_MAX: u64 = 1024 * 1024;

/// The name ends in .html, which enables escaping.
const NAME: &str = "listing.html";

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    template(include_str!("templates/listing.html"))
        .expect("the template is compiled in, and tests check its syntax")
});

/// Prepares a template. A misspelt variable is an error, not an empty text.
pub(super) fn template(text: &str) -> Result<Environment<'static>, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.add_template_owned(NAME, text.to_owned())?;
    Ok(environment)
}

impl ListingTemplate {
    /// Reads a template, and renders a sample: an unknown variable is an error.
    pub(super) fn read(file: &Path) -> Result<Self, String> {
        let metadata = fs::metadata(file).map_err(|error| error.to_string())?;
        if !metadata.is_file() || metadata.len() > TEMPLATE_BYTES_MAX {
            return Err("expected a file of at most 1 MiB".to_owned());
        }
        let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
        check_template(&text).map_err(|error| error.to_string())?;
        Ok(Self(text.into()))
    }
}

/// Renders a template with a folder and a file.
fn check_template(text: &str) -> Result<(), minijinja::Error> {
    let item = |name: &str, kind, size_bytes| Item {
        name: name.to_owned(),
        kind,
        size_bytes,
        modified: Timestamp::UNIX_EPOCH.to_string(),
        href: name.to_owned(),
        modified_ns: 0,
    };
    let entries = vec![item("folder", ItemKind::Directory, None), item("file.txt", ItemKind::File, Some(1))];
    let order = Order::from_query("");
    let sample = Listing { path: "/sample/".to_owned(), entries, truncated: true, order };
    sample.render(&template(text)?).map(|_| ())
}

fn is_shown(name: &str, hidden: bool) -> bool {
    name != "." && name != ".." && (hidden || !name.starts_with('.')) && !name.contains('\\')
}

/// Sorts folders first, then by the column, then by name.
fn sort(entries: &mut [Item], order: Order) {
    entries.sort_by(|a, b| {
        let by_column = match order.by {
            Column::Name => a.name.cmp(&b.name),
            Column::Size => a.size_bytes.cmp(&b.size_bytes).then_with(|| a.name.cmp(&b.name)),
            Column::Date => a.modified_ns.cmp(&b.modified_ns).then_with(|| a.name.cmp(&b.name)),
        };
        a.kind.cmp(&b.kind).then(if order.descending { by_column.reverse() } else { by_column })
    });
}

/// Returns the folders of the path, each with its relative URL.
fn crumbs(path: &str) -> Vec<Value> {
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    names
        .iter()
        .enumerate()
        .map(|(index, name)| context! { name, href => up(names.len() - 1 - index) })
        .collect()
}

/// Returns the relative URL of the folder `steps` levels up. It needs no escapes.
fn up(steps: usize) -> Value {
    Value::from_safe_string(if steps == 0 { "./".to_owned() } else { "../".repeat(steps) })
}

/// Formats a size in the largest unit that gives at least 1, with one decimal place below 10.
fn readable_size(bytes: u64) -> String {
    let mut unit = 0;
    let mut tenths = u128::from(bytes) * 10;
    while tenths >= 10_240 && unit < UNITS.len() - 1 {
        tenths /= 1024;
        unit += 1;
    }
    let (whole, rest) = (tenths / 10, tenths % 10);
    if unit == 0 || whole >= 10 {
        format!("{whole} {}", UNITS[unit])
    } else {
        format!("{whole}.{rest} {}", UNITS[unit])
    }
}

const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_suitable_unit() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (10 * 1024, "10 KiB"),
            (1024 * 1024 - 1, "1023 KiB"),
            (5 * 1024 * 1024 * 1024, "5.0 GiB"),
            (u64::MAX, "15 EiB"),
        ] {
            assert_eq!(readable_size(bytes), expected);
        }
    }

    #[test]
    fn the_query_sets_the_sort_order() {
        for (query, by, descending) in [
            ("", Column::Name, false),
            ("sort=size", Column::Size, false),
            ("sort=date&order=desc", Column::Date, true),
            ("order=desc", Column::Name, true),
            ("sort=owner&order=sideways&x", Column::Name, false),
        ] {
            assert_eq!(Order::from_query(query), Order { by, descending }, "{query}");
        }
    }
}
