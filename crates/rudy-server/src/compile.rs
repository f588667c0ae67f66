//! From a configuration to what answers: folders are opened, fixed answers encoded, and what does not fit together is said.

use rudy_http::semantics::path::RequestPath;

use crate::client_address;
use crate::config::{self, Config, Location, Problem, RouteAuthorize};
use crate::fastcgi::Authorizer;
use crate::files::{FilesOptions, Folders, is_withheld};
use crate::handlers::{BuildContext, Handler, HandlerConfig, HandlerTable};
use crate::routing::{HostPattern, Hosts, PathPattern, Route, Router};

/// Makes the routes of a configuration ready, or says everything that is wrong with them. Their folders, and what is kept of
/// them, are those of `folders`.
pub(crate) fn compile(config: &Config, folders: &Folders) -> Result<Router<Target>, Vec<Problem>> {
    folders.forget_unused();
    let mut problems = config.engine.problems(&Location::file(0));
    problems.extend(config.unusable_buffer_dir());
    problems.extend(client_address::problems(config));
    let mut hosts = Hosts::default();
    let mut sites = Vec::new();
    for (number, site) in config.sites.iter().enumerate() {
        add_hosts(&mut hosts, config, number, &mut problems);
        unreachable_routes(site, &mut problems);
        endless_redirects(site, &mut problems);
        source_that_is_not_run(site, &mut problems);
        let of_site = site_authorizer(site, &mut problems);
        let mut routes = Vec::new();
        for route in &site.routes {
            let authorizer = authorizer(route, of_site.as_ref(), &mut problems);
            let context =
                BuildContext { location: &route.handler_location, paths: &route.paths, site, folders };
            match route.handler.build(&context) {
                Ok(handler) => {
                    let target = Target { authorizer, allow_trace: route.allow_trace, handler };
                    routes.push(Route { paths: route.paths.clone(), handler: target });
                }
                Err(more) => problems.extend(more),
            }
        }
        sites.push(routes);
    }
    if problems.is_empty() { Ok(Router::new(hosts, sites)) } else { Err(problems) }
}

/// What a route leads to.
#[derive(Debug)]
pub(crate) struct Target {
    /// Who says who may come in; nobody is asked if absent.
    pub(crate) authorizer: Option<Authorizer>,
    /// Whether TRACE gets to the handler.
    pub(crate) allow_trace: bool,
    pub(crate) handler: Box<dyn Handler>,
}

fn site_authorizer(site: &config::Site, problems: &mut Vec<Problem>) -> Option<Authorizer> {
    let authorizer = Authorizer::new(site.authorize.as_ref()?, &site.location.key("authorize"));
    authorizer.map_err(|more| problems.extend(more)).ok()
}

/// Whom a route asks. The configuration is of no use where there are problems, so that none is asked then matters to nobody.
fn authorizer(
    route: &config::Route,
    of_site: Option<&Authorizer>,
    problems: &mut Vec<Problem>,
) -> Option<Authorizer> {
    match &route.authorize {
        None => of_site.cloned(),
        Some(RouteAuthorize::None) => None,
        Some(RouteAuthorize::App(table)) => {
            let authorizer = Authorizer::new(table, &route.location.key("authorize"));
            authorizer.map_err(|more| problems.extend(more)).ok()
        }
    }
}

fn add_hosts(hosts: &mut Hosts, config: &Config, number: usize, problems: &mut Vec<Problem>) {
    let site = &config.sites[number];
    if site.hosts.is_empty()
        && let Some(other) = hosts.set_default(number)
    {
        let problem = Problem::value(&site.location, "two sites are the default one")
            .label("this has no `hosts` either");
        problems.push(problem.also(&config.sites[other].location, "the first without `hosts`"));
    }
    for (index, host) in site.hosts.iter().enumerate() {
        if let Some(other) = hosts.add(host, number) {
            let problem = Problem::value(
                &site.location.key("hosts").index(index),
                format!("the host \"{host}\" is given twice"),
            );
            problems.push(
                problem.label("the second").also(&host_location(&config.sites[other], host), "the first"),
            );
        }
    }
}

fn host_location(site: &config::Site, host: &HostPattern) -> Location {
    let index = site.hosts.iter().position(|known| known == host).unwrap_or(0);
    site.location.key("hosts").index(index)
}

/// A route all of whose paths are taken by earlier ones can never answer.
fn unreachable_routes(site: &config::Site, problems: &mut Vec<Problem>) {
    for (number, route) in site.routes.iter().enumerate() {
        let earlier = &site.routes[..number];
        let taken = |path: &PathPattern| {
            earlier.iter().find(|route| route.paths.iter().any(|pattern| pattern.covers(path)))
        };
        let takers: Vec<_> = route.paths.iter().map(taken).collect();
        if let Some(Some(taker)) = takers.first()
            && takers.iter().all(Option::is_some)
        {
            let problem = Problem::value(&route.paths_location, "this route never answers")
                .label("taken by an earlier route");
            let problem = problem.also(&taker.paths_location, "the first that matches is taken");
            problems.push(problem.help("put the narrower path before the wider one"));
        }
    }
}

/// A redirect to a path that the same route takes sends browsers round in circles. What placeholders make of an address is
/// only known for the simplest ones.
fn endless_redirects(site: &config::Site, problems: &mut Vec<Problem>) {
    let taker = |path: &str| {
        let path = RequestPath::parse(path.split(['?', '#']).next()?).ok()?;
        site.routes
            .iter()
            .position(|route| route.paths.iter().any(|pattern| pattern.matches(path.as_bytes())))
    };
    for (number, route) in site.routes.iter().enumerate() {
        let HandlerTable::Redirect(table) = &route.handler else { continue };
        let is_endless = match table.to.as_str() {
            "{path}" | "{path}{query}" => true,
            to => to.starts_with('/') && !to.contains('{') && taker(to) == Some(number),
        };
        if is_endless {
            let problem = Problem::value(&route.handler_location.key("to"), "this redirect leads to itself");
            problems.push(
                problem.label("taken by this same route").also(&route.paths_location, "which takes these"),
            );
        }
    }
}

/// A page of a `files` route that holds source is never sent: either another route runs it, or it is a mistake.
fn source_that_is_not_run(site: &config::Site, problems: &mut Vec<Problem>) {
    for route in &site.routes {
        let HandlerTable::Files(table) = &route.handler else { continue };
        let location = &route.handler_location;
        let options = FilesOptions { on_php_site: site.runs_php(), ..table.options.clone() };
        let is_run = |page: &str| {
            route.paths.iter().all(|pattern| {
                let mount = &pattern.to_string()[..pattern.mount()];
                let path = format!("{mount}/{page}");
                let mut others = site.routes.iter().filter(|other| !std::ptr::eq(*other, route));
                others.any(|other| other.paths.iter().any(|pattern| pattern.matches(path.as_bytes())))
            })
        };
        for (key, page) in options.named_pages() {
            if is_withheld(page, &options) && !is_run(page) {
                let title = format!("\"{page}\" is the source of a program, and no route runs it");
                let problem = Problem::value(&location.key(key), title).label("would not be sent");
                let help =
                    "add a route such as \"*.php\" with `fastcgi` before this one, or `serve_source = true`";
                problems.push(problem.help(help));
            }
        }
    }
}
