//! The steps that decide who may send requests.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rudy_config::{Location, OrOff, Problem};
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
        let mut files = self.password_files.lock();
        if let Some(file) = files.get(path) {
            return Ok(file.clone());
        }
        let file = Arc::new(PasswordFile::read(path)?);
        let watched = self.resources.of::<WatchedFiles>();
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
            Ok(file) => Some(BasicAuth::new(table, file, self.resources.of(), self.password_threads)),
            Err(faults) => {
                let title = format!("cannot use the users of {}", table.file.display());
                let problem = |why| Problem::value(&location.key("file"), title.clone()).label(why);
                problems.extend(faults.into_iter().map(problem));
                None
            }
        }
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
            Some(Arc::new(Maintenance::new(table, &shared.resources.of())))
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
