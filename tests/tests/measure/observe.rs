//! Tests `rudy top` and `rudy conns` with processes whose threads and sockets are known.

use rudy_tests::prelude::*;

/// Returns the stdout of a run that succeeds without output on stderr.
fn success(arguments: &[&str]) -> String {
    let output = Rudy::run(arguments);
    assert_eq!((output.code, output.stderr.as_ref()), (Some(0), ""));
    output.stdout
}

fn own_pid() -> String {
    std::process::id().to_string()
}

/// A running `rudy` and the lines it writes. It is killed when this is dropped.
struct Watch {
    child: Running,
    lines: Receiver<String>,
}

impl Watch {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Running::from(Rudy::command(arguments).spawn());
        let lines = lines_of(child.stdout.take().expect("the stream is piped"));
        Self { child, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line is written")
    }

    fn line_with(&self, part: &str) -> String {
        loop {
            let line = self.line();
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Waits until the process exits. Returns its exit code and its stderr.
    fn end(&mut self) -> (Option<i32>, String) {
        let mut stderr = String::new();
        let pipe = self.child.stderr.as_mut().expect("the stream is piped");
        pipe.read_to_string(&mut stderr).expect("the output is UTF-8");
        (self.child.wait().expect("the child can be waited for").code(), stderr)
    }
}

/// Starts a child that waits until its standard input is closed.
fn sleeper() -> Child {
    Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("every system has cat")
}

/// Returns a listener, and both ends of a connection to it.
fn pair() -> (TcpListener, TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let client = TcpStream::connect(listener.local_addr().expect("the listener is bound"))
        .expect("the server listens");
    let (server, _) = listener.accept().expect("a connection is there");
    (listener, client, server)
}

#[test]
fn the_busiest_thread_is_shown() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let burner = thread::Builder::new().name("burner".into()).spawn(|| {
        while !STOP.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    let table = success(&["top", &own_pid(), "-n", "1", "--interval", "200ms"]);
    let json = success(&["top", &own_pid(), "-n", "2", "--interval", "200ms", "--json"]);
    STOP.store(true, Ordering::Relaxed);
    burner.expect("a thread can be started").join().expect("the thread does not panic");
    assert_contains!(table, "burner", &format!("(pid {})", own_pid()));
    let objects: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(objects.len(), 2);
    for object in objects {
        let busiest = object["busiest"].as_array().expect("the value is a list");
        let burner = busiest.iter().find(|thread| thread["name"] == "burner");
        let burner = burner.expect("it uses CPU all the time");
        let tid = burner["tid"].as_u64().expect("the value is a number");
        assert_eq!(burner["nid"], format!("{tid:#x}"));
        assert!(burner["cpu_percent"].as_f64().is_some_and(|percent| percent > 0.0), "{burner}");
    }
}

#[test]
fn top_runs_until_it_is_interrupted() {
    let mut watch = Watch::start(&["top", &own_pid(), "--interval", "20ms", "--idle"]);
    for _ in 0..3 {
        watch.line_with("threads");
    }
    kill_process(Pid::from_child(&watch.child), Signal::INT).expect("the process is running");
    assert_eq!(watch.end(), (Some(0), String::new()));
}

#[test]
fn a_watch_exits_with_0_when_its_process_exits() {
    for arguments in [&["top", "--interval", "1h"][..], &["conns", "--watch=1h"]] {
        let mut child = sleeper();
        let pid = child.id().to_string();
        let (name, flags) = arguments.split_first().expect("each has a name");
        let mut watch = Watch::start(&[&[*name, &pid], flags].concat());
        if *name == "conns" {
            // The first sample of `conns` is printed at once. That of `top` prints nothing.
            watch.line_with("descriptors");
        } else {
            wait_until_watched(&watch);
        }
        drop(child.stdin.take());
        assert_eq!(watch.end(), (Some(0), format!("notice: process {pid} has ended\n")));
        child.wait().expect("the child can be waited for");
    }
}

/// Waits until the watch has opened a pidfd for its process.
fn wait_until_watched(watch: &Watch) {
    let folder = format!("/proc/{}/fd", watch.child.id());
    wait_until("the process is watched", || {
        let links = fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut targets = links.filter_map(|link| fs::read_link(link.path()).ok());
        targets.any(|to| to.ends_with("anon_inode:[pidfd]"))
    });
}

#[test]
fn a_watch_exits_when_its_stdout_is_closed() {
    let mut child = Rudy::command(["conns", &own_pid(), "--watch=1h"]).spawn();
    let mut first = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("the stream is piped"));
    stdout.read_line(&mut first).expect("a line is written");
    drop(stdout);
    assert_eq!(child.wait().expect("the child can be waited for").code(), Some(0), "{first}");
}

#[test]
fn sockets_are_shown_by_state() {
    let (_listener, client, server) = pair();
    drop(server);
    let mut watch = Watch::start(&["conns", &own_pid(), "--watch", "20ms", "--json"]);
    let object = loop {
        let object: Value = serde_json::from_str(&watch.line()).expect("each line is an object");
        // The FIN of the server's end can still be in flight.
        if !object["tcp"]["close_wait"].is_null() && !object["without_descriptor"]["fin_wait2"].is_null() {
            break object;
        }
    };
    assert!(object["tcp"]["listen"]["sockets"].as_u64() >= Some(1), "{object}");
    assert!(object["descriptors"].as_u64() > Some(0) && object["descriptors_limit"].as_u64() > Some(0));
    kill_process(Pid::from_child(&watch.child), Signal::INT).expect("the process is running");
    assert_eq!(watch.end(), (Some(0), String::new()));
    assert_contains!(success(&["conns", &own_pid()]), "\nCLOSE_WAIT ");
    let remote = client.peer_addr().expect("the socket is connected");
    // That end was accepted, so its remote address is shown without the port.
    let remotes = success(&["conns", &own_pid(), "--by", "remote", "--rows", "1000"]);
    assert!(remotes.contains(&remote.ip().to_string()), "{remotes}");
    assert_contains!(success(&["conns", &own_pid(), "--by", "local", "--rows", "1000"]), &remote.to_string());
}

#[test]
fn a_leak_shows_as_growth() {
    let mut watch = Watch::start(&["conns", &own_pid(), "--watch", "20ms"]);
    watch.line_with("in brackets the change since the start");
    watch.line_with("0.0 s");
    let leaked: Vec<_> = (0..10).map(|_| pair()).collect();
    // Thirty sockets, more than the other tests of this process open and close meanwhile.
    while growth(&watch.line(), "sockets ").is_none_or(|growth| growth < 20) {}
    kill_process(Pid::from_child(&watch.child), Signal::TERM).expect("the process is running");
    assert_contains!(watch.line_with("In "), ", sockets +", ", ESTABLISHED +");
    assert_eq!(watch.end(), (Some(0), String::new()));
    drop(leaked);
}

#[test]
fn a_watch_writes_a_chart_and_refuses_a_file_that_cannot_be_written_at_once() {
    let folder = Folder::new();
    let path = folder.text("leak.svg");
    let drawn = Rudy::run(["conns", &own_pid(), "--watch", "10ms", "--count", "3", "--plot", &path]);
    assert_eq!(drawn.failed_with(0), format!("chart: {path}\n"));
    let svg = folder.read("leak.svg");
    assert!(svg.starts_with("<svg") && svg.contains("descriptors"), "{svg}");
    let missing = folder.text("missing/leak.svg");
    let refused = Rudy::run(["conns", &own_pid(), "--watch=1h", "--plot", &missing]);
    assert_eq!((refused.code, &*refused.stdout), (Some(1), ""));
    assert!(refused.stderr.starts_with("error: cannot write "));
}

/// Returns the change of `what` in a line: 3 for `sockets 83 (+3), ...`.
fn growth(line: &str, what: &str) -> Option<i64> {
    let part = line.split(", ").find_map(|part| part.strip_prefix(what))?;
    part.split_once('(')?.1.trim_end_matches(')').parse().ok()
}

#[test]
fn a_missing_process_is_reported_with_exit_code_1() {
    for command in ["top", "conns"] {
        // Above the maximum process id of the kernel.
        let stderr = Rudy::run([command, "4194305"]).failed_with(1);
        assert!(stderr.starts_with("error: process 4194305 does not exist"), "{stderr}");
    }
}
