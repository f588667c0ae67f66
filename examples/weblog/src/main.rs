//! A weblog, as a FastCGI app: a folder of Markdown files, with tags, archive, search, feeds, comments, and a sidebar that is filled
//! from other services.
//!
//! One process holds everything in memory and serves every request on a task:
//!
//! - [`folder`] watches the folder, reads each file into a [`post::Post`], and replaces the [`blog::Blog`] as a whole;
//! - [`comments`] has the comments of readers, in a database and in memory;
//! - [`sidebar`] polls the services, and has their last good responses;
//! - [`app`] responds to a request from these three: with a page ([`view`], [`render`], [`feeds`]), or after a form ([`forms`]);
//! - [`cache`] purges pages from the cache of the web server when one of the three changes.
//!
//! `rudy.toml` beside this folder starts it: `rudy serve --config examples/weblog/rudy.toml`.

mod app;
mod blog;
mod cache;
mod comments;
mod feeds;
mod folder;
mod forms;
mod post;
mod render;
mod respond;
mod settings;
mod sidebar;
mod view;

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use rudy_fastcgi_app::{Concurrency, Listen, Server};

use crate::app::App;
use crate::cache::Changes;
use crate::comments::Comments;
use crate::folder::Folder;
use crate::render::Templates;
use crate::settings::Settings;
use crate::sidebar::Sidebar;

/// Requests at once. They wait for nothing, so more would only wait for a core.
const REQUESTS_AT_ONCE: usize = 100;

/// A weblog of Markdown files.
///
/// Example: weblog examples/weblog --listen 127.0.0.1:9000
#[derive(Parser)]
struct Options {
    /// The folder with weblog.toml, posts and templates
    folder: PathBuf,

    /// Listen on this address instead of file descriptor 0: 127.0.0.1:9000 or unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<Listen>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let settings = Settings::read(&options.folder.join("weblog.toml"))?;
    let templates = Templates::read(&options.folder.join("templates"))?;
    let changes = Arc::<Changes>::default();
    let posts = Folder::watch(options.folder.join("posts"), changes.clone())?;
    let comments = Comments::open(&options.folder.join("comments.db"), changes.clone())?;
    let sidebar = Sidebar::start(&settings.sidebar, &changes)?;
    let app = Arc::new(App { settings, templates, posts, comments, sidebar, changes: changes.clone() });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let concurrency = Concurrency::Tasks { at_most: REQUESTS_AT_ONCE };
        let server = Server::new(concurrency).listen(options.listen.clone().unwrap_or_default()).bind()?;
        report(&format!("listening on {}", server.address()));
        tokio::spawn(changes.clone().follow());
        server
            .serve(move |request| {
                let app = app.clone();
                async move { app.respond(request).await }
            })
            .await?;
        changes.purged().await;
        Ok(())
    })
}

/// Writes a line to the web server's log, which has the output of the apps that it starts.
fn report(line: &str) {
    // There is no other place to report an error.
    let _ = writeln!(std::io::stderr(), "weblog: {line}");
}
