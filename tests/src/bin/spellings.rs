//! Sends thousands of spellings of one request to a server, and reports how it interprets them.

#![expect(clippy::print_stdout, reason = "a command-line tool prints")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use rudy_tests::spellings::{Comparison, ResponseSummary, Spelling, all, send_all, site};

/// How to set up a server, and examples.
const HELP: &str = "\
The server should serve DIR/site as example.test, with /secret closed (403) and *.php run by
PHP with PATH_INFO. Other hosts get DIR/other. --site writes both. Timeouts of 2 s keep the run
short. For nginx:

  server { listen 8081 default_server; root DIR/other; }
  server {
      listen 8081; server_name example.test; root DIR/site;
      location = /secret { return 403; }
      location ^~ /secret/ { return 403; }
      location ~ ^.+\\.php(/|$) {
          fastcgi_split_path_info ^(.+?\\.php)(/.*)$;
          include fastcgi_params;
          fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
          fastcgi_param PATH_INFO $fastcgi_path_info;
          fastcgi_pass unix:/run/php/php-fpm.sock;
      }
  }

Examples:
  spellings --site /srv/spellings
  spellings --target 127.0.0.1:8081
  spellings --target 127.0.0.1:8080 --against 127.0.0.1:8081

The exit code is 1 if the target serves a protected file, a file outside of the site or the source
of a script, treats the body of a request as another request, fails with 5xx, or hangs.";

/// Sends thousands of spellings of one request to a server, and reports how it interprets them
#[derive(Parser)]
#[command(name = "spellings", after_help = HELP, arg_required_else_help = true)]
struct Arguments {
    /// Address of the server
    #[arg(long, value_name = "ADDRESS", required_unless_present = "site")]
    target: Option<SocketAddr>,
    /// Address of another server; prints the spellings that the first server interprets differently
    #[arg(long, value_name = "ADDRESS")]
    against: Vec<SocketAddr>,
    /// Write the files that the servers should serve into this folder
    #[arg(long, value_name = "DIR")]
    site: Option<PathBuf>,
    /// Seed for the selection of combinations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of concurrent connections
    #[arg(long, default_value_t = 16)]
    connections: usize,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(folder) = &arguments.site
        && let Err(error) = site::write(folder)
    {
        println!("error: cannot write the site into {}: {error}", folder.display());
        return ExitCode::FAILURE;
    }
    let Some(target) = arguments.target else { return ExitCode::SUCCESS };
    let spellings = all(arguments.seed);
    let seen = send_all(target, &spellings, arguments.connections);
    print_statuses(&seen);
    let violations = print_violations(&spellings, &seen);
    if !arguments.against.is_empty() {
        print_differences(&arguments, target, &spellings, seen);
    }
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print_statuses(seen: &[ResponseSummary]) {
    let mut statuses: BTreeMap<&str, usize> = BTreeMap::new();
    for seen in seen {
        *statuses.entry(seen.first.split(' ').next().unwrap_or_default()).or_default() += 1;
    }
    let statuses: Vec<_> = statuses.iter().map(|(status, count)| format!("{count} x {status}")).collect();
    println!("{} spellings: {}", seen.len(), statuses.join(", "));
}

fn print_violations(spellings: &[Spelling], seen: &[ResponseSummary]) -> usize {
    let violations =
        spellings.iter().zip(seen).filter_map(|(spelling, seen)| Some((spelling, seen.violation()?)));
    let mut count = 0;
    for (spelling, violation) in violations {
        println!("\n{}: {violation}\n  {}", spelling.tags.join(" "), spelling.bytes.escape_ascii());
        count += 1;
    }
    println!("{count} violations");
    count
}

fn print_differences(
    arguments: &Arguments,
    target: SocketAddr,
    spellings: &[Spelling],
    seen: Vec<ResponseSummary>,
) {
    let names: Vec<String> =
        [&target].into_iter().chain(&arguments.against).map(SocketAddr::to_string).collect();
    let others = arguments.against.iter().map(|against| send_all(*against, spellings, arguments.connections));
    let servers = names.iter().map(String::as_str).zip([seen].into_iter().chain(others)).collect();
    let comparison = Comparison { spellings, servers };
    let differences = comparison.differences();
    println!(
        "\n{} differences:\n{}",
        differences.len(),
        comparison.describe(&differences.iter().collect::<Vec<_>>())
    );
}
