//! The `php` handler serves a folder as a PHP site.
//!
//! The lifecycle of a request:
//!
//! 1. If the [`files`](rudy_files) handler has the file in its cache, it sends the file.
//! 2. [`mod@decide`] decides what the path refers to.
//! 3. The [`fastcgi`](crate::fastcgi) handler runs scripts. The files handler sends all other files, but
//!    never source.

mod decide;

use std::io;
use std::path::{Path, PathBuf};

use http::StatusCode;
use rudy_config::{
    FilePath, Invalid, Location, Problem, Setting, Shape, Table, TableInfo, TableReader, Value, missing,
};
use rudy_files::{Files, FilesOptions, OtherRoutes, redirect_to_folder};
use rudy_pipeline::methods::APP_METHODS;
use rudy_pipeline::routing::PathPattern;
use rudy_pipeline::{BuildContext, Call, Handler, HandlerConfig, Start, pages};
use rudy_service::{Reply, Request};
use rudy_system::file_access::WouldBlock;

use self::decide::{Plan, decide};
use crate::fastcgi::{Fastcgi, FastcgiTable, Script, would_block};

/// Runs a PHP application with php-fpm. The keys are those of `fastcgi`; `root` is required.
#[derive(Debug, Clone)]
pub struct PhpTable(pub FastcgiTable);

impl Setting for PhpTable {
    const SHAPE: Shape = Shape::Table(|| Self::TABLE);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        value.table_or::<Self, FilePath>("a folder (\"public\") or a table")
    }
}

impl Table for PhpTable {
    const TABLE: &'static TableInfo = &TableInfo {
        name: "PhpTable",
        doc: "Runs a PHP application with php-fpm. The keys are those of `fastcgi`; `root` is required.",
        examples: &["{ root = \"/srv/php\", address = \"127.0.0.1:9000\" }"],
        short: Some(&FilePath::SHAPE),
        ..*FastcgiTable::TABLE
    };

    fn read_keys(table: &TableReader<'_>) -> Result<Self, Invalid> {
        FastcgiTable::read_keys(table).map(Self)
    }
}

impl From<FilePath> for PhpTable {
    fn from(folder: FilePath) -> Self {
        Self::of(folder.0)
    }
}

impl PhpTable {
    /// Creates the table of a PHP site in this folder, with default settings.
    #[must_use]
    pub fn of(root: impl Into<PathBuf>) -> Self {
        Self(FastcgiTable { root: Some(FilePath(root.into())), ..FastcgiTable::default() })
    }

    /// Returns the problems that the schema cannot express.
    fn problems(&self, location: &Location) -> Vec<Problem> {
        let mut problems = self.0.app.problems_with_address(location);
        if self.0.root.is_none() {
            problems.push(missing(&(), location, "root"));
        }
        if self.0.script_suffix.is_some() {
            let problem =
                Problem::key(&location.key("script_suffix"), "`php` runs only scripts with the suffix .php");
            problems.push(problem.label("not allowed here").help("use `fastcgi` for another suffix"));
        }
        if !self.0.check_scripts {
            let problem =
                Problem::value(&location.key("check_scripts"), "`php` always checks paths in its folder");
            let help = "if php-fpm has the same folder at another path, set `upstream_root`";
            problems.push(problem.label("cannot be `false`").help(help));
        }
        problems
    }
}

impl HandlerConfig for PhpTable {
    fn describe(&self) -> String {
        let root = self.0.root.as_ref().map(|root| root.display().to_string());
        let links = if self.0.follow_symlinks { ", links followed" } else { "" };
        format!("{}{links}, run by {}", root.unwrap_or_default(), self.0.app.describe())
    }

    fn paths_read(&self) -> Vec<PathBuf> {
        self.0.paths_read()
    }

    fn build(&self, route: &BuildContext<'_>) -> Result<Box<dyn Handler>, Vec<Problem>> {
        Ok(Box::new(Php::new(self, route)?))
    }

    fn script_suffix<'a>(&'a self, _: &'a [PathPattern]) -> Option<&'a str> {
        Some(decide::SCRIPT)
    }
}

/// A PHP site.
#[derive(Debug)]
pub struct Php {
    files: Files,
    app: Fastcgi,
}

impl Handler for Php {
    fn call(&self, request: Request<'_>, call: Call<'_>) -> Reply {
        let other_routes = |file: &str| call.path_on_other_route(file);
        self.respond(request, call.route.if_has_other_routes(&other_routes), call)
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.files.log_to(start.log.clone());
        self.app.start(start)
    }

    fn methods(&self) -> &'static str {
        APP_METHODS
    }
}

impl Php {
    /// Opens the folder and prepares the app's pool. No connection is opened yet.
    fn new(table: &PhpTable, route: &BuildContext<'_>) -> Result<Self, Vec<Problem>> {
        let mut problems = table.problems(route.location);
        let table = &table.0;
        match table.root.as_ref().map(|root| Self::open(table, root, route)) {
            Some(Ok(php)) if problems.is_empty() => return Ok(php),
            Some(Err(more)) => problems.extend(more),
            // The missing root is one of the problems.
            Some(Ok(_)) | None => {}
        }
        Err(problems)
    }

    fn open(table: &FastcgiTable, root: &Path, route: &BuildContext<'_>) -> Result<Self, Vec<Problem>> {
        let BuildContext { location, resources, .. } = *route;
        let options = FilesOptions {
            follow_symlinks: table.follow_symlinks,
            on_php_site: true,
            ..FilesOptions::default().of_route(route)
        };
        let files =
            Files::open(root, options, &resources.of()).map_err(|error| vec![error.problem(location)])?;
        Ok(Self { files, app: Fastcgi::for_php(table, root, location, resources)? })
    }

    /// Responds to a request. `other_routes` looks up other routes of the site: if one matches the index or the front controller, the
    /// request is redirected there.
    fn respond(&self, request: Request<'_>, other_routes: Option<OtherRoutes<'_>>, call: Call<'_>) -> Reply {
        let (path, context) = (call.below(), call.context);
        // A cached index page is not used: the folder may have a new `index.php`, which takes precedence.
        let on_pool = |request| call.on_pool(request);
        if !path.names_directory() {
            match self.files.respond_if_cached(&request, path, context.access) {
                Ok(Some(reply)) => return reply,
                Ok(None) => {}
                Err(WouldBlock) => return on_pool(request),
            }
        }
        let script = match decide(path, |path| self.app.kind(path, context.access)) {
            Ok(Plan::RunNamed(end)) => Script::until(path, end),
            Ok(Plan::Run(script)) => match other_routes.and_then(|find| find(&script[1..])) {
                Some(target) => return context.redirect(request, target),
                None => Ok(Script::new(path.mount(), script.as_bytes())),
            },
            Ok(Plan::Send) => {
                return match self.files.respond_to(&request, path, other_routes, context.access) {
                    Ok(outcome) => outcome.reply(request, &call),
                    Err(WouldBlock) => on_pool(request),
                };
            }
            Ok(Plan::AddSlash) => return redirect_to_folder(&request, path).into(),
            Ok(Plan::NotFound) => match path.in_folder() {
                Ok(_) => {
                    let explanation = "The requested URL was not found on this server.";
                    return pages::error(StatusCode::NOT_FOUND, request.headers(), explanation).into();
                }
                Err(error) => Err(error),
            },
            Err(failure) if would_block(&failure, context.access) => return on_pool(request),
            Err(failure) => return self.app.failure_response(&request, context.client, &failure).into(),
        };
        match script {
            Ok(script) => self.app.run(request, script, &call),
            Err(error) => {
                let explanation = format!("Bad request: {error}.");
                pages::error(StatusCode::BAD_REQUEST, request.headers(), &explanation).into()
            }
        }
    }
}
