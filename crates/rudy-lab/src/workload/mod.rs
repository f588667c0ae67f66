//! Runs a workload: the generator as a separate process, whose command can be repeated by hand.

mod bench;
mod expected;
mod flood;
mod max_rate;
pub(crate) mod output_format;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rudy_experiment::plan::{Kind, TlsUse, Workload};
use rudy_load::bench::LOAD_STARTS;
use rudy_units::Time;
use rustix::process::{Pid, Signal, kill_process};

use crate::variant::{POLL, Workspace, on_cores, wait_until};
use rudy_request::Interrupt;

pub(crate) use self::bench::{Measurement, intervals};
pub(crate) use self::expected::check;
pub(crate) use self::flood::OpenConnections;

/// Extra time for a generator, whose requests time out after ten seconds.
const PATIENCE: Duration = Duration::from_mins(1);

/// Time per request of a workload with a number of requests.
const EACH: Duration = Duration::from_secs(10);

/// Minimum rate for a workload with a number of requests. A slower server has failed.
const SLOWEST_PER_S: u32 = 100;

/// Time for a generator to write its report after a signal.
const STOP: Duration = Duration::from_secs(2);

/// The end of a workload.
pub(crate) enum Ended {
    /// With a report.
    Report(Box<Measurement>),
    /// Without a report: a message.
    Failed(String),
    /// The experiment was interrupted.
    Interrupted,
}

/// A running workload.
pub(crate) struct Generator {
    child: Child,
    stdout: JoinHandle<Vec<u8>>,
    stderr: JoinHandle<Vec<u8>>,
    /// Receives a message when its connections are open and its requests follow.
    starts: Receiver<()>,
    until: Instant,
}

/// The command of a workload. A bench has no warm-up of its own: a separate command precedes it, so that CPU time
/// and requests refer to the same time. The path of the workload is appended to the URL of the variant.
pub(crate) fn command(
    workload: &Workload,
    workspace: &Workspace<'_>,
    time: Option<Time>,
    rows: Option<&Path>,
) -> Vec<String> {
    let mut command = vec![own_program()];
    match &workload.kind {
        Kind::Flood { connections, ramp, time } => {
            command.extend(flood::arguments(*connections, *ramp, *time, false));
        }
        Kind::Idle { connections, ramp, time } => {
            command.extend(flood::arguments(*connections, *ramp, *time, true));
        }
        Kind::MaxRate { slo, connections, time, hold } => {
            command.extend(max_rate::arguments(slo, *connections, *time, *hold));
        }
        kind => command.extend(bench::arguments(kind, time, rows)),
    }
    command.extend(tls_arguments(workload));
    command.extend(length_arguments(workload, workspace));
    command.extend(workload.arguments.iter().map(|argument| workspace.fill(argument)));
    command.extend(request_arguments(workload, workspace));
    command
}

/// The path of this program, which is also the generator.
fn own_program() -> String {
    std::env::current_exe().unwrap_or_else(|_| "rudy".into()).to_string_lossy().into_owned()
}

/// The flags that the generator and `rudy get` share, and the URL. The certificates of a variant are often made for the plan, and are
/// not what is measured.
fn request_arguments(workload: &Workload, workspace: &Workspace<'_>) -> Vec<String> {
    let url = workspace.url();
    let mut command = Vec::new();
    if url.starts_with("https:") {
        command.push("--insecure".to_owned());
    }
    for field in &workload.headers {
        command.extend(["-H".to_owned(), field.clone()]);
    }
    command.push(format!("{url}{}", workload.path));
    command
}

/// The length of each response, if it is that of a file of the plan. A compressed one can differ from copy to copy.
fn length_arguments(workload: &Workload, workspace: &Workspace<'_>) -> Vec<String> {
    let expect = workload.expect.as_ref().filter(|expect| expect.encoding.is_none());
    let body = expect.and_then(|expect| expect.body.as_ref());
    let length = body.and_then(|path| fs::metadata(workspace.file(path)).ok()).map(|file| file.len());
    length.map_or_else(Vec::new, |length| vec!["--expect-bytes".to_owned(), length.to_string()])
}

/// The flags of TLS and of the path.
fn tls_arguments(workload: &Workload) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut add = |words: &[&str]| arguments.extend(words.iter().map(|word| (*word).to_owned()));
    match workload.tls {
        Some(TlsUse::Full) => add(&["--tls-resume", "off"]),
        Some(TlsUse::EarlyData) => add(&["--tls-early-data"]),
        Some(TlsUse::Resumed) | None => {}
    }
    if let Some(round_trip) = workload.round_trip {
        add(&["--round-trip", &round_trip.to_string()]);
    }
    arguments
}

impl Generator {
    /// Starts the workload on these cores, or all if there are none. It has its own process group, so that Ctrl-C on the
    /// terminal does not reach it.
    pub(crate) fn start(command: &[String], workload: &Workload, cores: &[usize]) -> Result<Self, String> {
        let mut process = Command::new(&command[0]);
        process.args(&command[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        process.process_group(0);
        let mut child = on_cores(cores, || process.spawn())
            .map_err(|error| format!("cannot start {:?}: {error}", command[0]))?;
        let (sender, starts) = channel();
        let stdout = read(child.stdout.take(), |_| {});
        let stderr = read(child.stderr.take(), move |line| {
            if line.trim_ascii_end() == LOAD_STARTS.as_bytes() {
                // The lab may have given up.
                let _ = sender.send(());
            }
        });
        Ok(Self { child, stdout, stderr, starts, until: Instant::now() + bound(&workload.kind) })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end of the workload. Calls `poll` repeatedly, and once with `true` when the connections are open and the requests
    /// follow; its return value ends the workload with that reason.
    pub(crate) fn wait(
        mut self,
        workload: &Workload,
        interrupt: &Interrupt,
        mut poll: impl FnMut(bool) -> Option<String>,
    ) -> Ended {
        let mut has_started = false;
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => {}
                Err(error) => return self.give_up(format!("cannot wait for the workload: {error}")),
            }
            if interrupt.signal().is_some() {
                self.end();
                return Ended::Interrupted;
            }
            if let Some(why) = poll(has_started) {
                return self.give_up(why);
            }
            if Instant::now() > self.until {
                return self.give_up("the workload did not end in time".to_owned());
            }
            has_started = match self.starts.recv_timeout(POLL) {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => false,
                // It has closed its output, and ends soon.
                Err(RecvTimeoutError::Disconnected) => {
                    thread::sleep(POLL);
                    false
                }
            };
        };
        self.report(workload, status)
    }

    fn report(self, workload: &Workload, status: ExitStatus) -> Ended {
        let (stdout, stderr) = (joined(self.stdout), joined(self.stderr));
        // A generator also reports a run in which no request succeeded or no rate met the objective.
        let has_report = matches!(status.code(), Some(0 | 1 | 3)) && !stdout.trim().is_empty();
        if !status.success() && !has_report {
            let last_lines =
                stderr.lines().rev().take(5).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>();
            return Ended::Failed(format!(
                "the workload could not run ({status}): {}",
                last_lines.join("\n")
            ));
        }
        let measurement = match workload.kind {
            Kind::Flood { .. } | Kind::Idle { .. } => flood::read(&stdout),
            Kind::MaxRate { .. } => max_rate::read(&stdout),
            _ => bench::read(&stdout, &workload.kind),
        };
        match measurement {
            Ok(measurement) => Ended::Report(Box::new(measurement)),
            Err(error) => Ended::Failed(format!("cannot read the report of the workload: {error}")),
        }
    }

    fn give_up(mut self, why: String) -> Ended {
        self.end();
        Ended::Failed(why)
    }

    fn end(&mut self) {
        // An error means that the process has already exited.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        if !wait_until(STOP, || matches!(self.child.try_wait(), Ok(Some(_)) | Err(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The maximum duration of a workload.
fn bound(kind: &Kind) -> Duration {
    PATIENCE
        + match kind {
            Kind::Bench { requests: Some(requests), .. } => {
                Duration::from_secs(u64::from(*requests / SLOWEST_PER_S))
            }
            Kind::Bench { time, .. } => time.0,
            Kind::Burst { timeout, .. } => timeout.0,
            Kind::Sequence { requests, .. } => EACH * *requests,
            Kind::Flood { ramp, time, .. } | Kind::Idle { ramp, time, .. } => ramp.0 + time.0,
            Kind::MaxRate { time, hold, .. } => max_rate::bound(*time, *hold),
            Kind::Run { within, .. } => within.0,
        }
}

/// Reads all output, and passes each line on at once.
fn read(
    pipe: Option<impl Read + Send + 'static>,
    mut line: impl FnMut(&[u8]) + Send + 'static,
) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut all = Vec::new();
        let Some(mut pipe) = pipe.map(BufReader::new) else { return all };
        let mut start = 0;
        // Ignore read errors and use the data so far.
        while pipe.read_until(b'\n', &mut all).is_ok_and(|length| length > 0) {
            line(&all[start..]);
            start = all.len();
        }
        all
    })
}

fn joined(thread: JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&thread.join().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use rudy_experiment::plan::parse;

    use super::*;
    use crate::folders::Folders;

    #[test]
    fn arguments_of_a_workload_are_those_of_the_generator_before_its_url() {
        let plan = "[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n[[workload]]\nname = \"w\"\nkind = \"bench\"\npath = \"/up\"\n\
                    arguments = [\"-m\", \"POST\", \"-b\", \"@{folder}/a\", \"http://127.0.0.1:{port}/b\"]\n";
        let plan = parse(plan, "w", None).unwrap();
        let folders = Folders::make(&plan).unwrap();
        let (variant, workload) = (&plan.variants[0], &plan.workloads[0]);
        let workspace = Workspace::new(variant, workload, &folders).unwrap();
        let command = command(workload, &workspace, None, None);
        let (port, folder) = (workspace.address(None).port(), folders.files().display());
        let expected = ["-m", "POST", "-b", &format!("@{folder}/a"), &format!("http://127.0.0.1:{port}/b")];
        let end = command.len() - 1;
        assert_eq!(command[end - expected.len()..end], expected);
        assert_eq!(command[end], format!("http://127.0.0.1:{port}/up"));
    }

    #[test]
    fn a_workload_over_tls_requests_the_other_port_and_the_length_of_the_expected_file() {
        let plan = "[[file]]\npath = \"a\"\nsize = \"7B\"\n[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n\
                    [[workload]]\nname = \"w\"\nkind = \"bench\"\nhttps = true\nexpect = { body = \"a\" }\n";
        let plan = parse(plan, "w", None).unwrap();
        let folders = Folders::make(&plan).unwrap();
        let (variant, workload) = (&plan.variants[0], &plan.workloads[0]);
        let workspace = Workspace::new(variant, workload, &folders).unwrap();
        let command = command(workload, &workspace, None, None);
        let url = format!("https://127.0.0.1:{}/", workspace.fill("{tls-port}"));
        assert_eq!(command[command.len() - 4..], ["--expect-bytes", "7", "--insecure", &url]);
        assert_ne!(workspace.fill("{tls-port}"), workspace.fill("{port}"));
    }
}
