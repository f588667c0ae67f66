//! Scanners for weak TLS: `testssl.sh`, and `sslyze` with Mozilla's recommendations.

use rudy_tests::prelude::*;
use rudy_tests::sslyze;

/// A server with the local authority in this folder.
fn server() -> (Server, Folder, String) {
    let state = Folder::new();
    let server = Server::build().files(&[("index.html", b"hello")]).args(["--tls", "internal"]);
    let server = server.env("STATE_DIRECTORY", state.path()).start();
    let authority = state.join("authority.crt").display().to_string();
    (server, state, authority)
}

#[test]
fn sslyze_finds_the_recommendations_of_mozilla() {
    let Some(sslyze) = sslyze() else { return };
    let (server, _state, authority) = server();
    let target = format!("localhost:{}", server.address().port());
    let arguments = ["--mozilla_config=intermediate", "--certinfo_ca_file", &authority, &target];
    let output = Command::new(sslyze).args(arguments).output().unwrap();
    assert_contains!(String::from_utf8_lossy(&output.stdout), &format!("{target}: OK - Compliant."));
}

/// The certificate is not what is tested: that of the local authority has no address of a revocation list.
#[test]
fn testssl_finds_nothing_of_medium_severity() {
    needs!(long());
    let Some(testssl) = program("testssl") else { return };
    let (server, state, authority) = server();
    let report = state.join("report.json");
    let output = Command::new(testssl)
        .args(["--quiet", "--color", "0", "--add-ca", &authority, "--jsonfile"])
        .arg(&report)
        .arg(format!("localhost:{}", server.address().port()))
        .output()
        .unwrap();
    let report = fs::read_to_string(report).unwrap_or_default();
    let report: Vec<Value> = serde_json::from_str(&report)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stdout)));
    assert!(report.len() > 100, "{report:#?}");
    let severe = |finding: &&Value| {
        let [severity, id] = ["severity", "id"].map(|key| finding[key].as_str().unwrap_or_default());
        matches!(severity, "MEDIUM" | "HIGH" | "CRITICAL") && !id.starts_with("cert_")
    };
    let severe: Vec<_> = report.iter().filter(severe).collect();
    assert!(severe.is_empty(), "{severe:#?}");
}
