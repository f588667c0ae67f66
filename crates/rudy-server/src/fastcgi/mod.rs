//! The `fastcgi` handler: requests go to an app, and its answers to the client.
//!
//! A request's way through it:
//!
//! 1. [`script`]: the path names a script and what follows it.
//! 2. [`spill`]: a body without a length is gathered, if the app has to know that.
//! 3. [`pool`]: a connection to the app, kept, new, or after a wait in the queue. It is a [`link`] to an [`upstream`].
//! 4. [`params`]: the app is told of the request. [`exchange`]: the body goes up while the answer comes down.
//! 5. [`answer`]: the head becomes that of an answer, the rest is passed on as it comes. What the app says beside it goes to the
//!    log ([`mod@stderr`]).
//! 6. Or it says what is to answer in its place: another path of the site ([`redirect`]), or a file ([`sendfile`]).
//! 7. No answer: a [`failure`], and whose fault it is.

mod answer;
mod apps;
mod exchange;
mod failure;
mod link;
mod params;
mod pool;
mod processes;
mod redirect;
mod script;
mod sendfile;
mod spill;
mod stderr;
mod upstream;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::request::Parts;
use http::{Method, StatusCode, Uri};
use http_body::Body as _;
use rudy_fastcgi::cgi::Answer;
use rudy_fastcgi::{Limits, Role};
use rudy_http::semantics::path::PathError;
use rudy_net::{Client, Reply, Request, RequestBody, Response};

pub use self::apps::Apps;
use self::exchange::Exchange;
use self::failure::Failure;
use self::params::Params;
use self::pool::{Lease, Pool, PoolOptions, Wanted};
use self::processes::ProcessOptions;
pub(crate) use self::script::Script;
use self::sendfile::Sendfile;
use self::spill::{Spill, Upload};
use self::stderr::Stderr;
pub use self::upstream::Upstream;
use crate::config::files::problem_of;
use crate::config::{FastcgiTable, Place, Problem};
use crate::error_log::ErrorLog;
use crate::files::{FilesError, Kind, Root};
use crate::pages;
use crate::routes::Routes;
use crate::routing::{CanonicalPath, PathPattern};

/// How long it may go unnoticed that the path of a folder of scripts leads elsewhere, as for files.
const SCRIPTS_CHECK_MS: u64 = 1000;

/// An app and what it is told. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Fastcgi(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    table: FastcgiTable,
    /// Opened when a server starts, and not when a configuration is only looked at.
    pool: OnceLock<Arc<Pool>>,
    name: String,
    /// The folder of the scripts as the app sees it.
    root: Option<String>,
    /// The same folder, if it is looked into before the app is asked.
    scripts: Option<Root>,
    split: Option<String>,
    extra: Vec<(String, String)>,
    /// The files that the app may have sent.
    sendfile: Option<Sendfile>,
    /// Where bodies without a length are gathered; nowhere if the app takes them as they come.
    spill: Option<Spill>,
    limits: Limits,
    answer_time: Duration,
    log: OnceLock<ErrorLog>,
}

impl Fastcgi {
    /// Makes the app's pool ready. Nothing is connected to yet.
    pub(crate) fn new(table: &FastcgiTable, place: &Place) -> Result<Self, Vec<Problem>> {
        let mut problems = table.problems(place);
        let is_checked = table.check_scripts && table.split.is_some();
        let scripts = table.root.as_ref().filter(|_| is_checked).map(|root| open_scripts(root, table));
        let scripts = scripts.transpose().map_err(|error| {
            let help = "the app is asked only for scripts that are there; where they are on another machine, \
                        `check_scripts = false` has them passed on unseen";
            vec![problem_of(&error, place).help(help)]
        });
        match (scripts, open_sendfile(table, place)) {
            (Ok(scripts), Ok(sendfile)) if problems.is_empty() => {
                return Ok(Self::ready(table, scripts, sendfile));
            }
            (scripts, sendfile) => {
                problems.extend([scripts.err(), sendfile.err()].into_iter().flatten().flatten());
            }
        }
        Err(problems)
    }

    /// The app of a PHP site, whose scripts are in `root`.
    pub(crate) fn of_php(table: &FastcgiTable, root: &Path, place: &Place) -> Result<Self, Vec<Problem>> {
        let scripts = open_scripts(root, table).map_err(|error| vec![problem_of(&error, place)])?;
        Ok(Self::ready(table, Some(scripts), open_sendfile(table, place)?))
    }

    fn ready(table: &FastcgiTable, scripts: Option<Root>, sendfile: Option<Sendfile>) -> Self {
        // The app works elsewhere: a path from where we are would lead it astray.
        let ours =
            || table.root.as_ref().map(|root| std::path::absolute(root).unwrap_or_else(|_| root.clone()));
        let root = table.app_root.clone().or_else(ours);
        let root = root.map(|root| root.to_string_lossy().trim_end_matches('/').to_owned());
        Self(Arc::new(Shared {
            table: table.clone(),
            pool: OnceLock::new(),
            name: table.name(),
            root,
            scripts,
            sendfile,
            split: table.split.clone(),
            extra: table.params.clone().into_iter().collect(),
            spill: table.needs_length.then(|| Spill::new(table.spill_folder.clone(), table.spill_bytes.0)),
            limits: Limits::default(),
            answer_time: table.answer_time.0,
            log: OnceLock::new(),
        }))
    }

    /// Starts the app's processes, where it is Rudy that does, and goes on with those and with the connections that there are
    /// where the table has not changed.
    ///
    /// # Errors
    ///
    /// The user of the processes is not there or cannot be taken on, or the system has no room for them.
    pub(crate) fn start(&self, apps: &Apps, log: &ErrorLog) -> io::Result<()> {
        let table = &self.0.table;
        let pool = apps.pool(table, || match process_options(table) {
            Some(processes) => Pool::start(processes, pool_options(table), self.0.limits.clone(), log),
            None => Ok(self.0.new_pool()),
        });
        let pool = pool.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.0.name)))?;
        self.0.pool.get_or_init(|| pool);
        Ok(())
    }

    /// Says in `log` what the app says, and why it gave no answer. The first log stays.
    pub(crate) fn log_to(&self, log: ErrorLog) {
        if let Some(sendfile) = &self.0.sendfile {
            sendfile.log_to(log.clone());
        }
        self.0.log.get_or_init(|| log);
    }

    /// Answers a request that `pattern` of its route has taken.
    pub(crate) fn call(
        &self,
        request: Request,
        client: &Client,
        pattern: &PathPattern,
        routes: &Arc<Routes>,
    ) -> Reply {
        let script = match self.script(&request, pattern) {
            Ok(script) => script,
            Err(refusal) => {
                let explanation = format!("Refused: {refusal}.");
                return pages::error(StatusCode::BAD_REQUEST, request.headers(), &explanation).into();
            }
        };
        let Some(script) = script else { return not_found(&request) };
        let is_there = match &self.0.scripts {
            Some(_) => self.kind(script.file().trim_start_matches('/')).map(|kind| kind == Some(Kind::File)),
            None => Ok(true),
        };
        match is_there {
            Ok(true) => self.run(request, client, script, routes),
            Ok(false) => not_found(&request),
            Err(failure) => self.refuse(&request, client, &failure).into(),
        }
    }

    /// Asks the app to run a script. `routes` answer in its place, if it says so.
    pub(crate) fn run(
        &self,
        request: Request,
        client: &Client,
        script: Script,
        routes: &Arc<Routes>,
    ) -> Reply {
        let (head, body) = request.into_parts();
        let routes = routes.clone();
        let asked = Asked { shared: self.0.clone(), head, client: *client, script, routes };
        Reply::WhileWanted(Box::pin(asked.answer(body)))
    }

    /// What there is at a path beneath the folder of the scripts.
    pub(crate) fn kind(&self, path: &str) -> Result<Option<Kind>, Failure> {
        let Some(scripts) = &self.0.scripts else { return Ok(None) };
        scripts.kind(path).map_err(|error| Failure::Script(scripts.path().join(path), error.into()))
    }

    /// The answer where nobody could be asked, which is said in the log.
    pub(crate) fn refuse(&self, request: &Request, client: &Client, failure: &Failure) -> Response {
        say(self.0.log.get(), &self.0.whose(request.method(), request.uri(), client), failure);
        failure.answer(request.headers())
    }

    fn script(&self, request: &Request, pattern: &PathPattern) -> Result<Option<Script>, PathError> {
        let path = request.uri().path();
        let below = pattern.strip(path);
        let path = CanonicalPath::parse(path)?;
        // Nothing has no spelling.
        let below = if below.is_empty() { 0 } else { CanonicalPath::parse(&below)?.as_str().len() };
        Ok(match &self.0.split {
            Some(ending) => Script::split(path.as_str(), below, ending),
            None if pattern.is_prefix() => Some(Script::mounted(path.as_str(), below)),
            // All of it is the route's.
            None => Some(Script::mounted(path.as_str(), 0)),
        })
    }
}

fn open_scripts(root: &Path, table: &FastcgiTable) -> Result<Root, FilesError> {
    Root::open(root, table.follow_symlinks, SCRIPTS_CHECK_MS)
}

fn open_sendfile(table: &FastcgiTable, place: &Place) -> Result<Option<Sendfile>, Vec<Problem>> {
    let open = |root: &PathBuf| Sendfile::open(root, table);
    let opened = table.sendfile_root.as_ref().map(open).transpose();
    opened.map_err(|error| vec![Problem::value(&place.key("sendfile_root"), error.to_string())])
}

fn not_found(request: &Request) -> Reply {
    let explanation = "There is nothing at this address.";
    pages::error(StatusCode::NOT_FOUND, request.headers(), explanation).into()
}

fn pool_options(table: &FastcgiTable) -> PoolOptions {
    PoolOptions {
        connections: table.connections() as usize,
        queue: table.queue as usize,
        queue_time: table.queue_time.0,
        connect_time: table.connect_time.0,
        keep_time: table.keep_time.0,
        requests_per_process: table.processes.requests,
    }
}

fn process_options(table: &FastcgiTable) -> Option<ProcessOptions> {
    let processes = &table.processes;
    Some(ProcessOptions {
        name: table.name(),
        command: table.command.clone()?,
        min: processes.min,
        max: processes.max,
        environment: processes.environment.clone(),
        user: processes.user.clone(),
        folder: processes.folder.clone(),
        idle_time: processes.idle_time.map(|time| time.0),
        retire_time: processes.retire_time.0,
        stop_time: processes.stop_time.0,
    })
}

impl Shared {
    fn new_pool(&self) -> Arc<Pool> {
        Pool::new(&self.table.addresses(), pool_options(&self.table), self.limits.clone())
    }

    fn pool(&self) -> &Arc<Pool> {
        self.pool.get_or_init(|| self.new_pool())
    }

    /// Which app, and which request of whom, for the log.
    fn whose(&self, method: &Method, uri: &Uri, client: &Client) -> String {
        format!("{}: {} {} of {}", self.name, method, uri.path(), client.peer)
    }
}

/// A request that an app is asked.
struct Asked {
    shared: Arc<Shared>,
    head: Parts,
    client: Client,
    script: Script,
    routes: Arc<Routes>,
}

impl Asked {
    async fn answer(self, body: RequestBody) -> Response {
        match self.ask(body).await {
            Ok(response) => response,
            Err(failure) => {
                self.say(&failure);
                failure.answer(&self.head.headers)
            }
        }
    }

    async fn ask(&self, body: RequestBody) -> Result<Response, Failure> {
        let shared = &self.shared;
        // A connection that was kept may turn out dead; what can be said twice without harm is then said on a new one.
        let body = match &shared.spill {
            Some(spill) if body.size_hint().exact().is_none() => Upload::Gathered(spill.gather(body).await?),
            _ => Upload::Client(body),
        };
        let is_repeatable = self.head.method.is_idempotent() && body.is_empty();
        let wanted = if is_repeatable { Wanted::Any } else { Wanted::Alive };
        let lease = shared.pool().lease(wanted).await?;
        let is_kept = lease.is_kept;
        let mut begun = match self.begin(lease, body).await {
            Err(failure) if failure.is_of_connection() && is_kept && is_repeatable => {
                let lease = shared.pool().lease(Wanted::New).await?;
                self.begin(lease, Upload::empty()).await?
            }
            begun => begun?,
        };
        if let Some(file) = sendfile::Wanted::take(&mut begun.head.fields) {
            let head = begun.discard().await;
            let sendfile = shared.sendfile.as_ref().ok_or_else(|| file.off())?;
            return sendfile.send(&self.head, head, &file).await;
        }
        if let Answer::LocalRedirect(target) = &begun.head.kind {
            let target = target.clone();
            begun.discard().await;
            return self.redirect(target).await;
        }
        let log = shared.log.get().cloned();
        let whose = self.whose();
        let on_failure = Box::new(move |failure: &Failure| say(log.as_ref(), &whose, failure));
        begun.into_response(&self.head.method, on_failure).await
    }

    /// Answers as if the client had asked for another path.
    async fn redirect(&self, target: String) -> Result<Response, Failure> {
        let Some(request) = redirect::instead(&self.head, &target) else {
            return Err(Failure::Redirects(target));
        };
        Ok(match self.routes.reply(request, &self.client) {
            Reply::Now(response) => response,
            Reply::Later(response) | Reply::WhileWanted(response) => response.await,
        })
    }

    async fn begin(&self, lease: Lease, body: Upload) -> Result<answer::Begun, Failure> {
        let shared = &self.shared;
        let params = Params {
            head: &self.head,
            client: self.client,
            script: &self.script,
            root: shared.root.as_deref(),
            content_length: body.length(),
            extra: &shared.extra,
        };
        let stderr = Stderr::new(shared.log.get().cloned(), self.whose());
        let limits = shared.limits.clone();
        let exchange =
            Exchange::begin(lease, Role::Responder, &params, body, limits, shared.answer_time, stderr)?;
        answer::begin(exchange, &shared.limits).await
    }

    /// Which app, and which request of whom, for the log.
    fn whose(&self) -> String {
        self.shared.whose(&self.head.method, &self.head.uri, &self.client)
    }

    fn say(&self, failure: &Failure) {
        say(self.shared.log.get(), &self.whose(), failure);
    }
}

fn say(log: Option<&ErrorLog>, whose: &str, failure: &Failure) {
    let Some(log) = log else { return };
    let line = format!("{whose}: {failure}");
    if failure.is_clients() { log.client(failure.kind(), &line) } else { log.repeated(failure.kind(), &line) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_is_told_where_its_scripts_are_from_everywhere() {
        let told = |table: &FastcgiTable| Fastcgi::ready(table, None, None).0.root.clone();
        let mut table = FastcgiTable::php("src/");
        let here = std::env::current_dir().unwrap().join("src");
        assert_eq!(told(&table), Some(here.display().to_string()));
        table.app_root = Some("/var/www/html/".into());
        assert_eq!(told(&table).as_deref(), Some("/var/www/html"));
    }

    #[test]
    fn the_script_is_the_path_of_the_route_or_what_ends_as_scripts_do() {
        for (pattern, split, path, expected) in [
            ("/app/*", None, "/app/a/b", Some(("/app", "/a/b"))),
            ("/app/*", None, "/app", Some(("/app", ""))),
            ("/app/*", None, "/%61pp//a%20b/", Some(("/app", "/a b/"))),
            ("/*", None, "/a/b", Some(("", "/a/b"))),
            ("/form", None, "/form", Some(("/form", ""))),
            ("*.cgi", None, "/a/x.cgi", Some(("/a/x.cgi", ""))),
            ("*.php", Some(".php"), "/a/x.php", Some(("/a/x.php", ""))),
            ("/app.php/*", Some(".php"), "/app.php/x.php/y", Some(("/app.php/x.php", "/y"))),
            ("/*", Some(".php"), "/a/b", None),
        ] {
            let split = split.map(str::to_owned);
            let app = Fastcgi::ready(&FastcgiTable { split, ..FastcgiTable::default() }, None, None);
            let request = http::Request::builder().uri(path).body(RequestBody::empty()).unwrap();
            let script = app.script(&request, &pattern.parse().unwrap()).unwrap();
            let found = script.as_ref().map(|script| (script.name.as_str(), script.path_info.as_str()));
            assert_eq!(found, expected, "{pattern} {path}");
        }
    }
}
