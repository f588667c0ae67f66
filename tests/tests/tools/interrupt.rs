//! Tests Ctrl-C in all client commands: the first one ends the run with a partial report, the second one kills the process.

use std::io::PipeReader;
use std::os::unix::process::ExitStatusExt;

use rudy_tests::prelude::*;
use rustix::fs::{OFlags, fcntl_setfl};

/// Commands that run longer than the timeout of a test.
const COMMANDS: [&[&str]; 3] = [
    &["get", "--json", "--repeat", "2"],
    &["bench", "-c", "1", "-d", "1h"],
    &["flood", "-c", "1", "--hold", "1h"],
];

/// Starts a server that begins a response and never ends it. The receiver gets a message for the request.
fn server() -> (String, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("a bound socket has an address"));
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client connects");
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).is_ok_and(|read| read > 0) {}
        let response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n";
        stream.get_mut().write_all(response).expect("the client reads");
        // Fails if the test has already failed.
        let _ = sender.send(());
        let _ = stream.read(&mut [0]);
    });
    (url, requests)
}

/// Starts a command and waits for its request. By then, the signal handlers are installed.
fn start(command: &[&str], stdout: Stdio) -> Child {
    let (url, requests) = server();
    let child = Rudy::command(command).arg(url).stdout(stdout).spawn();
    requests.recv_timeout(PATIENCE).expect("the server receives a request");
    child
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).expect("the process has not been reaped");
}

#[test]
fn the_first_ctrl_c_ends_a_run_with_a_partial_report() {
    for command in COMMANDS {
        let child = start(command, Stdio::piped());
        interrupt(&child);
        let output = Output::wait(child).with_code(130);
        assert!(output.stdout.len() > 100, "{command:?}: {}", output.stdout);
    }
}

/// Returns a full pipe, to which a command cannot write its report, so that it does not exit.
fn full_pipe() -> (PipeReader, Stdio) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    fcntl_setfl(&writer, OFlags::NONBLOCK).expect("the stream is piped");
    while writer.write(&[0; 4096]).is_ok() {}
    while writer.write(&[0]).is_ok() {}
    fcntl_setfl(&writer, OFlags::empty()).expect("the stream is piped");
    (reader, writer.into())
}

#[test]
fn the_second_ctrl_c_kills_the_process() {
    for command in COMMANDS {
        let (_reader, stdout) = full_pipe();
        let mut child = start(command, stdout);
        let start = Instant::now();
        // Pending signals of one kind are merged, so send more until the process has received a second one.
        let status = loop {
            if let Some(status) = child.try_wait().expect("the child can be waited for") {
                break status;
            }
            assert!(start.elapsed() < PATIENCE, "{command:?} does not end");
            interrupt(&child);
            thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(status.signal(), Some(2), "{command:?}: {status}");
    }
}
