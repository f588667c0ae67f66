//! The client of HTTP/2 with servers that have their own implementations: Apache, h2o, nghttpd, Go and Node.

use rudy_tests::prelude::*;
use rudy_tests::{Peer, write_files};

/// Fetches `/hello` and `/large` over HTTP/2 or HTTP/3, and sends requests on several connections and streams.
pub(crate) fn check(peer: &Peer, options: &[&str], version: &str, requests: u32) {
    let urls = [peer.url("https", "/hello"), peer.url("https", "/large")];
    let command = [&["get", "--json"], options, &[&urls[0], &urls[1], &urls[0]]].concat();
    let reports = Rudy::run(&command).with_code(0).json_lines();
    let seen: Vec<_> = reports
        .iter()
        .map(|report| {
            (report["http_version"].as_str(), report["body_bytes"].as_u64(), report["reused"].as_bool())
        })
        .collect();
    let expected = [(5, false), (300_000, true), (5, true)];
    assert_eq!(seen, expected.map(|(bytes, reused)| (Some(version), Some(bytes), Some(reused))));
    let count = requests.to_string();
    let fixed = ["bench", "--streams", "20", "-c", "3", "-n", &count, "--json", "-"];
    let report = Rudy::run([&fixed[..], options, &[&urls[0], &urls[1]]].concat()).json();
    assert_members!(report, "succeeded": requests, "body_bytes": requests / 2 * 300_005);
}

/// Checks a server program with TLS. `prepare` gets the folder, the address, and the files of a certificate and its key.
fn check_with_tls(name: &str, prepare: impl FnOnce(&Path, SocketAddr, &str, &str) -> Vec<String>) {
    needs!(long());
    let Some(certificates) = Certificates::for_host("server", "localhost") else { return };
    let (file, authority) = (certificates.path("server"), certificates.path("authority"));
    let key = file.replace(".pem", ".key");
    let Some(peer) = Peer::start(name, |folder, address| {
        write_files(folder);
        prepare(folder, address, &file, &key)
    }) else {
        return;
    };
    check(&peer, &["--cacert", &authority, "--http2"], "2", 1200);
}

#[test]
fn apache() {
    check_with_tls("apache2", |folder, address, certificate, key| {
        let here = folder.display();
        let modules = ["mpm_event", "authz_core", "ssl", "http2"];
        let modules = modules
            .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
            .concat();
        let text = format!(
            "{modules}ServerRoot {here}\nPidFile {here}/pid\nListen {address}\nServerName localhost\n\
             ErrorLog {here}/error.log\nDefaultRuntimeDir {here}\nProtocols h2 http/1.1\nUser #65534\nGroup #65534\n\
             DocumentRoot {here}/www\nSSLEngine on\nSSLCertificateFile {certificate}\nSSLCertificateKeyFile {key}\n"
        );
        folder.write("httpd.conf", text);
        // The workers have another user if root starts it.
        folder.set_mode(".", 0o755);
        vec!["-DFOREGROUND".into(), "-f".into(), format!("{here}/httpd.conf")]
    });
}

#[test]
fn h2o() {
    check_with_tls("h2o", |folder, address, certificate, key| {
        let here = folder.display();
        let user = if geteuid().is_root() { "user: root\n" } else { "" };
        let (host, port) = (address.ip(), address.port());
        let text = format!(
            "{user}listen:\n  host: {host}\n  port: {port}\n  ssl:\n    certificate-file: {certificate}\n    \
             key-file: {key}\nhosts:\n  default:\n    paths:\n      /:\n        file.dir: {here}/www\n"
        );
        folder.write("h2o.conf", text);
        vec!["-c".into(), format!("{here}/h2o.conf")]
    });
}

#[test]
fn nghttpd() {
    check_with_tls("nghttpd", |folder, address, certificate, key| {
        let root = format!("--htdocs={}/www", folder.display());
        let host = format!("--address={}", address.ip());
        vec![host, root, address.port().to_string(), key.into(), certificate.into()]
    });
}

#[test]
fn node() {
    check_with_tls("node", |folder, address, certificate, key| {
        let text = format!(
            "const fs = require('fs');\n\
             const options = {{ cert: fs.readFileSync('{certificate}'), key: fs.readFileSync('{key}') }};\n\
             const server = require('http2').createSecureServer(options, (request, response) => \
             fs.createReadStream('www' + request.url).pipe(response));\n\
             server.listen({}, '{}');\n",
            address.port(),
            address.ip()
        );
        folder.write("server.js", text);
        vec!["server.js".into()]
    });
}

#[test]
fn go() {
    needs!(long());
    let Some(compiler) = program("go") else { return };
    let folder = Folder::new();
    let source = "package main\n\
                  import (\"net/http\"; \"os\")\n\
                  func main() {\n\
                  \tpanic(http.ListenAndServeTLS(os.Args[1], os.Args[2], os.Args[3], http.FileServer(http.Dir(os.Args[4]))))\n\
                  }\n";
    folder.write("main.go", source);
    let mut build = Command::new(compiler);
    Output::of(build.args(["build", "-o", "server", "main.go"]).current_dir(&folder)).succeeded();
    let server = folder.join("server").display().to_string();
    check_with_tls("env", |folder, address, certificate, key| {
        let root = folder.join("www").display().to_string();
        vec![server, address.to_string(), certificate.into(), key.into(), root]
    });
}
