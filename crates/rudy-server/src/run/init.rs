//! Process 1, the first process of a container.
//!
//! The kernel makes process 1 the parent of every process whose own parent has ended. Process 1 must reap them, or they stay
//! as zombies. So `rudy serve` forks if it is process 1: the child is the server, and process 1 does nothing but reap,
//! forward signals, and end with the exit code of the server. If process 1 is killed, the kernel kills all other processes of
//! the container, so the server needs no parent-death signal.
//!
//! # Which process is the server
//!
//! A server is a child of process 1 in the process group of the first server. Applications have groups of their own. A server
//! that replaces itself by another binary starts its successor in its own group. When the old server ends, the kernel makes
//! the successor a child of process 1. Process 1 goes on as long as a server is left, and ends with the exit code of the last
//! one. So an upgrade need not tell process 1 anything.
//!
//! Signals go to the child alone and not to the group. During an upgrade this is the old server, which passes them on as it does
//! under any service manager. So no server gets a signal twice, and none gets one before it can handle it. A child that ends
//! without having passed a signal on leaves it to the next one: see [`lost_with`].
//!
//! # systemd
//!
//! The process id of the server is not the one that a service manager started. `LISTEN_PID` is corrected here. Messages to
//! `NOTIFY_SOCKET` come from the server, so the unit needs `NotifyAccess=all`. A server does not send `MAINPID` below process 1
//! ([`is_below_first`]): the main process is process 1, and its id outside of the container is unknown inside.

use std::io::{self, Write};
use std::process::ExitCode;
use std::{env, fs, mem, process, ptr};

use libc::sigset_t;
use rustix::process::{
    Pid, RawPid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpgrp, getpid, kill_process,
    kill_process_group, setpgid, waitid, waitpid,
};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use super::exit::Failure;

/// Set for the servers below process 1: the id of their process group. Other programs that inherit it have other groups.
const VARIABLE: &str = "RUDY_CONTAINER_GROUP";

/// What process 1 forwards to the server.
const FORWARDED: [Signal; 7] =
    [Signal::TERM, Signal::INT, Signal::QUIT, Signal::HUP, Signal::USR1, Signal::USR2, Signal::WINCH];

/// Forks if this is process 1. Returns `None` in the process that is to serve, and in process 1 the exit code when the server
/// has ended. No other thread may run yet.
#[must_use]
pub fn fork_if_first() -> Option<ExitCode> {
    if !getpid().is_init() {
        return None;
    }
    // Blocked before the fork: a signal that comes before process 1 waits for it stays pending.
    let signals = Signals::block();
    match fork() {
        Ok(None) => {
            // Process 1 does it too: it holds for both from here on. It cannot fail, see there.
            let _ = setpgid(None, None);
            signals.unblock();
            set_environment();
            None
        }
        Ok(Some(server)) => {
            make_foreground_group(server);
            Some(ExitCode::from(run(server, &signals)))
        }
        Err(error) => Some(Failure::cannot("start the server as a child of process 1")(error).print().into()),
    }
}

/// Whether this server is below process 1 that Rudy started it from.
pub(super) fn is_below_first() -> bool {
    env::var(VARIABLE).is_ok_and(|group| group == getpgrp().to_string())
}

/// Reaps and forwards until no server is left. Returns the exit code of the last one.
fn run(servers: Pid, signals: &Signals) -> u8 {
    let (mut code, mut last, mut lost) = (0, None, None);
    loop {
        while let Some(child) = changed_child() {
            let is_server = group_of(child) == servers.as_raw_pid();
            let Ok(Some((_, status))) = waitpid(Some(child), WaitOptions::NOHANG | WaitOptions::UNTRACED)
            else {
                break;
            };
            if is_server {
                code = exit_code(status).unwrap_or(code);
                lost = lost_with(status, last).or(lost);
            }
            // Ctrl-Z in the terminal: no shell is there to continue the server.
            if is_server && status.stopping_signal() == Some(Signal::TSTP.as_raw()) {
                told(Signal::CONT, kill_process_group(servers, Signal::CONT));
            }
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if waitid(WaitId::Pgid(Some(servers)), options).is_err() {
            return code;
        }
        if let Some(signal) = lost.take().or_else(|| signals.wait()) {
            // Without /proc, an upgrade has both servers get it.
            let sent = server_of(servers)
                .map_or_else(|| kill_process_group(servers, signal), |server| kill_process(server, signal));
            told(signal, sent);
            last = Some(signal);
        }
    }
}

/// What was last forwarded to a server that has ended, if it did not pass it on: a signal that has ended it, or one to stop. (A
/// server that passes on a stop ends after its successor.)
fn lost_with(status: WaitStatus, last: Option<Signal>) -> Option<Signal> {
    last.filter(|&signal| {
        status.terminating_signal() == Some(signal.as_raw())
            || status.exited() && [Signal::TERM, Signal::INT].contains(&signal)
    })
}

/// The child of process 1 that is a server. The kernel lists children by age.
fn server_of(servers: Pid) -> Option<Pid> {
    let children = fs::read_to_string("/proc/thread-self/children").ok()?;
    let mut children = children.split(' ').filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
    children.find(|&child| group_of(child) == servers.as_raw_pid())
}

fn told(signal: Signal, sent: rustix::io::Result<()>) {
    if let Err(error) = sent {
        // Without CAP_KILL, root may not signal another user. If stderr fails, there is no other place to report this.
        let _ = writeln!(io::stderr(), "error: process 1 cannot forward {signal:?} to the server: {error}");
    }
}

/// The exit code, or 128 and the number of the signal that ended the process, as a shell has it. `None` if it was only stopped.
fn exit_code(status: WaitStatus) -> Option<u8> {
    let by_signal = || status.terminating_signal().map(|signal| 128 + signal);
    status.exit_status().or_else(by_signal).and_then(|code| u8::try_from(code).ok())
}

/// Gives the servers a group of their own, and the terminal if process 1 has it. So Ctrl-C reaches a server once, and not
/// again from process 1, which would be the second signal that cuts all connections.
fn make_foreground_group(server: Pid) {
    // It cannot fail: the child is ours and runs no other program yet.
    let _ = setpgid(Some(server), Some(server));
    if tcgetpgrp(io::stdin()) == Ok(Pid::INIT) {
        // Without the terminal a server only cannot read from it.
        let _ = tcsetpgrp(io::stdin(), server);
    }
}

/// The sockets that are for process 1 are for the server.
fn set_environment() {
    let sockets = env::var_os("LISTEN_PID").is_some_and(|pid| pid == "1").then_some("LISTEN_PID");
    for name in sockets.into_iter().chain([VARIABLE]) {
        #[expect(unsafe_code, reason = "the environment is shared by all threads")]
        // SAFETY: this process has one thread.
        unsafe {
            env::set_var(name, process::id().to_string());
        }
    }
}

/// `None` in the child.
#[expect(unsafe_code, reason = "std and rustix have no fork")]
fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: this process has one thread, so the child may do whatever this process may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// A child that has ended or was stopped. It is not reaped, so that its group can be looked up.
#[expect(unsafe_code, reason = "rustix does not give the id of such a child")]
fn changed_child() -> Option<Pid> {
    let options = libc::WEXITED | libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: all zeros is a valid siginfo_t; waitid fills it in with what `si_pid` reads, or leaves it if there is no child.
    let pid = unsafe {
        let mut child: libc::siginfo_t = mem::zeroed();
        libc::waitid(libc::P_ALL, 0, &raw mut child, options);
        child.si_pid()
    };
    Pid::from_raw(pid)
}

/// The process group of a child: 0 if that is of another PID namespace, which rustix does not allow for.
#[expect(unsafe_code, reason = "a call of the C library")]
fn group_of(child: Pid) -> RawPid {
    // SAFETY: it takes and returns numbers.
    unsafe { libc::getpgid(child.as_raw_pid()) }
}

/// The signals that process 1 waits for. They are blocked, so that they stay pending until then.
struct Signals {
    awaited: sigset_t,
    /// What was blocked before.
    before: sigset_t,
}

#[expect(unsafe_code, reason = "std and rustix have no signal masks")]
impl Signals {
    fn block() -> Self {
        // SAFETY: all zeros is a valid sigset_t, and each call gets valid pointers. No other thread has a mask of its own.
        unsafe {
            let (mut awaited, mut before) = mem::zeroed();
            libc::sigemptyset(&raw mut awaited);
            for signal in FORWARDED.into_iter().chain([Signal::CHILD]) {
                libc::sigaddset(&raw mut awaited, signal.as_raw());
            }
            libc::sigprocmask(libc::SIG_BLOCK, &raw const awaited, &raw mut before);
            // If the parent of this process ignores it, the kernel keeps no exit codes.
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            Self { awaited, before }
        }
    }

    fn unblock(&self) {
        // SAFETY: both pointers may be given.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut()) };
    }

    /// Waits for the next one. `None` if a child has changed.
    fn wait(&self) -> Option<Signal> {
        let mut number = 0;
        // SAFETY: both pointers are valid. It fails only for a set of invalid signals.
        unsafe { libc::sigwait(&raw const self.awaited, &raw mut number) };
        FORWARDED.into_iter().find(|signal| signal.as_raw() == number)
    }
}
