//! The tasks that keep certificates valid: one for each name, so that a failing name does not hold up the others.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rudy_acme::{
    Account, AccountRequest, Authority, ChallengeKind, Exchange, Failure, Internet, terms_of_service,
};
use rudy_log::ErrorLog;
use rudy_runtime::spawn_on;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;

use super::folder::{Folder, write};
use super::hook::Hook;
use super::keeper::keep;
use super::{Acme, AcmeTable};

/// How certificates are ordered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) authority: Authority,
    /// The authority that is asked after failures, until it can verify a name.
    pub(super) test: Option<Authority>,
    account: AccountRequest,
    pub(super) profile: Option<String>,
    pub(super) hook: Option<Hook>,
}

/// The certificates of a configuration.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// A certificate for each.
    pub names: Vec<String>,
    /// How they are ordered.
    pub table: &'a AcmeTable,
    /// Whether an address accepts plain HTTP, on which an authority can verify a name.
    pub has_http: bool,
}

/// What the tasks share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) acme: Arc<Acme>,
    pub(super) errors: ErrorLog,
    exchange: Arc<dyn Exchange>,
    /// By directory.
    accounts: Mutex<HashMap<String, Account>>,
    /// Ends the pauses after failures.
    pub(super) retry: Notify,
}

/// How long a stop waits until the tasks have released their locks. The locks of a state folder that hangs expire.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// The tasks of a process. Dropping it ends them.
#[derive(Debug)]
pub struct Renewals {
    /// What takes requests to authorities.
    exchange: Arc<dyn Exchange>,
    /// The thread of the tasks, once there are any: they wait for the state folder, which may be on a network, and the main thread
    /// handles signals meanwhile.
    runtime: Option<Runtime>,
    shared: Option<Arc<Shared>>,
    /// By name and its challenges.
    tasks: HashMap<(String, Vec<ChallengeKind>), JoinHandle<()>>,
}

/// Creates the folders for certificates, if the configuration needs them.
///
/// # Errors
///
/// A sentence: there is no state folder, or it cannot be written.
pub fn prepare(wanted: &Wanted<'_>, acme: &Acme) -> Result<(), String> {
    const HELP: &str = "give the folder to the user of Rudy (`chown -R`), or set `StateDirectory=rudy` in the systemd unit, or \
                        $STATE_DIRECTORY";
    if wanted.names.is_empty() {
        return Ok(());
    }
    let folder = acme.folder.as_ref().ok_or_else(|| format!("there is no state folder; {HELP}"))?;
    folder.create().map_err(|(path, error)| format!("cannot create {}: {error}; {HELP}", path.display()))
}

impl Default for Renewals {
    fn default() -> Self {
        Self::over(Arc::new(Internet))
    }
}

impl Renewals {
    /// No tasks yet. What they ask of authorities goes this way.
    pub fn over(exchange: Arc<dyn Exchange>) -> Self {
        Self { exchange, runtime: None, shared: None, tasks: HashMap::new() }
    }

    /// Keeps the certificates of this configuration valid, and those of the last one no longer. Names that have failed are tried
    /// again at once.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub fn set(&mut self, wanted: Wanted<'_>, acme: &Arc<Acme>, errors: &ErrorLog) -> io::Result<()> {
        let Wanted { names, table, has_http } = wanted;
        let settings = Settings::new(table);
        let is_same = self.shared.as_ref().is_some_and(|shared| shared.settings == settings);
        let shared = self.shared.take().filter(|_| is_same);
        let new = || Shared::new(settings, acme.clone(), errors.clone(), self.exchange.clone());
        let shared = shared.unwrap_or_else(|| Arc::new(new()));
        let wanted: Vec<_> = names
            .into_iter()
            .map(|name| {
                let kinds = table.kinds(&name, has_http);
                (name, kinds)
            })
            .collect();
        self.tasks.retain(|key, task| {
            let stays = is_same && wanted.contains(key);
            if !stays {
                task.abort();
            }
            stays
        });
        shared.retry.notify_waiters();
        if wanted.is_empty() && self.runtime.is_none() {
            return Ok(());
        }
        let runtime = self.runtime()?;
        for key in wanted {
            self.tasks.entry(key).or_insert_with_key(|(name, kinds)| {
                spawn_on(&runtime, keep(name.clone(), kinds.clone(), shared.clone()))
            });
        }
        self.shared = Some(shared);
        Ok(())
    }

    /// Returns the thread of the tasks, which a simulation does not have.
    fn runtime(&mut self) -> io::Result<Handle> {
        if rudy_runtime::current().is_some() {
            return Ok(Handle::current());
        }
        let build = || Builder::new_multi_thread().worker_threads(1).thread_name("acme").enable_all().build();
        let runtime = self.runtime.take().map_or_else(build, Ok)?;
        Ok(self.runtime.insert(runtime).handle().clone())
    }
}

impl Drop for Renewals {
    fn drop(&mut self) {
        self.tasks.values().for_each(JoinHandle::abort);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(RELEASE_TIMEOUT);
        }
    }
}

impl Settings {
    fn new(acme: &AcmeTable) -> Self {
        Self {
            authority: acme.authority(),
            test: acme.test_authority(),
            // An invalid key was reported.
            account: acme.account().unwrap_or_default(),
            profile: acme.profile.clone(),
            hook: acme.hook(),
        }
    }
}

impl Shared {
    fn new(settings: Settings, acme: Arc<Acme>, errors: ErrorLog, exchange: Arc<dyn Exchange>) -> Self {
        Self { settings, acme, errors, exchange, accounts: Mutex::default(), retry: Notify::new() }
    }

    /// The directory whose certificates are served.
    pub(super) fn directory(&self) -> &str {
        &self.settings.authority.directory
    }

    pub(super) fn folder(&self) -> Result<&Folder, Failure> {
        self.acme.folder.as_ref().ok_or_else(|| Failure::local("there is no state folder"))
    }

    /// Returns the account at an authority: the stored one, or a new one.
    pub(super) async fn account(&self, authority: &Authority) -> Result<Account, Failure> {
        let mut accounts = self.accounts.lock().await;
        if let Some(account) = accounts.get(&authority.directory) {
            return Ok(account.clone());
        }
        let path = self.folder()?.account(&authority.directory);
        let account = match fs::read_to_string(&path) {
            Ok(stored) => Account::restore(&self.exchange, authority, &stored).await?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.create_account(authority, path).await?
            }
            Err(error) => return Err(Failure::local(format!("cannot read {}: {error}", path.display()))),
        };
        accounts.insert(authority.directory.clone(), account.clone());
        Ok(account)
    }

    async fn create_account(&self, authority: &Authority, path: PathBuf) -> Result<Account, Failure> {
        let (account, stored) = Account::create(&self.exchange, authority, &self.settings.account).await?;
        let terms = terms_of_service(&self.exchange, authority).await.ok().flatten();
        let terms = terms
            .map_or_else(String::new, |url| format!("; with it you agree to its terms of service: {url}"));
        write(&path, stored.as_bytes(), true).map_err(Failure::local)?;
        let directory = &authority.directory;
        self.errors.notice(&format!("created an account at {directory}, kept in {}{terms}", path.display()));
        Ok(account)
    }

    /// Forgets an account that the authority does not know, so that the next attempt creates one.
    pub(super) async fn forget_account(&self, authority: &Authority) {
        self.accounts.lock().await.remove(&authority.directory);
        if let Ok(folder) = self.folder() {
            let _ = fs::remove_file(folder.account(&authority.directory));
        }
    }
}
