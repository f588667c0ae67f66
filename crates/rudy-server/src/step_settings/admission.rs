//! The settings of who may send requests.

use std::path::PathBuf;

use http::HeaderName;
use rudy_config::{Location, OneOrMany, OrOff, Table};
use rudy_gateway::fastcgi::{AppTable, AuthorizeTable};
use rudy_guard::{AccessRuleTable, BasicAuthTable, CorsTable, ForwardAuthTable, Login, MaintenanceTable};
use rudy_pipeline::AllowedClient;
use rudy_pipeline::request_state::REMOTE_USER;
use rudy_system::watched_files::folders_of;

/// Who may send requests to a site or a route. A setting of a route replaces that of its site.
#[derive(Debug, Clone, Table)]
#[setting(default)]
pub struct AdmissionTable {
    /// Maintenance: the file that switches it on, or a table. While the file exists, requests get 503 with `Retry-After`. On a
    /// route, `false` switches off the setting of the site.
    #[setting(example = "maintenance")]
    pub maintenance: Option<OrOff<MaintenanceTable>>,
    /// Clients that may send requests: addresses, networks, `loopback` (this machine, without a proxy) or `anyone`. All others
    /// get 403. `allow`, `deny` and `access` of a route replace all three of its site.
    #[setting(example = ["10.0.0.0/8", "loopback"])]
    pub allow: Option<OneOrMany<AllowedClient>>,
    /// Clients whose requests get 403, also if `allow` includes them. Without `allow`, all others are allowed.
    #[setting(example = "192.0.2.0/24")]
    pub deny: Option<OneOrMany<AllowedClient>>,
    /// Access rules by client address, method, header field and client certificate. The first rule that matches decides. A
    /// request that no rule matches is rejected with 403 if a rule has `allow`, and is otherwise allowed. On a route, `false`
    /// switches off the rules of the site.
    #[setting(example = [{ allow = "10.0.0.0/8" }, { allow = "anyone", methods = ["GET", "HEAD"] }])]
    pub access: Option<OrOff<OneOrMany<AccessRuleTable>>>,
    /// Cross-origin requests (CORS): which other sites' scripts may read responses. On a route, `false` switches off the setting
    /// of the site.
    #[setting(example = { origins = ["https://example.org"] })]
    pub cors: Option<OrOff<CorsTable>>,
    /// Basic authentication: the htpasswd file of the users, or a table. The handler gets the user as `Remote-User`, and apps as
    /// `REMOTE_USER`. On a route, `false` switches off the setting of the site.
    #[setting(example = "/etc/rudy/htpasswd")]
    pub basic_auth: Option<OrOff<BasicAuthTable>>,
    /// Forward authentication: the URL of an authorizer that is asked about each request over HTTP, or a table. A 2xx response allows
    /// the request, any other response goes to the client. Without a response, the client gets 502, 503 or 504. On a route, `false`
    /// switches off the setting of the site.
    #[setting(example = "http://127.0.0.1:9091/api/authz/forward-auth")]
    pub forward_auth: Option<OrOff<ForwardAuthTable>>,
    /// FastCGI authorizer: an app that decides which requests are allowed, before any handler runs. On a route, `false` switches off the
    /// setting of the site.
    #[setting(example = { address = "unix:/run/auth.sock" })]
    pub authorize: Option<OrOff<AuthorizeTable>>,
}

impl AdmissionTable {
    /// Returns the login of a route with these settings, after those of its site and those for all sites.
    pub(crate) fn login(&self, of_site: &Self, of_all: &Self) -> Login {
        let tables = [of_all, of_site, self];
        let has_passwords = in_effect(tables.map(|table| table.basic_auth.as_ref())).next().is_some();
        let mut authorizers = in_effect(tables.map(|table| table.forward_auth.as_ref())).peekable();
        let has_authorizer = authorizers.peek().is_some();
        let has_users = has_passwords || authorizers.any(ForwardAuthTable::names_user);
        Login { has_passwords, has_authorizer, has_users }
    }

    /// Returns the FastCGI authorizers of a route with these settings, after those of its site and those for all sites.
    pub(crate) fn authorizers<'s>(
        &'s self,
        of_site: &'s Self,
        of_all: &'s Self,
    ) -> impl Iterator<Item = &'s AppTable> {
        let tables = [of_all, of_site, self];
        in_effect(tables.map(|table| table.authorize.as_ref())).map(|table| &table.app)
    }

    /// Returns the FastCGI authorizer of these settings at `location`, with the location of its table.
    pub(crate) fn authorizer(&self, location: &Location) -> Option<(&AppTable, Location)> {
        let table = self.authorize.as_ref().and_then(OrOff::on)?;
        Some((&table.app, location.key("authorize")))
    }

    /// Returns the fields that only the logins of these settings set.
    pub(crate) fn user_fields(&self) -> impl Iterator<Item = HeaderName> {
        let passwords = self.basic_auth.as_ref().and_then(OrOff::on).map(|_| REMOTE_USER.clone());
        let authorizer = self.forward_auth.as_ref().and_then(OrOff::on);
        passwords.into_iter().chain(authorizer.into_iter().flat_map(ForwardAuthTable::reserved_fields))
    }

    /// Whether responses of the server itself depend on these settings.
    pub(crate) fn changes_errors(&self) -> bool {
        self.cors.is_some()
    }

    /// The folders that the steps read: an editor may replace a file by a new one.
    pub(crate) fn paths_read(&self) -> Vec<PathBuf> {
        let passwords = self.basic_auth.as_ref().and_then(OrOff::on).map(|table| &table.file);
        let authorizer = self.forward_auth.as_ref().and_then(OrOff::on);
        let files =
            passwords.into_iter().chain(authorizer.and_then(|table| table.trusted_certificates.as_ref()));
        files.flat_map(|file| folders_of(file)).collect()
    }
}

/// Returns the settings that are in effect of those for all sites, of the site, and of the route: the first, and that of the route or its
/// site. `false` switches off both.
fn in_effect<'s, T: 's>(
    [of_all, of_site, of_route]: [Option<&'s OrOff<T>>; 3],
) -> impl Iterator<Item = &'s T> {
    let is_off = [of_site, of_route].into_iter().flatten().any(|inner| matches!(inner, OrOff::Off));
    let of_all = of_all.filter(|_| !is_off);
    of_all.into_iter().chain(of_route.or(of_site)).filter_map(OrOff::on)
}
