//! `rudy reload`: signals a server and prints the result.

use rudy_tests::prelude::*;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};

use crate::upgrade::rig::{ANY, Rig, text, wait_for_exit};

fn reload(arguments: &[&str]) -> Output {
    Rudy::command(["reload"]).args(arguments).output()
}

fn reload_process(pid: Pid, more: &[&str]) -> Output {
    reload(&[&["--pid", &pid.to_string()], more].concat())
}

#[test]
fn the_result_of_a_reload_is_printed() {
    let rig = Rig::start(&text(ANY, "old", ""));
    rig.rewrite(&text(ANY, "new", ""));
    let text = reload_process(rig.pid, &[]).with_code(0).text();
    assert!(text.starts_with("the configuration was reloaded"), "{text}");
    assert_eq!(rig.get("/"), "new");
    rig.rewrite("lisen = []\n");
    let text = reload_process(rig.pid, &[]).with_code(1).text();
    assert_contains!(text, "error: 1 error in the configuration; the configuration is unchanged");
    assert_contains!(text, "`lisen`", "rudy.toml:1");
}

#[test]
fn the_result_of_an_upgrade_is_printed() {
    let mut rig = Rig::start(&text(ANY, "old", ""));
    rig.rewrite(&text(ANY, "new", ""));
    let text = reload_process(rig.pid, &["--binary"]).with_code(0).text();
    let old = rig.is_replaced();
    assert_eq!(text, format!("process {} has replaced process {old}\n", rig.pid));
    assert_eq!(rig.get("/"), "new");
    wait_for_exit(old);
    rig.rewrite("lisen = []\n");
    let text = reload_process(rig.pid, &["--binary"]).with_code(1).text();
    assert!(text.contains("upgrade failed: ") && text.contains("lisen"), "{text}");
}

#[test]
fn the_old_process_can_be_selected_until_it_has_ended() {
    let mut rig = Rig::start(&text(ANY, "old", ""));
    let _upload = rig.server.send(b"POST /app HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nab");
    let old = rig.upgrade();
    rig.rewrite(&text(ANY, "new", ""));
    reload_process(old, &[]).with_code(0);
    assert_eq!(rig.get("/"), "new");
}

#[test]
fn a_process_that_does_not_handle_the_signal_is_not_signalled() {
    let mut sleeper = Running::start(Command::new("sleep").arg("1000"));
    let pid = Pid::from_child(&sleeper);
    for more in [&[][..], &["--binary"]] {
        assert_contains!(reload_process(pid, more).with_code(1).text(), "it is not `rudy serve`");
    }
    assert!(sleeper.try_wait().unwrap().is_none());
    drop(sleeper);
    let text = reload_process(pid, &[]).with_code(1).text();
    assert_eq!(text, format!("error: there is no process {pid}\n"));
}

/// Listens on the abstract name on which `rudy reload` waits for the result of a process.
fn take_name(pid: Pid) -> OwnedFd {
    let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("every kernel has them");
    let name = format!("rudy-reload-{pid}");
    bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).expect("the name is free");
    listen(&socket, 1).expect("the socket is bound");
    socket
}

/// A name in the abstract namespace belongs to the first who binds it.
#[test]
fn another_user_cannot_take_the_place_of_the_command() {
    if !geteuid().is_root() {
        return skip("only root can listen as another user");
    }
    let rig = Rig::start(&text(ANY, "old", ""));
    let pid = rig.pid;
    // The user of a thread is that of the sockets on which it listens.
    let taken = thread::spawn(move || {
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65534)).unwrap();
        take_name(pid)
    });
    let _taken = taken.join().unwrap();
    rig.rewrite(&text(ANY, "new", ""));
    let text = reload_process(rig.pid, &[]).with_code(0).text();
    assert!(text.starts_with("the configuration was reloaded"), "{text}");
    assert_eq!(rig.get("/"), "new");
}

#[test]
fn a_second_command_does_not_take_the_result_of_the_first() {
    let rig = Rig::start(&text(ANY, "old", ""));
    let _waiting = take_name(rig.pid);
    let text = reload_process(rig.pid, &[]).with_code(1).text();
    assert!(text.contains("another `rudy reload` is waiting"), "{text}");
}

#[test]
fn the_result_of_another_signal_is_not_taken() {
    let mut rig = Rig::start(&text(ANY, "old", ""));
    // Both signals arrive together.
    rig.signal(Signal::STOP);
    rig.signal(Signal::HUP);
    let command = Rudy::command(["reload", "--binary", "--pid", &rig.pid.to_string()]).spawn();
    let status = format!("/proc/{}/status", rig.pid);
    wait_until("the command has sent its signal", || {
        let status = fs::read_to_string(&status).unwrap();
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).unwrap().trim();
        u64::from_str_radix(pending, 16).unwrap() & (1 << (Signal::USR2.as_raw() - 1)) != 0
    });
    rig.signal(Signal::CONT);
    let text = Output::wait(command).with_code(0).text();
    let old = rig.is_replaced();
    assert_eq!(text, format!("process {} has replaced process {old}\n", rig.pid));
}

#[test]
fn several_servers_need_a_pid() {
    let rigs = [Rig::start(&text(ANY, "one", "")), Rig::start(&text(ANY, "two", ""))];
    let text = reload(&[]).with_code(1).text();
    assert!(text.contains("select one with --pid PID"), "{text}");
    for rig in rigs {
        assert!(text.lines().any(|line| line.trim_start().starts_with(&format!("{} ", rig.pid))), "{text}");
    }
}

/// Runs in a separate PID namespace, without the servers of other tests.
#[test]
fn the_only_server_is_found() {
    if !geteuid().is_root() || program("unshare").is_none() {
        return skip("only root can give a command a /proc of its own (unshare --pid)");
    }
    let folder = Folder::with(&[("rudy.toml", text(ANY, "hello", ""))]);
    let script = "\"$0\" reload; \"$0\" serve --config rudy.toml & \
                  until \"$0\" reload 2>/dev/null; do sleep 0.05; done; \"$0\" reload --binary; kill -TERM $!; wait $!";
    let mut command = Command::new("unshare");
    command.args(["--fork", "--pid", "--mount-proc", "--kill-child", "sh", "-c", script]).arg(binary());
    let text = Output::of(command.current_dir(&folder)).with_code(0).text();
    assert_contains!(
        text,
        "error: no `rudy serve` of this user is running",
        "the configuration was reloaded"
    );
    assert_contains!(text, " has replaced process ");
}
