//! Checks the files that folders name: whether something sends them.

use rudy_config::{Location, Problem};
use rudy_files::{FilesOptions, TriedFile, is_withheld};

use crate::config::{Config, HandlerTable, Route, Site};

/// Reports named files that nothing can send: scripts that no other route runs, and paths with a query that no other route has.
pub(crate) fn problems(site: &Site) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (route, options) in folders(site) {
        let location = route.handler_location();
        let scripts = options.named_pages().filter(|(_, page)| {
            let is_run = |other: Option<&Route>| other.is_some_and(|other| !other.rejects());
            is_withheld(page, &options) && !others(site, route, page).all(is_run)
        });
        problems.extend(scripts.map(|(key, page)| script_that_is_not_run(&location.key(key), page)));
        let with_query = options.try_files.iter().filter(|tried| tried.query().is_some());
        let unreachable = with_query.filter(|tried| {
            tried.fixed().is_some_and(|page| others(site, route, page).any(|other| other.is_none()))
        });
        problems.extend(unreachable.map(|tried| query_without_route(&location.key("try_files"), tried)));
    }
    problems
}

/// Warns of the files that are last in `try_files` and missing, where no other route has their paths.
pub(crate) fn missing(config: &Config) -> impl Iterator<Item = String> {
    config.sites.iter().flat_map(|site| {
        folders(site).filter_map(move |(route, options)| {
            let HandlerTable::Files(table) = &route.handler else { return None };
            let has_more = options.next_route || options.fallback.is_some();
            let page = options.try_files.last().filter(|_| !has_more)?.fixed()?;
            let file = table.root.join(page);
            let is_taken = file.exists() || others(site, route, page).any(|other| other.is_some());
            (!is_taken).then(|| {
                format!(
                    "the last entry of `try_files` leads nowhere: {} is missing, and no route has its path",
                    file.display()
                )
            })
        })
    })
}

/// Returns the routes of a site that serve folders, each with its options.
fn folders(site: &Site) -> impl Iterator<Item = (&Route, FilesOptions)> {
    site.routes.iter().filter_map(|route| {
        let HandlerTable::Files(table) = &route.handler else { return None };
        Some((route, FilesOptions { on_php_site: site.runs_php(), ..table.options.clone() }))
    })
}

/// Returns the first other route for a file of the folder of a route, for each path of this one.
fn others<'s>(site: &'s Site, route: &'s Route, page: &str) -> impl Iterator<Item = Option<&'s Route>> {
    route.paths.iter().map(move |pattern| {
        let mount = &pattern.to_string()[..pattern.mount()];
        let path = format!("{mount}/{page}");
        let mut others = site.routes.iter().filter(|other| !std::ptr::eq(*other, route));
        others.find(|other| other.paths.iter().any(|pattern| pattern.matches(path.as_bytes())))
    })
}

fn script_that_is_not_run(location: &Location, page: &str) -> Problem {
    let title = format!("\"{page}\" is a script, and no route runs it");
    let help = "add a route such as \"*.php\" with `fastcgi` before this one, or `serve_source = true`";
    Problem::value(location, title).label("is not served as a file").help(help)
}

fn query_without_route(location: &Location, tried: &TriedFile) -> Problem {
    let title = format!("no route can take \"/{tried}\" of `try_files`");
    let label = "a file has no query, and no other route has this path";
    Problem::value(location, title)
        .label(label)
        .help("add a route for the path, such as \"*.php\" with `php`")
}
