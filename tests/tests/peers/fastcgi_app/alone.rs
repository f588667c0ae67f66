//! `fastcgi-info` without a web server: called from the command line, with restricted clients, and
//! terminated.

use rudy_tests::prelude::*;

use super::Info;

const TASKS: &[&str] = &["--tasks", "10"];

fn call(client: &Path, info: &Info) -> String {
    let mut command = Command::new(client);
    command.args(["-bind", "-connect", &info.address]).env_clear().stdin(Stdio::null());
    command.envs([("REQUEST_METHOD", "GET"), ("SCRIPT_NAME", "/info"), ("SERVER_PROTOCOL", "HTTP/1.1")]);
    Output::of(&mut command).succeeded()
}

#[test]
fn it_responds_to_cgi_fcgi() {
    let Some(client) = program("cgi-fcgi") else { return };
    let info = Info::start_for(TASKS, Some("10.0.0.7, 127.0.0.1"));
    let text = call(&client, &info);
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("Status: 200 OK\r\n"), "{head}");
    assert!(body.starts_with(&format!("{}\n", info.child.id())), "{body}");
}

#[test]
fn clients_that_the_environment_does_not_list_are_rejected() {
    let info = Info::start_for(TASKS, Some("10.0.0.7"));
    let mut stream = TcpStream::connect(&info.address).expect("the server listens");
    assert_eq!(stream.read(&mut [0]).expect("the connection is closed"), 0);
}

#[test]
fn sigterm_ends_it_cleanly() {
    let mut info = Info::start(TASKS);
    // An idle connection must not delay the end.
    let mut idle = TcpStream::connect(&info.address).expect("the server listens");
    // The kernel accepts connections before the app does. A response (to an empty FCGI_GET_VALUES) shows that
    // the app handles signals.
    idle.write_all(&[1, 9, 0, 0, 0, 0, 0, 0]).expect("the server reads");
    idle.read_exact(&mut [0; 8]).expect("the server responds");
    kill_process(Pid::from_child(&info.child), Signal::TERM).expect("the process is running");
    assert!(info.child.wait().expect("the child can be waited for").success());
}

#[test]
fn an_error_names_the_type_of_descriptor_0_if_it_is_not_a_listener() {
    let (ours, theirs) = UnixStream::pair().expect("descriptors are free");
    let cases = [
        (Stdio::null(), "not a socket"),
        (Stdio::from(std::os::fd::OwnedFd::from(theirs)), "a connection, not a listening socket"),
    ];
    for (stdin, why) in cases {
        let output = Output::of(Command::new(fastcgi_info()).stdin(stdin));
        assert!(!output.is_success() && output.stderr.contains(why), "{output:?}");
    }
    drop(ours);
}
