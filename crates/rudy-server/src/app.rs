//! A compiled configuration that answers requests: one generation of the server.

use std::sync::Arc;

use http::{Method, StatusCode};
use rudy_net::{Call, Client, Limits, Outcome, Reply, Request, Response, Service};

use crate::access_log::AccessLog;
use crate::config::files::problem_of;
use crate::config::{self, Config, Diagnostics, FilesTable, Place, Problem};
use crate::error_log::ErrorLog;
use crate::files::{Files, FilesOptions};
use crate::handlers::{Redirect, Respond, Status, Vitals};
use crate::methods::{answer_unless_known, answer_unless_read};
use crate::pages;
use crate::routing::{Hosts, NotFound, PathPattern, Route, Router, request_host};

/// Everything that answers requests under one configuration. A reload makes another one; connections under way keep the
/// one they began with.
#[derive(Debug)]
pub struct App {
    router: Router<Handler>,
    limits: Limits,
    access_log: Option<AccessLog>,
    error_log: Option<ErrorLog>,
    vitals: Arc<Vitals>,
}

/// What answers, made ready.
#[derive(Debug)]
pub(crate) enum Handler {
    Files(Files),
    Redirect(Redirect),
    Respond(Respond),
    Status(Status),
}

impl App {
    /// Makes everything ready that can be: opens folders, reads fixed bodies, encodes fixed heads. The errors are all there are.
    pub fn new(config: &Config) -> Result<Self, Diagnostics> {
        let router =
            compile(config).map_err(|problems| Diagnostics::new(config.sources.clone(), problems))?;
        Ok(Self {
            router,
            limits: config.limits.clone(),
            access_log: None,
            error_log: None,
            vitals: Arc::default(),
        })
    }

    /// Has a line written for each request.
    #[must_use]
    pub fn with_access_log(self, log: AccessLog) -> Self {
        Self { access_log: Some(log), ..self }
    }

    /// Says there what clients do wrong and what the file system refuses.
    #[must_use]
    pub fn with_error_log(self, log: ErrorLog) -> Self {
        for handler in self.router.handlers() {
            if let Handler::Files(files) = handler {
                files.log_to(log.clone());
            }
        }
        Self { error_log: Some(log), ..self }
    }

    /// Tells the status from these counters, which outlive this configuration.
    #[must_use]
    pub fn with_vitals(self, vitals: Arc<Vitals>) -> Self {
        Self { vitals, ..self }
    }

    fn reply(&self, request: &Request, client: &Client) -> Reply {
        // RFC 9110 §9.3.7: a question about the server as a whole.
        if request.uri().path() == "*" && request.method() == Method::OPTIONS {
            return answer_unless_read(request)
                .unwrap_or_else(|| Response::new(StatusCode::NO_CONTENT))
                .into();
        }
        match self.router.find(request_host(request), request.uri().path()) {
            Ok(found) => match found.handler {
                Handler::Files(files) => files.call(request, &found.path_below(request.uri().path())),
                Handler::Redirect(redirect) => redirect.answer(request, found.pattern).into(),
                Handler::Respond(respond) => respond.answer(request).into(),
                Handler::Status(status) => status.answer(request, client, &self.vitals).into(),
            },
            Err(not_found) => answer_nobody(request, not_found).into(),
        }
    }
}

impl Service for App {
    fn call(&self, request: Request, client: &Client) -> Call {
        let observer = self.access_log.as_ref().map(|log| log.observe(&request, client));
        Call { reply: self.reply(&request, client), observer }
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn refused(&self, client: &Client, reason: &str, outcome: &Outcome) {
        if let Some(log) = &self.access_log {
            log.refused(client, reason, outcome);
        }
        if let Some(log) = &self.error_log {
            let status = outcome.status.as_ref().map_or("no answer", StatusCode::as_str);
            log.client(reason, &format!("{} was refused ({status}): {reason}", client.peer));
        }
    }
}

fn answer_nobody(request: &Request, why: NotFound) -> Response {
    // An unknown method is unknown wherever it is tried.
    answer_unless_known(request).unwrap_or_else(|| {
        let error = |status, explanation: &str| pages::error(status, request.headers(), explanation);
        match why {
            // RFC 9110 §7.4: a request for a host that nobody here answers for is misdirected.
            NotFound::Host => error(StatusCode::MISDIRECTED_REQUEST, "No site here is for this host."),
            NotFound::Path => error(StatusCode::NOT_FOUND, "There is nothing at this address."),
            NotFound::BadPath(refusal) => error(StatusCode::BAD_REQUEST, &format!("Refused: {refusal}.")),
        }
    })
}

/// Makes the routes of a configuration ready, or says everything that is wrong with them.
pub(crate) fn compile(config: &Config) -> Result<Router<Handler>, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut hosts = Hosts::default();
    let mut sites = Vec::new();
    for (number, site) in config.sites.iter().enumerate() {
        add_hosts(&mut hosts, config, number, &mut problems);
        unreachable_routes(site, &mut problems);
        let mut routes = Vec::new();
        for route in &site.routes {
            match handler(route) {
                Ok(handler) => routes.push(Route { paths: route.paths.clone(), handler }),
                Err(more) => problems.extend(more),
            }
        }
        sites.push(routes);
    }
    if problems.is_empty() { Ok(Router::new(hosts, sites)) } else { Err(problems) }
}

fn handler(route: &config::Route) -> Result<Handler, Vec<Problem>> {
    let place = &route.handler_place;
    match &route.handler {
        config::Handler::Files(table) => open(table, place).map(Handler::Files),
        config::Handler::Redirect(table) => Redirect::new(table, &route.paths, place).map(Handler::Redirect),
        config::Handler::Respond(table) => Respond::new(table, place).map(Handler::Respond),
        config::Handler::Status(table) => Ok(Handler::Status(Status::new(table))),
    }
}

/// Opens a folder. It is looked at even where the options are wrong, so that both are said at once.
fn open(table: &FilesTable, place: &Place) -> Result<Files, Vec<Problem>> {
    let mut problems = Vec::new();
    let options = table.options(place, &mut problems);
    let wrong = options.problems();
    problems.extend(wrong.iter().map(|error| problem_of(error, place)));
    let options = if wrong.is_empty() { options } else { FilesOptions::default() };
    match Files::open(&table.root, options) {
        Ok(files) if problems.is_empty() => return Ok(files),
        Ok(_) => {}
        Err(error) => problems.push(problem_of(&error, place)),
    }
    Err(problems)
}

fn add_hosts(hosts: &mut Hosts, config: &Config, number: usize, problems: &mut Vec<Problem>) {
    let site = &config.sites[number];
    if site.hosts.is_empty()
        && let Some(other) = hosts.set_default(number)
    {
        let problem =
            Problem::value(&site.place, "two sites are the default one").label("this has no `hosts` either");
        problems.push(problem.also(&config.sites[other].place, "the first without `hosts`"));
    }
    for (index, host) in site.hosts.iter().enumerate() {
        if let Some(other) = hosts.add(host, number) {
            let problem = Problem::value(
                &site.place.key("hosts").index(index),
                format!("the host \"{host}\" is given twice"),
            );
            problems
                .push(problem.label("the second").also(&host_place(&config.sites[other], host), "the first"));
        }
    }
}

fn host_place(site: &config::Site, host: &crate::routing::HostPattern) -> Place {
    let index = site.hosts.iter().position(|known| known == host).unwrap_or(0);
    site.place.key("hosts").index(index)
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
            let problem = Problem::value(&route.paths_place, "this route never answers")
                .label("taken by an earlier route");
            let problem = problem.also(&taker.paths_place, "the first that matches is taken");
            problems.push(problem.help("put the narrower path before the wider one"));
        }
    }
}

#[cfg(test)]
mod tests {
    use http::header;
    use rudy_net::{Body, Peer, RequestBody};

    use super::*;

    fn app(text: &str) -> App {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rudy.toml");
        std::fs::write(&file, text).unwrap();
        let app = Config::load(&file).and_then(|config| App::new(&config));
        app.unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn ask(app: &App, method: &str, host: &str, target: &str) -> Response {
        let request = http::Request::builder().method(method).uri(target).header(header::HOST, host);
        let request = request.body(RequestBody::empty()).unwrap();
        let client = Client { peer: Peer::Ip(([192, 0, 2, 7], 1).into()), number: 1 };
        match app.call(request, &client).reply {
            Reply::Now(response) => response,
            Reply::Later(_) => panic!("nothing here waits"),
        }
    }

    #[test]
    fn requests_find_their_site_their_route_and_their_answer() {
        let app = app(r#"
            [[site]]
            hosts = ["example.org", "*.example.org"]
            [[site.route]]
            path = "/ping"
            respond = { body = "pong" }
            [[site.route]]
            path = "/old/*"
            redirect = { to = "https://{host}/new/{rest}{query}", status = 301 }
            [[site.route]]
            path = "/status"
            status = {}
        "#);
        for (method, host, target, status) in [
            ("GET", "example.org", "/ping", 200),
            ("HEAD", "www.EXAMPLE.org:8080", "/ping", 200),
            ("POST", "example.org", "/ping", 405),
            ("BREW", "example.org", "/ping", 501),
            ("OPTIONS", "example.org", "/ping", 204),
            ("GET", "example.org", "/p%69ng", 200),
            ("GET", "other.org", "http://example.org/ping", 200),
            ("GET", "example.org", "/pong", 404),
            ("BREW", "example.org", "/pong", 501),
            ("GET", "example.org", "/../ping", 400),
            ("GET", "example.com", "/ping", 421),
            ("GET", "example.org", "/status", 403),
            ("OPTIONS", "example.org", "*", 204),
            ("OPTIONS", "example.com", "*", 204),
        ] {
            assert_eq!(ask(&app, method, host, target).status().as_u16(), status, "{method} {host} {target}");
        }
        let pong = ask(&app, "GET", "example.org", "/ping");
        assert!(matches!(pong.body, Body::Bytes(body) if body == "pong"));
        let moved = ask(&app, "GET", "example.org:8080", "/old/a?b");
        assert_eq!(moved.headers()[header::LOCATION], "https://example.org/new/a?b");
        assert_eq!(ask(&app, "OPTIONS", "example.org", "*").headers()[header::ALLOW], "GET, HEAD, OPTIONS");
    }

    #[test]
    fn files_are_found_below_the_folder_of_their_route() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().display();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        std::fs::write(folder.path().join("a/b c.txt"), "text").unwrap();
        std::fs::write(folder.path().join("a/index.html"), "<p>").unwrap();
        let app = app(&format!(
            "[[site]]\nroot = '{root}'\n[[site.route]]\npath = '/docs/*'\nfiles = {{ root = '{root}/a' }}\n"
        ));
        for (method, target, status) in [
            ("GET", "/a/b%20c.txt", 200),
            ("GET", "/docs/b%20c.txt", 200),
            ("GET", "/d%6Fcs//b%20c.txt", 200),
            ("GET", "/docs/a/b%20c.txt", 404),
            ("GET", "/docs/../a/b%20c.txt", 400),
            ("PROPFIND", "/a/b%20c.txt", 405),
            ("BREW", "/a/b%20c.txt", 501),
        ] {
            assert_eq!(ask(&app, method, "a.org", target).status().as_u16(), status, "{method} {target}");
        }
        assert_eq!(ask(&app, "GET", "a.org", "/a").headers()[header::LOCATION], "/a/");
        assert_eq!(ask(&app, "GET", "a.org", "/docs").headers()[header::LOCATION], "/docs/");
    }
}
