//! Request bodies that do not fit on the disk.

use rudy_tests::prelude::*;

use crate::fastcgi::site::{Site, respond_with};

/// Sends bodies to a server that buffers them in `folder`, where `script`, the shell that starts the server, leaves too little
/// space. The log must give the reason `why`.
fn assert_disk_full(folder: &Folder, script: &str, why: &str) {
    let app = App::start(|mut peer| {
        while let Some(params) = peer.request() {
            let length = variable(&params, "CONTENT_LENGTH").to_owned();
            if !respond_with(&mut peer, &length) {
                return;
            }
        }
    });
    // An explicit limit, because the default of half the free space would be reached first.
    let top = format!("buffer_dir = \"{folder}\"\nbuffer_total = \"1 GiB\"\n");
    let server = Site::build(Model::PerCore, &app.address(), &top, "").through_shell(script).start();
    let mut site = Site { server, app, events: mpsc::channel().1 };
    assert_eq!(site.server.get("/app/x").status, 200, "{why}");
    let before = site.descriptors();
    for _ in 0..3 {
        let mut client = site.server.connect();
        send_in_chunks(&mut client, 1000);
        let response = client.response();
        assert_eq!(response.status, 507, "{}", response.text());
        drop(client);
        let mut client = site.server.connect();
        send_in_chunks(&mut client, 10);
        assert_eq!(client.response().text(), "10000", "{why}");
        drop(client);
        site.wait_for_descriptors(before + 2, why);
    }
    let line = format!("cannot store the body: {folder}: {why}");
    assert_contains!(site.server.wait_for_line(&line), "POST /app/x from 127.0.0.1");
}

/// Sends a chunked POST of this many kilobytes.
fn send_in_chunks(client: &mut Connection, kilobytes: usize) {
    client.send(b"POST /app/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for _ in 0..kilobytes {
        client.send(format!("3e8\r\n{}\r\n", "a".repeat(1000)).as_bytes());
    }
    client.send(b"0\r\n\r\n");
}

#[test]
fn a_body_that_does_not_fit_on_the_disk_is_507_and_the_next_one_is_served() {
    let folder = Folder::new();
    let Some(script) = small_disk(folder.path()) else { return };
    assert_disk_full(&folder, &script, "No space left on device");
}

#[test]
fn a_body_over_the_file_size_limit_is_507_and_the_server_keeps_running() {
    let folder = Folder::new();
    // The unit is 512 or 1024 bytes. Beyond the limit the process gets SIGXFSZ, which by default terminates it.
    assert_disk_full(&folder, "ulimit -f 100; exec \"$@\"", "File too large");
}
