//! With real processes: shells, which every system has.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode};

use super::*;

/// Longer than anything here takes, for a test that fails.
const PATIENCE: Duration = Duration::from_secs(30);

struct Users {
    events: Mutex<Sender<Event>>,
    requests: u64,
    idle_since: Option<Instant>,
}

impl Members for Users {
    fn handle(&self, event: Event) {
        // A test that has seen enough no longer receives.
        let _ = self.events.lock().unwrap().send(event);
    }

    fn requests(&self, _: MemberId) -> u64 {
        self.requests
    }

    fn idle_since(&self, _: MemberId) -> Option<Instant> {
        self.idle_since
    }
}

/// An app, its users and its log.
struct Rig {
    processes: Processes,
    events: Receiver<Event>,
    log: ErrorLog,
    file: File,
    _users: Arc<Users>,
}

impl Rig {
    fn start(options: ProcessOptions) -> Self {
        Self::with(options, 0, None)
    }

    fn with(options: ProcessOptions, requests: u64, idle_since: Option<Instant>) -> Self {
        let (sender, events) = channel();
        let users = Arc::new(Users { events: Mutex::new(sender), requests, idle_since });
        let file = tempfile::tempfile().unwrap();
        let log = ErrorLog::to(file.try_clone().unwrap()).unwrap();
        let processes = start(options, &log, &users);
        Self { processes, events, log, file, _users: users }
    }

    fn next(&self) -> Event {
        self.events.recv_timeout(PATIENCE).expect("something happens")
    }

    /// The next process that is up.
    fn up(&self) -> (MemberId, PathBuf) {
        match self.next() {
            Event::Up(id, socket) => (id, socket),
            event => panic!("{event:?}"),
        }
    }

    /// Has one process run and end; what the log says.
    fn once(self) -> String {
        self.processes.grow();
        self.up();
        assert!(matches!(self.next(), Event::Down(..)));
        self.stop()
    }

    /// Stops all; what the log says, without the times.
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

impl Drop for Rig {
    fn drop(&mut self) {
        self.processes.stop();
    }
}

fn start(options: ProcessOptions, log: &ErrorLog, users: &Arc<Users>) -> Processes {
    let members: Arc<dyn Members> = users.clone();
    Processes::start(options, log, output(log), Arc::downgrade(&members)).unwrap()
}

fn output(log: &ErrorLog) -> Arc<AppOutput> {
    Arc::new(AppOutput::new("shop".to_owned(), Some(log.clone()), Instant::now()))
}

/// Waits until nobody is left who could answer on this connection.
fn assert_ends(mut connection: UnixStream) {
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    match connection.read(&mut [0]) {
        Ok(0) => {}
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
        end => panic!("{end:?}"),
    }
}

/// One process, at once: a shell that runs this.
fn shell(script: &str) -> ProcessOptions {
    ProcessOptions {
        name: "shop".to_owned(),
        command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        rules: Rules { min: 1, max: 1, idle_timeout: None, retire_timeout: PATIENCE, stop_timeout: PATIENCE },
        environment: BTreeMap::new(),
        user: None,
        folder: None,
    }
}

/// The same, when it is wanted.
fn on_demand(script: &str) -> ProcessOptions {
    let mut options = shell(script);
    options.rules.min = 0;
    options
}

/// A pipe with a name, by which a script says how far it is.
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

    /// Waits until a script has opened it, and nobody has it open any more.
    fn read_to_end(&self) {
        std::fs::read(self.path()).unwrap();
    }
}

#[test]
fn a_process_can_be_connected_to_before_it_accepts() {
    let rig = Rig::start(shell("exec sleep 1000"));
    let (id, socket) = rig.up();
    assert_eq!(id, 1);
    let connection = UnixStream::connect(&socket).unwrap();
    rig.processes.stop();
    assert_eq!(rig.next(), Event::Retire(1));
    assert!(matches!(rig.next(), Event::Down(1, _)));
    // Nobody but the app had the socket: with the app its connections end.
    assert_ends(connection);
    assert!(!socket.parent().unwrap().exists());
}

/// Accepts from descriptor 0 and says which descriptors it has.
#[test]
#[ignore = "started by the next one"]
fn an_app_that_will_be_started() {
    let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned().unwrap());
    let mut connection = listener.accept().unwrap().0;
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap());
    let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let sockets = targets.filter(|target| target.to_string_lossy().starts_with("socket:"));
    // The listener twice, as it is here, and the connection.
    write!(connection, "{} sockets", sockets.count()).unwrap();
}

#[test]
fn descriptor_0_is_a_socket_to_accept_from_and_no_other_is_passed_on() {
    let _not_passed_on = UnixListener::bind(tempfile::tempdir().unwrap().path().join("other")).unwrap();
    let name = "fastcgi::processes::tests::an_app_that_will_be_started";
    let mut options = shell("");
    options.command = vec![std::env::current_exe().unwrap().to_str().unwrap().to_owned()];
    options.command.extend(["--exact", name, "--ignored"].map(str::to_owned));
    let rig = Rig::start(options);
    let mut said = String::new();
    UnixStream::connect(rig.up().1).unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "3 sockets");
}

#[test]
fn what_a_process_writes_is_logged_with_its_id() {
    let rig = Rig::start(on_demand("echo out $$; echo err >&2; printf 'no end'"));
    let text = rig.once();
    let (_, pid) = text.lines().find_map(|line| line.split_once("out ")).unwrap();
    let said = format!("app: shop[{pid}]: out {pid}\napp: shop[{pid}]: err\napp: shop[{pid}]: no end\n");
    assert!(text.contains(&said), "{text}");
}

#[test]
fn a_process_gets_its_folder_and_a_small_environment() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = on_demand("pwd; echo $PPID; ulimit -n; env");
    options.folder = Some(folder.path().canonicalize().unwrap());
    options.environment.insert("SHOP".to_owned(), "open".to_owned());
    options.environment.insert("PATH".to_owned(), "/usr/bin:/bin".to_owned());
    let text = Rig::start(options).once();
    let said: Vec<_> = text.lines().filter_map(|line| Some(line.split_once("]: ")?.1)).collect();
    let us = std::process::id().to_string();
    assert_eq!(said[..3], [folder.path().canonicalize().unwrap().to_str().unwrap(), &us, "1024"]);
    for line in ["SHOP=open", "PATH=/usr/bin:/bin"] {
        assert!(said.contains(&line), "{text}");
    }
    // Cargo sets many for us, and none of them is the app's business.
    assert!(!text.contains("CARGO"), "{text}");
}

#[test]
fn a_process_runs_as_its_user_with_all_groups_of_that_if_root_starts_it() {
    let mut options = on_demand("id -u; id -g; id -G; echo $HOME $USER");
    options.user = Some("nobody".to_owned());
    if !geteuid().is_root() {
        let (log, members) = (ErrorLog::to(tempfile::tempfile().unwrap()).unwrap(), Weak::<Users>::new());
        let error = Processes::start(options, &log, output(&log), members).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        return;
    }
    let user = User::find("nobody").unwrap();
    let text = Rig::start(options).once();
    let said: Vec<_> = text.lines().filter_map(|line| Some(line.split_once("]: ")?.1)).collect();
    let groups: Vec<_> = user.groups.iter().map(|group| group.as_raw().to_string()).collect();
    let home = format!("{} nobody", user.home);
    let expected = [&user.uid.as_raw().to_string(), &user.gid.as_raw().to_string(), &groups.join(" "), &home];
    assert_eq!(said, expected);
}

#[test]
fn a_user_that_is_not_there_is_an_error() {
    let mut options = shell("exec sleep 1000");
    options.user = Some("no such user".to_owned());
    let (log, members) = (ErrorLog::to(tempfile::tempfile().unwrap()).unwrap(), Weak::<Users>::new());
    let error = Processes::start(options, &log, output(&log), members).unwrap_err();
    assert_eq!(error.to_string(), "there is no user `no such user`");
}

#[test]
fn a_command_that_is_not_there_is_told_once_and_runs_when_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("app");
    let mut options = shell("");
    options.command = [program.to_str().unwrap(), "-c", "exec sleep 1000"].map(str::to_owned).to_vec();
    let rig = Rig::start(options);
    let Event::Unavailable(why) = rig.next() else { panic!() };
    let cannot = format!("shop: cannot start {}: No such file or directory (os error 2)", program.display());
    assert_eq!(why, cannot);
    // It is tried again, with a longer pause each time, and then there is a program.
    let failure = std::iter::repeat_with(|| {
        assert_eq!(rig.next(), Event::Unavailable(why.clone()));
        rig.processes.failure()
    });
    let failure = failure.flatten().next().unwrap();
    assert!(failure.starts_with(&format!("{why}; next try in ")), "{failure}");
    std::os::unix::fs::symlink("/bin/sh", &program).unwrap();
    let event = std::iter::repeat_with(|| rig.next()).find(|event| *event != Event::Unavailable(why.clone()));
    assert!(matches!(event, Some(Event::Up(1, _))), "{event:?}");
    assert_eq!(rig.processes.failure(), None);
    let text = rig.stop();
    assert_eq!(text.matches(&cannot).count(), 1, "{text}");
    assert!(text.contains("notice: shop: process "), "{text}");
}

#[test]
fn why_a_command_cannot_be_started_is_said_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str, mode| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for (command, its_folder, expected) in [
        ("rudy-no-such-program".to_owned(), None, "not in PATH; give its whole path"),
        (file("plain", "", 0o644), None, "the file must be executable"),
        (
            file("old", "#!/no/such/interpreter\n", 0o755),
            None,
            "not the interpreter that its first line names",
        ),
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
        let Event::Unavailable(why) = Rig::start(options).next() else { panic!("{expected}") };
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn a_process_that_ends_at_once_is_started_again_after_a_pause() {
    let rig = Rig::start(shell("exit 3"));
    for id in 1..=3 {
        assert_eq!(rig.up().0, id);
        let Event::Down(down, why) = rig.next() else { panic!() };
        assert_eq!(down, id);
        let (pid, how) = why.strip_prefix("shop: process ").unwrap().split_once(" ended after ").unwrap();
        assert!(how.ends_with(" s (exit status: 3)"), "{why}");
        // It is reaped by then: no zombie stays.
        assert!(!Path::new("/proc").join(pid).exists(), "{why}");
        assert_eq!(rig.next(), Event::Unavailable(why.clone()));
    }
    let text = rig.stop();
    // Once, and then counted.
    assert_eq!(text.matches("(exit status: 3) of itself").count(), 1, "{text}");
    assert!(text.contains("shop: a process ended of itself: "), "{text}");
}

#[test]
fn a_process_that_ends_in_order_after_its_work_is_followed_at_once() {
    let rig = Rig::with(shell("exit 0"), 500, None);
    for id in 1..=3 {
        assert_eq!(rig.up().0, id);
        assert!(matches!(rig.next(), Event::Down(..)));
    }
    let text = rig.stop();
    assert!(!text.contains("error"), "{text}");
}

#[test]
fn a_process_that_ignores_sigterm_is_killed() {
    let ready = Fifo::make();
    let mut options = shell("trap '' TERM; echo > $FIFO; while :; do sleep 1000; done");
    options.environment.insert("FIFO".to_owned(), ready.path());
    options.rules.stop_timeout = Duration::from_millis(10);
    let rig = Rig::start(options);
    rig.up();
    ready.read_to_end();
    rig.processes.stop();
    assert_eq!(rig.next(), Event::Retire(1));
    let Event::Down(1, why) = rig.next() else { panic!() };
    assert!(why.ends_with("(signal: 9 (SIGKILL))"), "{why}");
    assert!(rig.stop().contains(" did not end 0.01 s after SIGTERM: it is killed\n"));
}

#[test]
fn a_flood_of_output_neither_blocks_the_app_nor_fills_the_log() {
    let text = Rig::start(on_demand("yes | head -n 100000; echo done > /dev/null")).once();
    let lines = text.matches("]: y\n").count();
    // As many as are taken at once, and a few for the seconds that it took.
    assert!((500..1000).contains(&lines), "{lines}");
    assert!(text.contains(" bytes were dropped: more than 10 lines or 8192 bytes per second\n"), "{text}");
}

#[test]
fn a_process_that_always_writes_hides_neither_another_one_nor_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    let first = folder.path().join("first");
    let flood = "yes & yes & yes & exec yes";
    let mut options = shell(&format!("mkdir {} 2> /dev/null && {{ {flood}; }}; exit 3", first.display()));
    (options.rules.min, options.rules.max) = (2, 2);
    let rig = Rig::start(options);
    let ended = std::iter::repeat_with(|| rig.next()).find_map(|event| match event {
        Event::Down(_, why) => Some(why),
        _ => None,
    });
    assert!(ended.unwrap().ends_with(" (exit status: 3)"));
    rig.stop();
}

#[test]
fn what_a_process_leaves_behind_ends_with_it() {
    let fifo = Fifo::make();
    let mut options = on_demand("exec 9> $FIFO; sleep 1000 & exit 0");
    options.environment.insert("FIFO".to_owned(), fifo.path());
    let rig = Rig::start(options);
    rig.processes.grow();
    // Until nobody has it open for writing any more.
    fifo.read_to_end();
    rig.up();
    assert!(matches!(rig.next(), Event::Down(..)));
}

#[test]
fn an_app_behind_a_shell_has_time_to_end_though_the_shell_has_none() {
    let ready = Fifo::make();
    let app = "(trap 'echo bye; exit' TERM; echo > $FIFO; while :; do sleep 0.01; done) & wait";
    let mut options = shell(app);
    options.environment.insert("FIFO".to_owned(), ready.path());
    let rig = Rig::start(options);
    rig.up();
    ready.read_to_end();
    let text = rig.stop();
    assert!(text.contains("]: bye\n"), "{text}");
}

#[test]
fn the_only_process_is_replaced_by_one_that_starts_when_it_has_ended() {
    let rig = Rig::start(shell("exec sleep 1000"));
    let (id, socket) = rig.up();
    rig.processes.grow();
    rig.processes.replace(id);
    assert_eq!(rig.next(), Event::Retire(id));
    rig.processes.drained(id);
    assert!(matches!(rig.next(), Event::Down(1, _)));
    assert!(!socket.exists());
    assert_eq!(rig.up().0, 2);
}

#[test]
fn a_process_starts_when_it_is_wanted_and_ends_when_it_is_idle() {
    let mut options = on_demand("exec sleep 1000");
    options.rules.idle_timeout = Some(Duration::ZERO);
    let rig = Rig::with(options, 0, Some(Instant::now()));
    rig.processes.grow();
    assert_eq!(rig.up().0, 1);
    assert_eq!(rig.next(), Event::Retire(1));
    rig.processes.drained(1);
    assert!(matches!(rig.next(), Event::Down(1, _)));
    rig.processes.grow();
    assert_eq!(rig.up().0, 2);
}

#[test]
fn processes_end_when_nobody_has_them_any_more() {
    let (sender, events) = channel();
    let users = Arc::new(Users { events: Mutex::new(sender), requests: 0, idle_since: None });
    let log = ErrorLog::to(tempfile::tempfile().unwrap()).unwrap();
    let processes = start(shell("exec sleep 1000"), &log, &users);
    let Ok(Event::Up(1, socket)) = events.recv_timeout(PATIENCE) else { panic!() };
    let shared = processes.0.clone();
    drop(processes);
    drop(shared.over.wait_while(shared.lock(), |state| !state.is_over));
    assert!(!socket.parent().unwrap().exists());
}

/// Says where its process listens, and waits to be killed.
#[test]
#[ignore = "started by the next one"]
fn a_server_that_will_be_killed() {
    let rig = Rig::start(shell("exec sleep 1000"));
    println!("\nsocket: {}", rig.up().1.display());
    let _ = io::stdin().read(&mut [0]);
}

#[test]
fn processes_end_when_the_server_is_killed() {
    let mut server = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "fastcgi::processes::tests::a_server_that_will_be_killed",
            "--ignored",
            "--nocapture",
        ])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
    let socket = lines.find_map(|line| line.strip_prefix("socket: ").map(PathBuf::from)).unwrap();
    let connection = UnixStream::connect(&socket).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_ends(connection);
    std::fs::remove_dir_all(socket.parent().unwrap()).unwrap();
}

#[test]
fn a_program_is_relative_to_where_rudy_runs_and_not_to_the_folder_of_its_processes() {
    let (folder, program) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink("/bin/sh", program.path().join("app")).unwrap();
    let here = std::env::current_dir().unwrap();
    let up = "../".repeat(here.components().count() - 1);
    let mut options = on_demand("pwd");
    options.command[0] = format!("{up}{}/app", program.path().strip_prefix("/").unwrap().display());
    options.folder = Some(folder.path().canonicalize().unwrap());
    let text = Rig::start(options.clone()).once();
    assert!(text.contains(options.folder.unwrap().to_str().unwrap()), "{text}");
}
