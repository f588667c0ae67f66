//! The steps that decide who may send requests.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rudy_config::{Location, OrOff, Problem};
use rudy_gateway::fastcgi::Authorizer;
use rudy_guard::passwords::PasswordFile;
use rudy_guard::{
    AccessRules, BasicAuth, BasicAuthTable, Cors, CorsFields, ForwardAuth, LoginLimits, Maintenance,
    Preflight, WithoutUserFields,
};
use rudy_pipeline::{Resources, Step};
use rudy_system::watched_files::WatchedFiles;

use crate::config::{self, Config};
use crate::step_settings::{AdmissionTable, Planned, StepKind, planned};

/// What the steps of a site share.
pub(super) struct Shared<'r> {
    pub(super) resources: &'r Resources,
    /// How many passwords are verified at a time.
    password_threads: NonZeroUsize,
    /// Whether the site asks for client certificates.
    pub(super) has_client_certificates: bool,
    /// The files that were read already. `None` for one that cannot be used: its problems have been reported.
    password_files: Mutex<HashMap<PathBuf, Option<Arc<PasswordFile>>>>,
}

impl<'r> Shared<'r> {
    /// `site` is `None` for the settings for all sites.
    pub(super) fn new(resources: &'r Resources, config: &Config, site: Option<&config::Site>) -> Self {
        let password_threads = config.password_threads.unwrap_or_else(rudy_guard::passwords::default_threads);
        // One of the sites may ask for them.
        let has_client_certificates =
            site.is_none_or(|site| site.tls.as_ref().is_some_and(|tls| tls.client_certificates().is_some()));
        Self { resources, password_threads, has_client_certificates, password_files: Mutex::default() }
    }

    /// Reads a file once, with a problem for each line that is wrong.
    fn password_file(
        &self,
        path: &Path,
        location: &Location,
        problems: &mut Vec<Problem>,
    ) -> Option<Arc<PasswordFile>> {
        let mut files = self.password_files.lock();
        if let Some(file) = files.get(path) {
            return file.clone();
        }
        let title = format!("cannot use the users of {}", path.display());
        let problem = |why| Problem::value(location, title.clone()).label(why);
        let file =
            PasswordFile::read(path).map_err(|faults| problems.extend(faults.into_iter().map(problem)));
        let file = file.ok().map(Arc::new);
        if let Some(file) = &file {
            let watched = self.resources.of::<WatchedFiles>();
            watched.add(file);
            watched.notify(file.weakness());
        }
        files.insert(path.to_owned(), file.clone());
        file
    }

    fn basic_auth(
        &self,
        table: &BasicAuthTable,
        location: &Location,
        problems: &mut Vec<Problem>,
    ) -> Option<BasicAuth> {
        let file = self.password_file(&table.file, &location.key("file"), problems)?;
        Some(BasicAuth::new(table, file, self.resources.of(), self.password_threads))
    }
}

impl AdmissionTable {
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

/// A step of a site or a route, after the one for all sites, which applies too.
#[derive(Debug)]
struct Layers<S: ?Sized> {
    of_all: Option<Arc<S>>,
    own: Option<Arc<S>>,
}

impl<S: ?Sized> Layers<S> {
    /// Returns the layers with this setting. Without one, they stay, and `false` removes both.
    fn with<T>(&self, setting: Option<&OrOff<T>>, build: impl FnOnce(&T) -> Option<Arc<S>>) -> Self {
        match setting {
            None => self.clone(),
            Some(OrOff::Off) => Self::default(),
            Some(OrOff::On(table)) => Self { of_all: self.of_all.clone(), own: build(table) },
        }
    }

    /// Makes the step that for all sites.
    fn for_all(self) -> Self {
        Self { of_all: self.own, own: None }
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<S>> {
        self.of_all.iter().chain(&self.own)
    }
}

impl<S: ?Sized> Clone for Layers<S> {
    fn clone(&self) -> Self {
        Self { of_all: self.of_all.clone(), own: self.own.clone() }
    }
}

impl<S: ?Sized> Default for Layers<S> {
    fn default() -> Self {
        Self { of_all: None, own: None }
    }
}

/// The steps of a site or a route, prepared.
#[derive(Debug, Clone, Default)]
pub(super) struct Admission {
    maintenance: Option<Arc<dyn Step>>,
    rules: Layers<dyn Step>,
    cors: Option<Arc<Cors>>,
    basic_auth: Layers<BasicAuth>,
    forward_auth: Layers<dyn Step>,
    authorize: Layers<dyn Step>,
}

impl Admission {
    /// Prepares the settings at `location`. Those that are missing are those of the `outer` table.
    pub(super) fn new(
        table: &AdmissionTable,
        outer: &Self,
        shared: &Shared<'_>,
        location: &Location,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let maintenance = own_or(table.maintenance.as_ref(), outer.maintenance.as_ref(), |table| {
            Some(Arc::new(Maintenance::new(table, &shared.resources.of())))
        });
        let rules = if table.has_access_rules() {
            match table.access_rules(shared, location, problems) {
                Some(own) => Layers { of_all: outer.rules.of_all.clone(), own: Some(Arc::new(own)) },
                None => Layers::default(),
            }
        } else {
            outer.rules.clone()
        };
        let cors = own_or(table.cors.as_ref(), outer.cors.as_ref(), |table| {
            problems.extend(table.problems(&location.key("cors")));
            Some(Arc::new(Cors::new(table)))
        });
        let basic_auth = outer.basic_auth.with(table.basic_auth.as_ref(), |table| {
            let step = shared.basic_auth(table, &location.key("basic_auth"), problems)?;
            Some(Arc::new(step))
        });
        let forward_auth = outer.forward_auth.with(table.forward_auth.as_ref(), |table| {
            let step = ForwardAuth::new(table, &location.key("forward_auth"));
            Some(Arc::new(step.map_err(|more| problems.extend(more)).ok()?))
        });
        let authorize = outer.authorize.with(table.authorize.as_ref(), |table| {
            let step = Authorizer::new(table, &location.key("authorize"), shared.resources);
            Some(Arc::new(step.map_err(|more| problems.extend(more)).ok()?))
        });
        Self { maintenance, rules, cors, basic_auth, forward_auth, authorize }
    }

    /// Makes the steps those for all sites.
    pub(super) fn for_all(self) -> Self {
        Self {
            maintenance: self.maintenance,
            rules: self.rules.for_all(),
            cors: self.cors,
            basic_auth: self.basic_auth.for_all(),
            forward_auth: self.forward_auth.for_all(),
            authorize: self.authorize.for_all(),
        }
    }

    /// Returns the step that changes all responses, also those of the server itself.
    pub(super) fn around_errors(&self) -> Option<Planned> {
        self.cors.clone().map(|cors| planned(StepKind::CorsHeaders, CorsFields(cors)))
    }

    /// Returns the steps before the limits: those that cost the least, and the responses to preflight requests.
    pub(super) fn before_limits(&self) -> impl Iterator<Item = Planned> {
        let maintenance = self.maintenance.clone().map(|step| (StepKind::Maintenance, step));
        let rules = self.rules.iter().map(|step| (StepKind::Access, step.clone()));
        let preflight = self.cors.clone().map(|cors| planned(StepKind::CorsPreflight, Preflight(cors)));
        maintenance.into_iter().chain(rules).chain(preflight)
    }

    /// Returns the steps that verify users. Attempts that fail count against `limits`.
    pub(super) fn logins(&self, limits: &LoginLimits) -> impl Iterator<Item = Planned> {
        let basic_auth = self.basic_auth.iter();
        let basic_auth = basic_auth.map(|step| planned(StepKind::BasicAuth, step.limited(limits)));
        let forward_auth = self.forward_auth.iter().map(|step| (StepKind::ForwardAuth, step.clone()));
        let authorize = self.authorize.iter().map(|step| (StepKind::Authorize, step.clone()));
        basic_auth.chain(forward_auth).chain(authorize)
    }

    /// Whether an authorizer is asked about requests.
    pub(super) fn has_authorizer(&self) -> bool {
        self.forward_auth.iter().chain(self.authorize.iter()).next().is_some()
    }
}

/// Returns the step that removes the fields in which the logins of a site and its routes name users.
pub(super) fn without_user_fields(config: &Config, site: &config::Site) -> Option<Arc<dyn Step>> {
    let tables =
        [&config.defaults.steps, &site.steps].into_iter().chain(site.routes.iter().map(|route| &route.steps));
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
