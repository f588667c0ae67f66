//! Process 1, the first process of a container.
//!
//! The kernel makes process 1 the parent of every process whose own parent has ended. Process 1 must reap them, or they stay
//! as zombies. So `rudy serve` forks if it is process 1: the child is the server, and process 1 does nothing but reap,
//! forward signals, and end with the exit code of the server. If process 1 is killed, the kernel kills all other processes of
//! the container, so the server needs no parent-death signal.
//!
//! # The server process
//!
//! A server is a child of process 1 in the process group of the first server. Apps have other groups. In an upgrade, the old
//! server starts the new one in its own group. When the old server ends, the kernel makes the new one a child of process 1.
//! Process 1 continues while a server is left, and ends with the exit code of the last one. So an upgrade does not involve
//! process 1.
//!
//! Process 1 signals the child and not the group. During an upgrade the child is the old server, which forwards signals as under
//! any service manager. So each server receives a signal once, and only when it can handle it. If the old server ends without
//! forwarding a signal, process 1 sends it to the new one: see [`lost_with`].
//!
//! # systemd
//!
//! The service manager knows the id of process 1 and not that of the server. `LISTEN_PID` is corrected here. Messages to
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

/// The signals that process 1 forwards to the server.
const FORWARDED: [Signal; 7] =
    [Signal::TERM, Signal::INT, Signal::QUIT, Signal::HUP, Signal::USR1, Signal::USR2, Signal::WINCH];

/// Forks if this is process 1. Returns `None` in the process that serves. In process 1, it returns the exit code after the server
/// has ended. No other thread may run yet.
#[must_use]
pub fn fork_if_first() -> Option<ExitCode> {
    if !getpid().is_init() {
        return None;
    }
    // Block signals before the fork, so that early ones stay pending until process 1 waits for them.
    let signals = Signals::block();
    match fork() {
        Ok(None) => {
            // Process 1 does the same, so the group is set for both from here on. It cannot fail, see there.
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

/// Whether Rudy started this server as a child of process 1.
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
            // Ctrl-Z in the terminal: there is no shell to continue the server.
            if is_server && status.stopping_signal() == Some(Signal::TSTP.as_raw()) {
                report_failure(Signal::CONT, kill_process_group(servers, Signal::CONT));
            }
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if waitid(WaitId::Pgid(Some(servers)), options).is_err() {
            return code;
        }
        if let Some(signal) = lost.take().or_else(|| signals.wait()) {
            // Without /proc, both servers receive the signal during an upgrade.
            let sent = server_of(servers)
                .map_or_else(|| kill_process_group(servers, signal), |server| kill_process(server, signal));
            report_failure(signal, sent);
            last = Some(signal);
        }
    }
}

/// Returns the last forwarded signal if the server ended without forwarding it: a signal that killed it, or one to stop. (A
/// server that forwards a stop ends after its successor.)
fn lost_with(status: WaitStatus, last: Option<Signal>) -> Option<Signal> {
    last.filter(|&signal| {
        status.terminating_signal() == Some(signal.as_raw())
            || status.exited() && [Signal::TERM, Signal::INT].contains(&signal)
    })
}

/// The oldest server among the children of process 1. The kernel lists children by age.
fn server_of(servers: Pid) -> Option<Pid> {
    let children = fs::read_to_string("/proc/thread-self/children").ok()?;
    let mut children = children.split(' ').filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
    children.find(|&child| group_of(child) == servers.as_raw_pid())
}

fn report_failure(signal: Signal, sent: rustix::io::Result<()>) {
    if let Err(error) = sent {
        // Without CAP_KILL, root cannot signal another user.
        let _ = writeln!(io::stderr(), "error: process 1 cannot forward {signal:?} to the server: {error}");
    }
}

/// The exit code, or 128 plus the number of the signal that ended the process, as in a shell. `None` if it was only stopped.
fn exit_code(status: WaitStatus) -> Option<u8> {
    let by_signal = || status.terminating_signal().map(|signal| 128 + signal);
    status.exit_status().or_else(by_signal).and_then(|code| u8::try_from(code).ok())
}

/// Puts the servers into a process group, in the foreground of the terminal if process 1 has one. So Ctrl-C reaches a server
/// once, and not a second time from process 1, which would close all connections.
fn make_foreground_group(server: Pid) {
    // It cannot fail: the child has not executed another program yet.
    let _ = setpgid(Some(server), Some(server));
    if tcgetpgrp(io::stdin()) == Ok(Pid::INIT) {
        // On failure, a server only cannot read from the terminal.
        let _ = tcsetpgrp(io::stdin(), server);
    }
}

/// Sets `LISTEN_PID` to the server, and the variable that marks it as a child of process 1.
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
    // SAFETY: this process has one thread, so the child is not restricted to async-signal-safe functions.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Returns a child that has ended or was stopped, without reaping it, so that its group can be looked up.
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

/// The process group of a child: 0 if it is in another PID namespace, which rustix cannot represent.
#[expect(unsafe_code, reason = "a call of the C library")]
fn group_of(child: Pid) -> RawPid {
    // SAFETY: it takes and returns numbers.
    unsafe { libc::getpgid(child.as_raw_pid()) }
}

/// The signals that process 1 waits for. They are blocked and stay pending until then.
struct Signals {
    awaited: sigset_t,
    /// The signal mask before.
    before: sigset_t,
}

#[expect(unsafe_code, reason = "std and rustix have no signal masks")]
impl Signals {
    fn block() -> Self {
        // SAFETY: all zeros is a valid sigset_t, and each call gets valid pointers. No other thread has its own mask.
        unsafe {
            let (mut awaited, mut before) = mem::zeroed();
            libc::sigemptyset(&raw mut awaited);
            for signal in FORWARDED.into_iter().chain([Signal::CHILD]) {
                libc::sigaddset(&raw mut awaited, signal.as_raw());
            }
            libc::sigprocmask(libc::SIG_BLOCK, &raw const awaited, &raw mut before);
            // If SIGCHLD was inherited as ignored, the kernel would discard exit codes.
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            Self { awaited, before }
        }
    }

    fn unblock(&self) {
        // SAFETY: both pointers are valid; the second may be null.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut()) };
    }

    /// Waits for the next signal. `None` if a child has changed.
    fn wait(&self) -> Option<Signal> {
        let mut number = 0;
        // SAFETY: both pointers are valid. It fails only for a set of invalid signals.
        unsafe { libc::sigwait(&raw const self.awaited, &raw mut number) };
        FORWARDED.into_iter().find(|signal| signal.as_raw() == number)
    }
}
