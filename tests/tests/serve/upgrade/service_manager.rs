//! Messages to a service manager during an upgrade.

use rudy_tests::prelude::*;

use crate::upgrade::rig::{ANY, Rig, UPGRADE_FAILED, text, wait_for_exit};

fn next(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 256];
    let bytes = socket.recv(&mut buffer).expect("a message comes");
    String::from_utf8(buffer[..bytes].to_vec()).unwrap()
}

#[test]
fn the_old_process_is_the_main_process_until_it_ends() {
    let folder = Folder::new();
    let path = folder.join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let server = Server::build().config(&text(ANY, "hello", "")).env("NOTIFY_SOCKET", &path).start();
    let mut rig = Rig::from_server(server);
    assert_eq!(next(&socket), "READY=1");
    for _ in 0..2 {
        let old = rig.upgrade();
        assert!(next(&socket).starts_with("RELOADING=1\n"));
        assert_eq!(next(&socket), "READY=1");
        assert_eq!(next(&socket), format!("MAINPID={}", rig.pid));
        wait_for_exit(old);
    }
    let old = rig.upgrade();
    assert!(next(&socket).starts_with("RELOADING=1\n"));
    assert_eq!(next(&socket), "READY=1");
    kill_process(rig.pid, Signal::KILL).unwrap();
    rig.server.wait_for_line(&format!("process {old} accepts connections again"));
    rig.pid = old;
    rig.rewrite("wrong");
    rig.signal(Signal::USR2);
    rig.server.wait_for_line(UPGRADE_FAILED);
    assert!(next(&socket).starts_with("RELOADING=1\n"));
    assert_eq!(next(&socket), "READY=1");
    rig.signal(Signal::TERM);
    assert_eq!(next(&socket), "STOPPING=1");
}
