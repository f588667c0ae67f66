//! How an app is reached or started: what the tables of all have in common that ask one.

use std::path::Path;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::processes::ProcessesTable;
use super::values::{Command, Int, OneOrMany, Time, Timeout};
use super::{Place, Problem, missing};
use crate::fastcgi::problems_of_processes;
use crate::upstream::UpstreamAddress;

/// An app that speaks FastCGI. Tables in which this is the same ask the same app, over the same connections.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AppTable {
    /// Where it listens: `unix:/run/php/php-fpm.sock`, `127.0.0.1:9000`, `php:9000`, or several of these, of which the least
    /// busy one is asked. A name is looked up again every 30 s; its addresses share its `connections`. With `php`,
    /// `unix:/run/php/php-fpm.sock` if absent.
    pub address: Option<OneOrMany<UpstreamAddress>>,
    /// The program to start it with, and its arguments, in place of an address: it is given its socket as descriptor 0. No
    /// shell reads them. Relative to the file that names it where it has a slash.
    #[schemars(extend("examples" = [["./app", "--verbose"]]))]
    pub command: Option<Command>,
    /// How many processes of that program there are, and how they live.
    #[schemars(extend("examples" = [{ "max": 4 }]))]
    pub processes: ProcessesTable,
    /// Connections to each address, name or process at once: as many as it serves at once, for php-fpm its `pm.max_children`.
    /// Further requests wait. If absent, 16 to an address, and 1 to a process; those of an app that multiplexes are shared.
    #[schemars(extend("examples" = [20]))]
    pub connections: Option<Int<1, 65535>>,
    /// Requests that wait for a connection; a further one is answered 503.
    pub queue: Int<0, 1_000_000>,
    /// How long a request waits for a connection, before it is answered 503.
    pub queue_timeout: Timeout,
    /// How long a connection may take to stand, before the answer is 502.
    pub connect_timeout: Timeout,
    /// How long the app may say nothing, before the answer is 504, or is cut.
    pub response_timeout: Timeout,
    /// How long a connection is kept that waits for a request.
    pub idle_timeout: Timeout,
}

impl Default for AppTable {
    fn default() -> Self {
        Self {
            address: None,
            command: None,
            processes: ProcessesTable::default(),
            connections: None,
            // Each takes some kilobytes; more people than that do not wait for so slow an answer.
            queue: Int(1024),
            queue_timeout: Time(Duration::from_secs(10)),
            connect_timeout: Time(Duration::from_secs(5)),
            // As nginx and Apache have it, and twice what PHP lets a script compute.
            response_timeout: Time(Duration::from_mins(1)),
            idle_timeout: Time(Duration::from_mins(1)),
        }
    }
}

/// Where php-fpm listens on Debian and Ubuntu, whatever its version.
const PHP_FPM: &str = "/run/php/php-fpm.sock";

impl AppTable {
    /// Where the app listens; php-fpm at its usual place if that is not said.
    pub(crate) fn addresses(&self) -> Vec<UpstreamAddress> {
        let php_fpm = || vec![UpstreamAddress::Unix(PHP_FPM.into())];
        self.address.as_ref().map_or_else(php_fpm, |address| address.as_slice().to_vec())
    }

    /// Connections to each address or process.
    pub(crate) fn connections(&self) -> u32 {
        // As many as an app that was set up with care for a small machine serves at once; a process that nobody has said more
        // of serves one after the other.
        self.connections.map_or(if self.command.is_some() { 1 } else { 16 }, Int::as_u32)
    }

    /// For `rudy check`: its addresses, or what Rudy starts.
    pub(crate) fn describe(&self) -> String {
        if let Some(command) = &self.command {
            let ProcessesTable { min, max, .. } = self.processes;
            let count = if min.0 == max.0 { max.0.to_string() } else { format!("{} to {}", min.0, max.0) };
            return format!("{count} of {}", command.0.join(" "));
        }
        let addresses: Vec<_> = self.addresses().iter().map(ToString::to_string).collect();
        addresses.join(" ")
    }

    /// What the app is called in the log: its program or its first address.
    pub(crate) fn name(&self) -> String {
        let program = self.command.as_ref().and_then(|command| command.0.first()).map(Path::new);
        match program.and_then(Path::file_name) {
            Some(name) => name.to_string_lossy().into_owned(),
            None => self.addresses().first().map(ToString::to_string).unwrap_or_default(),
        }
    }

    /// What the schema cannot say.
    pub(crate) fn problems(&self, place: &Place) -> Vec<Problem> {
        let mut problems = self.problems_with_address(place);
        if self.address.is_none() && self.command.is_none() {
            let problem = missing(place, "address").unless_wrong(&place.key("address"));
            let problem = problem.unless_wrong(&place.key("command"));
            problems.push(problem.help("or `command`, if Rudy is to start the app"));
        }
        problems
    }

    /// The same of one that has an address of its own.
    pub(crate) fn problems_with_address(&self, place: &Place) -> Vec<Problem> {
        let mut problems = Vec::new();
        self.wrong_processes(place, &mut problems);
        problems
    }

    fn wrong_processes(&self, place: &Place, problems: &mut Vec<Problem>) {
        let Some(command) = &self.command else {
            if self.processes != ProcessesTable::default() {
                let problem =
                    Problem::key(&place.key("processes"), "there is no `command` to start processes with");
                let problem = problem.unless_wrong(&place.key("command"));
                problems.push(problem.label("of no use without it"));
            }
            return;
        };
        if self.address.is_some() {
            let problem =
                Problem::key(&place.key("command"), "an app is started or has an address, not both");
            problems.push(
                problem.label("this starts it").also(&place.key("address"), "this is where it listens"),
            );
        }
        if command.0.iter().any(|argument| argument.contains('\0'))
            || command.0.first().is_some_and(String::is_empty)
        {
            problems.push(
                Problem::value(&place.key("command"), "this names no program").label("empty, or with a NUL"),
            );
        }
        self.processes.problems(&place.key("processes"), problems);
        problems.extend(problems_of_processes(self, place));
    }
}
