//! The `fastcgi` handler passes requests to a FastCGI application (an app) and its responses to the client.
//!
//! The lifecycle of a request:
//!
//! 1. [`script`] splits the path into a script and its path info. The [`folder`] contains the script.
//! 2. [`buffer`](rudy_client::buffer) stores the body, so that a slow client occupies no connection. An [`Upload`]
//!    reads it.
//! 3. [`pool`] provides a [`connection`] to the app: idle, new, or after a wait in the queue. It carries one
//!    request at a time.
//! 4. [`params`] encodes the variables of the request. [`exchange`] sends them and the body, and receives the
//!    response.
//! 5. [`response`] turns the app's response into that for the client. It passes the body on as it arrives,
//!    and reads ahead if the client is slower than the app. Lines on stderr go to the log ([`mod@stderr`]).
//! 6. Or the app names a replacement: another path of the site ([`internal_redirect`]), or a file
//!    ([`replacement`](rudy_files::replacement)).
//! 7. If there is no response, [`failure`] determines the status and the log line.
//!
//! An app can also authorize requests before any handler runs ([`authorize`]). It uses the same connections,
//! as an [`app`] in another role.

mod app;
mod app_table;
mod apps;
mod authorize;
mod authorize_table;
mod connection;
mod exchange;
mod failure;
mod folder;
mod framing;
mod output;
mod params;
mod pool;
mod processes;
mod processes_table;
mod response;
mod script;
mod stderr;
mod table;
mod tls;
mod values;

use std::io;
use std::mem::take;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use http::StatusCode;
use http_body::Body as _;
use rudy_client::buffer::Buffers;
use rudy_client::{Upload, follow, is_incremental, may_be_endless};
use rudy_config::{Location, Problem};
use rudy_fastcgi::Role;
use rudy_fastcgi::cgi::{Head, ResponseKind};
use rudy_files::replacement::{Replaced, Replacements};
use rudy_files::{Folders, Kind};
use rudy_message::Instructions;
use rudy_message::semantics::path::{PathBelow, PathError};
use rudy_pipeline::exchange::trace;
use rudy_pipeline::methods::APP_METHODS;
use rudy_pipeline::request_state::HasRequestState;
use rudy_pipeline::routing::PathPattern;
use rudy_pipeline::{Call, Context, Handler, Resources, Routes, Start, internal_redirect, pages};
use rudy_service::{Client, Reply, Request, RequestBody, Response};
use rudy_system::file_access::Access;

use self::app::App;
pub use self::app_table::AppTable;
pub use self::apps::Apps;
pub use self::authorize::Authorizer;
pub use self::authorize_table::AuthorizeTable;
pub(crate) use self::failure::would_block;
use self::failure::{AppCause, Failure};
use self::folder::ScriptFolder;
pub use self::framing::AppProtocol;
use self::params::{Constants, Params, Purpose};
pub use self::processes::needs_root_to_start_as;
use self::processes::problems as process_problems;
pub use self::processes_table::ProcessesTable;
use self::response::AppResponse;
pub use self::script::Script;
pub use self::table::FastcgiTable;
pub use self::table::PHP_SUFFIX;

/// An app with its settings. Clones share everything.
#[derive(Debug, Clone)]
pub struct Fastcgi(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    app: Arc<App>,
    /// The folder of the scripts, if Rudy checks that a script exists.
    scripts: Option<ScriptFolder>,
    script_suffix: Option<String>,
    constants: Constants,
    /// What the app may name by `X-Sendfile` and `X-Accel-Redirect`.
    replacements: Replacements,
    /// Whether request bodies are stored before the app receives them.
    request_buffering: bool,
    /// Whether bodies without a length are stored even without `request_buffering`.
    buffer_chunked: bool,
    /// The number of bytes of a response that may be stored in a file.
    response_buffer: u64,
    buffers: Arc<Buffers>,
}

impl Handler for Fastcgi {
    fn call(&self, request: Request<'_>, call: Call<'_>) -> Reply {
        self.respond(request, call)
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        Self::start(self, start)
    }

    fn methods(&self) -> &'static str {
        APP_METHODS
    }
}

impl Fastcgi {
    /// Prepares the app's pool. No connection is opened yet.
    pub fn new(
        table: &FastcgiTable,
        location: &Location,
        resources: &Resources,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = table.problems(location);
        let folders = &*resources.of::<Folders>();
        let scripts = table
            .root
            .as_ref()
            .filter(|_| table.check_scripts)
            .map(|root| ScriptFolder::open(root, table.follow_symlinks, folders));
        let scripts = scripts.transpose().map_err(|error| {
            let help = "Rudy checks that scripts exist before it calls the app; if they are on another machine, \
                        set `check_scripts = false`";
            vec![error.problem(location).help(help)]
        });
        match (scripts, open_replacements(table, location, folders)) {
            (Ok(scripts), Ok(replacements)) if problems.is_empty() => {
                return Ok(Self::build(table, scripts, replacements, resources));
            }
            (scripts, replacements) => {
                problems.extend([scripts.err(), replacements.err()].into_iter().flatten().flatten());
            }
        }
        Err(problems)
    }

    /// Creates the app of a PHP site with scripts in `root`.
    pub fn for_php(
        table: &FastcgiTable,
        root: &Path,
        location: &Location,
        resources: &Resources,
    ) -> Result<Self, Vec<Problem>> {
        let folders = &*resources.of::<Folders>();
        let scripts = ScriptFolder::open(root, table.follow_symlinks, folders);
        let scripts = scripts.map_err(|error| vec![error.problem(location)])?;
        Ok(Self::build(table, Some(scripts), open_replacements(table, location, folders)?, resources))
    }

    fn build(
        table: &FastcgiTable,
        scripts: Option<ScriptFolder>,
        replacements: Replacements,
        resources: &Resources,
    ) -> Self {
        // The app has another working directory, so the path must be absolute.
        let ours =
            || table.root.as_ref().map(|root| std::path::absolute(root).unwrap_or_else(|_| root.0.clone()));
        let root = table.upstream_root.clone().or_else(ours);
        let root = root.map(|root| root.to_string_lossy().trim_end_matches('/').to_owned());
        Self(Arc::new(Shared {
            app: App::new(&table.app, &table.app.name()),
            scripts,
            replacements,
            script_suffix: table.script_suffix.clone(),
            constants: Constants::new(root, table.params.clone().into_iter().collect()),
            request_buffering: table.request_buffering,
            buffer_chunked: table.buffer_chunked,
            response_buffer: table.response_buffer.0,
            buffers: resources.of(),
        }))
    }

    /// Starts the app's processes if Rudy manages them, and sets the log.
    ///
    /// # Errors
    ///
    /// As [`App::start`].
    pub fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.0.replacements.log_to(start.log);
        self.0.app.log_to(start.log.clone());
        self.0.app.start(start)
    }

    fn respond(&self, request: Request<'_>, call: Call<'_>) -> Reply {
        let context = call.context;
        let script = match self.script(call.below(), call.route.pattern) {
            Ok(script) => script,
            Err(error) => {
                let explanation = format!("Bad request: {error}.");
                return pages::error(StatusCode::BAD_REQUEST, request.headers(), &explanation).into();
            }
        };
        let Some(script) = script else { return not_found(&request) };
        let kind = match &self.0.scripts {
            Some(_) => {
                std::str::from_utf8(script.file()).map_or(Ok(None), |file| self.kind(file, context.access))
            }
            None => Ok(Some(Kind::File)),
        };
        match kind {
            Ok(Some(Kind::File)) => self.run(request, script, &call),
            Ok(_) => not_found(&request),
            Err(failure) if would_block(&failure, context.access) => call.on_pool(request),
            Err(failure) => self.failure_response(&request, context.client, &failure).into(),
        }
    }

    /// Passes a request for a script to the app.
    pub fn run(&self, request: Request<'_>, script: Script, call: &Call<'_>) -> Reply {
        let mut request = call.detach(request);
        trace::prepare(&mut request, &call.context.routes.observers, call.context.client);
        let (client, routes) = (call.context.client.to_owned(), call.context.routes.clone());
        let mut request = AppRequest { shared: self.0.clone(), request, client, script, routes };
        // By reference: the future of a method that takes `self` would store it twice.
        Reply::Later(Box::pin(async move { request.respond().await }))
    }

    /// Returns the type of the file at a path below the folder of the scripts, with or without a leading
    /// slash.
    pub fn kind(&self, path: &str, access: Access) -> Result<Option<Kind>, Failure> {
        let Some(scripts) = &self.0.scripts else { return Ok(None) };
        let path = path.trim_start_matches('/');
        scripts
            .kind(path, access)
            .map_err(|error| AppCause::Script(scripts.path().join(path), error.into()).into())
    }

    /// Logs a failure and returns its response.
    pub fn failure_response(&self, request: &Request<'_>, client: &Client, failure: &Failure) -> Response {
        self.0.app.info(request, client).log_failure(failure);
        failure.response(request.headers())
    }

    fn script(&self, path: PathBelow<'_>, pattern: &PathPattern) -> Result<Option<Script>, PathError> {
        match &self.0.script_suffix {
            Some(ending) => Script::split(path, ending),
            None if pattern.is_prefix() => Script::mounted(path).map(Some),
            // The whole path is that of the route.
            None => {
                let whole = 0..path.as_bytes().len();
                path.check_separators(whole.clone())?;
                Script::until(path, whole.end).map(Some)
            }
        }
    }
}

fn open_replacements(
    table: &FastcgiTable,
    location: &Location,
    folders: &Folders,
) -> Result<Replacements, Vec<Problem>> {
    Replacements::open(&table.replacements, table.follow_symlinks, location, folders)
}

fn not_found(request: &Request<'_>) -> Reply {
    let explanation = "The requested URL was not found on this server.";
    pages::error(StatusCode::NOT_FOUND, request.headers(), explanation).into()
}

/// A request to an app. It has the body until the body is sent: the future of a method with the body as an argument would store it twice.
struct AppRequest {
    shared: Arc<Shared>,
    request: Request<'static>,
    client: Client<'static>,
    script: Script,
    routes: Arc<Routes>,
}

/// How to continue after the head of an app's response.
enum Continuation<'a> {
    /// Pass the response on.
    PassOn(AppResponse),
    /// Send the response of a file or of another route instead.
    Replace(Pin<Box<dyn Future<Output = Result<Response, Failure>> + Send + 'a>>),
}

impl AppRequest {
    async fn respond(&mut self) -> Response {
        match self.response().await {
            Ok(response) => response,
            Err(failure) => {
                let Self { shared, request, client, .. } = self;
                shared.app.info(request, client).log_failure(&failure);
                failure.response(request.headers())
            }
        }
    }

    async fn response(&mut self) -> Result<Response, Failure> {
        let body = take(self.request.body_mut());
        // What is used only before or after the app is called is not stored in the future.
        let Self { shared, request, client, script, .. } = &*self;
        let mut upload = if self.should_store(&body) {
            Upload::stored(Box::pin(shared.buffers.store(body)).await?)
        } else {
            Upload::of_client(body)
        };
        let params = Params {
            request,
            client,
            purpose: Purpose::RunScript(script),
            content_length: upload.length(),
            constants: &shared.constants,
        };
        let app_response = shared
            .app
            .send_request(Role::Responder, &params, &mut upload, request.method().is_safe())
            .await?;
        match self.read_head(app_response) {
            Continuation::PassOn(app_response) => {
                let instructions = app_response.head.instructions.clone();
                let (method, limit) = (request.method(), shared.response_buffer);
                let response = app_response.into_response(method, &shared.buffers, limit)?;
                Ok(self.follow(instructions.as_deref(), response))
            }
            Continuation::Replace(response) => response.await,
        }
    }

    /// Decides by the head of the app's response: pass it on, send a file, or redirect internally. The last
    /// two are rare. Their futures are boxed, so that other requests need no memory for them.
    fn read_head(&self, app_response: AppResponse) -> Continuation<'_> {
        if app_response.head.replacement().is_some() {
            return Continuation::Replace(Box::pin(self.replace(app_response.discard())));
        }
        match &app_response.head.kind {
            ResponseKind::Document(_) => Continuation::PassOn(app_response),
            ResponseKind::LocalRedirect(target) => {
                let target = target.clone();
                app_response.discard();
                Continuation::Replace(Box::pin(self.redirect(target)))
            }
        }
    }

    /// Responds with what the app names.
    async fn replace(&self, head: Head) -> Result<Response, Failure> {
        let Self { shared, request, client, routes, .. } = self;
        let status = match head.kind {
            ResponseKind::Document(status) => status,
            ResponseKind::LocalRedirect(_) => StatusCode::OK,
        };
        let (replaced, fields) = (Replaced { request, client, routes }, head.fields.to_map());
        let Some(replacement) = head.replacement() else { return Ok(Response::new(status)) };
        let response = shared.replacements.respond(replaced, replacement, status, &fields).await;
        let response = response.map_err(AppCause::from)?;
        Ok(self.follow(head.instructions.as_deref(), response))
    }

    /// Changes a response as the app instructs.
    fn follow(&self, instructions: Option<&Instructions>, response: Response) -> Response {
        let (Self { shared, request, client, .. }, Some(instructions)) = (self, instructions) else {
            return response;
        };
        let is_in_flight = request.state().is_in_flight;
        follow(instructions, response, is_in_flight, || shared.app.info(request, client))
    }

    /// Returns whether to store the body before a connection to the app is used. A body without a length may
    /// be endless. The client's declaration of that counts only if the app accepts such bodies; otherwise any
    /// client could send its body slowly.
    fn should_store(&self, body: &RequestBody) -> bool {
        let Shared { request_buffering, buffer_chunked, .. } = *self.shared;
        let is_stored = if body.size_hint().exact().is_some() {
            request_buffering
        } else {
            let is_endless = || may_be_endless(&self.request) || is_incremental(&self.request);
            buffer_chunked || request_buffering && !is_endless()
        };
        is_stored && !body.is_end_stream()
    }

    /// Responds as if the client had requested another path.
    async fn redirect(&self, target: String) -> Result<Response, Failure> {
        let Some(request) = internal_redirect::for_target(&self.request, &target) else {
            return Err(AppCause::TooManyRedirects(target).into());
        };
        let Self { client, routes, .. } = self;
        let reply = Context::new(client, routes).reply(request);
        Ok(reply.response().await)
    }
}

#[cfg(test)]
mod tests {
    use rudy_message::semantics::path::RequestPath;

    use super::*;

    #[test]
    fn document_root_is_absolute() {
        let document_root = |table: &FastcgiTable| {
            Fastcgi::build(table, None, Replacements::none(), &Resources::default())
                .0
                .constants
                .root()
                .map(str::to_owned)
        };
        let mut table = FastcgiTable { root: Some("src/".into()), ..FastcgiTable::default() };
        let here = std::env::current_dir().unwrap().join("src");
        assert_eq!(document_root(&table), Some(here.display().to_string()));
        table.upstream_root = Some("/var/www/html/".into());
        assert_eq!(document_root(&table).as_deref(), Some("/var/www/html"));
    }

    #[test]
    fn the_script_is_the_path_of_the_route_or_ends_with_the_suffix() {
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
            let app = Fastcgi::build(
                &FastcgiTable { script_suffix, ..FastcgiTable::default() },
                None,
                Replacements::none(),
                &Resources::default(),
            );
            let pattern: PathPattern = pattern.parse().unwrap();
            let path = RequestPath::parse(path).unwrap();
            let script = app.script(path.below(pattern.mount()), &pattern).unwrap();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let found = script.map(|script| (text(&script.name), text(&script.path_info)));
            let expected = expected.map(|(name, path_info)| (name.to_owned(), path_info.to_owned()));
            assert_eq!(found, expected, "{pattern} {path:?}");
        }
    }

    /// The allocator caches no free blocks above 1,032 bytes, and a thousand requests may wait at a time.
    #[test]
    fn a_waiting_request_has_a_small_future() {
        let mut request = AppRequest {
            shared: Fastcgi::build(
                &FastcgiTable::default(),
                None,
                Replacements::none(),
                &Resources::default(),
            )
            .0,
            request: Request::default(),
            client: Client::new(rudy_service::Peer::Unix, 1, 1),
            script: Script::until(RequestPath::parse("/a").unwrap().below(0), 2).unwrap(),
            routes: Arc::new(Routes::none()),
        };
        let future = async move { request.respond().await };
        assert!(size_of_val(&future) <= 1032, "{} bytes", size_of_val(&future));
    }
}
