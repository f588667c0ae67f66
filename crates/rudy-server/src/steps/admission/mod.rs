//! Who may send requests: the settings, and the order of their steps.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderName, header};
use rudy_config::{Location, OneOrMany, OrOff, Problem};
use schemars::JsonSchema;
use serde::Deserialize;

use super::access::{AccessRuleTable, AccessRules};
use super::basic_auth::{BasicAuth, BasicAuthTable};
use super::cors::{Cors, CorsFields, CorsTable, Preflight};
use super::forward_auth::{ForwardAuth, ForwardAuthTable};
use super::identity::WithoutUserFields;
use super::limits::LoginLimits;
use super::maintenance::{Maintenance, MaintenanceTable};
use super::plan::{Planned, planned};
use super::{Step, StepKind};
use crate::Resources;
use crate::client_address::AllowedClient;
use crate::config::{self, Config};
use crate::passwords::PasswordFile;
use crate::request_state::REMOTE_USER;
use crate::watched_files::folders_of;

/// Who may send requests to a site or a route. A setting of a route replaces that of its site.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AdmissionTable {
    /// Maintenance: the file that switches it on, or a table. While the file exists, requests get 503 with `Retry-After`. On a
    /// route, `false` switches off the setting of the site.
    #[schemars(extend("examples" = ["maintenance"]))]
    pub maintenance: Option<OrOff<MaintenanceTable>>,
    /// Clients that may send requests: addresses, networks, `loopback` (this machine, without a proxy) or `anyone`. All others
    /// get 403. `allow`, `deny` and `access` of a route replace all three of its site.
    #[schemars(extend("examples" = [["10.0.0.0/8", "loopback"]]))]
    pub allow: Option<OneOrMany<AllowedClient>>,
    /// Clients whose requests get 403, also if `allow` includes them. Without `allow`, all others are allowed.
    #[schemars(extend("examples" = ["192.0.2.0/24"]))]
    pub deny: Option<OneOrMany<AllowedClient>>,
    /// Access rules by client address, method, header field and client certificate. The first rule that matches decides. A
    /// request that no rule matches is rejected with 403 if a rule has `allow`, and is otherwise allowed. On a route, `false`
    /// switches off the rules of the site.
    #[schemars(extend("examples" = [[{ "allow": "10.0.0.0/8" }, { "allow": "anyone", "methods": ["GET", "HEAD"] }]]))]
    pub access: Option<OrOff<OneOrMany<AccessRuleTable>>>,
    /// Cross-origin requests (CORS): which other sites' scripts may read responses. On a route, `false` switches off the setting
    /// of the site.
    #[schemars(extend("examples" = [{ "origins": ["https://example.org"] }]))]
    pub cors: Option<OrOff<CorsTable>>,
    /// Basic authentication: the htpasswd file of the users, or a table. The handler gets the user as `Remote-User`, and apps as
    /// `REMOTE_USER`. On a route, `false` switches off the setting of the site.
    #[schemars(extend("examples" = ["/etc/rudy/htpasswd"]))]
    pub basic_auth: Option<OrOff<BasicAuthTable>>,
    /// Forward authentication: the URL of an authorizer that is asked about each request over HTTP, or a table. A 2xx response allows
    /// the request, any other response goes to the client. Without a response, the client gets 502, 503 or 504. On a route, `false`
    /// switches off the setting of the site.
    #[schemars(extend("examples" = ["http://127.0.0.1:9091/api/authz/forward-auth"]))]
    pub forward_auth: Option<OrOff<ForwardAuthTable>>,
}

/// Fields in which a client proves who it is. They name no user.
const CREDENTIALS: [HeaderName; 3] = [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION];

/// How a request gets a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Login {
    /// A password is verified.
    pub(super) has_passwords: bool,
    /// An authorizer is asked, which may name no user.
    pub(super) has_authorizer: bool,
    /// A password is verified, or an authorizer names the user.
    pub(super) has_users: bool,
}

impl Login {
    /// Returns what either of two routes has.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            has_passwords: self.has_passwords || other.has_passwords,
            has_authorizer: self.has_authorizer || other.has_authorizer,
            has_users: self.has_users || other.has_users,
        }
    }
}

impl AdmissionTable {
    /// Returns the login of a route with these settings.
    pub(super) fn login(&self, of_site: &Self) -> Login {
        let passwords = self.basic_auth.as_ref().or(of_site.basic_auth.as_ref()).and_then(OrOff::on);
        let authorizer = self.forward_auth.as_ref().or(of_site.forward_auth.as_ref()).and_then(OrOff::on);
        let has_passwords = passwords.is_some();
        let has_users = has_passwords || authorizer.is_some_and(ForwardAuthTable::names_user);
        Login { has_passwords, has_authorizer: authorizer.is_some(), has_users }
    }

    /// Returns the fields in which the logins of these settings name users, without the credentials of clients, which other routes need.
    fn user_fields(&self) -> impl Iterator<Item = HeaderName> {
        let passwords = self.basic_auth.as_ref().and_then(OrOff::on).map(|_| REMOTE_USER.clone());
        let authorizer = self.forward_auth.as_ref().and_then(OrOff::on);
        let copied = authorizer.into_iter().flat_map(ForwardAuthTable::copied);
        passwords.into_iter().chain(copied.filter(|name| !CREDENTIALS.contains(name)))
    }

    /// Whether responses of the server itself depend on these settings.
    pub(super) fn changes_errors(&self) -> bool {
        self.cors.is_some()
    }

    /// The folders that the steps read: an editor may replace a file by a new one.
    pub(super) fn paths_read(&self) -> Vec<PathBuf> {
        let passwords = self.basic_auth.as_ref().and_then(OrOff::on).map(|table| &table.file);
        let authorizer = self.forward_auth.as_ref().and_then(OrOff::on);
        let files =
            passwords.into_iter().chain(authorizer.and_then(|table| table.trusted_certificates.as_ref()));
        files.flat_map(|file| folders_of(file)).collect()
    }

    fn has_access_rules(&self) -> bool {
        self.allow.is_some() || self.deny.is_some() || self.access.is_some()
    }

    fn access_rules(
        &self,
        shared: &Shared<'_>,
        location: &Location,
        problems: &mut Vec<Problem>,
    ) -> Option<AccessRules> {
        let lists = (self.allow.as_ref(), self.deny.as_ref());
        let Some(rules) = &self.access else { return Some(AccessRules::of_lists(lists)) };
        let access = location.key("access");
        if lists != (None, None) {
            let problem =
                Problem::key(&access, "`access` replaces `allow` and `deny`").label("a second setting");
            problems.push(problem.help("write `allow` and `deny` as rules of `access`"));
        }
        let rules = rules.on()?.as_slice();
        problems.extend(
            rules.iter().enumerate().flat_map(|(number, rule)| {
                rule.problems(&access.index(number), shared.has_client_certificates)
            }),
        );
        Some(AccessRules::of_tables(rules))
    }
}

/// What the steps of a site share.
pub(super) struct Shared<'r> {
    resources: &'r Resources,
    /// How many passwords are verified at a time.
    password_threads: NonZeroUsize,
    /// Whether the site asks for client certificates.
    has_client_certificates: bool,
    /// The files that were read already.
    password_files: Mutex<HashMap<PathBuf, Arc<PasswordFile>>>,
}

impl<'r> Shared<'r> {
    pub(super) fn new(resources: &'r Resources, config: &Config, site: &config::Site) -> Self {
        let password_threads = config.password_threads;
        let has_client_certificates = site.tls.as_ref().is_some_and(|tls| tls.client_certificates.is_some());
        Self { resources, password_threads, has_client_certificates, password_files: Mutex::default() }
    }

    fn password_file(&self, path: &Path) -> Result<Arc<PasswordFile>, Vec<String>> {
        let mut files = self.password_files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = files.get(path) {
            return Ok(file.clone());
        }
        let file = Arc::new(PasswordFile::read(path)?);
        let watched = &self.resources.watched_files;
        watched.add(&file);
        watched.notify(file.weakness());
        files.insert(path.to_owned(), file.clone());
        Ok(file)
    }

    fn basic_auth(
        &self,
        table: &BasicAuthTable,
        location: &Location,
        problems: &mut Vec<Problem>,
    ) -> Option<BasicAuth> {
        match self.password_file(&table.file) {
            Ok(file) => {
                Some(BasicAuth::new(table, file, self.resources.passwords.clone(), self.password_threads))
            }
            Err(faults) => {
                let title = format!("cannot use the users of {}", table.file.display());
                let problem = |why| Problem::value(&location.key("file"), title.clone()).label(why);
                problems.extend(faults.into_iter().map(problem));
                None
            }
        }
    }
}

/// The steps of a site or a route, prepared.
#[derive(Debug, Clone, Default)]
pub(super) struct Admission {
    maintenance: Option<Arc<dyn Step>>,
    rules: Option<Arc<dyn Step>>,
    cors: Option<Arc<Cors>>,
    basic_auth: Option<Arc<BasicAuth>>,
    forward_auth: Option<Arc<dyn Step>>,
}

impl Admission {
    /// Prepares the settings at `location`. Those that are missing are `of_site`.
    pub(super) fn new(
        table: &AdmissionTable,
        of_site: &Self,
        shared: &Shared<'_>,
        location: &Location,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let maintenance = own_or(table.maintenance.as_ref(), of_site.maintenance.as_ref(), |table| {
            Some(Arc::new(Maintenance::new(table, &shared.resources.watched_files)))
        });
        let rules = if table.has_access_rules() {
            table.access_rules(shared, location, problems).map(|rules| -> Arc<dyn Step> { Arc::new(rules) })
        } else {
            of_site.rules.clone()
        };
        let cors = own_or(table.cors.as_ref(), of_site.cors.as_ref(), |table| {
            problems.extend(table.problems(&location.key("cors")));
            Some(Arc::new(Cors::new(table)))
        });
        let basic_auth = own_or(table.basic_auth.as_ref(), of_site.basic_auth.as_ref(), |table| {
            let step = shared.basic_auth(table, &location.key("basic_auth"), problems)?;
            Some(Arc::new(step))
        });
        let forward_auth = own_or(table.forward_auth.as_ref(), of_site.forward_auth.as_ref(), |table| {
            let step = ForwardAuth::new(table, &location.key("forward_auth"));
            Some(Arc::new(step.map_err(|more| problems.extend(more)).ok()?))
        });
        Self { maintenance, rules, cors, basic_auth, forward_auth }
    }

    /// Returns the step that changes all responses, also those of the server itself.
    pub(super) fn around_errors(&self) -> Option<Planned> {
        self.cors.clone().map(|cors| planned(StepKind::CorsHeaders, CorsFields(cors)))
    }

    /// Returns the steps before the limits: those that cost the least, and the responses to preflight requests.
    pub(super) fn before_limits(&self) -> impl Iterator<Item = Planned> {
        let maintenance = self.maintenance.clone().map(|step| (StepKind::Maintenance, step));
        let rules = self.rules.clone().map(|step| (StepKind::Access, step));
        let preflight = self.cors.clone().map(|cors| planned(StepKind::CorsPreflight, Preflight(cors)));
        [maintenance, rules, preflight].into_iter().flatten()
    }

    /// Returns the steps that verify users. Attempts that fail count against `limits`.
    pub(super) fn logins(&self, limits: &LoginLimits) -> impl Iterator<Item = Planned> {
        let basic_auth = self.basic_auth.as_ref();
        let basic_auth = basic_auth.map(|step| planned(StepKind::BasicAuth, step.limited(limits)));
        let forward_auth = self.forward_auth.clone().map(|step| (StepKind::ForwardAuth, step));
        basic_auth.into_iter().chain(forward_auth)
    }
}

/// Returns the step that removes the fields in which the logins of a site and its routes name users.
pub(super) fn without_user_fields(site: &config::Site) -> Option<Arc<dyn Step>> {
    let tables = [&site.steps].into_iter().chain(site.routes.iter().map(|route| &route.steps));
    let mut names: Vec<_> = tables.flat_map(|steps| steps.admission.user_fields()).collect();
    names.sort_by(|one, other| one.as_str().cmp(other.as_str()));
    names.dedup();
    (!names.is_empty()).then(|| -> Arc<dyn Step> { Arc::new(WithoutUserFields(names)) })
}

/// Returns the step of a setting, or that of the site if there is no own setting.
fn own_or<T, S: ?Sized>(
    own: Option<&OrOff<T>>,
    of_site: Option<&Arc<S>>,
    build: impl FnOnce(&T) -> Option<Arc<S>>,
) -> Option<Arc<S>> {
    match own {
        None => of_site.cloned(),
        Some(setting) => build(setting.on()?),
    }
}
