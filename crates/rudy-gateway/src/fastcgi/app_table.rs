//! The keys that all tables with an app share: how to connect to the app, or start it.

use std::path::Path;
use std::time::Duration;

use rudy_client::UpstreamAddress;
use rudy_config::{Command, Int, Location, OneOrMany, Problem, Table, missing};
use rudy_units::{Time, Timeout};

use super::{AppProtocol, ProcessesTable, process_problems};

/// A FastCGI app. Tables with the same settings share one app and its connections.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(default)]
pub struct AppTable {
    /// Address of the app: `unix:/run/php/php-fpm.sock`, `127.0.0.1:9000` or `php:9000`. With several, each request
    /// goes to the least busy one. Host names are resolved again every 30 s, and the addresses of a name share its
    /// `connections`. The default is `unix:/run/php/php-fpm.sock` for `php`; `fastcgi` and `authorize` need an
    /// address or a `command`.
    pub address: Option<OneOrMany<UpstreamAddress>>,
    /// Program that Rudy starts, with its arguments, instead of connecting to an `address`. The app gets its
    /// listening socket as file descriptor 0. No shell is involved. A program name with a slash is relative to the
    /// configuration file.
    #[setting(example = ["./app", "--verbose"])]
    pub command: Option<Command>,
    /// Number, environment and lifetime of the processes of `command`.
    #[setting(example = { max = 4 })]
    pub processes: ProcessesTable,
    /// Maximum number of connections to each address, host name or process. Set it to the number of requests that the
    /// app serves at once, such as `pm.max_children` of php-fpm. Further requests wait in the queue. The default is
    /// 16 per address and 1 per process; an app that reports `FCGI_MPXS_CONNS=1` sets its own maximum.
    #[setting(example = 20)]
    pub connections: Option<Int<1, 65535>>,
    /// Maximum number of requests that wait for a connection. Further requests get 503.
    #[setting(default = Int(1024), reason = "Each uses some kilobytes of memory.")]
    pub queue: Int<0, 1_000_000>,
    /// Maximum time that a request waits for a connection. After it, the request gets 503.
    #[setting(default = Time(Duration::from_secs(10)))]
    pub queue_timeout: Timeout,
    /// Time for establishing a connection to the app. After it, the request gets 502.
    #[setting(default = Time(Duration::from_secs(5)))]
    pub connect_timeout: Timeout,
    /// Maximum time without data from the app. After it, the request gets 504, or its connection is closed if the
    /// response has begun. Raise it for slow scripts.
    #[setting(default = Time(Duration::from_mins(1)), reason = "The default of nginx and Apache, and twice the `max_execution_time` of PHP.")]
    pub response_timeout: Timeout,
    /// Time that an idle connection to the app stays open.
    #[setting(default = Time(Duration::from_mins(1)))]
    pub idle_timeout: Timeout,
    /// Set by the handler.
    #[setting(skip)]
    pub protocol: AppProtocol,
}

/// The socket of php-fpm on Debian and Ubuntu, for all versions.
const PHP_FPM: &str = "/run/php/php-fpm.sock";

impl AppTable {
    /// The addresses of the app; the default is the usual socket of php-fpm.
    #[must_use]
    pub fn addresses(&self) -> Vec<UpstreamAddress> {
        let php_fpm = || vec![UpstreamAddress::Unix(PHP_FPM.into())];
        self.address.as_ref().map_or_else(php_fpm, |address| address.as_slice().to_vec())
    }

    /// The maximum number of connections to each address or process.
    pub fn connections(&self) -> u32 {
        // A typical number of workers on a small machine; a process usually serves one request at a time.
        self.connections.map_or(if self.command.is_some() { 1 } else { 16 }, Int::as_u32)
    }

    /// For `rudy check`: the addresses or the command.
    pub fn describe(&self) -> String {
        if let Some(command) = &self.command {
            let ProcessesTable { min, max, .. } = self.processes;
            let count = if min.0 == max.0 { max.0.to_string() } else { format!("{} to {}", min.0, max.0) };
            return format!("{count} of {}", command.0.join(" "));
        }
        let addresses: Vec<_> = self.addresses().iter().map(ToString::to_string).collect();
        addresses.join(" ")
    }

    /// The name of the app in the log: its program or its first address.
    pub fn name(&self) -> String {
        let program = self.command.as_ref().and_then(|command| command.0.first()).map(Path::new);
        match program.and_then(Path::file_name) {
            Some(name) => name.to_string_lossy().into_owned(),
            None => self.addresses().first().map(ToString::to_string).unwrap_or_default(),
        }
    }

    /// Problems that the types cannot express.
    #[must_use]
    pub fn problems(&self, location: &Location) -> Vec<Problem> {
        let mut problems = self.problems_with_address(location);
        if self.address.is_none() && self.command.is_none() {
            let problem = missing(&(), location, "address").unless_invalid(&location.key("address"));
            let problem = problem.unless_invalid(&location.key("command"));
            problems.push(problem.help("or `command`, to have Rudy start the app"));
        }
        problems
    }

    /// Like [`Self::problems`], for a table with a default address.
    #[must_use]
    pub fn problems_with_address(&self, location: &Location) -> Vec<Problem> {
        let mut problems = Vec::new();
        self.wrong_processes(location, &mut problems);
        problems
    }

    fn wrong_processes(&self, location: &Location, problems: &mut Vec<Problem>) {
        let Some(command) = &self.command else {
            if self.processes != ProcessesTable::default() {
                let problem = Problem::key(&location.key("processes"), "`processes` needs `command`");
                let problem = problem.unless_invalid(&location.key("command"));
                problems.push(problem.label("has no effect"));
            }
            return;
        };
        if self.address.is_some() {
            let problem =
                Problem::key(&location.key("command"), "`address` and `command` exclude each other");
            problems.push(
                problem.label("starts the app").also(&location.key("address"), "connects to a running app"),
            );
        }
        if command.0.iter().any(|argument| argument.contains('\0'))
            || command.0.first().is_some_and(String::is_empty)
        {
            problems.push(
                Problem::value(&location.key("command"), "this is not a valid program name")
                    .label("empty, or with a NUL"),
            );
        }
        self.processes.problems(&location.key("processes"), problems);
        problems.extend(process_problems(self, location));
    }
}
