//! Sites with their routes, and the text of `rudy.toml` with them.

use std::collections::BTreeMap;

use crate::toml::{Table, Value};

/// A site: its table and those of its routes.
#[derive(Debug, Default)]
pub(crate) struct Site {
    pub(crate) table: Table,
    pub(crate) routes: Vec<Table>,
}

/// Writes `rudy.toml`: the settings at its top, the maps and the sites.
pub(crate) fn write(top: &Table, maps: &BTreeMap<String, Table>, sites: &[Site]) -> String {
    let mut text = String::new();
    top.write("", "", &mut text);
    for (name, map) in maps {
        text.push('\n');
        map.write(&format!("[maps.{name}]\n"), &format!("maps.{name}"), &mut text);
    }
    for site in sites {
        text.push('\n');
        site.table.write("[[site]]\n", "site", &mut text);
        for route in &site.routes {
            text.push('\n');
            route.write("[[site.route]]\n", "site.route", &mut text);
        }
    }
    text
}

/// A route that responds with an error.
pub(crate) fn empty(why: &str) -> Table {
    let mut route = Table::default();
    route.set("path", "/*");
    route.comment(why);
    route.set("respond", 503);
    route
}

/// Addresses that all sites have in common are at the top.
pub(crate) fn common_addresses(top: &mut Table, sites: &mut [Site]) {
    let Some(first) = sites.first().and_then(|site| site.table.get("listen")).cloned() else { return };
    if sites.iter().all(|site| site.table.get("listen") == Some(&first)) {
        for site in sites {
            site.table.remove("listen");
        }
        top.set("listen", first);
    }
}

/// Sets keys of the table `key` of another table.
pub(crate) fn extend(table: &mut Table, key: &str, pairs: Vec<(String, Value)>) {
    let mut keys = match table.remove(key) {
        Some(Value::Table(keys)) => keys,
        _ => Vec::new(),
    };
    for (name, value) in pairs {
        keys.retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
        keys.push((name, value));
    }
    table.set(key, Value::Table(keys));
}
