//! `docs/examples`: the configurations of well-known applications. Each is loaded, and keeps the functions of the files of nginx that its
//! first lines name. The recipes are in files with the same names: `upstream NAME = ADDRESS`, `file PATH = CONTENT`, and a table of
//! [`Exchange`]s, with requests `HOST METHOD TARGET`. A host that begins with `https://` is for the port 443.

use rudy_tests::prelude::*;

use crate::recipes::kitchen::{fault, prepare, request, upstream};

/// The folders that the configurations use.
const ROOTS: [&str; 10] =
    ["etc", "home", "opt", "run", "usr", "var", "web", "dynmaps", "meta_exporter", "mailcowauth"];

/// The names in the certificate of all sites.
const NAMES: &str =
    "*.example.org,DNS:*.zulip.example.org,DNS:*.example.com,DNS:*.pages.example.com,DNS:nginx";

fn read(path: &str) -> String {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Runs a configuration, with its files, upstreams and a FastCGI application.
fn check(name: &str) {
    let Some(certificates) = Certificates::for_host("a", NAMES) else { return };
    let recipe = read(&format!("tests/serve/recipes/examples/{name}.txt"));
    let (settings, table) = recipe.split_once("\n\n").expect("settings and a table");
    let (folder, app) = prepare(&[]);
    for name in ["var/log/rudy", "var/cache", "run/rudy"] {
        fs::create_dir_all(folder.join(name)).expect("a temp folder can be written");
    }
    let socket = format!("unix:{}", app.socket().display());
    let mut text = read(&format!("../docs/examples/{name}.toml"));
    for address in ["phpfpm:9001", "phpfpm:9002"] {
        text = text.replace(address, &socket);
    }
    let mut upstreams = Vec::new();
    for line in settings.lines() {
        let (kind, (name, value)) = line
            .split_once(' ')
            .and_then(|(kind, rest)| Some((kind, rest.split_once(" = ")?)))
            .expect("a setting");
        if kind == "file" {
            folder.write(name, value);
            continue;
        }
        let upstream = upstream(name);
        text = text.replace(&format!("\"{value}\""), &format!("\"{}\"", upstream.url()));
        upstreams.push(upstream);
    }
    let (text, ports) = installed(&text, folder.path(), &certificates);
    let path = folder.write("rudy.toml", text);
    let server = Server::build().arg("--config").arg(&path).start();
    let client = TlsClient::new(&certificates, None, false);
    let table = Exchange::table(table);
    let faults =
        table.iter().filter_map(|exchange| fault(&respond(&server, &ports, &client, exchange), exchange));
    let faults: Vec<_> = faults.collect();
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

/// Moves a configuration from the root to a folder, and to free ports. Returns the ports that it had: the first is one of 127.0.0.1 now, the
/// second of 127.0.0.2, and so on.
fn installed(text: &str, folder: &Path, certificates: &Certificates) -> (String, Vec<String>) {
    let mut text = text.to_owned();
    for root in ROOTS {
        for (before, after) in [("\"", "/"), ("\"unix:", "/"), ("\"", "\"")] {
            let there = format!("{before}{}/{root}{after}", folder.display());
            text = text.replace(&format!("{before}/{root}{after}"), &there);
        }
    }
    let mut ports = Vec::new();
    let mut free = |address: &str| {
        let Some(rest) = address.strip_prefix(':') else { return address.to_owned() };
        let (port, options) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
        let known = ports.iter().position(|known| known == port).unwrap_or(ports.len());
        if known == ports.len() {
            ports.push(port.to_owned());
        }
        format!("127.0.0.{}:0{options}", known + 1)
    };
    let moved = |line: &str| match line.split_once(" = ") {
        Some(("listen", _)) => line.split('"').map(&mut free).collect::<Vec<_>>().join("\"") + "\n",
        Some(("tls", _)) => format!("tls = {{ {} }}\n", certificates.settings("a")),
        _ => format!("{line}\n"),
    };
    let text = text.lines().map(moved).collect();
    (text, ports)
}

fn respond(server: &Server, ports: &[String], client: &TlsClient, exchange: &Exchange) -> Response {
    let (host, request) = request(exchange);
    let (name, port) = match host.strip_prefix("https://") {
        Some(name) => (Some(name), "443"),
        None => (None, host.split_once(':').map_or("80", |(_, port)| port)),
    };
    let listener = ports.iter().position(|known| known == port).map(|at| format!("//127.0.0.{}:", at + 1));
    let listener = listener.expect("the configuration has the port");
    let listener = server.addresses().iter().position(|address| address.contains(&listener));
    let address = server.address_of(listener.expect("the server listens there"));
    if let Some(name) = name {
        let connection = client.connect(address, name);
        return connection
            .expect("the certificate is for the name")
            .exchange(&String::from_utf8_lossy(&request));
    }
    let mut connection = Connection::open(address);
    connection.send(&request);
    connection.response()
}

#[test]
fn nominatim_forwards_people_to_its_website() {
    check("nominatim");
}

#[test]
fn lemmy_chooses_its_backend_by_method_and_accept() {
    check("lemmy");
}

#[test]
fn gitlab_has_error_pages_and_a_host_for_each_group_of_pages() {
    check("gitlab");
}

#[test]
fn gitlab_of_omnibus_has_health_checks_for_machines() {
    check("gitlab-omnibus");
}

#[test]
fn discourse_sends_and_stores_what_rails_names() {
    check("discourse");
}

#[test]
fn erpnext_has_sites_by_host_and_protected_files() {
    check("erpnext");
}

#[test]
fn mailcow_asks_php_who_logs_in_to_sogo() {
    check("mailcow");
}

#[test]
fn read_the_docs_sends_pages_from_a_storage() {
    check("read-the-docs");
}

#[test]
fn zulip_sends_uploads_from_a_folder_or_s3() {
    check("zulip");
}

#[test]
fn every_configuration_has_a_recipe_and_is_in_the_list() {
    let list = read("../docs/examples/README.md");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples");
    for entry in fs::read_dir(folder).expect("the folder exists") {
        let file =
            entry.expect("the folder can be read").file_name().into_string().expect("the names are UTF-8");
        let Some(name) = file.strip_suffix(".toml") else { continue };
        assert!(list.contains(&format!("]({file})")), "{file} is in the list");
        assert!(!read(&format!("tests/serve/recipes/examples/{name}.txt")).is_empty());
    }
}
