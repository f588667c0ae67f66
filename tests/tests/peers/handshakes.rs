//! `rudy tls` against nginx, checked with `openssl s_client`, and with what curl measures over the same simulated path.

use rudy_request::Relay;
use rudy_tests::prelude::*;

/// Starts nginx with the configuration of the lab. The folder has its files.
fn nginx(certificates: &Certificates, folder: &Path) -> Option<(Stopped, SocketAddr)> {
    let nginx = program("nginx")?;
    certificates.signed("a", "localhost", Valid::Now);
    let path = certificates.path("a");
    let pem = [fs::read_to_string(path.replace(".pem", ".key")), fs::read_to_string(&path)];
    let pem = pem.map(|text| text.expect("the file exists")).concat();
    folder.write("a.pem", pem);
    let port = free_port();
    let text = include_str!("../../../labs/peers/nginx-tls.conf")
        .replace("{folder}", &folder.display().to_string())
        .replace("{key}", "a")
        .replace("7107", &port.to_string());
    folder.write("nginx.conf", text);
    let prefix = format!("{}/", folder.display());
    let child = Command::new(nginx)
        .args(["-c", &folder.join("nginx.conf").display().to_string(), "-p", &prefix])
        .stderr(Stdio::null())
        .spawn()
        .expect("nginx can be started");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let server = Stopped(child);
    eventually("nginx listens", || TcpStream::connect(address).ok());
    Some((server, address))
}

/// A process that ends with the test.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.0);
        // nginx ends its workers on SIGTERM, and not on SIGKILL.
        let _ = kill_process(pid, Signal::TERM);
        let _ = self.0.wait();
    }
}

fn tls(certificates: &Certificates, port: u16, arguments: &[&str]) -> Value {
    let address = format!("localhost:{port}");
    let authority = certificates.path("authority");
    let output = Rudy::command([
        "tls",
        "--json",
        "--cacert",
        &authority,
        "--connect",
        &format!("127.0.0.1:{port}"),
        &address,
    ])
    .args(arguments)
    .output();
    output.json()
}

#[test]
fn openssl_agrees_on_the_version_the_certificates_and_early_data() {
    needs!(long());
    let (Some(certificates), Some(openssl)) = (Certificates::new(), program("openssl")) else { return };
    let folder = Folder::new();
    let Some((_server, address)) = nginx(&certificates, &folder) else { return };
    let report = tls(&certificates, address.port(), &[]);
    let mut client = Command::new(openssl);
    client.args(["s_client", "-connect", &address.to_string(), "-servername", "localhost"]);
    client.args(["-CAfile", &certificates.path("authority"), "-verify_hostname", "localhost", "-ign_eof"]);
    let mut child =
        client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("openssl can be started");
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    Write::write_all(child.stdin.as_mut().expect("it is piped"), request).expect("openssl reads");
    let text = String::from_utf8_lossy(&child.wait_with_output().expect("it ends").stdout).into_owned();
    let version = report["version"].as_str().expect("text");
    assert!(text.contains(&format!("New, {version},")), "{version}: {text}");
    assert!(
        text.contains("Verify return code: 0 (ok)") && report["problems"] == Value::Array(vec![]),
        "{report}"
    );
    assert!(text.contains("Max Early Data: 16384") && report["early_data"] == "accepted", "{report} {text}");
    assert_eq!(text.matches("Post-Handshake New Session Ticket arrived").count() as u64, report["tickets"]);
}

/// Both measure the same path, whose round trip is long enough that a busy machine adds no whole one.
#[test]
fn curl_measures_the_same_phases_over_a_path_of_200_ms() {
    needs!(long());
    let (Some(certificates), Some(curl)) = (Certificates::new(), program("curl")) else { return };
    let folder = Folder::new();
    let Some((_server, address)) = nginx(&certificates, &folder) else { return };
    let round_trip = Duration::from_millis(200);
    let relay = Relay::start(address, round_trip).expect("a free port");
    let url = format!("https://localhost:{}/", relay.address().port());
    let output = Output::of(
        Command::new(curl)
            .args(["-sS", "-o", "/dev/null", "--cacert", &certificates.path("authority"), &url, "-w"])
            .arg("%{time_appconnect} %{time_starttransfer}"),
    );
    let times: Vec<f64> = output.stdout.split(' ').map(|time| time.parse().expect("a time")).collect();
    let report = tls(&certificates, address.port(), &["--round-trip", "200ms"]);
    let at = |phase: &str| report["full"]["phases"][phase]["at_s"].as_f64().expect("a time");
    for (curl, own) in [(times[0], at("tls_done")), (times[1], at("first_byte"))] {
        let trips = |time: f64| Duration::from_secs_f64(time).as_millis() / round_trip.as_millis();
        assert_eq!(trips(curl), trips(own), "curl: {curl} s, rudy: {own} s");
    }
}
