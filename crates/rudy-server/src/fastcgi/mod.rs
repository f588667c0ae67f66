//! The `fastcgi` handler: requests go to an app, and its answers to the client.
//!
//! A request's way through it:
//!
//! 1. [`script`]: the path names a script and what follows it; there is one in the [`folder`].
//! 2. [`buffer`](crate::buffer): the body is stored, so that a slow client holds no connection. Then it is an [`upload`].
//! 3. [`pool`]: a [`connection`] to the app, kept, new, or after a wait in the queue. Each carries one request at a time.
//! 4. [`params`]: the variables of the request. [`exchange`]: they and the body are sent, the response is received.
//! 5. [`response`]: its head becomes that of the response for the client. The body is passed on as it comes, and read ahead
//!    where the client is slower than the app. Lines for the log go there ([`mod@stderr`]).
//! 6. Or the app names what responds in its place: another path of the site ([`internal_redirect`]), or a file ([`sendfile`]).
//! 7. No response: a [`failure`], and whose fault it is.
//!
//! Before all that, and before any other handler, an app may be asked whether the request may come in ([`authorize`]): over the
//! same connections, as an [`app`] in another role.

mod app;
mod apps;
mod authorize;
mod connection;
mod exchange;
mod failure;
mod folder;
mod output;
mod params;
mod pool;
mod processes;
mod request_info;
mod response;
mod script;
mod sendfile;
mod stderr;
mod table;
mod upload;
mod values;

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use http::request::Parts;
use http::{Method, StatusCode, header};
use http_body::Body as _;
use rudy_fastcgi::Role;
use rudy_fastcgi::cgi::{Head, ResponseKind};
use rudy_http::semantics::path::{PathBelow, PathError};
use rudy_net::{Client, Reply, Request, RequestBody, Response};

use self::app::App;
pub use self::apps::Apps;
pub(crate) use self::authorize::Authorizer;
use self::failure::Failure;
use self::folder::ScriptFolder;
use self::params::{Constants, Params, Subject};
pub(crate) use self::processes::{only_root_starts_as, problems as problems_of_processes};
use self::response::Begun;
pub(crate) use self::script::Script;
use self::sendfile::Sendfile;
pub use self::table::FastcgiTable;
pub(crate) use self::table::PHP_SUFFIX;
use self::upload::Upload;
use crate::config::{FilePath, Location, Problem};
use crate::files::access::Access;
use crate::files::{Folders, Kind};
use crate::handlers::{Call, Handler, Start};
use crate::methods::APP_METHODS;
use crate::routes::{Context, Routes};
use crate::routing::PathPattern;
use crate::{internal_redirect, pages};

/// An app and what it is told. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Fastcgi(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    app: App,
    /// The folder of the scripts, if it is looked into before the app is asked.
    scripts: Option<ScriptFolder>,
    script_suffix: Option<String>,
    constants: Constants,
    /// The files that the app may have sent.
    sendfile: Option<Sendfile>,
    /// Bodies are stored before the app receives them.
    request_buffering: bool,
    /// Those without a length are stored in any case.
    buffer_chunked: bool,
    /// Bytes of a response that may be in a file.
    response_buffer: u64,
}

impl Handler for Fastcgi {
    fn call(&self, request: Request, call: Call<'_>) -> Reply {
        self.respond(request, call.below(), call.route.pattern, call.context)
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        Self::start(self, start)
    }

    fn methods(&self) -> &'static str {
        APP_METHODS
    }
}

impl Fastcgi {
    /// Makes the app's pool ready. Nothing is connected to yet.
    pub(crate) fn new(
        table: &FastcgiTable,
        location: &Location,
        folders: &Folders,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = table.problems(location);
        let scripts = table
            .root
            .as_ref()
            .filter(|_| table.check_scripts)
            .map(|root| ScriptFolder::open(root, table.follow_symlinks, folders));
        let scripts = scripts.transpose().map_err(|error| {
            let help = "the app is asked only for scripts that are there; where they are on another machine, \
                        `check_scripts = false` has them passed on unseen";
            vec![error.problem(location).help(help)]
        });
        match (scripts, open_sendfile(table, location, folders)) {
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
        location: &Location,
        folders: &Folders,
    ) -> Result<Self, Vec<Problem>> {
        let scripts = ScriptFolder::open(root, table.follow_symlinks, folders);
        let scripts = scripts.map_err(|error| vec![error.problem(location)])?;
        Ok(Self::ready(table, Some(scripts), open_sendfile(table, location, folders)?))
    }

    fn ready(table: &FastcgiTable, scripts: Option<ScriptFolder>, sendfile: Option<Sendfile>) -> Self {
        // The app works elsewhere: a path from where we are would lead it astray.
        let ours =
            || table.root.as_ref().map(|root| std::path::absolute(root).unwrap_or_else(|_| root.0.clone()));
        let root = table.upstream_root.clone().or_else(ours);
        let root = root.map(|root| root.to_string_lossy().trim_end_matches('/').to_owned());
        Self(Arc::new(Shared {
            app: App::new(&table.app, &table.app.name()),
            scripts,
            sendfile,
            script_suffix: table.script_suffix.clone(),
            constants: Constants::new(root, table.params.clone().into_iter().collect()),
            request_buffering: table.request_buffering,
            buffer_chunked: table.buffer_chunked,
            response_buffer: table.response_buffer.0,
        }))
    }

    /// Starts the app's processes, where Rudy does, and says in the log what the app says, and why it gave no response.
    ///
    /// # Errors
    ///
    /// As [`App::start`].
    pub(crate) fn start(&self, start: &Start<'_>) -> io::Result<()> {
        if let Some(sendfile) = &self.0.sendfile {
            sendfile.log_to(start.log.clone());
        }
        self.0.app.log_to(start.log.clone());
        self.0.app.start(start.apps, start.log)
    }

    /// Answers a request that `pattern` of its route has taken; `path` is the part of its path below the route.
    fn respond(
        &self,
        request: Request,
        path: PathBelow<'_>,
        pattern: &PathPattern,
        context: Context<'_>,
    ) -> Reply {
        let script = match self.script(path, pattern) {
            Ok(script) => script,
            Err(refusal) => {
                let explanation = format!("Bad request: {refusal}.");
                return pages::error(StatusCode::BAD_REQUEST, request.headers(), &explanation).into();
            }
        };
        let Some(script) = script else { return not_found(&request) };
        let is_there = match &self.0.scripts {
            Some(_) => {
                std::str::from_utf8(script.file()).map_or(Ok(None), |file| self.kind(file, context.access))
            }
            None => Ok(Some(Kind::File)),
        };
        match is_there {
            Ok(Some(Kind::File)) => self.run(request, script, context),
            Ok(_) => not_found(&request),
            Err(failure) if failure.would_block(context.access) => {
                context.reply_on_pool(request, path.whole().clone().into_owned())
            }
            Err(failure) => self.refuse(&request, context.client, &failure).into(),
        }
    }

    /// Asks the app to run a script. The routes of `context` answer in its place, if it says so.
    pub(crate) fn run(&self, request: Request, script: Script, context: Context<'_>) -> Reply {
        let (head, body) = request.into_parts();
        let (client, routes) = (context.client.to_owned(), context.routes.clone());
        let request = AppRequest { shared: self.0.clone(), head, client, script, routes };
        // By reference: the future of a method that takes it would have it twice.
        Reply::Later(Box::pin(async move { request.respond(body).await }))
    }

    /// What there is at a path beneath the folder of the scripts, with or without a slash before it.
    pub(crate) fn kind(&self, path: &str, access: Access) -> Result<Option<Kind>, Failure> {
        let Some(scripts) = &self.0.scripts else { return Ok(None) };
        let path = path.trim_start_matches('/');
        scripts.kind(path, access).map_err(|error| Failure::Script(scripts.path().join(path), error.into()))
    }

    /// The answer where nobody could be asked, which is said in the log.
    pub(crate) fn refuse(&self, request: &Request, client: &Client, failure: &Failure) -> Response {
        self.0.app.info(request.method(), request.uri(), client).log_failure(failure);
        failure.answer(request.headers())
    }

    fn script(&self, path: PathBelow<'_>, pattern: &PathPattern) -> Result<Option<Script>, PathError> {
        match &self.0.script_suffix {
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
    location: &Location,
    folders: &Folders,
) -> Result<Option<Sendfile>, Vec<Problem>> {
    let open = |root: &FilePath| Sendfile::open(root, table, folders);
    let opened = table.sendfile_root.as_ref().map(open).transpose();
    opened.map_err(|error| vec![Problem::value(&location.key("sendfile_root"), error.to_string())])
}

fn not_found(request: &Request) -> Reply {
    let explanation = "The requested URL was not found on this server.";
    pages::error(StatusCode::NOT_FOUND, request.headers(), explanation).into()
}

/// A request to an app.
struct AppRequest {
    shared: Arc<Shared>,
    head: Parts,
    client: Client<'static>,
    script: Script,
    routes: Arc<Routes>,
}

/// What the head of an app's response leads to.
enum Lead<'a> {
    /// The body behind it.
    Here(Begun),
    /// The response of a file or of another route.
    Elsewhere(Pin<Box<dyn Future<Output = Result<Response, Failure>> + Send + 'a>>),
}

impl AppRequest {
    async fn respond(&self, body: RequestBody) -> Response {
        match self.ask(body).await {
            Ok(response) => response,
            Err(failure) => {
                let Self { shared, head, client, .. } = self;
                shared.app.info(&head.method, &head.uri, client).log_failure(&failure);
                failure.answer(&head.headers)
            }
        }
    }

    async fn ask(&self, body: RequestBody) -> Result<Response, Failure> {
        let Self { shared, head, client, script, routes } = self;
        let mut upload = if self.stores(&body) {
            Upload::stored(Box::pin(routes.buffers.gather(body)).await?)
        } else {
            Upload::of_client(body)
        };
        let params = Params {
            head,
            client,
            subject: Subject::Script(script),
            content_length: upload.length(),
            constants: &shared.constants,
        };
        let begun = shared.app.ask(Role::Responder, &params, &mut upload, head.method.is_safe()).await?;
        match self.read_head(begun) {
            Lead::Here(begun) => begun.into_response(&head.method, &routes.buffers, shared.response_buffer),
            Lead::Elsewhere(response) => response.await,
        }
    }

    /// Follows the head of the app's response: to a file, or to another path of the site. That is rare, and has a future of its
    /// own, so that the others need no room for it.
    fn read_head(&self, mut begun: Begun) -> Lead<'_> {
        if begun.head.has_instructions
            && let Some(file) = sendfile::Wanted::take(&mut begun.head.fields)
        {
            return Lead::Elsewhere(Box::pin(self.send_file(begun.discard(), file)));
        }
        match &begun.head.kind {
            ResponseKind::Document(_) => Lead::Here(begun),
            ResponseKind::LocalRedirect(target) => {
                let target = target.clone();
                begun.discard();
                Lead::Elsewhere(Box::pin(self.redirect(target)))
            }
        }
    }

    async fn send_file(&self, head_of_app: Head, file: sendfile::Wanted) -> Result<Response, Failure> {
        let sendfile = self.shared.sendfile.as_ref().ok_or_else(|| file.off())?;
        sendfile.send(&self.head, head_of_app, &file).await
    }

    /// Whether the body is stored before a connection to the app is taken. Only one without a length may be endless; what its
    /// client says of that counts only where the app takes such bodies, or any client could have its body passed on slowly.
    fn stores(&self, body: &RequestBody) -> bool {
        let Shared { request_buffering, buffer_chunked, .. } = *self.shared;
        let is_stored = match body.size_hint().exact() {
            Some(_) => request_buffering,
            None => buffer_chunked || request_buffering && !may_be_endless(&self.head),
        };
        is_stored && !body.is_end_stream()
    }

    /// Answers as if the client had asked for another path.
    async fn redirect(&self, target: String) -> Result<Response, Failure> {
        let Some(request) = internal_redirect::for_target(&self.head, &target) else {
            return Err(Failure::Redirects(target));
        };
        let Self { client, routes, .. } = self;
        let reply = Context { client, routes, access: Access::Cached }.reply(request);
        Ok(reply.response().await)
    }
}

/// Whether the body of a request may go on for as long as its client likes, and wait for the response.
fn may_be_endless(head: &Parts) -> bool {
    let is_grpc = |media_type: &header::HeaderValue| media_type.as_bytes().starts_with(b"application/grpc");
    head.method == Method::CONNECT
        || head.headers.contains_key(header::UPGRADE)
        || head.headers.get(header::CONTENT_TYPE).is_some_and(is_grpc)
}

#[cfg(test)]
mod tests {
    use rudy_http::semantics::path::RequestPath;

    use super::*;
    use crate::buffer::Buffers;
    use crate::routing::{Hosts, Router};

    #[test]
    fn an_app_is_told_where_its_scripts_are_from_everywhere() {
        let told =
            |table: &FastcgiTable| Fastcgi::ready(table, None, None).0.constants.root().map(str::to_owned);
        let mut table = FastcgiTable { root: Some("src/".into()), ..FastcgiTable::default() };
        let here = std::env::current_dir().unwrap().join("src");
        assert_eq!(told(&table), Some(here.display().to_string()));
        table.upstream_root = Some("/var/www/html/".into());
        assert_eq!(told(&table).as_deref(), Some("/var/www/html"));
    }

    #[test]
    fn the_script_is_the_path_of_the_route_or_what_ends_as_scripts_do() {
        for (pattern, script_suffix, path, expected) in [
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
            let script_suffix = script_suffix.map(str::to_owned);
            let app = Fastcgi::ready(&FastcgiTable { script_suffix, ..FastcgiTable::default() }, None, None);
            let pattern: PathPattern = pattern.parse().unwrap();
            let path = RequestPath::parse(path).unwrap();
            let script = app.script(path.below(pattern.mount()), &pattern).unwrap();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let found = script.map(|script| (text(&script.name), text(&script.path_info)));
            let expected = expected.map(|(name, path_info)| (name.to_owned(), path_info.to_owned()));
            assert_eq!(found, expected, "{pattern} {path:?}");
        }
    }

    /// Beyond 1,032 bytes the allocator keeps no free block for the next request, and a thousand requests wait at a time.
    #[test]
    fn a_request_that_waits_has_a_small_future() {
        let request = AppRequest {
            shared: Fastcgi::ready(&FastcgiTable::default(), None, None).0,
            head: http::Request::new(()).into_parts().0,
            client: Client::new(rudy_net::Peer::Unix, 1, 1),
            script: Script::until(RequestPath::parse("/a").unwrap().below(0), 2).unwrap(),
            routes: Arc::new(Routes {
                router: Arc::new(Router::new(Hosts::default(), Vec::new())),
                metrics: Arc::default(),
                topics: Arc::default(),
                buffers: Buffers::default(),
            }),
        };
        let future = async move { request.respond(RequestBody::empty()).await };
        assert!(size_of_val(&future) <= 1032, "{} bytes", size_of_val(&future));
    }
}
