//! The `php` handler: a folder as a PHP site.
//!
//! A request's way through it:
//!
//! 1. Asked for lately and sent by the [`files`](crate::files) handler: it is sent again.
//! 2. [`mod@decide`]: what the path leads to.
//! 3. A script is run by the [`fastcgi`](crate::fastcgi) handler, everything else is sent by the files handler, which is given
//!    no path of anything that may be source.

mod decide;

use std::io;
use std::path::Path;
use std::sync::Arc;

use http::StatusCode;
use rudy_http::semantics::path::RelativePath;
use rudy_net::{Client, Local, Reply, Request};

use self::decide::{Plan, decide};
use crate::config::files::problem_of;
use crate::config::{FastcgiTable, Place, Problem};
use crate::error_log::ErrorLog;
use crate::fastcgi::{Apps, Fastcgi, Script};
use crate::files::{Files, FilesOptions};
use crate::routes::Routes;
use crate::routing::CanonicalPath;

/// A PHP site.
#[derive(Debug)]
pub(crate) struct Php {
    files: Files,
    app: Fastcgi,
}

impl Php {
    /// Opens the folder and makes the app's pool ready. Nothing is connected to yet.
    pub(crate) fn new(table: &FastcgiTable, place: &Place) -> Result<Self, Vec<Problem>> {
        let mut problems = table.problems_of_php(place);
        match table.root.as_ref().map(|root| Self::open(table, root, place)) {
            Some(Ok(php)) if problems.is_empty() => return Ok(php),
            Some(Err(more)) => problems.extend(more),
            // That there is no root is one of the problems.
            Some(Ok(_)) | None => {}
        }
        Err(problems)
    }

    fn open(table: &FastcgiTable, root: &Path, place: &Place) -> Result<Self, Vec<Problem>> {
        let options = FilesOptions { follow_symlinks: table.follow_symlinks, ..FilesOptions::default() };
        let files = Files::open(root, options).map_err(|error| vec![problem_of(&error, place)])?;
        Ok(Self { files, app: Fastcgi::of_php(table, root, place)? })
    }

    /// Starts the app's processes, where it is Rudy that does.
    ///
    /// # Errors
    ///
    /// As [`Fastcgi::start`].
    pub(crate) fn start(&self, apps: &Apps, log: &ErrorLog) -> io::Result<()> {
        self.app.start(apps, log)
    }

    /// Says in `log` what goes wrong. The first log stays.
    pub(crate) fn log_to(&self, log: &ErrorLog) {
        self.files.log_to(log.clone());
        self.app.log_to(log.clone());
    }

    /// Answers a request. `below` is the part of its path below the route.
    pub(crate) fn call(
        &self,
        request: Request,
        client: &Client,
        local: &Local,
        below: &str,
        routes: &Arc<Routes>,
    ) -> Reply {
        // A folder may have got an `index.php` that goes before what was sent for it.
        if !below.ends_with('/')
            && let Some(reply) = self.files.answer_known(&request, below)
        {
            return reply;
        }
        let path = match RelativePath::parse(below) {
            Ok(path) => path,
            Err(refusal) => {
                return self.error(&request, StatusCode::BAD_REQUEST, &format!("Refused: {refusal}."));
            }
        };
        match decide(&path, |path| self.app.kind(path)) {
            Ok(Plan::Run { script, path_info }) => {
                let script = Script::new(&mount(&request, below), &script, path_info);
                self.app.run(request, client, local, script, routes)
            }
            Ok(Plan::Send) => self.files.call(&request, below),
            Ok(Plan::AddSlash) => self.files.redirect(&request).into(),
            Ok(Plan::Nothing) => {
                self.error(&request, StatusCode::NOT_FOUND, "There is nothing at this address.")
            }
            Err(failure) => self.app.refuse(&request, client, &failure).into(),
        }
    }

    fn error(&self, request: &Request, status: StatusCode, explanation: &str) -> Reply {
        self.files.error(status, request.headers(), explanation).into()
    }
}

/// The part of the path that is the route's, decoded: `/blog` of `/blog/2026`, for the route `/blog/*`.
fn mount(request: &Request, below: &str) -> String {
    let canonical =
        |path| CanonicalPath::parse(path).map(|path| path.as_str().to_owned()).unwrap_or_default();
    let whole = canonical(request.uri().path());
    // Nothing has no spelling.
    let below = if below.is_empty() { String::new() } else { canonical(below) };
    whole.strip_suffix(&below).map(str::to_owned).unwrap_or_default()
}
