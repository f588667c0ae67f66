//! A FastCGI app that answers two lines of text: the id of its process and of the thread that answers, and with tasks a third
//! one, the id of the task. One process, many threads: the first line must never change between requests.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use rudy_fastcgi_app::{Concurrency, Listen, Server};

/// A FastCGI app that says which process, thread and task answers.
#[derive(Parser)]
struct Options {
    /// Answer each request on a light task, so many at once (10 if neither is given)
    #[arg(long, value_name = "N", conflicts_with = "threads")]
    tasks: Option<usize>,

    /// Answer each request on an OS thread, so many at once
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// Listen here instead of on descriptor 0: an address as in 127.0.0.1:9000, or unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<Listen>,
}

fn main() -> ExitCode {
    match run(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is nobody else to tell.
            let _ = writeln!(std::io::stderr(), "fastcgi-info: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> Result<(), Box<dyn Error>> {
    let concurrency = match (options.tasks, options.threads) {
        (_, Some(at_most)) => Concurrency::Threads { at_most },
        (at_most, None) => Concurrency::Tasks { at_most: at_most.unwrap_or(10) },
    };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Concurrency::Threads { at_most } = concurrency {
        runtime.max_blocking_threads(at_most.max(1));
    }
    let runtime = runtime.enable_all().build()?;
    let server = Server::new(concurrency).listen(options.listen.unwrap_or_default());
    runtime.block_on(async {
        let bound = server.bind()?;
        // Whoever has chosen port 0 wants to know what it became.
        writeln!(std::io::stderr(), "fastcgi-info: listening on {}", bound.address())?;
        let on_tasks = matches!(concurrency, Concurrency::Tasks { .. });
        bound.serve(move |_request| async move { answer(on_tasks) }).await?;
        Ok(())
    })
}

/// Says who answers.
fn answer(on_tasks: bool) -> Response<String> {
    let (process, thread) = (std::process::id(), rustix::thread::gettid());
    let text = match tokio::task::try_id().filter(|_| on_tasks) {
        Some(task) => format!("{process}\n{thread}\n{task}\n"),
        None => format!("{process}\n{thread}\n"),
    };
    let mut response = Response::new(text);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}
