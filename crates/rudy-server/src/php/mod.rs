//! The `php` handler: a folder as a PHP site.
//!
//! A request's way through it:
//!
//! 1. Asked for lately and sent by the [`files`](crate::files) handler: it is sent again.
//! 2. [`mod@decide`]: what the path leads to.
//! 3. A script is run by the [`fastcgi`](crate::fastcgi) handler, everything else is sent by the files handler, which keeps
//!    source back.

mod decide;

use std::io;
use std::path::Path;

use http::StatusCode;
use rudy_http::h1::RequestHead;
use rudy_http::semantics::path::PathBelow;
use rudy_net::{Reply, Request, Response};

use self::decide::{Plan, decide};
use crate::config::files::problem_of;
use crate::config::{FastcgiTable, Place, Problem};
use crate::error_log::ErrorLog;
use crate::fastcgi::{Apps, Fastcgi, Script};
use crate::files::access::WouldBlock;
use crate::files::{Elsewhere, Files, FilesOptions, Folders, Outcome};
use crate::routes::Context;

/// A PHP site.
#[derive(Debug)]
pub(crate) struct Php {
    files: Files,
    app: Fastcgi,
}

impl Php {
    /// Opens the folder and makes the app's pool ready. Nothing is connected to yet.
    pub(crate) fn new(table: &FastcgiTable, place: &Place, folders: &Folders) -> Result<Self, Vec<Problem>> {
        let mut problems = table.problems_of_php(place);
        match table.root.as_ref().map(|root| Self::open(table, root, place, folders)) {
            Some(Ok(php)) if problems.is_empty() => return Ok(php),
            Some(Err(more)) => problems.extend(more),
            // That there is no root is one of the problems.
            Some(Ok(_)) | None => {}
        }
        Err(problems)
    }

    fn open(
        table: &FastcgiTable,
        root: &Path,
        place: &Place,
        folders: &Folders,
    ) -> Result<Self, Vec<Problem>> {
        let options = FilesOptions {
            follow_symlinks: table.follow_symlinks,
            on_php_site: true,
            ..FilesOptions::default()
        };
        let files = Files::open(root, options, folders).map_err(|error| vec![problem_of(&error, place)])?;
        Ok(Self { files, app: Fastcgi::of_php(table, root, place, folders)? })
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

    /// Answers a request; `path` is the part of its path below the route. `elsewhere` knows the other routes, if there are any: an
    /// index or a front controller that one of them takes is theirs to answer.
    pub(crate) fn call(
        &self,
        request: Request,
        path: PathBelow<'_>,
        elsewhere: Option<Elsewhere<'_>>,
        context: Context<'_>,
    ) -> Reply {
        // A folder may have got an `index.php` that goes before what was sent for it.
        let on_pool = |request| context.reply_on_pool(request, path.whole().clone().into_owned());
        if !path.names_directory() {
            match self.files.answer_known(&request, path, context.access) {
                Ok(Some(reply)) => return reply,
                Ok(None) => {}
                Err(WouldBlock) => return on_pool(request),
            }
        }
        let script = match decide(path, |path| self.app.kind(path, context.access)) {
            Ok(Plan::RunNamed(end)) => Script::until(path, end),
            Ok(Plan::Run(script)) => match elsewhere.and_then(|elsewhere| elsewhere(&script[1..])) {
                Some(target) => return context.redirect(request, target),
                None => Ok(Script::new(path.mount(), script.as_bytes())),
            },
            Ok(Plan::Send) => {
                return match self.files.call(&request, path, elsewhere, context.access) {
                    Ok(Outcome::Reply(reply)) => reply,
                    Ok(Outcome::Redirect { path, .. }) => context.redirect(request, path),
                    Err(WouldBlock) => on_pool(request),
                };
            }
            Ok(Plan::AddSlash) => return self.files.redirect(&request, path).into(),
            Ok(Plan::Nothing) => match path.in_folder() {
                Ok(_) => {
                    return self.error(&request, StatusCode::NOT_FOUND, "There is nothing at this address.");
                }
                Err(refusal) => Err(refusal),
            },
            Err(failure) if failure.would_block(context.access) => return on_pool(request),
            Err(failure) => return self.app.refuse(&request, context.client, &failure).into(),
        };
        match script {
            Ok(script) => self.app.run(request, script, context),
            Err(refusal) => self.error(&request, StatusCode::BAD_REQUEST, &format!("Refused: {refusal}.")),
        }
    }

    /// Answers a request for a file to read, as [`Files::answer_head`] does. A folder may have got an `index.php`.
    pub(crate) fn answer_head(&self, head: &RequestHead<'_>, path: PathBelow<'_>) -> Option<Response> {
        if path.names_directory() { None } else { self.files.answer_head(head, path, None) }
    }

    fn error(&self, request: &Request, status: StatusCode, explanation: &str) -> Reply {
        self.files.error(status, request.headers(), explanation).into()
    }
}
