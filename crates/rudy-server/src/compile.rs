//! Builds the router of a configuration: opens folders, encodes fixed responses, and reports conflicts between routes.

use std::path::Path;
use std::sync::Arc;

use rudy_config::{Diagnostics, Location, Problem};
use rudy_handlers::redirect_map::{MappedRedirect, RedirectMap};
use rudy_message::semantics::path::RequestPath;
use rudy_pipeline::client_address::TrustedProxies;
use rudy_pipeline::conditions::{CONDITIONS_MAX, SiteConditions};
use rudy_pipeline::exchange::{OwnCounters, RouteName};
use rudy_pipeline::routing::{ExactPaths, HostPattern, Hosts, Listeners, PathPattern, Route, Router, Site};
use rudy_pipeline::{BuildContext, HandlerConfig, NoHandler, Resources, Target};
use rudy_proxy::TcpProxy;
use rudy_service::listen_address::Address;
use rudy_site_tls::TlsState;

use crate::config::HandlerTable;
use crate::config::{self, Config};
use crate::named_pages;
use crate::plan::{self, AllSites, SiteSteps};

impl Config {
    /// Reads a configuration file and the files that it includes. The error has all problems, including those that
    /// [`App::new`](crate::App::new) finds.
    pub fn load(path: &Path) -> Result<Self, Diagnostics> {
        Self::load_with(path, |config| compile(config, &Resources::default()).err().unwrap_or_default())
    }
}

/// What requests need of a configuration.
pub(crate) struct Compiled {
    /// The routes.
    pub(crate) router: Router<Target>,
    /// The proxies that report clients.
    pub(crate) trusted_proxies: Arc<TrustedProxies>,
}

/// Builds the routes of a configuration, or returns all problems. Open folders and their caches are shared through `resources`.
pub(crate) fn compile(config: &Config, resources: &Resources) -> Result<Compiled, Vec<Problem>> {
    let mut problems = problems_of_all(config);
    let listeners = listeners(config, &mut problems);
    // Once, because it looks at all sites.
    let body_bytes_max = config.body_bytes_max();
    let counters = OwnCounters::default();
    let mut sites = Vec::with_capacity(config.sites.len());
    let trusted_proxies = TrustedProxies::new(&config.client_address, &resources.of(), &mut problems);
    let trusted_proxies = Arc::new(trusted_proxies);
    let of_all = AllSites::new(config, &trusted_proxies, resources, &mut problems);
    for (number, site) in config.sites.iter().enumerate() {
        unreachable_routes(site, &mut problems);
        redirect_loops(site, &mut problems);
        problems.extend(named_pages::problems(site));
        problems.extend(missing_next_route(site));
        let hsts = config::tls::hsts(config, site, &mut problems);
        let site_name = config.name_of(site);
        let (own_addresses, on_php_site) = (site.own_addresses(), site.runs_php());
        let route_name = |path: Option<&PathPattern>| RouteName {
            site_number: Some(number),
            counters: OwnCounters::beside(&counters),
            ..RouteName::new(site_name.clone(), path.map(ToString::to_string))
        };
        let steps = SiteSteps::new(config, &of_all, site, resources, hsts, body_bytes_max, &mut problems);
        let mut routes = Vec::with_capacity(site.routes.len());
        let mut conditions = SiteConditions::default();
        for route in &site.routes {
            let condition = route.when.as_ref().and_then(|when| {
                let number = conditions.add(when);
                problems.extend(number.is_none().then(|| too_many_conditions(route)));
                number
            });
            let settings = steps.settings.of_route(&route.steps);
            let of_route = steps.of_route(route, &settings, &mut problems);
            let compression = settings.innermost(|steps| steps.compression.as_ref());
            let types = settings.file_types();
            let (location, paths) = (&route.handler_location(), &route.paths);
            let context = BuildContext {
                location,
                paths,
                hosts: &site.hosts,
                own_addresses: &own_addresses,
                on_php_site,
                resources,
                maps: &config.maps,
                compression,
                types,
            };
            match route.handler.build(&context) {
                Ok(handler) => {
                    let target = Target::new(of_route, route.allow_trace, handler);
                    let target = target.named(named(route, route_name(route.paths.first())));
                    let script_suffix = route.handler.script_suffix(&route.paths).map(str::to_owned);
                    let paths = route.paths.clone();
                    let is_internal = route.internal;
                    routes.push(Route { paths, script_suffix, condition, is_internal, handler: target });
                }
                Err(more) => problems.extend(more),
            }
        }
        routes.extend(connections(site, || route_name(None), &mut problems));
        let https_port = config::tls::https_port(config, site, &mut problems);
        let outer = Target::new(steps.outer(), false, Box::new(NoHandler)).named(route_name(None));
        let outer = Route::everything(outer);
        let redirects = site.redirects.as_ref().map(|table| {
            let map = Arc::new(RedirectMap::read(table, &site.location.key("redirects"), &mut problems));
            let target = Target::new(steps.outer(), false, Box::new(MappedRedirect(map.clone())));
            let target = target.named(route_name(None));
            (map as Arc<dyn ExactPaths>, Route::everything(target))
        });
        sites.push(Site {
            routes,
            outer,
            redirects,
            conditions,
            tls: None,
            is_auto: site.is_auto(),
            takes_connections: site.connections.is_some(),
            https_port,
        });
    }
    // After the rest, because certificates outlive a reload, which frees the rest: it should be together in memory.
    let state = resources.of::<TlsState>();
    for (site, of_config) in sites.iter_mut().zip(&config.sites) {
        let definition = config.tls_of(of_config);
        site.tls = definition.and_then(|definition| rudy_site_tls::site(definition, &state, &mut problems));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Compiled { router: Router::new(listeners, sites), trusted_proxies })
}

/// Returns the name of a route with what logs and traces leave out.
fn named(route: &config::Route, name: RouteName) -> RouteName {
    RouteName { is_unlogged: !route.access_log, is_untraced: !route.tracing, ..name }
}

/// Reports what is wrong with the settings beside the routes, and what parts of the configuration conflict.
fn problems_of_all(config: &Config) -> Vec<Problem> {
    let mut problems = config.engine.problems(&Location::file(0));
    problems.extend(config::limits::problem(&config.limits));
    problems.extend(config.unusable_buffer_dir());
    problems.extend(config::client_address::problems(config));
    problems.extend(config::conflicting_addresses(config));
    problems.extend(config.conflicting_access_logs());
    problems.extend(config::tls::listeners(config));
    problems.extend(config::tcp::problems(config));
    problems.extend(config::tls::h2c(config));
    problems.extend(config::acme::problems(config));
    problems.extend(plan::limit_problems(config));
    problems.extend(config.unusable_ticket_keys());
    problems.extend(config.tracing_problems());
    problems.extend(cache_problem(config));
    problems
}

/// Returns the only route of a table for connections: it passes them to its upstreams.
fn connections(
    site: &config::Site,
    name: impl Fn() -> RouteName,
    problems: &mut Vec<Problem>,
) -> Option<Route<Target>> {
    let table = &site.connections.as_ref()?.proxy;
    let proxy =
        TcpProxy::new(table, &site.location, name().site).map_err(|more| problems.extend(more)).ok()?;
    Some(Route::everything(Target::new(Vec::new(), false, Box::new(proxy)).named(name())))
}

/// Reports a wrong value in `[cache]`.
fn cache_problem(config: &Config) -> Option<Problem> {
    let (key, text) = config.cache.problem()?;
    let (title, label) = text.split_once('\n').unwrap_or((&text, ""));
    Some(Problem::value(&Location::file(0).key("cache").key(key), title.to_owned()).label(label.to_owned()))
}

/// Returns the hosts of each listener.
fn listeners(config: &Config, problems: &mut Vec<Problem>) -> Listeners {
    if !config.has_separate_listeners() {
        return Listeners::Alike(hosts(config, |_| true, problems));
    }
    let mut at = |address: Address| {
        let hosts = hosts(config, |site| config.addresses_of(site).contains(&address), problems);
        (address, hosts)
    };
    Listeners::Separate(config.addresses().into_iter().map(&mut at).collect())
}

/// Returns the hosts of some sites. Reports hosts that are ambiguous.
fn hosts(config: &Config, is_served: impl Fn(&config::Site) -> bool, problems: &mut Vec<Problem>) -> Hosts {
    let mut hosts = Hosts::default();
    for (number, site) in config.sites.iter().enumerate().filter(|(_, site)| is_served(site)) {
        if site.hosts.is_empty()
            && let Some(other) = hosts.set_default(number)
        {
            let problem =
                Problem::value(&site.location, "two sites have no `hosts`").label("a second default site");
            problems.push(problem.also(&config.sites[other].location, "the first default site"));
        }
        for (index, host) in site.hosts.iter().enumerate() {
            if let Some(other) = hosts.add(host, number) {
                let location = site.location.key(site.hosts_key()).index(index);
                let problem = Problem::value(&location, format!("duplicate host \"{host}\""));
                let first = host_location(&config.sites[other], host);
                problems.push(problem.label("the second").also(&first, "the first"));
            }
        }
    }
    hosts
}

fn host_location(site: &config::Site, host: &HostPattern) -> Location {
    let index = site.hosts.iter().position(|known| known == host).unwrap_or(0);
    site.location.key(site.hosts_key()).index(index)
}

/// Reports routes whose paths are all matched by earlier routes.
fn unreachable_routes(site: &config::Site, problems: &mut Vec<Problem>) {
    for (number, route) in site.routes.iter().enumerate() {
        let earlier = &site.routes[..number];
        let taken = |path: &PathPattern| {
            let takes_all = |other: &&config::Route| {
                (other.when.is_none() || other.when == route.when) && !other.has_next_route()
            };
            let mut earlier = earlier.iter().filter(takes_all);
            earlier.find(|route| route.paths.iter().any(|pattern| pattern.covers(path)))
        };
        let takers: Vec<_> = route.paths.iter().map(taken).collect();
        if let Some(Some(taker)) = takers.first()
            && takers.iter().all(Option::is_some)
        {
            let problem = Problem::value(&route.paths_location(), "this route is unreachable")
                .label("an earlier route matches all of these paths");
            let problem = problem.also(&taker.paths_location(), "the first matching route is used");
            problems.push(problem.help("put the more specific path first"));
        }
    }
}

fn too_many_conditions(route: &config::Route) -> Problem {
    let title = format!("the routes of a site can have at most {CONDITIONS_MAX} different conditions");
    let problem = Problem::key(&route.location.key("when"), title).label("one more");
    problem.help("a route with a list of tables has one of them, and routes with the same `when` share it")
}

/// Reports a route that passes requests on, although no route follows.
fn missing_next_route(site: &config::Site) -> Option<Problem> {
    let route = site.routes.last().filter(|route| route.has_next_route())?;
    let problem =
        Problem::key(&route.handler_location().key("next_route"), "this is the last route of the site");
    Some(
        problem
            .label("no route follows")
            .help("add a [[site.route]] for missing files, such as one with `proxy`"),
    )
}

/// Reports redirects and rewrites that lead back to their own route. For most targets with placeholders this is unknown.
fn redirect_loops(site: &config::Site, problems: &mut Vec<Problem>) {
    // A request with conditions may meet them no more, such as one for a cookie.
    for (number, route) in site.routes.iter().enumerate().filter(|(_, route)| route.when.is_none()) {
        let (title, is_endless) = match &route.handler {
            HandlerTable::Redirect(table) => ("this redirect loops", is_endless(site, number, &table.to)),
            HandlerTable::Rewrite(table) => ("this rewrite loops", is_endless(site, number, &table.to)),
            _ => continue,
        };
        if is_endless {
            let problem = Problem::value(&route.handler_location().key("to"), title);
            problems.push(
                problem
                    .label("the target matches this route")
                    .also(&route.paths_location(), "the paths of the route"),
            );
        }
    }
}

/// Whether the target of a route leads back to it, through rewrites or at once.
fn is_endless(site: &config::Site, number: usize, to: &str) -> bool {
    let mut to = to;
    for _ in &site.routes {
        if matches!(to, "{path}" | "{path}{query}") {
            return true;
        }
        let Some(next) = route_of(site, to) else { return false };
        if next == number {
            return true;
        }
        let HandlerTable::Rewrite(table) = &site.routes[next].handler else { return false };
        to = &table.to;
    }
    // A loop of other routes, which have their own problems.
    false
}

/// Returns the route of a target without placeholders in its path.
fn route_of(site: &config::Site, to: &str) -> Option<usize> {
    let path = to.split(['?', '#']).next().map(|path| path.trim_end_matches("{query}"))?;
    let path = RequestPath::parse(path).ok().filter(|_| path.starts_with('/') && !path.contains('{'))?;
    let matches = |route: &config::Route| route.paths.iter().any(|pattern| pattern.matches(path.as_bytes()));
    site.routes.iter().position(matches).filter(|number| site.routes[*number].when.is_none())
}
