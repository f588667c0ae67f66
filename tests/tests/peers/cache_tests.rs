//! The tests of cache-tests.fyi: a client and an origin in Node, and the cache between them.

use rudy_tests::prelude::*;

/// Runs all tests, and prints the ids of those that the RFC requires and that fail, one a line.
const RUN: &str = r"
const at = process.argv[1]
const { runTests, getResults } = await import(at + '/client/runner.mjs')
const { default: suites } = await import(at + '/tests/index.mjs')
const { default: fetch } = await import(at + '/../node-fetch/lib/index.js')
await runTests(suites, fetch, false, process.argv[2])
const results = getResults()
for (const test of suites.flatMap(suite => suite.tests)) {
  const isRequired = test.kind === undefined || test.kind === 'required'
  if (isRequired && !test.browser_only && results[test.id] !== true) console.log(test.id)
}
";

/// The tests that fail, and why.
const EXPECTED: [(&str, &str); 6] = [
    (
        "RFC 9111 §5.1 uses the first member of Age, and ignores an invalid one; these tests are of its predecessor",
        "age-parse-nonnumeric age-parse-negative age-parse-float age-parse-prefix-twoline \
         age-parse-dup-0 age-parse-dup-0-twoline age-parse-dup-old age-parse-parameter \
         age-parse-numeric-parameter",
    ),
    (
        "the origin closes the connection, and the 502 of Rudy has no number of a request, which the test expects",
        "stale-close-must-revalidate stale-close-proxy-revalidate stale-close-no-cache \
         stale-close-s-maxage=2",
    ),
    (
        "a response with Set-Cookie is not stored",
        "headers-store-Set-Cookie 304-etag-update-response-Set-Cookie",
    ),
    ("the message is malformed, and the proxy rejects it", "headers-store-Transfer-Encoding"),
    (
        "RFC 9111 §3.2 allows to keep what describes the content",
        "304-etag-update-response-Content-Encoding 304-etag-update-response-Content-MD5 \
         304-etag-update-response-ETag",
    ),
    ("Rudy sends the date of the response to the client", "other-date-update"),
];

/// The folder of the package, which `cargo xtask setup --peers` installs.
fn package() -> Option<PathBuf> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/cache-tests/node_modules/http-cache-tests");
    if !folder.join("cli.mjs").is_file() {
        skip("http-cache-tests is missing; `cargo xtask setup` installs it");
        return None;
    }
    Some(folder)
}

/// Starts the origin on a free port. Returns it with its port.
fn origin(node: &Path, package: &Path) -> (Running, u16) {
    let port = free_port();
    let mut command = Command::new(node);
    command.args(["--no-warnings", "server/server.mjs"]).current_dir(package).stdout(Stdio::piped());
    let pid_file = std::env::temp_dir().join(format!("cache-tests-{port}.pid"));
    command.env("npm_config_protocol", "http").env("npm_config_port", port.to_string());
    let mut child = command.env("npm_config_pidfile", pid_file).spawn().expect("node starts");
    let stdout = child.stdout.take().expect("the stream is piped");
    let first = BufReader::new(stdout).lines().next().and_then(Result::ok).unwrap_or_default();
    assert!(first.contains("Listening"), "{first}");
    (Running::from(child), port)
}

#[test]
fn required_tests_of_http_caches_pass() {
    needs!(long());
    let (Some(node), Some(package)) = (program("node"), package()) else { return };
    let (_origin, port) = origin(&node, &package);
    let server = Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n[cache]\npath = \"cache\"\n[[site]]\n[[site.route]]\npath = \"/*\"\n\
         proxy = \"http://127.0.0.1:{port}\"\ncache = true\n"
    ));
    let mut command = Command::new(&node);
    command.args(["--no-warnings", "--input-type=module", "-e", RUN]).arg(&package);
    let output = command.arg(format!("http://{}", server.address())).output().expect("node starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected: Vec<_> = EXPECTED.iter().flat_map(|(_, ids)| ids.split(' ')).collect();
    let surprising: Vec<_> = text.lines().filter(|id| !expected.contains(id)).collect();
    assert!(surprising.is_empty(), "these fail too: {surprising:?}");
}
