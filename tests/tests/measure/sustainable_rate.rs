//! Tests `rudy bench --slo` against servers with a known maximum rate.

use rudy_tests::prelude::*;

/// Requests over the limit fail, on a machine of any speed. The burst covers those that the client sends late.
const LIMITED: &str = r#"[[site]]
route = [{ path = "/", rate_limit = { rate = "50/s", burst = 10 }, respond = { status = 200, body = "hello" } }]
"#;

fn search(arguments: &[&str]) -> Output {
    let steps = ["--step-time", "900ms", "--hold-time", "900ms", "--resolution", "20%", "--json", "-"];
    Rudy::command(["bench"]).args(steps).args(arguments).output()
}

#[test]
fn the_maximum_rate_of_a_server_with_a_limit_is_found() {
    let server = Server::config(LIMITED);
    let output = search(&["--slo", "p50<1s, errors<=0%", "-c", "4", &server.url("/")]);
    let found = output.json();
    let stderr = &output.stderr;
    assert_eq!(output.code, Some(0), "{found}{stderr}");
    let passed = found["max_rate_per_s"].as_f64().expect("a rate passed");
    let failed = found["failed_rate_per_s"].as_f64().expect("a rate failed");
    // 900 ms at 62/s are 11 requests over the limit, one more than the burst.
    assert!(passed <= 62.0 && failed > passed, "{found}");
    assert!(failed <= passed * 1.2 || !found["incomplete"].is_null(), "{found}");
    assert_members!(found, "slo": "p50<1s, errors<=0%", "is_interrupted": false);
    assert!(stderr.contains("/s passed: p50 ") && stderr.contains("/s failed"), "{stderr}");
}

#[test]
fn the_exit_code_is_3_if_even_the_lowest_rate_fails() {
    let server = Server::files(&[("index.html", b"hello")]);
    let output = search(&["--slo", "errors<1%", "-c", "4", &server.url("/missing")]);
    let found = output.json();
    assert_eq!(output.code, Some(3), "{found}");
    assert_eq!((&found["max_rate_per_s"], &found["failed_by"]), (&Value::Null, &"errors".into()));
    // At the lowest rate, two thirds of 900 ms have twelve requests.
    assert!(found["failed_rate_per_s"].as_f64().is_some_and(|rate| (19.9..20.1).contains(&rate)), "{found}");
}

#[test]
fn an_invalid_objective_is_rejected_with_its_position() {
    let output = search(&["--slo", "p99<20", "http://127.0.0.1:1/"]).with_code(2);
    assert_contains!(output.stderr, "at character 5, \"20\": expected a time");
}
