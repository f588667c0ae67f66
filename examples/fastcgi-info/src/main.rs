//! A FastCGI app that responds with two lines of text: the process ID and the ID of the thread that handles the request. With
//! tasks, a third line contains the task ID. Tests check that the first line never changes between requests.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use rudy_fastcgi_app::{Concurrency, Listen, Server};

/// A FastCGI app that responds with the process, thread and task that handle the request.
#[derive(Parser)]
struct Options {
    /// Handle up to N requests at once, each on a task [default: 10, if --threads is not given]
    #[arg(long, value_name = "N", conflicts_with = "threads")]
    tasks: Option<usize>,

    /// Handle up to N requests at once, each on an OS thread
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// Listen on this address instead of file descriptor 0: 127.0.0.1:9000 or unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<Listen>,
}

fn main() -> ExitCode {
    match run(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is no other place to report an error.
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
        // With port 0, this shows the port that the kernel has chosen.
        writeln!(std::io::stderr(), "fastcgi-info: listening on {}", bound.address())?;
        let on_tasks = matches!(concurrency, Concurrency::Tasks { .. });
        bound.serve(move |_request| async move { respond(on_tasks) }).await?;
        Ok(())
    })
}

/// Returns a response with the process, thread and task.
fn respond(on_tasks: bool) -> Response<String> {
    let (process, thread) = (std::process::id(), rustix::thread::gettid());
    let text = match tokio::task::try_id().filter(|_| on_tasks) {
        Some(task) => format!("{process}\n{thread}\n{task}\n"),
        None => format!("{process}\n{thread}\n"),
    };
    let mut response = Response::new(text);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}
