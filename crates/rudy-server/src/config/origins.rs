//! Where settings come from, for `rudy check`: the top of the main file, the table of a site or a route, and the files that these include.

use std::collections::{BTreeMap, HashMap};

use rudy_config::{Location, Sources, Table as _};
use rudy_site_tls::TlsTable;
use rudy_units::counted;

use super::{Config, Route, Site, SiteDefaults};
use crate::step_settings::StepsTable;

/// The maximum number of rows about a setting, or about included files: a configuration can have thousands of sites.
const ROWS_MAX: usize = 10;

/// How a setting combines with those of outer tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Combination {
    /// All are in effect.
    Extends,
    /// That of the top is in effect besides the innermost one, unless `false` switches off both.
    Besides,
    /// The innermost one is in effect.
    Replaces,
}

/// Keys that a table has in place of those of an outer table: each key alone, except for those of access rules.
struct Setting {
    keys: Vec<&'static str>,
    combination: Combination,
}

/// Where a table has a setting.
struct Written {
    place: String,
    is_off: bool,
}

impl Setting {
    /// All settings for all sites.
    fn all() -> impl Iterator<Item = Self> {
        let keys = SiteDefaults::TABLE.names().into_iter().chain(TlsTable::INHERITED);
        keys.filter_map(|key| {
            let combination = match key {
                "response_headers" | "request_headers" | "error_pages" | "media_types" => {
                    Combination::Extends
                }
                "access"
                | "basic_auth"
                | "forward_auth"
                | "authorize"
                | "rate_limit"
                | "concurrent_requests" => Combination::Besides,
                // They are with `access`.
                "allow" | "deny" => return None,
                _ => Combination::Replaces,
            };
            let keys = if key == "access" { vec!["allow", "deny", key] } else { vec![key] };
            Some(Self { keys, combination })
        })
    }

    /// Where the table at a location has it.
    fn at(&self, table: &Location, sources: &Sources) -> Option<Written> {
        let keys = self.keys.iter().map(|key| table.key(key));
        let places: Vec<_> = keys.clone().filter_map(|key| sources.place(&key)).collect();
        let is_off = !places.is_empty() && keys.into_iter().any(|key| sources.is_false(&key));
        (!places.is_empty()).then(|| Written { place: places.join(" and "), is_off })
    }

    /// The keys that the tables have, as a name.
    fn name(&self, tables: &[&Location], sources: &Sources) -> String {
        let is_written = |key: &&&str| tables.iter().any(|table| sources.place(&table.key(key)).is_some());
        let keys: Vec<_> = self.keys.iter().filter(is_written).copied().collect();
        keys.join(", ")
    }

    /// Whether a site without it has that of all sites: those about HTTPS are for sites with TLS.
    fn is_for(&self, site: &Site) -> bool {
        site.tls.is_some() || self.keys.iter().any(|key| StepsTable::TABLE.has(key))
    }
}

impl Config {
    /// The settings around the handler of a route, with the places where they are written, and the places of those that they replace.
    pub(crate) fn origins(&self, site: &Site, route: &Route) -> Vec<[String; 2]> {
        let tables = [&self.location, &site.location, &route.location];
        // At the top, `cache` is the store.
        let cache = Setting { keys: vec!["cache"], combination: Combination::Replaces };
        let settings = Setting::all().map(|setting| (setting, &tables[..]));
        let settings = settings.filter(|(setting, _)| setting.is_for(site)).chain([(cache, &tables[1..])]);
        settings.filter_map(|(setting, tables)| self.origin(&setting, tables)).collect()
    }

    fn origin(&self, setting: &Setting, tables: &[&Location]) -> Option<[String; 2]> {
        let levels: Vec<_> = tables.iter().map(|table| setting.at(table, &self.sources)).collect();
        let is_lifted = levels.iter().skip(1).flatten().any(|written| written.is_off);
        let innermost = levels.iter().rposition(Option::is_some)?;
        let (mut in_effect, mut others) = (Vec::new(), Vec::new());
        for (level, written) in levels.iter().enumerate() {
            let Some(Written { place, is_off }) = written else { continue };
            let is_in_effect = level == innermost
                || match setting.combination {
                    Combination::Extends => true,
                    Combination::Besides => level == 0 && !is_lifted,
                    Combination::Replaces => false,
                };
            let value = if *is_off { "false at " } else { "" };
            let places = if is_in_effect { &mut in_effect } else { &mut others };
            places.push(format!("{value}{place}"));
        }
        let instead = if others.is_empty() { "" } else { ", instead of " };
        let text = in_effect.join(" and ") + instead + &others.join(" and ");
        Some([setting.name(tables, &self.sources), text])
    }

    /// The settings for all sites with the number of sites that have them, and the sites and routes that switch them off.
    pub(super) fn settings_for_all(&self) -> [Vec<Vec<String>>; 2] {
        let (mut rows, mut switched_off) = (Vec::new(), Vec::new());
        for setting in Setting::all() {
            if let Some(of_all) = setting.at(&self.location, &self.sources) {
                let name = setting.name(&[&self.location], &self.sources);
                let mut groups = Groups::default();
                let uses = self.uses(&setting, &name, &mut groups);
                rows.push(vec![name, of_all.place, uses]);
                switched_off.extend(groups.rows());
            }
        }
        [rows, switched_off]
    }

    /// Says how many sites have a setting for all sites. Adds those that switch it off.
    fn uses(&self, setting: &Setting, name: &str, switched_off: &mut Groups) -> String {
        let (mut inherited, mut own, mut off, mut off_routes) = (0, 0, 0, 0);
        for site in &self.sites {
            match setting.at(&site.location, &self.sources) {
                Some(Written { is_off: true, place }) => {
                    off += 1;
                    switched_off.add([name, &place], || site.label(&[]));
                }
                Some(_) => own += 1,
                None => inherited += usize::from(setting.is_for(site)),
            }
            for route in &site.routes {
                let written = setting.at(&route.location, &self.sources);
                if let Some(Written { place, .. }) = written.filter(|written| written.is_off) {
                    off_routes += 1;
                    switched_off.add([name, &place], || site.label(&route.paths));
                }
            }
        }
        let (verb, besides) = match setting.combination {
            Combination::Extends | Combination::Besides => ("extended", own),
            Combination::Replaces => ("replaced", 0),
        };
        let exceptions = [(verb, own, "site"), ("off", off, "site"), ("off", off_routes, "route")];
        of_sites(inherited + besides, self.sites.len()) + &in_some(exceptions)
    }

    /// The keys from included files, with the sites and routes that have them.
    pub(super) fn included_settings(&self) -> Vec<Vec<String>> {
        let mut names = BTreeMap::new();
        for site in &self.sites {
            names.insert(&site.location, (site, None));
            names.extend(site.routes.iter().map(|route| (&route.location, (site, Some(route)))));
        }
        let mut included = Groups::default();
        for location in self.sources.included() {
            let table = std::iter::successors(location.parent(), Location::parent)
                .find_map(|table| names.get(&table));
            if let (Some((site, route)), Some(place)) = (table, self.sources.place(location)) {
                let paths = route.map_or(&[][..], |route| &route.paths);
                included.add([&place, location.last_key()], || site.label(paths));
            }
        }
        included.rows()
    }
}

/// Rows that sites and routes have in common, each with the first of them and their number.
#[derive(Default)]
struct Groups {
    rows: Vec<([String; 2], String, usize)>,
    numbers: HashMap<[String; 2], usize>,
}

impl Groups {
    fn add(&mut self, row: [&str; 2], name: impl FnOnce() -> String) {
        let row = row.map(str::to_owned);
        let number = *self.numbers.entry(row).or_insert_with_key(|row| {
            self.rows.push((row.clone(), name(), 0));
            self.rows.len() - 1
        });
        self.rows[number].2 += 1;
    }

    fn rows(self) -> Vec<Vec<String>> {
        let left_out = self.rows.len().saturating_sub(ROWS_MAX);
        let row = |(row, first, count): ([String; 2], String, usize)| {
            let more =
                if count > 1 { format!(" and {}", counted(count - 1, "other")) } else { String::new() };
            row.into_iter().chain([first + &more]).collect()
        };
        let last = (left_out > 0).then(|| vec![format!("and {}", counted(left_out, "other"))]);
        self.rows.into_iter().take(ROWS_MAX).map(row).chain(last).collect()
    }
}

/// `all 4 sites`, `3 of 4 sites`, `the site`, `no site`.
fn of_sites(count: usize, all: usize) -> String {
    match count {
        0 => "no site".to_owned(),
        1 if all == 1 => "the site".to_owned(),
        _ if count == all => format!("all {}", counted(all, "site")),
        _ => {
            format!("{} of {}", rudy_units::count(count.try_into().unwrap_or(u64::MAX)), counted(all, "site"))
        }
    }
}

/// ` (replaced in 1 site, off in 2 routes)`.
fn in_some<const N: usize>(exceptions: [(&str, usize, &str); N]) -> String {
    let exceptions = exceptions.into_iter().filter(|(_, count, _)| *count > 0);
    let texts: Vec<_> =
        exceptions.map(|(verb, count, noun)| format!("{verb} in {}", counted(count, noun))).collect();
    if texts.is_empty() { String::new() } else { format!(" ({})", texts.join(", ")) }
}

/// The keys, with whether a site has its own besides that of all sites.
#[cfg(test)]
pub(super) fn combined_keys() -> impl Iterator<Item = (&'static str, bool)> {
    Setting::all().flat_map(|setting| {
        let is_both = setting.combination != Combination::Replaces;
        setting.keys.into_iter().map(move |key| (key, is_both))
    })
}
