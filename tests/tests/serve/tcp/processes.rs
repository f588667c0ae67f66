//! Connections while the configuration or the process changes.

use rudy_tests::prelude::*;

use super::{assert_echoes, echo, table};
use crate::upgrade::rig::{Rig, wait_for_exit};

#[test]
fn a_reload_leaves_connections_alone_and_changes_where_new_ones_go() {
    let [old, new] = [echo("old"), echo("new")];
    let mut server = Server::config(&table(&[old.address()], ""));
    let mut connections: Vec<_> = (0..2).map(|_| server.connect()).collect();
    for connection in &mut connections {
        assert_echoes(connection, "before");
    }
    let (from, to) = (old.address().to_string(), new.address().to_string());
    for change in ["idle_timeout = '2h'", ""] {
        let replaced =
            |text: String| if change.is_empty() { text.replace(&from, &to) } else { text + change };
        server.reload_changed(replaced, "the configuration was reloaded");
        for connection in &mut connections {
            assert_echoes(connection, "after");
        }
    }
    let mut fresh = server.connect();
    fresh.finish();
    assert_eq!(fresh.read_to_end(), b"new");
    for mut connection in connections {
        connection.finish();
        assert_eq!(connection.read_to_end(), b"old");
    }
}

#[test]
fn a_reload_that_removes_the_table_keeps_its_connections() {
    let upstream = echo("bye");
    let site = "[[site]]\nlisten = '127.0.0.2:0'\nroute = [{ path = '/*', respond = 'web' }]\n";
    let mut server = Server::config(&(site.to_owned() + &table(&[upstream.address()], "")));
    let address = server.address_of(1);
    let mut connection = Connection::open(address);
    assert_echoes(&mut connection, "hello");
    server.reload_with(site, "the configuration was reloaded");
    wait_until("the address is closed", || TcpStream::connect(address).is_err());
    assert_echoes(&mut connection, "hello again");
    connection.finish();
    assert_eq!(connection.read_to_end(), b"bye");
}

#[test]
fn a_stop_leaves_connections_the_time_of_the_shutdown_timeout() {
    let upstream = echo("bye");
    for (timeout, ends) in [("1h", false), ("300ms", true)] {
        let text = format!("shutdown_timeout = '{timeout}'\n{}", table(&[upstream.address()], ""));
        let mut server = Server::config(&text);
        let mut connection = server.connect();
        assert_echoes(&mut connection, "hello");
        server.signal(Signal::TERM);
        server.wait_for_line("SIGTERM: stopping");
        if ends {
            assert_eq!(connection.read_to_end(), b"");
        } else {
            wait_until("the address is closed", || TcpStream::connect(server.address()).is_err());
            assert_echoes(&mut connection, "hello again");
            connection.finish();
            assert_eq!(connection.read_to_end(), b"bye");
        }
        server.wait();
    }
}

#[test]
fn an_upgrade_leaves_connections_in_the_old_process() {
    let upstream = echo("bye");
    let mut rig = Rig::start(&table(&[upstream.address()], ""));
    let mut connection = rig.server.connect();
    assert_echoes(&mut connection, "hello");
    let old = rig.upgrade();
    assert_echoes(&mut connection, "hello again");
    assert_echoes(&mut rig.server.connect(), "from the new process");
    connection.finish();
    assert_eq!(connection.read_to_end(), b"bye");
    wait_for_exit(old);
}
