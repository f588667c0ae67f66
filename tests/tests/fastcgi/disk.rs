//! No room for a body that is stored before the app is asked.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use rudy_net::engine::Model;
use rudy_tests::fastcgi::App;
use rudy_tests::{Connection, skip};
use tempfile::TempDir;

use crate::site::{Site, answer_with};

/// What the server makes of bodies that it stores in `folder`, where `script`, the shell that starts the server, leaves no room
/// for them. `why` is the reason that the log has to give.
fn has_no_room(folder: &Path, script: &str, why: &str) {
    let app = App::start(|mut peer| {
        while let Some(params) = peer.request() {
            let length = rudy_tests::fastcgi::variable(&params, "CONTENT_LENGTH").to_owned();
            if !answer_with(&mut peer, &length) {
                return;
            }
        }
    });
    // The bound on all files would be half of the free space, and be found first.
    let top = format!("buffer_dir = \"{}\"\nbuffer_total = \"1 GiB\"\n", folder.display());
    let server = Site::build(Model::PerCore, &app.address(), &top, "").through_shell(script).start();
    let mut site = Site { server, app, told: mpsc::channel().1 };
    assert_eq!(site.server.get("/app/x").status, 200, "{why}");
    let before = site.descriptors();
    for _ in 0..3 {
        let mut client = site.server.connect();
        send_in_chunks(&mut client, 1000);
        let answer = client.response();
        assert_eq!(answer.status, 507, "{}", answer.text());
        drop(client);
        let mut client = site.server.connect();
        send_in_chunks(&mut client, 10);
        assert_eq!(client.response().text(), "10000", "{why}");
        drop(client);
        site.descriptors_fall_to(before + 2, why);
    }
    let line = format!("cannot store the body: {}: {why}", folder.display());
    let line = site.server.wait_for_line(&line);
    assert!(line.contains("POST /app/x from 127.0.0.1"), "{line}");
}

/// A POST of this many kilobytes, without their length.
fn send_in_chunks(client: &mut Connection, kilobytes: usize) {
    client.send(b"POST /app/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for _ in 0..kilobytes {
        client.send(format!("3e8\r\n{}\r\n", "a".repeat(1000)).as_bytes());
    }
    client.send(b"0\r\n\r\n");
}

/// A script for the shell that starts the server, in which `folder` has room for 64 KiB; `None` after [`skip`].
pub(crate) fn small_disk(folder: &Path) -> Option<String> {
    // A file system of its own, for which root is not needed where the system lets users have name spaces.
    let mount = format!("mount -t tmpfs -o size=64k tmpfs '{}'", folder.display());
    let mut try_it = Command::new("unshare");
    try_it.args(["-rm", "sh", "-c", &mount]).stdout(Stdio::null()).stderr(Stdio::null());
    if !try_it.status().is_ok_and(|status| status.success()) {
        skip("this user may not mount anything in a name space of their own (`unshare -rm`)");
        return None;
    }
    Some(format!("exec unshare -rm sh -c \"{mount} && exec \\\"\\$@\\\"\" sh \"$@\""))
}

#[test]
fn a_body_for_which_the_disk_has_no_room_is_507_and_the_next_is_taken() {
    let folder = TempDir::new().unwrap();
    let Some(script) = small_disk(folder.path()) else { return };
    has_no_room(folder.path(), &script, "No space left on device");
}

#[test]
fn a_body_that_may_have_no_file_so_large_is_507_and_the_server_goes_on() {
    let folder = TempDir::new().unwrap();
    // Blocks of 512 or 1024 bytes. Beyond that a process is sent SIGXFSZ, which ends it if nothing is done about it.
    has_no_room(folder.path(), "ulimit -f 100; exec \"$@\"", "File too large");
}
