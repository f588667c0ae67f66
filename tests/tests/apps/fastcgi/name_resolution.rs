//! Apps addressed by name. Each server has its own `/etc/hosts` in a mount namespace.

use std::net::Ipv6Addr;

use rudy_tests::prelude::*;

use crate::fastcgi::site::respond_with;

/// Starts a server with the app at this address.
fn server(hosts: &Hosts, address: &str, more: &str) -> Server {
    start(hosts, &config(address, more))
}

fn start(hosts: &Hosts, config: &str) -> Server {
    Server::build().config(config).engine(Model::PerCore).through_shell(&hosts.script()).start()
}

fn config(address: &str, more: &str) -> String {
    format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/app/*\"\n\
         fastcgi = {{ address = \"{address}\", connections = 2{more} }}\n"
    )
}

/// Returns host `number` of the loopback network.
fn host(number: u8) -> IpAddr {
    [127, 0, 0, number].into()
}

/// An app that responds with its address. A request for `/held` waits for the test.
struct Instance {
    app: App,
    /// Events: "held" when such a request arrives, and "closed" when its connection is closed.
    events: Receiver<&'static str>,
    go: Sender<()>,
}

impl Instance {
    fn start(host: IpAddr, port: u16) -> Self {
        let ((go, permits), (sender, events)) = (gate(), mpsc::channel());
        let app = App::start_at(SocketAddr::new(host, port), move |mut peer| {
            let mut was_held = false;
            while let Some(params) = peer.request() {
                if variable(&params, "PATH_INFO") == "/held" {
                    was_held = true;
                    // It fails after the end of the test, as the others.
                    let _ = sender.send("held");
                    let _ = permits.wait();
                }
                if !respond_with(&mut peer, &host.to_string()) {
                    return;
                }
            }
            if was_held {
                let _ = sender.send("closed");
            }
        });
        Self { app, events, go }
    }

    fn next_event(&self) -> &'static str {
        self.events.recv_timeout(PATIENCE).expect("the app sends an event")
    }
}

/// Sends requests until the app with this address responds. The server looks a name up at most once a second.
fn wait_for_response_from(server: &Server, host: IpAddr) {
    wait_until(&format!("{host} responds"), || {
        let response = server.get("/app/x");
        response.status == 200 && response.text() == host.to_string()
    });
}

fn has_ipv6() -> bool {
    let has = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    if !has {
        skip_unsupported("this machine has no IPv6");
    }
    has
}

#[test]
fn an_app_on_either_address_of_localhost_is_reached() {
    let Some(hosts) = Hosts::new("::1 localhost\n127.0.0.1 localhost\n") else { return };
    needs!(has_ipv6());
    for host in [host(1), Ipv6Addr::LOCALHOST.into()] {
        let port = free_port();
        let instance = Instance::start(host, port);
        let mut server = server(&hosts, &format!("localhost:{port}"), "");
        for _ in 0..4 {
            assert_eq!(server.get("/app/x").text(), host.to_string());
            // Close the connections, so that the next request opens a new one.
            instance.app.close_all();
        }
        assert!(!server.take_lines().join("\n").contains("error"));
    }
}

#[test]
fn several_addresses_share_the_load_and_the_limit() {
    let Some(hosts) = Hosts::new("127.0.0.2 app.test\n127.0.0.3 app.test\n") else { return };
    let port = free_port();
    let instances = [2, 3].map(|number| Instance::start(host(number), port));
    let server = server(&hosts, &format!("app.test:{port}"), ", queue = 0");
    let held = "GET /app/held HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    let clients = [(); 2].map(|()| server.send(held));
    assert_eq!(instances.each_ref().map(Instance::next_event), ["held", "held"], "each has one");
    assert_eq!(server.get("/app/x").status, 503, "`connections` is for both together");
    for instance in &instances {
        instance.go.send(()).expect("the app listens");
    }
    let mut texts = clients.map(|mut client| client.response().text().to_owned());
    texts.sort();
    assert_eq!(texts, ["127.0.0.2", "127.0.0.3"]);
}

#[test]
fn a_changed_address_is_used_and_requests_at_the_old_one_finish() {
    let Some(hosts) = Hosts::new("127.0.0.2 app.test\n") else { return };
    let port = free_port();
    let mut old = Instance::start(host(2), port);
    let mut server = server(&hosts, &format!("app.test:{port}"), "");
    let mut held = server.send(b"GET /app/held HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    assert_eq!(old.next_event(), "held");
    // Replace the app as a container is replaced: the new one runs while the old one finishes its requests.
    let _new = Instance::start(host(3), port);
    hosts.set("127.0.0.3 app.test\n");
    old.app.stop_accepting();
    wait_for_response_from(&server, host(3));
    server.wait_for_line(&format!("notice: app.test:{port} resolves to 127.0.0.3"));
    old.go.send(()).expect("the app listens");
    assert_eq!(held.response().text(), "127.0.0.2");
    assert_eq!(old.next_event(), "closed");
    assert_eq!(server.get("/app/x").text(), "127.0.0.3");
}

#[test]
fn the_last_address_of_a_name_that_disappears_is_still_used() {
    let Some(hosts) = Hosts::new("127.0.0.2 app.test\n") else { return };
    let port = free_port();
    let mut instance = Instance::start(host(2), port);
    let mut server = server(&hosts, &format!("app.test:{port}"), "");
    assert_eq!(server.get("/app/x").text(), "127.0.0.2");
    hosts.set("");
    instance.app.stop_listening();
    // The first requests may come within a second of the lookup at the start.
    eventually("the name is looked up", || {
        assert_eq!(server.get("/app/x").status, 502);
        server.take_lines().iter().find(|line| line.contains("no longer resolves")).cloned()
    });
    instance.app.listen();
    assert_eq!(server.get("/app/x").text(), "127.0.0.2");
}

#[test]
fn a_name_that_is_unknown_at_the_start_is_logged_and_resolved_later() {
    let Some(hosts) = Hosts::new("") else { return };
    let port = free_port();
    let _instance = Instance::start(host(2), port);
    let mut server = server(&hosts, &format!("app.test:{port}"), "");
    server.wait_for_line(&format!("error: app.test:{port} does not resolve: "));
    assert_eq!(server.get("/elsewhere").status, 404);
    assert_eq!(server.get("/app/x").status, 502);
    server.wait_for_line(&format!("cannot connect to app.test:{port}: the name does not resolve: "));
    hosts.set("127.0.0.2 app.test\n");
    wait_for_response_from(&server, host(2));
    server.wait_for_line(&format!("notice: app.test:{port} resolves to 127.0.0.2"));
}

#[test]
fn a_connect_failure_lists_every_address() {
    let Some(hosts) = Hosts::new("127.0.0.2 app.test\n127.0.0.3 app.test\n") else { return };
    let port = free_port();
    let mut server = server(&hosts, &format!("app.test:{port}"), "");
    assert_eq!(server.get("/app/x").status, 502);
    for number in [2, 3] {
        server.wait_for_line(&format!("{}:{port}: Connection refused", host(number)));
    }
}

#[test]
fn a_hanging_lookup_delays_no_start_reload_or_stop() {
    let Some(hosts) = Hosts::hanging() else { return };
    let config = config("app.test:9000", "");
    let mut server = start(&hosts, &config);
    assert_eq!(server.get("/app/x").status, 502);
    server.wait_for_line("the name is being looked up");
    for (route, status) in [("/more", 404), ("/less", 403)] {
        let more = format!("{config}[[site.route]]\npath = \"{route}\"\nrespond = {{ status = {status} }}\n");
        server.reload_with(&more, "the configuration was reloaded");
        assert_eq!(server.get(route).status, status);
    }
    // The reloads have not started another lookup, so this ends all of them.
    hosts.end_lookup();
    server.wait_for_line("error: app.test:9000 does not resolve: ");
    let mut other = start(&hosts, &config);
    for server in [&mut server, &mut other] {
        server.stop();
    }
}

#[test]
fn check_lists_unresolved_names_and_succeeds() {
    let Some(hosts) = Hosts::new("127.0.0.2 app.test\n") else { return };
    let file = hosts.path().with_file_name("rudy.toml");
    let address = "app.test:9000\", \"nowhere.test:9001\", \"127.0.0.1:9002";
    fs::write(&file, config(address, "").replace("\"app", "[\"app").replace("9002\"", "9002\"]")).unwrap();
    let mut check = Command::new("sh");
    check.args(["-c", &hosts.script(), "sh"]).arg(binary()).arg("check").arg(&file);
    let text = Output::of(&mut check).succeeded();
    let notices: Vec<_> = text.lines().filter(|line| line.contains("resolve")).collect();
    assert_eq!(notices.len(), 1, "{text}");
    assert!(notices[0].starts_with("  nowhere.test:9001 does not resolve: "), "{text}");
    for address in ["app.test:9000", "nowhere.test:9001", "127.0.0.1:9002"] {
        assert!(text.contains(&format!("whether an app listens on {address}")), "{text}");
    }
}
