//! The processes of running servers.

use std::fs;
use std::path::Path;

use rudy_units::visible;
use rustix::process::{Signal, geteuid};

/// Finds the only server of this user. During an upgrade it is the old process, which forwards signals to the new one.
///
/// # Errors
///
/// A sentence about what to do: there is none, or there are several.
pub fn find() -> Result<u32, String> {
    let servers = servers()?;
    let is_first = |&pid: &u32| parent(pid).is_none_or(|parent| !servers.contains(&parent));
    let mut first = servers.iter().copied().filter(is_first).collect::<Vec<_>>();
    first.sort_unstable();
    match first[..] {
        [] => Err("no `rudy serve` of this user is running; select a process with --pid PID".to_owned()),
        [pid] => Ok(pid),
        _ => {
            let lines =
                first.iter().map(|pid| format!("\n  {pid}  {}", visible(&command_line(*pid).join(" "))));
            Err(format!(
                "several servers are running; select one with --pid PID:{}",
                lines.collect::<String>()
            ))
        }
    }
}

/// Returns the server below process 1 of a container, which only forwards signals; any other process unchanged.
#[must_use]
pub fn server_below_init(pid: u32) -> u32 {
    if own_id(pid) != 1 {
        return pid;
    }
    let servers = servers().unwrap_or_default().into_iter();
    servers.filter(|&server| parent(server) == Some(pid)).min().unwrap_or(pid)
}

fn servers() -> Result<Vec<u32>, String> {
    let entries = fs::read_dir("/proc").map_err(|error| format!("cannot read /proc: {error}"))?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    Ok(pids.filter(|&pid| is_server(pid)).collect())
}

fn is_server(pid: u32) -> bool {
    let is_ours = || geteuid().is_root() || user(pid) == Some(geteuid().as_raw());
    let line = command_line(pid);
    let name = line.first().and_then(|program| Path::new(program).file_name()).and_then(|name| name.to_str());
    name.is_some_and(|name| name == "rudy" || name.starts_with("rudy-"))
        && line.get(1).is_some_and(|command| command == "serve")
        && is_ours()
}

/// The command line; empty if the process has ended.
fn command_line(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    words.take_while(|word| !word.is_empty()).collect()
}

fn parent(pid: u32) -> Option<u32> {
    status(pid, "PPid:")?.parse().ok()
}

/// Returns the user of a process. (The owner of its folder in `/proc` is root if the process is not dumpable.)
#[must_use]
pub fn user(pid: u32) -> Option<u32> {
    status(pid, "Uid:")?.split_whitespace().nth(1)?.parse().ok()
}

/// The id of a process in its own PID namespace, which differs in a container.
fn own_id(pid: u32) -> u32 {
    let own = || status(pid, "NSpid:")?.split_whitespace().next_back()?.parse().ok();
    own().unwrap_or(pid)
}

/// Returns whether a process handles the signal, which would otherwise kill it.
#[must_use]
pub fn handles_signal(pid: u32, signal: Signal) -> bool {
    let caught = status(pid, "SigCgt:").and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    caught.is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1)
}

fn status(pid: u32, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
}

/// Returns whether the process shares our network and PID namespaces, and so our abstract socket names and process ids. (rustix cannot
/// represent the peer id from another PID namespace.) A network namespace that cannot be read is assumed to be ours.
#[must_use]
pub fn is_reachable(pid: u32) -> bool {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    own_id(pid) == pid && namespace(&pid.to_string()).is_none_or(|theirs| namespace("self") == Some(theirs))
}
