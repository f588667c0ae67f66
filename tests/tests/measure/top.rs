//! Tests `rudy top` with a terminal, with a JVM's recorded thread dump, and with a process that writes.

use std::process::ChildStdin;

use rudy_tests::prelude::*;

/// Starts a process with a name of its own that copies its standard input into a file.
fn writer(folder: &Folder, name: &str) -> (Running, ChildStdin) {
    let program = folder.join(name);
    symlink("/bin/cat", &program).expect("the folder is writable");
    let output = fs::File::create(folder.join("written")).expect("the folder is writable");
    let mut child =
        Command::new(&program).stdin(Stdio::piped()).stdout(output).spawn().expect("every system has cat");
    let stdin = child.stdin.take().expect("the stream is piped");
    (Running::from(child), stdin)
}

fn top(arguments: &[&str]) -> Output {
    Rudy::command(["top"]).args(arguments).output()
}

/// Returns the stdout of a run that succeeds without output on stderr.
fn success(arguments: &[&str]) -> String {
    let output = top(arguments);
    assert_eq!(output.stderr, "");
    output.succeeded()
}

#[test]
fn an_idle_process_is_found_by_its_name_and_reported_as_idle() {
    let folder = Folder::new();
    let (child, _stdin) = writer(&folder, "rudy-idle");
    let table = success(&["rudy-idle", "--once", "--interval", "50ms"]);
    assert!(table.starts_with(&format!("rudy-idle (pid {}): 1 thread, 0 busy", child.id())), "{table}");
    assert!(table.contains("\n=> idle: its one thread used 0.0 % of a core"), "{table}");
    assert!(table.lines().any(|line| line.contains(" rudy-idle  ")), "{table}");
}

#[test]
fn keys_sum_threads_show_stacks_and_quit() {
    let folder = Folder::new();
    let (_child, _stdin) = writer(&folder, "rudy-keys");
    let command =
        format!("stty rows 40 cols 100; TERM=xterm exec {} top rudy-keys --idle -i 50ms", binary().display());
    let mut script = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script can be started");
    let mut keys = script.stdin.take().expect("the stream is piped");
    let mut screen = BufReader::new(script.stdout.take().expect("the stream is piped"));
    let mut script = Running::from(script);
    let mut wait_for = |text: &str| {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert!(screen.read_line(&mut line).expect("the screen is UTF-8") > 0, "no {text}");
        }
    };
    wait_for("STATE");
    keys.write_all(b"s").expect("the terminal reads");
    wait_for("in the kernel: ");
    keys.write_all(b"?").expect("the terminal reads");
    wait_for("q  quit");
    keys.write_all(b"q").expect("the terminal reads");
    let rest = std::io::read_to_string(&mut screen).expect("the screen is UTF-8");
    assert_eq!(script.wait().expect("the child can be waited for").code(), Some(0), "{rest}");
}

#[test]
fn a_recorded_thread_dump_gives_threads_their_names_and_stacks() {
    let folder = Folder::new();
    let (child, _stdin) = writer(&folder, "rudy-java");
    let pid = child.id();
    let text = format!(
        "Full thread dump OpenJDK:\n\n\"http-nio-8080-Acceptor\" #31 prio=5 tid=0x1 nid={pid:#x} runnable\n\
         \tat sun.nio.ch.Net.accept(java.base@17.0.15/Native Method)\n\tat Main.main(Main.java:1)\n"
    );
    folder.write("dump", text.repeat(10));
    let arguments = [&pid.to_string(), "--once", "-i", "50ms", "--jvm-dump", &folder.text("dump")];
    // A file attaches to nothing, so nothing is announced.
    let table = success(&arguments);
    let expected = format!(
        "http-nio-8080-Acceptor ({pid}): the same top frame in 10 of 10 samples: sun.nio.ch.Net.accept, called by Main.main"
    );
    assert!(table.contains(&expected), "{table}");
    let object = top(&[arguments.as_slice(), &["--json", "--idle"]].concat()).json();
    assert_eq!((&object["dumps"], &object["busiest"][0]["role"]), (&10.into(), &"management".into()));
    assert_contains!(top(&[&pid.to_string(), "--once", "--jvm"]).failed_with(1), "is not a JVM");
}

#[test]
fn a_process_that_writes_is_shown_with_its_file() {
    let folder = Folder::new();
    let (child, mut stdin) = writer(&folder, "rudy-writer");
    let path = fs::canonicalize(folder.join("written")).expect("the file exists");
    let top = Rudy::command(["top", "--disk", &child.id().to_string(), "--json", "-i", "50ms"]);
    let mut top = Running::from(top.spawn());
    let mut lines = BufReader::new(top.stdout.take().expect("the stream is piped")).lines();
    // It writes until an update shows it.
    let process = loop {
        stdin.write_all(&[b'x'; 10_000]).expect("cat reads");
        let line = lines.next().expect("updates continue").expect("the output is UTF-8");
        let object: Value = serde_json::from_str(&line).expect(&line);
        let process = object["processes"][0].clone();
        if process["files"][0]["written_bytes"].as_u64() > Some(0) {
            break process;
        }
    };
    assert_eq!(process["name"], "rudy-writer");
    assert_eq!(process["files"][0]["path"].as_str(), path.to_str());
    assert!(process["write_call_bytes"].as_u64() > Some(0), "{process}");
    assert!(process["threads"][0]["write_call_bytes"].as_u64() > Some(0), "{process}");
}

#[test]
fn all_writers_are_shown_without_a_process() {
    assert_contains!(success(&["--disk", "--once", "-i", "50ms"]), " processes: ", "\n=> ");
}
