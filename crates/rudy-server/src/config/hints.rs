//! Hints for unknown keys: the right table for a misplaced key, and the equivalent of a directive of another server.

use rudy_config::{Choice, Hints, Location, Problem, Table};
use rudy_files::FilesTable;

use super::limits::LimitsTable;
use super::{Config, HandlerTable, Route, Site, other_formats, other_servers};

/// Keys for a front controller in other servers. `php` needs none of them.
const FRONT_CONTROLLER_KEYS: [&str; 5] = ["fallback", "front_controller", "index", "script", "try_files"];

/// What Rudy says about mistakes in its tables.
pub(super) struct TablesHints;

impl Hints for TablesHints {
    fn unknown(&self, location: &Location, key: &str) -> Option<String> {
        elsewhere(location, key).or_else(|| other_servers::advice(key).map(str::to_owned))
    }

    fn missing(&self, location: &Location, key: &str, problem: Problem) -> Problem {
        let handler = location.keys().rsplit('.').next().unwrap_or_default().to_owned();
        match (handler.as_str(), key) {
            ("status" | "info" | "tail", "allow") | ("broadcast", "publish") => {
                let files = if handler == "tail" { "files = \"access.log\", " } else { "" };
                let problem = problem.label(format!("write {handler} = {{ {files}{key} = \"loopback\" }}"));
                problem.help(format!(
                    "`{key}` lists the clients to allow: \"loopback\" (this machine, without a proxy), addresses and networks, or \"anyone\""
                ))
            }
            ("route", "path") => problem.label("needs `path`, for example `path = \"/*\"` for all paths"),
            _ => ().missing(location, key, problem),
        }
    }

    fn example(&self, location: &Location, expected: &str) -> Option<String> {
        let keys = location.keys();
        let begin = match expected {
            "a table" => '{',
            "a list" => '[',
            _ => return None,
        };
        let is_expected = |example: &str| example.starts_with(begin);
        let (name, example) =
            crate::reference::example(Config::TABLE, keys.rsplit('.').next()?, is_expected)?;
        let status_code = if name == "status" { "; `respond = 403` sends a status code" } else { "" };
        Some(format!("write `{name} = {example}`{status_code}"))
    }

    fn other_format(&self, text: &str) -> Option<String> {
        other_formats::other_format(text)
    }

    fn choice(&self) -> (&'static str, &'static str) {
        ("route", "handler")
    }
}

/// Explains where to write a key that belongs to another table.
fn elsewhere(location: &Location, key: &str) -> Option<String> {
    let table = location.parent()?.keys();
    let is_main = Config::TABLE.has(key);
    match table.as_str() {
        "access_log" | "site.access_log" if key == "file" => Some("write `path = \"access.log\"`".to_owned()),
        "access_log" | "site.access_log" if key == "json" => Some("write `format = \"json\"`".to_owned()),
        "site.php" | "site.route.php" if FRONT_CONTROLLER_KEYS.contains(&key) => {
            Some("`php` runs index.php for paths without a file: remove this key".to_owned())
        }
        "site.route.redirect" if matches!(key, "location" | "target" | "url") => {
            Some("write `to = \"/new\"`".to_owned())
        }
        "site.route.redirect" if matches!(key, "code" | "permanent") => {
            Some("write `status = 301`".to_owned())
        }
        "limits" if is_main => Some("write this above [limits]".to_owned()),
        _ if is_main && table.is_empty() => {
            Some("write this in the main file: an included file can only contain sites".to_owned())
        }
        "site" | "site.route" if is_main => Some("write this before the first [[site]]".to_owned()),
        "site" if FilesTable::TABLE.has(key) => Some(format!(
            "write [[site.route]], `path = \"/*\"` and `files = {{ root = \"...\", {key} = ... }}` in place of `root`"
        )),
        "site.route" if key == "root" => Some("write `files = \"public\"`".to_owned()),
        "site.route" if FilesTable::TABLE.has(key) => {
            Some(format!("write `files = {{ root = \"...\", {key} = ... }}`"))
        }
        "" | "site" if LimitsTable::TABLE.has(key) => {
            Some(format!("write `limits = {{ {key} = ... }}` at the top of the main file"))
        }
        _ if table.starts_with("site.route.") && is_step(key) => {
            Some("write this in the [[site.route]] itself".to_owned())
        }
        "" if Site::TABLE.has(key) => Some("write [[site]] above this".to_owned()),
        "" if FilesTable::TABLE.has(key) => {
            Some(format!("write `files = {{ root = \"...\", {key} = ... }}` in a [[site.route]]"))
        }
        "" | "site" if HandlerTable::KEYS.iter().any(|handler| handler.name == key) => {
            Some(format!("write [[site.route]], `path = \"/*\"` and `{key} = ...`"))
        }
        "" | "site" if Route::TABLE.has(key) => Some("write [[site.route]] above this".to_owned()),
        _ => None,
    }
}

/// Whether a route has the key, whatever its handler is.
fn is_step(key: &str) -> bool {
    Route::TABLE.has(key) && HandlerTable::KEYS.iter().all(|handler| handler.name != key)
}
