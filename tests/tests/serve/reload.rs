//! A reload is one transaction: it applies completely from the next request, or changes nothing.

use rudy_tests::prelude::*;
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};

const KEPT: &str = "the configuration is unchanged";
const TAKEN_OVER: &str = "the configuration was reloaded";

/// A configuration that responds to `/` with `body`, and to `/info` with the process id of an app.
fn text(listen: &str, body: &str, more: &str) -> String {
    format!(
        "listen = [{listen}]\n{more}\n[[site]]\n[[site.route]]\npath = \"/\"\nrespond = {{ body = \"{body}\" }}\n{}",
        app("/info", "\"--tasks\", \"2\"")
    )
}

/// A route to an app that Rudy starts.
fn app(path: &str, arguments: &str) -> String {
    let program = fastcgi_info().display();
    format!("[[site.route]]\npath = \"{path}\"\nfastcgi = {{ command = [\"{program}\", {arguments}] }}\n")
}

/// The process id of the app.
fn process(connection: &mut Connection) -> String {
    let response = connection.get("/info", &[]);
    assert_eq!(response.status, 200, "{}", response.text());
    response.text().lines().next().expect("a process id").to_owned()
}

/// A server with a keep-alive connection.
struct Rig {
    server: Server,
    kept: Connection,
    process: String,
}

impl Rig {
    fn start(listen: &str) -> Self {
        let server = Server::config(&text(listen, "old", ""));
        let mut kept = server.connect();
        let process = process(&mut kept);
        Self { server, kept, process }
    }

    /// Reloads an invalid configuration, and checks that nothing has changed. `keeps` is whether idle connections survive.
    fn fails(mut self, new: &str, why: &str, keeps: bool) {
        self.server.reload_with(new, KEPT);
        self.server.wait_for_line(why);
        self.stays(keeps);
    }

    fn stays(&mut self, keeps: bool) {
        wait_until("nothing new runs", || children(self.server.pid()).len() == 1);
        let mut fresh = self.server.connect();
        let connections = if keeps { vec![&mut self.kept, &mut fresh] } else { vec![&mut fresh] };
        for connection in connections {
            assert_eq!(connection.get("/", &[]).text(), "old");
            assert_eq!(connection.get("/new", &[]).status, 404);
            assert_eq!(process(connection), self.process);
        }
    }
}

const ANY: &str = "\"127.0.0.1:0\"";

/// An additional app of the new configurations, which is started before the failure.
fn changed(listen: &str, more: &str) -> String {
    text(listen, "new", more) + &app("/new", "\"--tasks\", \"3\"")
}

#[test]
fn a_file_that_cannot_be_read_changes_nothing() {
    let mut rig = Rig::start(ANY);
    fs::remove_file(rig.server.path().join("rudy.toml")).unwrap();
    rig.server.reload(KEPT);
    rig.stays(true);
    rig.fails("listen = [\n", "SIGHUP", true);
}

#[test]
fn a_configuration_that_does_not_compile_changes_nothing() {
    let no_folder =
        changed(ANY, "") + "[[site.route]]\npath = \"/files/*\"\nfiles = { root = \"nowhere\" }\n";
    let no_user = changed(ANY, "").replace("\"3\"]", "\"3\"], processes.user = \"nosuchuser\"");
    for (bad, why) in [(no_folder, "nowhere"), (no_user, "nosuchuser")] {
        Rig::start(ANY).fails(&bad, why, true);
    }
}

#[test]
fn environment_values_stay_masked_after_a_failed_reload() {
    let text = |folder: &str| text(ANY, "old", &format!("access_log = {{ path = \"{folder}/access.log\" }}"));
    let folder = Folder::new();
    let old = folder.path().to_str().unwrap();
    let build = Server::build().config(&text("${OLD}")).env("OLD", old).env("NEW", "/nowhere/new");
    let mut server = build.start();
    for (bad, shown) in [("${NEW}", "${NEW}/access.log"), (&format!("{old}/none"), "${OLD}/none/access.log")]
    {
        server.path().write("rudy.toml", text(bad));
        server.forget_lines();
        let stderr = server.rudy(&["reload"]).stderr;
        let expected = format!("cannot open the access log {shown}: ");
        assert!(stderr.starts_with(&format!("error: {expected}")), "{stderr}");
        server.wait_for_line(&format!("SIGHUP: {expected}"));
    }
}

#[test]
fn environment_values_of_a_new_configuration_are_masked() {
    let folder = Folder::new();
    let socket = folder.join("secret.sock");
    let mut server = Server::build().config(&text(ANY, "old", "")).env("SOCKET", &socket).start();
    server.reload_with(&text(&format!("{ANY}, \"unix:${{SOCKET}}\""), "new", ""), TAKEN_OVER);
    server.wait_for_line("listening on unix:${SOCKET}");
    let lines = server.take_lines();
    assert!(!lines.iter().any(|line| line.contains("secret.sock")), "{lines:?}");
}

#[test]
fn an_access_log_that_cannot_be_opened_changes_nothing() {
    let bad = changed(ANY, "access_log = { path = \"nowhere/access.log\" }");
    Rig::start(ANY).fails(&bad, "cannot open the access log", true);
}

#[test]
fn an_app_that_cannot_be_started_changes_nothing_and_closes_no_listener() {
    let port = free_port();
    let mut rig = Rig::start(&format!("\"127.0.0.1:{port}\""));
    let more: String =
        (4..20).map(|number| app(&format!("/{number}"), &format!("\"--tasks\", \"{number}\""))).collect();
    rig.server.path().write("rudy.toml", changed(&format!("\":{port}\""), "") + &more);
    let pid = Pid::from_raw(rig.server.pid().try_into().unwrap());
    // With a few more descriptors, the file can be read and some apps can be started, but not all.
    let open: Vec<u64> = fs::read_dir(format!("/proc/{}/fd", rig.server.pid()))
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .collect();
    let fifth_free = (0..).filter(|number| !open.contains(number)).nth(4);
    let maximum = getrlimit(Resource::Nofile).maximum;
    let few = Rlimit { current: fifth_free, maximum };
    let before = prlimit(pid, Resource::Nofile, few).unwrap();
    rig.server.reload(KEPT);
    prlimit(pid, Resource::Nofile, before).unwrap();
    rig.server.wait_for_line("cannot start an app");
    rig.stays(true);
}

#[test]
fn an_address_in_use_changes_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("\"127.0.0.2:0\", \"{}\", {ANY}", taken.local_addr().unwrap());
    let mut rig = Rig::start(ANY);
    rig.server.reload_with(&changed(&listen, ""), KEPT);
    rig.server.wait_for_line("the address is in use by");
    rig.stays(true);
}

#[test]
fn an_address_in_use_is_found_before_another_one_is_replaced() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free_port();
    let mut rig = Rig::start(&format!("\"127.0.0.1:{port}\""));
    let listen = format!("\":{port}\", \"{}\"", taken.local_addr().unwrap());
    rig.server.reload_with(&changed(&listen, ""), KEPT);
    rig.stays(true);
}

#[test]
fn a_failed_replacement_of_an_address_restores_the_old_one() {
    let port = free_port();
    // Another program has the port on another address, which conflicts with all addresses.
    let rig = Rig::start(&format!("\"127.0.0.1:{port}\""));
    let _taken = TcpListener::bind(("127.0.0.2", port)).unwrap();
    rig.fails(&changed(&format!("\":{port}\""), ""), "the address is in use by", false);
}

#[test]
fn a_connection_to_a_removed_address_is_closed_when_idle_or_after_its_next_response() {
    let two = "\"127.0.0.1:0\", \"127.0.0.2:0\"";
    let mut server = Server::config(&text(two, "old", ""));
    let second = server.address_of(1);
    let (mut idle, mut fresh, mut kept) =
        (Connection::open(second), Connection::open(second), server.connect());
    for connection in [&mut idle, &mut kept] {
        assert_eq!(connection.get("/", &[]).text(), "old");
    }
    server.reload_with(&text(ANY, "new", ""), TAKEN_OVER);
    assert!(idle.is_closed());
    assert!(TcpStream::connect(second).is_err());
    let last = fresh.get("/", &[]);
    assert_eq!((last.text(), last.field("connection")), ("new", Some("close")));
    assert!(fresh.is_closed());
    let next = kept.get("/", &[]);
    assert_eq!((next.text(), next.field("connection")), ("new", None));
}

#[test]
fn idle_connections_are_closed_when_keep_alive_is_turned_off() {
    let mut server = Server::config(&text(ANY, "old", ""));
    let mut connection = server.connect();
    assert_eq!(connection.get("/", &[]).text(), "old");
    server.reload_with(&text(ANY, "new", "keep_alive = false"), TAKEN_OVER);
    assert!(connection.is_closed());
}

#[test]
fn a_stream_continues_without_the_rest_of_its_configuration() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let folder = Folder::with(&names.map(|name| (name, name)));
    // Each configuration differs, in the table of its app too.
    let text = |generation: u32| {
        let app = app("/info", &format!("\"--tasks\", \"{}\"", generation + 1));
        format!(
            "listen = [{ANY}]\n[[site]]\n[[site.route]]\npath = \"/stream\"\nstream = {{ interval = \"10ms\", format = \"sse\" }}\n\
             [[site.route]]\npath = \"/files/*\"\nfiles = {{ root = \"{folder}\" }}\n{app}"
        )
    };
    let mut server = Server::config(&text(0));
    let mut client = server.connect();
    let (mut streams, mut first) = (Vec::new(), None);
    for generation in 1..=6 {
        let mut stream = server.send(b"GET /stream HTTP/1.1\r\nHost: test\r\n\r\n");
        assert_eq!(stream.head().status, 200);
        streams.push(stream);
        process(&mut client);
        for name in names {
            assert_eq!(client.get(&format!("/files/{name}"), &[]).text(), name);
        }
        wait_until("the app of one generation runs", || children(server.pid()).len() == 1);
        let first = *first.get_or_insert_with(|| descriptors_of(server.pid()));
        let most = first + streams.len() - 1;
        wait_until("only the stream is left of a generation", || descriptors_of(server.pid()) <= most);
        server.reload_with(&text(generation), TAKEN_OVER);
    }
    for stream in &mut streams {
        assert!(stream.chunk().is_some());
    }
}

/// The error of every tenth configuration, and its message.
fn fault(number: u32, taken: SocketAddr) -> (String, &'static str) {
    let good = generation_text(900);
    let app = "[[site.route]]\npath = \"/x\"\nfastcgi = { command = [\"/no/such/app\"] }\n";
    let log = "access_log = { path = \"no/such/folder/log\" }\n";
    match number % 4 {
        0 => (good.replace("[[site]]", "[[site"), "in the configuration"),
        1 => (good.replacen('[', &format!("[\"{taken}\", "), 1), "the address is in use by"),
        2 => (good + app, "/no/such/app"),
        _ => (log.to_owned() + &good, "cannot open the access log"),
    }
}

/// Every second configuration has one more address.
fn generation_text(generation: u32) -> String {
    let listen = if generation % 2 == 1 { format!("{ANY}, \"127.0.0.2:0\"") } else { ANY.to_owned() };
    let limits = format!("limits.head_fields = {}", 50 + generation);
    let stream = "[[site.route]]\npath = \"/stream\"\nstream = { interval = \"10ms\" }\n";
    text(&listen, &generation.to_string(), &limits) + stream
}

fn check(target: &str, response: &Response) {
    assert_eq!(response.status, 200, "{target}: {}", response.head);
    if target == "/" {
        let text = response.text();
        assert!(text.parse::<u32>().is_ok_and(|generation| generation <= 40), "{text}");
    }
}

#[test]
fn no_response_is_lost_over_many_reloads() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut server = Server::config(&generation_text(0));
    let mut kept = server.connect();
    let app = process(&mut kept);
    let mut stream = server.send(b"GET /stream HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(stream.head().status, 200);
    let load = Load::start(server.address(), &[u64::MAX, u64::MAX, 10, 1], &["/", "/info"], check);
    let mut now = 0;
    for reload_number in 1..=40 {
        if reload_number % 10 == 5 {
            let (text, why) = fault(reload_number / 10, taken.local_addr().unwrap());
            rewrite_at_once(server.path(), &text);
            server.reload(KEPT);
            server.wait_for_line(why);
        } else {
            now = reload_number;
            rewrite_at_once(server.path(), &generation_text(now));
            server.reload(TAKEN_OVER);
        }
        for connection in [&mut kept, &mut server.connect()] {
            assert_eq!(connection.get("/", &[]).text(), now.to_string());
        }
    }
    assert_eq!(process(&mut kept), app, "an app whose table stays is not started again");
    assert!(stream.chunk().is_some(), "the stream lives on");
    let tally = load.stop();
    assert!(tally.responses > 40 && tally.connections > 4, "{tally:?}");
}

/// Replaces the file by renaming, so that no partial file is read.
fn rewrite_at_once(folder: &Path, text: &str) {
    folder.write("rudy.new", text);
    fs::rename(folder.join("rudy.new"), folder.join("rudy.toml")).expect("a temp folder can be written");
}

/// The server reports in two places, and a command ends with the first report.
#[test]
fn each_reload_command_gets_its_own_result() {
    let server = Server::config("listen = '127.0.0.1:0'\n[[site]]\nroot = '.'\n");
    let valid = server.path().read("rudy.toml");
    for round in 0..20 {
        server.path().write("rudy.toml", "listen = 1\n");
        let rejected = server.rudy(&["reload"]).failed_with(1);
        assert!(rejected.contains(KEPT), "{round}: {rejected}");
        server.path().write("rudy.toml", &valid);
        let accepted = server.rudy(&["reload"]).succeeded();
        assert!(accepted.contains(TAKEN_OVER), "{round}: {accepted}");
    }
}
