//! Tests `rudy bench --slo` against servers with a known maximum rate.

use std::process::{Command, Output};

use rudy_tests::{Server, binary};
use serde_json::Value;

/// Requests over the limit fail, on a machine of any speed. The burst covers those that the client sends late.
const LIMITED: &str = r#"
[[site]]
[[site.route]]
path = "/"
rate_limit = { rate = "50/s", burst = 10 }
respond = { status = 200, body = "hello" }
"#;

fn search(arguments: &[&str]) -> Output {
    let steps = ["--step-time", "900ms", "--hold-time", "900ms", "--resolution", "20%", "--json", "-"];
    let mut command = Command::new(binary());
    command.arg("bench").args(steps).args(arguments).output().expect("rudy can be started")
}

fn found(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("a report is JSON")
}

#[test]
fn the_maximum_rate_of_a_server_with_a_limit_is_found() {
    let server = Server::config(LIMITED);
    let output = search(&["--slo", "p50<1s, errors<=0%", "-c", "4", &server.url("/")]);
    let found = found(&output);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{found}{stderr}");
    let passed = found["max_rate_per_s"].as_f64().expect("a rate passed");
    let failed = found["failed_rate_per_s"].as_f64().expect("a rate failed");
    // 900 ms at 62/s are 11 requests over the limit, one more than the burst.
    assert!(passed <= 62.0 && failed > passed, "{found}");
    assert!(failed <= passed * 1.2 || !found["incomplete"].is_null(), "{found}");
    assert_eq!((&found["slo"], &found["is_interrupted"]), (&"p50<1s, errors<=0%".into(), &false.into()));
    assert!(stderr.contains("/s passed: p50 ") && stderr.contains("/s failed"), "{stderr}");
}

#[test]
fn the_exit_code_is_3_if_even_the_lowest_rate_fails() {
    let server = Server::files(&[("index.html", b"hello")]);
    let output = search(&["--slo", "errors<1%", "-c", "4", &server.url("/missing")]);
    let found = found(&output);
    assert_eq!(output.status.code(), Some(3), "{found}");
    assert_eq!((&found["max_rate_per_s"], &found["failed_by"]), (&Value::Null, &"errors".into()));
    // At the lowest rate, two thirds of 900 ms have twelve requests.
    assert!(found["failed_rate_per_s"].as_f64().is_some_and(|rate| (19.9..20.1).contains(&rate)), "{found}");
}

#[test]
fn an_invalid_objective_is_rejected_with_its_position() {
    let output = search(&["--slo", "p99<20", "http://127.0.0.1:1/"]);
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("at character 5, \"20\": expected a time"), "{stderr}");
}
