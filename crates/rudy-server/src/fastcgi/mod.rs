//! The `fastcgi` handler: requests go to an app, and its answers to the client.
//!
//! A request's way through it:
//!
//! 1. [`script`]: the path names a script and what follows it; there is one in the [`folder`].
//! 2. [`spill`]: a body without a length is gathered, if the app has to know that.
//! 3. [`pool`]: a connection to the app, kept, new, or after a wait in the queue. It is a [`link`] over a [`stream`] to an
//!    [`upstream`].
//! 4. [`params`]: the app is told of the request. [`exchange`]: the body goes up while the answer comes down.
//! 5. [`answer`]: the head becomes that of an answer, the rest is passed on as it comes. What the app says beside it goes to the
//!    log ([`mod@stderr`]).
//! 6. Or it says what is to answer in its place: another path of the site ([`internal_redirect`]), or a file ([`sendfile`]).
//! 7. No answer: a [`failure`], and whose fault it is.
//!
//! Before all that, and before any other handler, an app may be asked whether the request may come in ([`authorize`]): over the
//! same connections, as an [`app`] in another role.

mod answer;
mod app;
mod apps;
mod authorize;
mod exchange;
mod failure;
mod folder;
mod link;
mod output;
mod params;
mod pool;
mod processes;
mod script;
mod sendfile;
mod spill;
mod stderr;
mod stream;
mod upstream;
mod whose;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::StatusCode;
use http::request::Parts;
use http_body::Body as _;
use rudy_fastcgi::Role;
use rudy_fastcgi::cgi::Answer;
use rudy_http::semantics::path::{PathBelow, PathError};
use rudy_net::{Client, Local, Reply, Request, RequestBody, Response};

use self::app::App;
pub use self::apps::Apps;
pub(crate) use self::authorize::Authorizer;
use self::failure::Failure;
use self::folder::ScriptFolder;
use self::params::{Params, Subject};
pub(crate) use self::processes::{only_root_starts_as, problems as problems_of_processes, reap_orphans};
pub(crate) use self::script::Script;
use self::sendfile::Sendfile;
use self::spill::{Spill, Upload};
pub use self::upstream::Upstream;
use crate::config::files::problem_of;
use crate::config::{FastcgiTable, Place, Problem};
use crate::error_log::ErrorLog;
use crate::files::{Folders, Kind};
use crate::routes::{Context, Routes};
use crate::routing::PathPattern;
use crate::{internal_redirect, pages};

/// An app and what it is told. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Fastcgi(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    app: App,
    /// The folder of the scripts as the app sees it.
    root: Option<String>,
    /// The same folder, if it is looked into before the app is asked.
    scripts: Option<ScriptFolder>,
    split: Option<String>,
    extra: Vec<(String, String)>,
    /// The files that the app may have sent.
    sendfile: Option<Sendfile>,
    /// Where bodies without a length are gathered; nowhere if the app takes them as they come.
    spill: Option<Spill>,
}

impl Fastcgi {
    /// Makes the app's pool ready. Nothing is connected to yet.
    pub(crate) fn new(table: &FastcgiTable, place: &Place, folders: &Folders) -> Result<Self, Vec<Problem>> {
        let mut problems = table.problems(place);
        let scripts = table
            .root
            .as_ref()
            .filter(|_| table.check_scripts)
            .map(|root| ScriptFolder::open(root, table.follow_symlinks, folders));
        let scripts = scripts.transpose().map_err(|error| {
            let help = "the app is asked only for scripts that are there; where they are on another machine, \
                        `check_scripts = false` has them passed on unseen";
            vec![problem_of(&error, place).help(help)]
        });
        match (scripts, open_sendfile(table, place, folders)) {
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
    pub(crate) fn of_php(
        table: &FastcgiTable,
        root: &Path,
        place: &Place,
        folders: &Folders,
    ) -> Result<Self, Vec<Problem>> {
        let scripts = ScriptFolder::open(root, table.follow_symlinks, folders);
        let scripts = scripts.map_err(|error| vec![problem_of(&error, place)])?;
        Ok(Self::ready(table, Some(scripts), open_sendfile(table, place, folders)?))
    }

    fn ready(table: &FastcgiTable, scripts: Option<ScriptFolder>, sendfile: Option<Sendfile>) -> Self {
        // The app works elsewhere: a path from where we are would lead it astray.
        let ours =
            || table.root.as_ref().map(|root| std::path::absolute(root).unwrap_or_else(|_| root.clone()));
        let root = table.app_root.clone().or_else(ours);
        let root = root.map(|root| root.to_string_lossy().trim_end_matches('/').to_owned());
        Self(Arc::new(Shared {
            app: App::new(&table.app, &table.app.name()),
            root,
            scripts,
            sendfile,
            split: table.split.clone(),
            extra: table.params.clone().into_iter().collect(),
            spill: table.buffer_chunked.then(|| Spill::new(None, 1 << 30)),
        }))
    }

    /// Starts the app's processes, where it is Rudy that does.
    ///
    /// # Errors
    ///
    /// As [`App::start`].
    pub(crate) fn start(&self, apps: &Apps, log: &ErrorLog) -> io::Result<()> {
        self.0.app.start(apps, log)
    }

    /// Says in `log` what the app says, and why it gave no answer. The first log stays.
    pub(crate) fn log_to(&self, log: ErrorLog) {
        if let Some(sendfile) = &self.0.sendfile {
            sendfile.log_to(log.clone());
        }
        self.0.app.log_to(log);
    }

    /// Answers a request that `pattern` of its route has taken; `path` is the part of its path below the route.
    pub(crate) fn call(
        &self,
        request: Request,
        path: PathBelow<'_>,
        pattern: &PathPattern,
        context: Context<'_>,
    ) -> Reply {
        let script = match self.script(path, pattern) {
            Ok(script) => script,
            Err(refusal) => {
                let explanation = format!("Refused: {refusal}.");
                return pages::error(StatusCode::BAD_REQUEST, request.headers(), &explanation).into();
            }
        };
        let Some(script) = script else { return not_found(&request) };
        let is_there = match &self.0.scripts {
            Some(_) => std::str::from_utf8(script.file()).map_or(Ok(None), |file| self.kind(file)),
            None => Ok(Some(Kind::File)),
        };
        match is_there {
            Ok(Some(Kind::File)) => self.run(request, script, context),
            Ok(_) => not_found(&request),
            Err(failure) => self.refuse(&request, context.client, &failure).into(),
        }
    }

    /// Asks the app to run a script. The routes of `context` answer in its place, if it says so.
    pub(crate) fn run(&self, request: Request, script: Script, context: Context<'_>) -> Reply {
        let (head, body) = request.into_parts();
        let Context { client, local, routes } = context;
        let (local, routes) = (local.address(), routes.clone());
        let asked = Asked { shared: self.0.clone(), head, client: *client, local, script, routes };
        Reply::Later(Box::pin(asked.answer(body)))
    }

    /// What there is at a path beneath the folder of the scripts, with or without a slash before it.
    pub(crate) fn kind(&self, path: &str) -> Result<Option<Kind>, Failure> {
        let Some(scripts) = &self.0.scripts else { return Ok(None) };
        let path = path.trim_start_matches('/');
        scripts.kind(path).map_err(|error| Failure::Script(scripts.path().join(path), error.into()))
    }

    /// The answer where nobody could be asked, which is said in the log.
    pub(crate) fn refuse(&self, request: &Request, client: &Client, failure: &Failure) -> Response {
        self.0.app.whose(request.method(), request.uri(), client).say(failure);
        failure.answer(request.headers())
    }

    fn script(&self, path: PathBelow<'_>, pattern: &PathPattern) -> Result<Option<Script>, PathError> {
        match &self.0.split {
            Some(ending) => Script::split(path, ending),
            None if pattern.is_prefix() => Script::mounted(path).map(Some),
            // All of it is the route's.
            None => {
                let whole = 0..path.as_bytes().len();
                path.check_separators(whole.clone())?;
                Script::until(path, whole.end).map(Some)
            }
        }
    }
}

fn open_sendfile(
    table: &FastcgiTable,
    place: &Place,
    folders: &Folders,
) -> Result<Option<Sendfile>, Vec<Problem>> {
    let open = |root: &PathBuf| Sendfile::open(root, table, folders);
    let opened = table.sendfile_root.as_ref().map(open).transpose();
    opened.map_err(|error| vec![Problem::value(&place.key("sendfile_root"), error.to_string())])
}

fn not_found(request: &Request) -> Reply {
    let explanation = "There is nothing at this address.";
    pages::error(StatusCode::NOT_FOUND, request.headers(), explanation).into()
}

/// A request that an app is asked.
struct Asked {
    shared: Arc<Shared>,
    head: Parts,
    client: Client,
    /// Where the client has reached us.
    local: Option<SocketAddr>,
    script: Script,
    routes: Arc<Routes>,
}

impl Asked {
    async fn answer(self, body: RequestBody) -> Response {
        match self.ask(body).await {
            Ok(response) => response,
            Err(failure) => {
                let Self { shared, head, client, .. } = &self;
                shared.app.whose(&head.method, &head.uri, client).say(&failure);
                failure.answer(&head.headers)
            }
        }
    }

    async fn ask(&self, body: RequestBody) -> Result<Response, Failure> {
        let Self { shared, head, client, local, script, .. } = self;
        let body = match &shared.spill {
            Some(spill) if body.size_hint().exact().is_none() => Upload::Gathered(spill.gather(body).await?),
            _ => Upload::Client(body),
        };
        let params = Params {
            head,
            client: *client,
            local: *local,
            subject: Subject::Script(script),
            root: shared.root.as_deref(),
            content_length: body.length(),
            extra: &shared.extra,
        };
        let is_repeatable = head.method.is_safe() && body.is_empty();
        let mut begun = shared.app.ask(Role::Responder, &params, body, is_repeatable).await?;
        if let Some(file) = sendfile::Wanted::take(&mut begun.head.fields) {
            let answer = begun.discard();
            let sendfile = shared.sendfile.as_ref().ok_or_else(|| file.off())?;
            return sendfile.send(head, answer, &file).await;
        }
        if let Answer::LocalRedirect(target) = &begun.head.kind {
            let target = target.clone();
            begun.discard();
            return self.redirect(target).await;
        }
        begun.into_response(&head.method, shared.app.whose(&head.method, &head.uri, client)).await
    }

    /// Answers as if the client had asked for another path.
    async fn redirect(&self, target: String) -> Result<Response, Failure> {
        let Some(request) = internal_redirect::for_target(&self.head, &target) else {
            return Err(Failure::Redirects(target));
        };
        let Self { client, local, routes, .. } = self;
        let reply = {
            let local = &Local::known(*local);
            Context { client, local, routes }.reply(request)
        };
        Ok(reply.response().await)
    }
}

#[cfg(test)]
mod tests {
    use rudy_http::semantics::path::RequestPath;

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
            let pattern: PathPattern = pattern.parse().unwrap();
            let path = RequestPath::parse(path).unwrap();
            let script = app.script(path.below(pattern.mount()), &pattern).unwrap();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let found = script.map(|script| (text(&script.name), text(&script.path_info)));
            let expected = expected.map(|(name, path_info)| (name.to_owned(), path_info.to_owned()));
            assert_eq!(found, expected, "{pattern} {path:?}");
        }
    }
}
