//! The tables of sites and routes.

use rudy_config::{FilePath, InvalidValues, Location, OneOrMany, OrOff, Problem, Sources, Table};
use rudy_files::{Browse, FilesOptions, FilesTable};
use rudy_gateway::fastcgi::PHP_SUFFIX;
use rudy_gateway::php::PhpTable;
use rudy_pipeline::conditions::Conditions;
use rudy_pipeline::routing::{HostPattern, PathPattern};
use rudy_service::listen_address::Address;
use rudy_site_tls::{CertificateSource, HstsTable, TlsTable};
use rudy_watch::access_log::AccessLogOptions;

use super::acme::unsuitable;
use super::values::Addresses;
use super::{Config, Connections, HandlerTable, SiteDefaults};
use crate::step_settings::{CacheSetting, StepsTable};

/// A site (virtual host): its host names and its routes.
#[derive(Debug, Clone, Table)]
#[setting(default)]
pub struct Site {
    /// Host names of the site: `example.org` for that host, `*.example.org` for all names below it, `www.example.*` for
    /// that name below every domain, or a regular expression as in `regex:^[a-z]+[.]example[.]org$`. A whole name has precedence over the
    /// longest domain, that over the longest beginning, and that over the first expression. A site without `hosts` is the default site of its addresses: it serves all other hosts.
    #[setting(read = OneOrMany<HostPattern>, example = ["example.org", "www.example.org"])]
    pub hosts: Vec<HostPattern>,
    /// Addresses that serve the site, instead of those of `listen` at the top of the main file, in the same notation. Rudy opens them,
    /// too. At other addresses, the hosts of the site are unknown.
    #[setting(example = "127.0.0.1:9000")]
    pub listen: Option<Addresses>,
    /// TLS, on the addresses with the option `,tls`: the certificate of the site.
    #[setting(example = { certificate = "cert.pem", key = "key.pem" })]
    pub tls: Option<TlsTable>,
    /// Whether the site has HTTP/3. The default is that of the server.
    #[setting(example = false)]
    pub http3: Option<bool>,
    /// Redirects requests over plain HTTP to HTTPS (status 308), except below `/.well-known/acme-challenge/`. The scheme
    /// that a trusted proxy reports counts. The default is `true` with `tls = "auto"`, and otherwise `false`.
    #[setting(example = true)]
    pub redirect_to_https: Option<bool>,
    /// Tells browsers to use only HTTPS for this site (`Strict-Transport-Security`), for the given time: a browser then
    /// rejects plain HTTP and invalid certificates. Begin with a short time.
    #[setting(example = "365d")]
    pub hsts: Option<OrOff<HstsTable>>,
    /// Folder to serve files from when no route matches. Short for a last route with `path = "/*"` and `files = {
    /// root = ... }`.
    #[setting(example = "public")]
    pub root: Option<FilePath>,
    /// Index files of folders below `root`, tried in order.
    #[setting(example = "index.html")]
    pub index: Option<OneOrMany<String>>,
    /// Lists folders below `root` that have no index file: `true`, or the file of a template for the page.
    #[setting(example = true, example = "listing.html")]
    pub browse: Option<Browse>,
    /// File below `root` to serve when a path is not found: the page of a single-page application.
    #[setting(example = "index.html")]
    pub fallback: Option<String>,
    /// PHP application to run when no route matches: its folder, or a table with the keys of `php`. Short for a last
    /// route with `path = "/*"` and `php = { root = ... }`.
    #[setting(example = "public")]
    pub php: Option<PhpTable>,
    /// File with redirects of single paths, which come before all routes. A line has a path, a target, and optionally a status:
    /// `/old.html /new/ 302`. The default status is 301, and `#` begins a comment. A target without a query gets that of the
    /// request.
    #[setting(example = "redirects.txt")]
    pub redirects: Option<FilePath>,
    /// Access log of the site, instead of that of the server; `false` for none. Sites can have a file in common, with the same settings.
    #[setting(example = "/var/log/rudy/example.log")]
    pub access_log: Option<OrOff<AccessLogOptions>>,
    /// Files with keys of this table, relative to this file, for what several tables have in common. A key that is in the table and in a
    /// file, or in two files, is an error; lists of tables are joined, those of the table first.
    #[setting(example = ["snippets/security.toml"])]
    pub include: Option<OneOrMany<String>>,
    /// What surrounds the handlers of all routes.
    #[setting(part)]
    pub steps: StepsTable,
    /// The cache.
    #[setting(part)]
    pub caching: CacheSetting,
    /// Routes, tried in order. The first one that matches the path handles the request.
    #[setting(name = "route")]
    pub routes: Vec<Route>,
    /// What a `[[tcp]]` table has instead of routes.
    #[setting(skip)]
    pub connections: Option<Box<Connections>>,
    /// Where the site is written.
    #[setting(location)]
    pub location: Location,
}

/// A route: a path pattern and one handler.
#[derive(Debug, Clone, Table)]
pub struct Route {
    /// Paths that the route matches. `/about` matches that path only, `/docs/*` matches `/docs` and everything below.
    /// In other patterns, `*` and `?` match any characters except a slash, `**` matches any characters, `{a,b}`
    /// matches a or b, and `[a-z]` matches one character. A pattern without a slash, such as `*.php`, is matched
    /// against the last part of the path. Matching is case-sensitive, on the percent-decoded path (`/café`, not
    /// `/caf%C3%A9`).
    #[setting(name = "path", read = OneOrMany<PathPattern>, example = "/docs/*")]
    pub paths: Vec<PathPattern>,
    /// Conditions that requests have to meet besides the path: a table, or a list of tables of which they have to meet one. Otherwise the
    /// next routes are tried.
    #[setting(example = { methods = "POST" }, example = [{ cookies = { beta = "1" } }, { clients = "10.0.0.0/8" }])]
    pub when: Option<OneOrMany<Conditions>>,
    /// Lets only internal redirects lead to this route: rewrites, error pages, `try_files` and the like, and what applications redirect to.
    /// Clients get 404 for its paths, also if a later route has them.
    #[setting(default)]
    pub internal: bool,
    /// Whether requests for this route have lines in the access log of the site or the server, if there is one.
    #[setting(default = true, example = false)]
    pub access_log: bool,
    /// Whether requests for this route may be recorded as spans, if there is `tracing`.
    #[setting(default = true, example = false)]
    pub tracing: bool,
    /// Files with keys of this table, relative to this file, for what several tables have in common. A key that is in the table and in a
    /// file, or in two files, is an error; lists of tables are joined, those of the table first.
    #[setting(example = ["snippets/security.toml"])]
    pub include: Option<OneOrMany<String>>,
    /// What surrounds the handler, besides the settings of the site.
    #[setting(part)]
    pub steps: StepsTable,
    /// The cache.
    #[setting(part)]
    pub caching: CacheSetting,
    /// Passes TRACE requests to the app of this route. Otherwise they get 405, because a response to TRACE repeats
    /// the request, including credentials added by proxies.
    #[setting(default)]
    pub allow_trace: bool,
    /// The handler.
    #[setting(choice)]
    pub handler: HandlerTable,
    /// Where the route is written.
    #[setting(location)]
    pub location: Location,
}

impl Site {
    /// Returns its own addresses.
    pub(crate) fn addresses(&self) -> Option<&[Address]> {
        self.listen.as_ref().map(|addresses| addresses.0.as_slice())
    }

    /// Returns its own addresses, as a part of names: a site at other addresses may have the same hosts. Empty without them.
    pub(crate) fn own_addresses(&self) -> String {
        let addresses: Vec<_> =
            self.addresses().unwrap_or_default().iter().map(ToString::to_string).collect();
        addresses.join(",")
    }

    /// Names a route of the site for people, or the site itself without paths.
    pub(crate) fn label(&self, paths: &[PathPattern]) -> String {
        let host = self.hosts.first().map(ToString::to_string);
        match (host, paths.first()) {
            (host, Some(path)) => format!("{}{path}", host.unwrap_or_default()),
            (Some(host), None) => host,
            (None, None) => "the default site".to_owned(),
        }
    }

    /// Whether an authority signs the certificates.
    pub(crate) fn is_auto(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.source == Some(CertificateSource::Auto))
    }

    /// Whether requests over plain HTTP are redirected to HTTPS.
    pub(crate) fn redirects_to_https(&self) -> bool {
        self.redirect_to_https.unwrap_or_else(|| self.is_auto())
    }

    /// Adds the settings of TLS for all sites, and notes where they are written.
    pub(super) fn inherit(&mut self, config: &Config, sources: &mut Sources) {
        let SiteDefaults { tls, redirect_to_https, hsts, .. } = &config.defaults;
        let has_https = self.addresses().is_none_or(|addresses| addresses.iter().any(|address| address.tls));
        let suitable =
            tls.as_ref().filter(|tls| has_https && tls.has_certificates() && self.may_have(tls, config));
        let places = |key: &str| [&self.location, &config.location].map(|table| table.key(key));
        inherit(&mut self.tls, suitable, places("tls"), sources);
        if let Some(own) = &mut self.tls {
            for key in tls.iter().flat_map(|tls| own.inherit(tls)) {
                let [location, origin] = places(key);
                sources.inherit(location, origin);
            }
            inherit(
                &mut self.redirect_to_https,
                redirect_to_https.as_ref(),
                places("redirect_to_https"),
                sources,
            );
            inherit(&mut self.hsts, hsts.as_ref(), places("hsts"), sources);
        }
    }

    /// Whether the certificate for all sites can be that of this one: an authority signs only public names.
    fn may_have(&self, tls: &TlsTable, config: &Config) -> bool {
        tls.source != Some(CertificateSource::Auto)
            || !self.hosts.is_empty() && self.hosts.iter().all(|host| unsuitable(config, host).is_none())
    }

    /// Whether other routes than by their paths may have a request.
    pub(crate) fn has_conditions(&self) -> bool {
        self.routes.iter().any(|route| route.when.is_some())
    }

    /// Whether fields of a request may have an effect on its route.
    pub(crate) fn has_conditions_on_fields(&self) -> bool {
        let mut reads_some = false;
        let conditions = self.routes.iter().flat_map(|route| &route.when).flat_map(OneOrMany::as_slice);
        conditions.for_each(|conditions| conditions.fields(&mut |_| reads_some = true));
        reads_some
    }

    /// Whether a route of the site runs PHP.
    pub(crate) fn runs_php(&self) -> bool {
        self.routes.iter().any(|route| match &route.handler {
            HandlerTable::Php(_) => true,
            HandlerTable::Fastcgi(table) => table.suffix(&route.paths) == Some(PHP_SUFFIX),
            _ => false,
        })
    }

    /// Adds the last route of a site with `root` or `php`. Values in `invalid` were skipped.
    pub(super) fn add_default_route(&mut self, invalid: &InvalidValues) -> Vec<Problem> {
        let mut problems = self.without_root(invalid);
        // A list with little room would double.
        self.routes.reserve_exact(1);
        match (&self.root, &self.php) {
            (Some(_), Some(_)) => {
                let location = &self.location;
                let problem = Problem::key(&location.key("php"), "both `root` and `php` handle all paths");
                let problem = problem.label("a second folder").also(&location.key("root"), "the first");
                let help = "use `php` alone: it runs the scripts in its folder and serves the other files";
                problems.push(problem.help(help));
            }
            (Some(root), None) => {
                let mut files = FilesTable { root: root.clone(), options: FilesOptions::default() };
                let (index, browse, fallback) = (&self.index, &self.browse, &self.fallback);
                files.options.set_on_site(index.as_ref(), browse.as_ref(), fallback.as_deref());
                let handler = HandlerTable::Files(Box::new(files));
                self.routes.push(Route::everything(handler, self.location.key("root")));
            }
            (None, Some(php)) => {
                let handler = HandlerTable::Php(Box::new(php.clone()));
                self.routes.push(Route::everything(handler, self.location.key("php")));
            }
            (None, None) => {}
        }
        problems
    }

    /// Reports keys for the files of `root` on a site without one.
    fn without_root(&self, invalid: &InvalidValues) -> Vec<Problem> {
        let root = self.location.key("root");
        if self.root.is_some() || invalid.any_in(&root) {
            return Vec::new();
        }
        let given = [
            ("index", self.index.is_some()),
            ("browse", self.browse.is_some()),
            ("fallback", self.fallback.is_some()),
        ];
        let given = given.into_iter().filter(|(_, is_given)| *is_given);
        let problem = |(key, _)| {
            let problem =
                Problem::key(&self.location.key(key), format!("`{key}` is for the files of `root`"));
            problem.label("this site has no `root`")
        };
        given.map(problem).collect()
    }
}

impl Route {
    /// A route for all paths.
    pub(super) fn everything(handler: HandlerTable, location: Location) -> Self {
        Self {
            paths: vec![PathPattern::everything()],
            when: None,
            internal: false,
            handler,
            include: None,
            steps: StepsTable::default(),
            caching: CacheSetting::default(),
            access_log: true,
            tracing: true,
            allow_trace: false,
            location,
        }
    }

    /// Whether the next route has requests for which this one finds nothing.
    pub(crate) fn has_next_route(&self) -> bool {
        matches!(&self.handler, HandlerTable::Files(table) if table.options.next_route)
    }

    /// Where the paths are written.
    pub(crate) fn paths_location(&self) -> Location {
        self.location.key("path")
    }

    /// Where the table of the handler is written.
    pub(crate) fn handler_location(&self) -> Location {
        self.location.key(self.handler.key())
    }
}

/// Sets a missing setting, which is then written where it is for all sites.
fn inherit<T: Clone>(
    own: &mut Option<T>,
    of_all: Option<&T>,
    [location, origin]: [Location; 2],
    sources: &mut Sources,
) {
    if own.is_none()
        && let Some(of_all) = of_all
    {
        *own = Some(of_all.clone());
        sources.inherit(location, origin);
    }
}
