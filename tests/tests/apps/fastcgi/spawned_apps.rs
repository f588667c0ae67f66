//! Apps that the server starts: `fastcgi-info`, which responds with its process id in the first line.

use rudy_tests::prelude::*;

/// Starts a server on `model` that starts `fastcgi-info` with these arguments and this `processes` table.
fn server(model: Model, flavour: &str, processes: &str) -> Server {
    let program = fastcgi_info().display();
    Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\nengine = \"{model}\"\n[[site]]\n[[site.route]]\npath = \"/info\"\nfastcgi = {{ command = \
         [\"{program}\", {flavour}], processes = {{ {processes} }} }}\n"
    ))
}

/// Sends a request and returns the id of the process that responded.
fn responding_process(server: &Server) -> u32 {
    let response = server.get("/info");
    assert_eq!(response.status, 200, "{}", response.text());
    let process = response.text().lines().next().and_then(|line| line.parse().ok());
    process.unwrap_or_else(|| panic!("no process: {}", response.text()))
}

fn pid(process: u32) -> Pid {
    Pid::from_raw(process.try_into().expect("the kernel's own ids")).expect("not 0")
}

/// Waits until a process has ended.
fn wait_for_end_of(process: u32) {
    wait_until("the process has ended", || test_kill_process(pid(process)).is_err());
}

#[test]
fn a_process_survives_a_reload_and_ends_with_the_server() {
    let mut server = server(Model::PerCore, "\"--tasks\", \"10\"", "max = 1");
    let process = responding_process(&server);
    let seen: BTreeSet<_> = (0..50).map(|_| responding_process(&server)).collect();
    assert_eq!(seen, BTreeSet::from([process]));
    server.reload("the configuration was reloaded");
    assert_eq!(responding_process(&server), process);
    server.stop();
    assert!(test_kill_process(pid(process)).is_err(), "the app outlives its server");
}

#[test]
fn a_changed_table_starts_a_new_process() {
    let mut server = server(Model::PerCore, "\"--tasks\", \"10\"", "max = 1");
    let before = responding_process(&server);
    server.reload_changed(|text| text.replace("\"10\"", "\"11\""), "the configuration was reloaded");
    assert_ne!(responding_process(&server), before);
    wait_for_end_of(before);
}

#[test]
fn a_process_that_dies_is_started_again() {
    let server = server(Model::PerCore, "\"--tasks\", \"10\"", "max = 1");
    let first = responding_process(&server);
    kill_process(pid(first), Signal::KILL).unwrap();
    wait_for_end_of(first);
    // Requests get 502 until the server has noticed the death and started a new process.
    wait_until("a process was started again", || server.get("/info").status == 200);
    assert_ne!(responding_process(&server), first);
}

#[test]
fn a_process_is_started_on_demand_and_replaced_after_its_request_limit() {
    let server = server(Model::PerCore, "\"--threads\", \"1\"", "min = 0, max = 1, requests = 10");
    let processes: Vec<_> = (0..30).map(|_| responding_process(&server)).collect();
    let different: BTreeSet<_> = processes.iter().collect();
    assert_eq!(different.len(), 3, "{processes:?}");
    assert!(processes.chunks(10).all(|ten| ten.iter().all(|process| *process == ten[0])), "{processes:?}");
}

#[test]
fn a_missing_program_is_502_and_logged() {
    let folder = Folder::new();
    let program = folder.join("app");
    symlink("/bin/true", &program).expect("a temp folder can be written");
    let mut server = Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/\"\nfastcgi = {{ command = [\"{}\"], \
         processes.min = 0 }}\n",
        program.display()
    ));
    fs::remove_file(&program).expect("a temp folder can be written");
    assert_eq!(server.get("/").status, 502);
    assert_contains!(server.wait_for_line("cannot start "), "app: No such file or directory");
}
