//! Output of PHP that Rudy compresses: it is sent when the script flushes it, and a script that compresses itself is left alone.

use rudy_tests::prelude::*;

use super::Fpm;

/// Waits after the first line until the file `go` exists.
const SCRIPT: &str = r#"<?php
header("Content-Type: text/plain");
echo "first\n";
flush();
while (!file_exists(__DIR__ . "/go")) { usleep(1000); clearstatcache(); }
echo str_repeat("more\n", 20000);"#;

const MORE: usize = 20_000;

fn serve(fpm: &Fpm, root: &Folder, coding: &str) -> Server {
    Server::config(&format!(
        "listen = ['127.0.0.1:0,h2c']\n[[site]]\ncompression = {{ codings = '{coding}' }}\n{}",
        fpm.route(root.path(), "/*", "")
    ))
}

#[test]
fn output_is_compressed_and_sent_when_the_script_flushes_it() {
    let (Some(fpm), Some(curl)) = (Fpm::start(""), Curl::find()) else { return };
    let root = Folder::with(&[("index.php", SCRIPT)]);
    let (go, head) = (root.join("go"), root.join("head"));
    let server = serve(&fpm, &root, "gzip");
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let mut command = curl.command();
        command.args(["--no-buffer", "--compressed", version, "--dump-header"]).arg(&head);
        let mut child =
            command.arg(server.url("/")).stdout(Stdio::piped()).spawn().expect("curl can be started");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (mut first, mut rest) = (String::new(), String::new());
        output.read_line(&mut first).expect("curl writes UTF-8");
        assert_eq!(first, "first\n", "{version}");
        fs::write(&go, "").expect("a temp folder can be written");
        output.read_to_string(&mut rest).expect("curl writes UTF-8");
        assert!(rest == "more\n".repeat(MORE), "{version}: {} bytes", rest.len());
        assert!(child.wait().expect("the child is ours").success());
        let head = fs::read_to_string(&head).expect("curl has written it").to_lowercase();
        assert!(head.contains("content-encoding: gzip\r\n") && !head.contains("content-length"), "{head}");
        fs::remove_file(&go).expect("a temp folder can be written");
    }
}

#[test]
fn output_that_php_compresses_is_passed_on() {
    let (Some(fpm), Some(curl)) = (Fpm::start("php_flag[zlib.output_compression] = on"), Curl::find()) else {
        return;
    };
    let root = Folder::with(&[("index.php", SCRIPT), ("go", "")]);
    let server = serve(&fpm, &root, "br");
    let fetched = curl.run(["--compressed", "--header", "Accept-Encoding: br, gzip", &server.url("/")]);
    assert_eq!((fetched.status(), fetched.field("Content-Encoding")), (200, Some("gzip")));
    assert!(fetched.body == format!("first\n{}", "more\n".repeat(MORE)).as_bytes());
}
