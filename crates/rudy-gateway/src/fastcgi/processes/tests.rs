//! Tests with real processes: shells, which every system has.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode};

use super::*;

/// A timeout for tests that fail.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

struct TestPool {
    events: Mutex<Sender<Event>>,
    requests: u64,
    idle_since: Option<Instant>,
}

impl MemberPool for TestPool {
    fn handle(&self, event: Event) {
        // The test may have dropped the receiver.
        let _ = self.events.lock().send(event);
    }

    fn requests(&self, _: MemberId) -> u64 {
        self.requests
    }

    fn idle_since(&self, _: MemberId) -> Option<Instant> {
        self.idle_since
    }
}

/// An app with its pool and its log.
struct Fixture {
    processes: Processes,
    events: Receiver<Event>,
    log: ErrorLog,
    file: File,
    _pool: Arc<TestPool>,
}

impl Fixture {
    fn start(options: ProcessOptions) -> Self {
        Self::with(options, 0, None)
    }

    fn with(options: ProcessOptions, requests: u64, idle_since: Option<Instant>) -> Self {
        let (sender, events) = channel();
        let pool = Arc::new(TestPool { events: Mutex::new(sender), requests, idle_since });
        let file = tempfile::tempfile().unwrap();
        let log = ErrorLog::to(file.try_clone().unwrap()).unwrap();
        let processes = start(options, &log, &pool);
        Self { processes, events, log, file, _pool: pool }
    }

    fn next(&self) -> Event {
        self.events.recv_timeout(TEST_TIMEOUT).expect("something happens")
    }

    /// Waits for the next process that is up.
    fn up(&self) -> (MemberId, PathBuf) {
        match self.next() {
            Event::Up(id, socket) => (id, socket),
            event => panic!("{event:?}"),
        }
    }

    /// Runs one process to its end. Returns the log.
    fn run_once(self) -> String {
        self.processes.grow();
        self.up();
        assert!(matches!(self.next(), Event::Down(..)));
        self.stop()
    }

    /// Stops all processes. Returns the log without timestamps.
    fn stop(mut self) -> String {
        self.processes.stop();
        self.log.close();
        let mut text = String::new();
        self.file.rewind().unwrap();
        self.file.read_to_string(&mut text).unwrap();
        let lines = text.lines().map(|line| line.split_once(' ').map_or(line, |(_, rest)| rest));
        lines.flat_map(|line| [line, "\n"]).collect()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.processes.stop();
    }
}

fn start(options: ProcessOptions, log: &ErrorLog, pool: &Arc<TestPool>) -> Processes {
    let members: Arc<dyn MemberPool> = pool.clone();
    Processes::start(options, log, output(log), Arc::downgrade(&members), None).unwrap()
}

fn output(log: &ErrorLog) -> Arc<AppOutput> {
    Arc::new(AppOutput::new("shop".to_owned(), Some(log.clone()), Instant::now()))
}

/// Waits until no process has the other end of this connection.
fn assert_ends(mut connection: UnixStream) {
    connection.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    match connection.read(&mut [0]) {
        Ok(0) => {}
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
        end => panic!("{end:?}"),
    }
}

/// Options for one process that starts at once: a shell with this script.
fn shell(script: &str) -> ProcessOptions {
    ProcessOptions {
        name: "shop".to_owned(),
        command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        rules: Rules {
            min: 1,
            max: 1,
            idle_timeout: None,
            retire_timeout: TEST_TIMEOUT,
            stop_timeout: TEST_TIMEOUT,
        },
        environment: BTreeMap::new(),
        user: None,
        folder: None,
    }
}

/// As [`shell`], but started on demand.
fn on_demand(script: &str) -> ProcessOptions {
    let mut options = shell(script);
    options.rules.min = 0;
    options
}

/// A named pipe by which a script reports its progress.
struct Fifo(tempfile::TempDir);

impl Fifo {
    fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
        Self(folder)
    }

    fn path(&self) -> String {
        self.0.path().join("fifo").to_str().unwrap().to_owned()
    }

    /// Waits until a script has opened and closed it.
    fn read_to_end(&self) {
        std::fs::read(self.path()).unwrap();
    }
}

#[test]
fn a_process_can_be_connected_to_before_it_accepts() {
    let fixture = Fixture::start(shell("exec sleep 1000"));
    let (id, socket) = fixture.up();
    assert_eq!(id, 1);
    let connection = UnixStream::connect(&socket).unwrap();
    fixture.processes.stop();
    assert_eq!(fixture.next(), Event::Retire(1));
    assert!(matches!(fixture.next(), Event::Down(1, _)));
    // Only the app had the socket, so its connections end with it.
    assert_ends(connection);
    assert!(!socket.parent().unwrap().exists());
}

/// Accepts from descriptor 0 and writes the number of its sockets.
#[test]
#[ignore = "started by the next one"]
fn an_app_that_will_be_started() {
    let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned().unwrap());
    let mut connection = listener.accept().unwrap().0;
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap());
    let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let sockets = targets.filter(|target| target.to_string_lossy().starts_with("socket:"));
    // The listener twice, because of the clone above, and the connection.
    write!(connection, "{} sockets", sockets.count()).unwrap();
}

#[test]
fn descriptor_0_is_a_socket_to_accept_from_and_no_other_is_passed_on() {
    let _not_passed_on = UnixListener::bind(tempfile::tempdir().unwrap().path().join("other")).unwrap();
    let name = "fastcgi::processes::tests::an_app_that_will_be_started";
    let mut options = shell("");
    options.command = vec![std::env::current_exe().unwrap().to_str().unwrap().to_owned()];
    options.command.extend(["--exact", name, "--ignored"].map(str::to_owned));
    let fixture = Fixture::start(options);
    let mut output_text = String::new();
    UnixStream::connect(fixture.up().1).unwrap().read_to_string(&mut output_text).unwrap();
    assert_eq!(output_text, "3 sockets");
}

/// Responds to one connection with its process id, and exits with the status in `STATUS`.
#[test]
#[ignore = "started by the next ones"]
fn an_app_that_serves_one_connection() {
    let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned().unwrap());
    let mut connection = listener.accept().unwrap().0;
    write!(connection, "{}", std::process::id()).unwrap();
    drop(connection);
    std::process::exit(std::env::var("STATUS").unwrap().parse().unwrap());
}

/// Options for one process that serves one connection.
fn one_connection(status: &str) -> ProcessOptions {
    let mut options = shell("");
    options.command = vec![std::env::current_exe().unwrap().to_str().unwrap().to_owned()];
    let name = "fastcgi::processes::tests::an_app_that_serves_one_connection";
    options.command.extend(["--exact", name, "--ignored"].map(str::to_owned));
    options.environment.insert("STATUS".to_owned(), status.to_owned());
    options
}

fn read_all(mut connection: UnixStream) -> String {
    connection.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn the_next_process_serves_the_backlog_of_one_that_exits() {
    for (status, min) in [("0", 1), ("0", 0), ("3", 1), ("3", 0)] {
        let mut options = one_connection(status);
        options.rules.min = min;
        let fixture = Fixture::start(options);
        fixture.processes.grow();
        let (_, socket) = fixture.up();
        // No process is requested for the last ones: their connections require it.
        let connections = [(); 3].map(|()| UnixStream::connect(&socket).unwrap());
        let mut processes = connections.map(read_all).to_vec();
        processes.sort_unstable();
        processes.dedup();
        assert_eq!(processes.len(), 3, "{status} {min}");
    }
}

#[test]
fn a_process_that_has_served_only_the_backlog_has_exited_cleanly() {
    let fixture = Fixture::start(one_connection("0"));
    let (_, socket) = fixture.up();
    let connections = [(); 2].map(|()| UnixStream::connect(&socket).unwrap());
    for connection in connections {
        read_all(connection);
    }
    let ended = std::iter::repeat_with(|| fixture.next()).filter(|event| matches!(event, Event::Down(..)));
    assert_eq!(ended.take(2).count(), 2);
    let text = fixture.stop();
    // The pool of the test counts no requests, so the first process seems to have served none.
    assert_eq!(text.matches("unexpectedly").count(), 1, "{text}");
}

#[test]
fn a_connection_in_the_backlog_ends_if_no_process_serves_it_soon() {
    for (script, min) in [("exit 3", 1), ("exit 0", 0)] {
        let mut options = shell(script);
        options.rules.min = min;
        let fixture = Fixture::start(options);
        fixture.processes.grow();
        assert_ends(UnixStream::connect(fixture.up().1).unwrap());
        let failures = std::iter::repeat_with(|| fixture.next());
        let failures = failures.take_while(|event| !matches!(event, Event::Unavailable(_)));
        assert!(failures.count() <= 2, "the process is not started without a pause");
    }
}

#[test]
fn a_connection_in_the_backlog_ends_with_a_stop() {
    let fixture = Fixture::start(shell("exit 3"));
    let connection = UnixStream::connect(fixture.up().1).unwrap();
    assert!(matches!(fixture.next(), Event::Down(..)));
    fixture.processes.stop();
    assert_ends(connection);
}

#[test]
fn output_is_logged_with_the_process_id() {
    let fixture = Fixture::start(on_demand("echo out $$; echo err >&2; printf 'no end'"));
    let text = fixture.run_once();
    let (_, pid) = text.lines().find_map(|line| line.split_once("out ")).unwrap();
    let output_text =
        format!("app: shop[{pid}]: out {pid}\napp: shop[{pid}]: err\napp: shop[{pid}]: no end\n");
    assert!(text.contains(&output_text), "{text}");
}

#[test]
fn a_process_gets_its_folder_and_a_small_environment() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = on_demand("pwd; echo $PPID; ulimit -n; env");
    options.folder = Some(folder.path().canonicalize().unwrap());
    options.environment.insert("SHOP".to_owned(), "open".to_owned());
    options.environment.insert("PATH".to_owned(), "/usr/bin:/bin".to_owned());
    let text = Fixture::start(options).run_once();
    let output_text: Vec<_> = text.lines().filter_map(|line| Some(line.split_once("]: ")?.1)).collect();
    let us = std::process::id().to_string();
    assert_eq!(output_text[..3], [folder.path().canonicalize().unwrap().to_str().unwrap(), &us, "1024"]);
    for line in ["SHOP=open", "PATH=/usr/bin:/bin"] {
        assert!(output_text.contains(&line), "{text}");
    }
    // Cargo sets many variables, and none is for the app.
    assert!(!text.contains("CARGO"), "{text}");
}

#[test]
fn root_starts_a_process_as_its_user_with_all_groups() {
    let mut options = on_demand("id -u; id -g; id -G; echo $HOME $USER");
    options.user = Some("nobody".to_owned());
    if !geteuid().is_root() {
        let (log, members) = (ErrorLog::to(tempfile::tempfile().unwrap()).unwrap(), Weak::<TestPool>::new());
        let error = Processes::start(options, &log, output(&log), members, None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        return;
    }
    let user = User::find("nobody").unwrap();
    let text = Fixture::start(options).run_once();
    let output_text: Vec<_> = text.lines().filter_map(|line| Some(line.split_once("]: ")?.1)).collect();
    let groups: Vec<_> = user.groups.iter().map(|group| group.as_raw().to_string()).collect();
    let home = [user.home.as_str(), "nobody"].join(" ");
    let expected = [&user.uid.as_raw().to_string(), &user.gid.as_raw().to_string(), &groups.join(" "), &home];
    assert_eq!(output_text, expected);
}

#[test]
fn a_missing_user_is_an_error() {
    let mut options = shell("exec sleep 1000");
    options.user = Some("no such user".to_owned());
    let (log, members) = (ErrorLog::to(tempfile::tempfile().unwrap()).unwrap(), Weak::<TestPool>::new());
    let error = Processes::start(options, &log, output(&log), members, None).unwrap_err();
    assert_eq!(error.to_string(), "there is no user `no such user`");
}

#[test]
fn a_missing_command_is_logged_once_and_started_when_it_exists() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("app");
    let mut options = shell("");
    options.command = [program.to_str().unwrap(), "-c", "exec sleep 1000"].map(str::to_owned).to_vec();
    let fixture = Fixture::start(options);
    let Event::Unavailable(why) = fixture.next() else { panic!() };
    let cannot = format!("shop: cannot start {}: No such file or directory (os error 2)", program.display());
    assert_eq!(why, cannot);
    // It is tried again with growing pauses, until the program exists.
    let failure = std::iter::repeat_with(|| {
        assert_eq!(fixture.next(), Event::Unavailable(why.clone()));
        fixture.processes.failure()
    });
    let failure = failure.flatten().next().unwrap();
    assert!(failure.starts_with(&format!("{why}; next attempt in ")), "{failure}");
    std::os::unix::fs::symlink("/bin/sh", &program).unwrap();
    let event =
        std::iter::repeat_with(|| fixture.next()).find(|event| *event != Event::Unavailable(why.clone()));
    assert!(matches!(event, Some(Event::Up(1, _))), "{event:?}");
    assert_eq!(fixture.processes.failure(), None);
    let text = fixture.stop();
    assert_eq!(text.matches(&cannot).count(), 1, "{text}");
    assert!(text.contains("notice: shop: process "), "{text}");
}

#[test]
fn the_reason_of_a_failed_start_has_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str, mode| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for (command, its_folder, expected) in [
        ("rudy-no-such-program".to_owned(), None, "not in PATH; use its absolute path"),
        (file("plain", "", 0o644), None, "the app's user needs execute permission"),
        (file("old", "#!/no/such/interpreter\n", 0o755), None, "the interpreter in its first line does not"),
        (
            "/bin/cat".to_owned(),
            Some("/no/such/folder"),
            "cannot start /bin/cat in /no/such/folder: No such file",
        ),
    ] {
        let mut options = shell("");
        options.command = vec![command];
        options.folder = its_folder.map(PathBuf::from);
        options.environment.insert("PATH".to_owned(), "/usr/bin:/bin".to_owned());
        let Event::Unavailable(why) = Fixture::start(options).next() else { panic!("{expected}") };
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn a_process_that_ends_at_once_is_started_again_after_a_pause() {
    let fixture = Fixture::start(shell("exit 3"));
    for id in 1..=3 {
        assert_eq!(fixture.up().0, id);
        let Event::Down(down, why) = fixture.next() else { panic!() };
        assert_eq!(down, id);
        let (pid, how) = why.strip_prefix("shop: process ").unwrap().split_once(" ended after ").unwrap();
        assert!(how.ends_with(" s (exit status: 3)"), "{why}");
        // It was reaped: there is no zombie.
        assert!(!Path::new("/proc").join(pid).exists(), "{why}");
        assert_eq!(fixture.next(), Event::Unavailable(why.clone()));
    }
    let text = fixture.stop();
    // Logged once, and then counted.
    assert_eq!(text.matches("(exit status: 3) unexpectedly").count(), 1, "{text}");
    assert!(text.contains("a process of an app ended unexpectedly (shop): "), "{text}");
}

#[test]
fn a_process_that_exits_cleanly_is_replaced_at_once() {
    let fixture = Fixture::with(shell("exit 0"), 500, None);
    for id in 1..=3 {
        assert_eq!(fixture.up().0, id);
        assert!(matches!(fixture.next(), Event::Down(..)));
    }
    let text = fixture.stop();
    assert!(!text.contains("error"), "{text}");
}

#[test]
fn a_process_that_ignores_sigterm_is_killed() {
    let ready = Fifo::make();
    let mut options = shell("trap '' TERM; echo > $FIFO; while :; do sleep 1000; done");
    options.environment.insert("FIFO".to_owned(), ready.path());
    options.rules.stop_timeout = Duration::from_millis(10);
    let fixture = Fixture::start(options);
    fixture.up();
    ready.read_to_end();
    fixture.processes.stop();
    assert_eq!(fixture.next(), Event::Retire(1));
    let Event::Down(1, why) = fixture.next() else { panic!() };
    assert!(why.ends_with("(signal: 9 (SIGKILL))"), "{why}");
    assert!(fixture.stop().contains(" did not end 0.01 s after SIGTERM: sending SIGKILL\n"));
}

#[test]
fn a_flood_of_output_neither_blocks_the_app_nor_fills_the_log() {
    let text = Fixture::start(on_demand("yes | head -n 100000; echo done > /dev/null")).run_once();
    let lines = text.matches("]: y\n").count();
    // The burst, and a few for the seconds that it took.
    assert!((500..1000).contains(&lines), "{lines}");
    assert!(text.contains(" bytes were dropped: more than 10 lines or 8192 bytes per second\n"), "{text}");
}

#[test]
fn constant_output_delays_neither_other_processes_nor_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    let first = folder.path().join("first");
    let flood = "yes & yes & yes & exec yes";
    let mut options = shell(&format!("mkdir {} 2> /dev/null && {{ {flood}; }}; exit 3", first.display()));
    (options.rules.min, options.rules.max) = (2, 2);
    let fixture = Fixture::start(options);
    let ended = std::iter::repeat_with(|| fixture.next()).find_map(|event| match event {
        Event::Down(_, why) => Some(why),
        _ => None,
    });
    assert!(ended.unwrap().ends_with(" (exit status: 3)"));
    fixture.stop();
}

#[test]
fn children_of_a_process_end_with_it() {
    let fifo = Fifo::make();
    let mut options = on_demand("exec 9> $FIFO; sleep 1000 & exit 0");
    options.environment.insert("FIFO".to_owned(), fifo.path());
    let fixture = Fixture::start(options);
    fixture.processes.grow();
    // Until no process has it open for writing.
    fifo.read_to_end();
    fixture.up();
    assert!(matches!(fixture.next(), Event::Down(..)));
}

#[test]
fn an_app_behind_a_shell_has_time_to_end_after_the_shell() {
    let ready = Fifo::make();
    let app = "(trap 'echo bye; exit' TERM; echo > $FIFO; while :; do sleep 0.01; done) & wait";
    let mut options = shell(app);
    options.environment.insert("FIFO".to_owned(), ready.path());
    let fixture = Fixture::start(options);
    fixture.up();
    ready.read_to_end();
    let text = fixture.stop();
    assert!(text.contains("]: bye\n"), "{text}");
}

#[test]
fn the_only_process_is_replaced_after_its_end() {
    let fixture = Fixture::start(shell("exec sleep 1000"));
    let (id, socket) = fixture.up();
    fixture.processes.grow();
    fixture.processes.replace(id);
    assert_eq!(fixture.next(), Event::Retire(id));
    fixture.processes.drained(id);
    assert!(matches!(fixture.next(), Event::Down(1, _)));
    assert!(!socket.exists());
    assert_eq!(fixture.up().0, 2);
}

#[test]
fn a_process_starts_on_demand_and_ends_when_idle() {
    let mut options = on_demand("exec sleep 1000");
    options.rules.idle_timeout = Some(Duration::ZERO);
    let fixture = Fixture::with(options, 0, Some(Instant::now()));
    fixture.processes.grow();
    assert_eq!(fixture.up().0, 1);
    assert_eq!(fixture.next(), Event::Retire(1));
    fixture.processes.drained(1);
    assert!(matches!(fixture.next(), Event::Down(1, _)));
    fixture.processes.grow();
    assert_eq!(fixture.up().0, 2);
}

#[test]
fn processes_end_when_they_are_dropped() {
    let (sender, events) = channel();
    let pool = Arc::new(TestPool { events: Mutex::new(sender), requests: 0, idle_since: None });
    let log = ErrorLog::to(tempfile::tempfile().unwrap()).unwrap();
    let processes = start(shell("exec sleep 1000"), &log, &pool);
    let Ok(Event::Up(1, socket)) = events.recv_timeout(TEST_TIMEOUT) else { panic!() };
    let shared = processes.0.clone();
    drop(processes);
    shared.all_ended.wait_while(&mut shared.state.lock(), |state| !state.has_ended);
    assert!(!socket.parent().unwrap().exists());
}

/// Prints the socket of its process, and waits to be killed.
#[test]
#[ignore = "started by the next one"]
fn a_server_that_will_be_killed() {
    let fixture = Fixture::start(shell("exec sleep 1000"));
    println!("\nsocket: {}", fixture.up().1.display());
    let _ = io::stdin().read(&mut [0]);
}

#[test]
fn processes_end_when_the_server_is_killed() {
    // Any server that starts removes what a killed one has left in the common folder.
    let folder = tempfile::tempdir().unwrap();
    let mut server = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "fastcgi::processes::tests::a_server_that_will_be_killed",
            "--ignored",
            "--nocapture",
        ])
        .env("RUNTIME_DIRECTORY", folder.path())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
    let socket = lines.find_map(|line| line.strip_prefix("socket: ").map(PathBuf::from)).unwrap();
    let connection = UnixStream::connect(&socket).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(socket.starts_with(folder.path()));
    assert_ends(connection);
}

#[test]
fn a_relative_program_is_resolved_in_the_folder_of_rudy() {
    let (folder, program) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink("/bin/sh", program.path().join("app")).unwrap();
    let here = std::env::current_dir().unwrap();
    let up = "../".repeat(here.components().count() - 1);
    let mut options = on_demand("pwd");
    options.command[0] = format!("{up}{}/app", program.path().strip_prefix("/").unwrap().display());
    options.folder = Some(folder.path().canonicalize().unwrap());
    let text = Fixture::start(options.clone()).run_once();
    assert!(text.contains(options.folder.unwrap().to_str().unwrap()), "{text}");
}
