//! The reverse proxy in front of applications in Python: a server of `WebSocket` that the cases of Autobahn test, `JupyterLab` in a
//! browser, and gunicorn.

use rudy_tests::application;
use rudy_tests::prelude::*;

use super::proxy::{start, write};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/applications");

/// Most cases of compression send thousands of messages, which takes minutes.
const SLOW_CASES: [&str; 5] = ["12.2.*", "12.3.*", "12.4.*", "12.5.*", "13.*"];

/// Runs the cases. Returns their number and those that failed.
fn autobahn(kosoku: &Path, address: &str, folder: &Path) -> (usize, BTreeSet<String>) {
    let excluded = SLOW_CASES.iter().flat_map(|case| ["-x", case]);
    let mut command = Command::new(kosoku);
    command.args(["-p", "4", "-o"]).arg(folder).args(excluded).arg(address);
    // It returns an error if a case has failed.
    let output = command.output().expect("the program can be started");
    let report = fs::read_to_string(folder.join("index.json"))
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let report: Value = serde_json::from_str(&report).expect("the report is JSON");
    let cases = report.as_object().and_then(|agents| agents.values().next()?.as_object()).expect("an agent");
    // NON-STRICT depends on the sizes in which TCP delivers the bytes.
    let has_failed = |case: &Value| {
        ["behavior", "behaviorClose"]
            .iter()
            .any(|key| !["OK", "NON-STRICT", "INFORMATIONAL"].iter().any(|verdict| case[*key] == *verdict))
    };
    let failed = cases.iter().filter(|(_, case)| has_failed(case)).map(|(name, _)| name.clone());
    (cases.len(), failed.collect())
}

#[test]
fn the_cases_of_autobahn_have_the_same_results_through_the_proxy() {
    let Some(kosoku) = application("kosoku") else { return };
    let Some(python) = application("python") else { return };
    let (port, folder) = (ReservedPort::new(), Folder::new());
    let mut command = Command::new(python);
    command.args([&format!("{FOLDER}/echo.py"), &port.address().port().to_string()]);
    let (_python, server) = start(command, &port);
    let direct = autobahn(&kosoku, &port.address().to_string(), &folder.join("direct"));
    let proxied = autobahn(&kosoku, &server.address().to_string(), &folder.join("proxied"));
    assert!(direct.0 > 300, "{direct:?}");
    assert_eq!(direct, proxied);
}

#[test]
fn a_notebook_runs_in_a_browser_over_http2() {
    let Some(jupyter) = application("jupyter-lab") else { return };
    let Some(python) = application("python") else { return };
    let Some(chromium) = program("chromium") else { return };
    let (port, folder) = (ReservedPort::new(), Folder::new());
    let mut command = Command::new(jupyter);
    command
        .args(["--allow-root", "--no-browser", "--ServerApp.ip=127.0.0.1", "--IdentityProvider.token="])
        .arg(format!("--ServerApp.port={}", port.address().port()))
        .arg("--LabApp.expose_app_in_browser=True")
        .current_dir(folder.path())
        .env("HOME", folder.path());
    let _jupyter = Running::listening(&mut command, &port);
    let server = Server::build()
        .args(["--listen", "127.0.0.1:0", "--tls", "self-signed", "--proxy"])
        .arg(format!("http://{}", port.address()))
        .start();
    let mut command = Command::new(python);
    command.arg(format!("{FOLDER}/notebook.py")).arg(chromium);
    let output = command.arg(format!("https://localhost:{}", server.address().port())).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, "the sum is 42 h2 1\n", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn gunicorn_receives_uploads_and_the_address_of_the_client() {
    const APP: &str = "
def app(environ, start_response):
    start_response('200 OK', [('Content-Type', 'text/plain')])
    length = len(environ['wsgi.input'].read())
    yield f\"{length} {environ['HTTP_X_FORWARDED_FOR']} {environ['wsgi.url_scheme']}\".encode()
";
    let Some(gunicorn) = application("gunicorn") else { return };
    let (port, folder) = (ReservedPort::new(), Folder::new());
    write(folder.path(), "app.py", APP);
    let mut command = Command::new(gunicorn);
    command.args(["--workers", "2", "--bind", &port.address().to_string(), "app:app"]);
    command.current_dir(folder.path());
    let (_gunicorn, server) = start(command, &port);
    let body = "x".repeat(300_000);
    for framing in ["Content-Length: 300000", "Transfer-Encoding: chunked"] {
        let mut connection = server.send(format!("POST / HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n"));
        if framing.starts_with('C') {
            connection.send(body.as_bytes());
        } else {
            connection.send(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).as_bytes());
        }
        assert_eq!(connection.response().text(), "300000 127.0.0.1 http", "{framing}");
    }
}

/// The memory of the server while an upload of 5 GiB passes is that of a small one.
#[test]
fn curl_uploads_5_gib_after_100_continue() {
    const APP: &str = "
const http = require('http');
http.createServer((request, response) => {
  let length = 0;
  request.on('data', piece => { length += piece.length; });
  request.on('end', () => response.end(String(length)));
}).listen(Number(process.argv[2]), '127.0.0.1');
";
    needs!(long());
    let (Some(curl), Some(node)) = (program("curl"), program("node")) else { return };
    let (port, folder) = (ReservedPort::new(), Folder::new());
    let mut command = Command::new(node);
    command.args(["-e", APP, "", &port.address().port().to_string()]);
    let _node = Running::listening(&mut command, &port);
    let server = Server::config(&format!(
        "listen = \"127.0.0.1:0\"\n[[site]]\n[[site.route]]\npath = \"/*\"\nbody_bytes = \"6GiB\"\nproxy = \"http://{}\"\n",
        port.address()
    ));
    // A file without blocks.
    let file = folder.join("large");
    let length = 5 << 30;
    fs::File::create(&file).and_then(|file| file.set_len(length)).expect("the folder is ours");
    let mut command = Command::new(curl);
    command.args(["-sS", "-H", "Expect: 100-continue", "-T"]).arg(file).arg(server.url("/"));
    let output = command.output().expect("curl can be started");
    assert_eq!(String::from_utf8_lossy(&output.stdout), length.to_string());
    let peak = memory_of(server.pid(), "VmHWM");
    assert!(peak < 200 << 20, "{peak} bytes");
}
