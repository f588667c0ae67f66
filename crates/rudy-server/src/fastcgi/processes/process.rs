//! One process of an app: how it is started, told to end, and reaped.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::{env, fs};

use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getpid, getppid, getrlimit, kill_process_group, pidfd_open,
    set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::ProcessOptions;
use super::user::User;
use crate::follow::Lines;

/// What an app gets of our environment, if it is there. The rest is ours: it may hold secrets, and what a service manager
/// says there is said to us.
const ENVIRONMENT: [&str; 8] = ["PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "HOME", "USER", "LOGNAME"];
/// Where programs are looked for if our environment does not say.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// How many descriptors an app may have open before it asks for more. We take for ourselves all that we may have; what
/// uses `select`, or closes every descriptor that could be open, expects this.
const DESCRIPTORS: u64 = 1024;
/// How much output is read at a time: what a pipe holds.
const READ_BYTES: usize = 64 * 1024;

/// A process that was started. When this is dropped it is killed with its group and reaped, and its socket is removed.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    group: Pid,
    /// Readable when it has ended; `None` when that was seen.
    end: Option<OwnedFd>,
    /// What it writes. `None` when nobody can write any more.
    output: Option<PipeReader>,
    lines: Lines,
    socket: PathBuf,
}

impl Process {
    /// Starts a process whose descriptor 0 listens at `socket`. Says in words why it could not.
    pub(super) fn start(
        options: &ProcessOptions,
        user: Option<&User>,
        socket: PathBuf,
    ) -> Result<Self, String> {
        let listener = UnixListener::bind(&socket)
            .map_err(|error| format!("cannot listen at {}: {error}", socket.display()))?;
        let started = spawn(options, user, listener);
        if started.is_err() {
            // It is in a folder that goes as a whole.
            let _ = fs::remove_file(&socket);
        }
        let (child, output) = started.map_err(|error| explain(options, &error))?;
        Self::watch(child, output, socket).map_err(|error| format!("cannot watch what was started: {error}"))
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// What is readable when it has ended; nothing when that was noted.
    pub(super) fn end(&self) -> Option<BorrowedFd<'_>> {
        self.end.as_ref().map(AsFd::as_fd)
    }

    /// It was seen that it has ended. It is not reaped yet.
    pub(super) fn note_end(&mut self) {
        self.end = None;
    }

    pub(super) fn has_ended(&self) -> bool {
        self.end.is_none()
    }

    /// What it writes; nothing when nobody of its group can write any more.
    pub(super) fn output(&self) -> Option<BorrowedFd<'_>> {
        self.output.as_ref().map(AsFd::as_fd)
    }

    /// Reads once from the output, which must be readable, and hands out its lines.
    pub(super) fn read(&mut self, on_line: &mut dyn FnMut(&[u8])) {
        let Some(output) = &mut self.output else { return };
        let mut buffer = [0; READ_BYTES];
        match output.read(&mut buffer) {
            Ok(0) => self.close_output(on_line),
            Ok(bytes) => self.lines.push(&buffer[..bytes], &mut |line, _| on_line(line)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A pipe has no other errors; should there be one, it would be there for ever.
            Err(_) => self.close_output(on_line),
        }
    }

    /// Reads what is there, when nobody of its group writes any more.
    pub(super) fn read_last(&mut self, on_line: &mut dyn FnMut(&[u8])) {
        // Somebody who has left the group may hold the pipe: reading must not wait for them.
        let is_there = |output| rustix::io::ioctl_fionread(output).is_ok_and(|bytes| bytes > 0);
        if self.output.as_ref().is_some_and(is_there) {
            self.read(on_line);
        }
        self.close_output(on_line);
    }

    fn close_output(&mut self, on_line: &mut dyn FnMut(&[u8])) {
        self.output = None;
        self.lines.finish(&mut |line, _| on_line(line));
    }

    /// Sends a signal to the process and those that it has started.
    pub(super) fn signal(&self, signal: Signal) {
        // The group is there as long as the process is not reaped, which only `reap` does. Nobody is left in it who could
        // be signalled, or we may not: then there is nothing to be done.
        let _ = kill_process_group(self.group, signal);
    }

    /// Ends what is left of its group, and takes its status. It should have ended: if not, this waits for it.
    pub(super) fn reap(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        self.child.wait()
    }

    fn watch(mut child: Child, output: PipeReader, socket: PathBuf) -> io::Result<Self> {
        // A process id is a positive number of 31 bits.
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap_or(Pid::INIT);
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(end) => Ok(Self {
                child,
                group: pid,
                end: Some(end),
                output: Some(output),
                lines: Lines::default(),
                socket,
            }),
            Err(error) => {
                // Whether it can be killed or not, there is another error to tell.
                let _ = child.kill().and_then(|()| child.wait());
                Err(error.into())
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.reap();
        }
        // It is in a folder that goes as a whole.
        let _ = fs::remove_file(&self.socket);
    }
}

/// Starts the command with the socket as its descriptor 0 (FastCGI 1.0 §2.2) and the two others in one pipe.
fn spawn(
    options: &ProcessOptions,
    user: Option<&User>,
    listener: UnixListener,
) -> io::Result<(Child, PipeReader)> {
    let (output, writer) = io::pipe()?;
    let (program, arguments) = options.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(environment(options, user))
        .stdin(OwnedFd::from(listener))
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0);
    if let Some(folder) = &options.folder {
        command.current_dir(folder);
    }
    prepare(&mut command, user.cloned());
    // What the command holds of the socket and the pipe is closed with it: from then on only the app has them.
    Ok((command.spawn()?, output))
}

/// What the process does between its making and the app: limits, user, and that it ends with us.
fn prepare(command: &mut Command, user: Option<User>) {
    let parent = getpid();
    let before_exec = move || {
        let limit = getrlimit(Resource::Nofile);
        let current = limit.maximum.map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS));
        setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum })?;
        if let Some(user) = &user {
            // The user last: whoever is not root may not change the others.
            set_thread_groups(&user.groups)?;
            set_thread_res_gid(user.gid, user.gid, user.gid)?;
            set_thread_res_uid(user.uid, user.uid, user.uid)?;
        }
        // A change of user takes it back, so it comes after it.
        set_parent_process_death_signal(Some(Signal::TERM))?;
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: between fork and exec only what is safe in a signal handler may be called. These are system calls that
    // rustix makes itself, without the C library, and none of them, nor an error of theirs, allocates.
    #[expect(
        unsafe_code,
        reason = "std sets no supplementary groups, and nobody else can ask for a parent's death signal"
    )]
    unsafe {
        command.pre_exec(before_exec);
    }
}

/// A small environment, and the app's own over it.
fn environment(options: &ProcessOptions, user: Option<&User>) -> BTreeMap<OsString, OsString> {
    let inherited = ENVIRONMENT.iter().filter_map(|name| Some((name.into(), env::var_os(name)?)));
    let mut environment: BTreeMap<OsString, OsString> = inherited.collect();
    environment.entry("PATH".into()).or_insert_with(|| PATH.into());
    if let Some(user) = user {
        let of_user = [("HOME", &user.home), ("USER", &user.name), ("LOGNAME", &user.name)];
        environment.extend(of_user.map(|(name, value)| (name.into(), value.into())));
    }
    environment.extend(options.environment.iter().map(|(name, value)| (name.into(), value.into())));
    environment
}

/// Why a command could not be started, and what to do. The system says one word for several reasons.
fn explain(options: &ProcessOptions, error: &io::Error) -> String {
    let program = options.command.first().map_or("", String::as_str);
    if let Some(folder) = &options.folder
        && let Err(error) = fs::read_dir(folder)
    {
        return format!("cannot start {program} in {}: {error}", folder.display());
    }
    let hint = match error.kind() {
        io::ErrorKind::NotFound if program.contains('/') && Path::new(program).exists() => {
            ": the program is there, but not the interpreter that its first line names"
        }
        io::ErrorKind::NotFound if program.contains('/') => "",
        io::ErrorKind::NotFound => ": not in PATH; give its whole path",
        io::ErrorKind::PermissionDenied => {
            ": the file must be executable, and each folder above it open, for the app's user"
        }
        _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
            ": a script needs a first line that names its interpreter, such as #!/usr/bin/python3"
        }
        _ => "",
    };
    format!("cannot start {program}: {error}{hint}")
}
