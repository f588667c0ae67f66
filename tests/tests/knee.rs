//! `rudy bench --slo` against servers of which it is known what they hold.

use std::process::{Command, Output};

use rudy_tests::{Server, binary};
use serde_json::Value;

/// A connection has an answer 20 ms after its request, so one of them is good for fewer than 50 a second.
const SLOW: &str = r#"
[[site]]
[[site.route]]
path = "/"
delay = { time = "20ms" }
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
fn the_rate_that_one_slow_connection_holds_is_found_and_what_broke_beyond_it() {
    let server = Server::config(SLOW);
    // What else this machine does makes it less than 50, and may keep even the lowest from being held: never more.
    let mut searches = (0..10).map(|_| search(&["--slo", "p50<1s, errors<=0%", "-c", "1", &server.url("/")]));
    let output = searches.find(|output| output.status.code() == Some(0)).expect("one of ten finds a rate");
    let found = found(&output);
    let (held, broke) = (found["held_rate"].as_f64().expect("one held"), found["broke_rate"].as_f64());
    assert!((16.0..55.0).contains(&held) && broke.is_some_and(|broke| broke > held), "{found}");
    assert_eq!((&found["slo"], &found["is_interrupted"]), (&"p50<1s, errors<=0%".into(), &false.into()));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("/s held: p50 ") && said.contains("/s broke"), "{said}");
    let steps = found["steps"].as_array().expect("steps");
    assert_eq!(steps.last().map(|step| (&step["kind"], &step["held"])), Some((&"hold".into(), &true.into())));
}

#[test]
fn where_not_even_the_lowest_rate_holds_the_exit_code_is_3() {
    let server = Server::files(&[("index.html", b"hello")]);
    let output = search(&["--slo", "errors<1%", "-c", "4", &server.url("/missing")]);
    let found = found(&output);
    assert_eq!(output.status.code(), Some(3), "{found}");
    assert_eq!((&found["held_rate"], &found["broke_by"]), (&Value::Null, &"errors".into()));
    // At the lowest rate a step counts ten requests, in two thirds of 900 ms.
    assert!(found["broke_rate"].as_f64().is_some_and(|rate| (16.0..17.0).contains(&rate)), "{found}");
}

#[test]
fn what_is_no_objective_is_refused_with_its_place() {
    let output = search(&["--slo", "p99<20", "http://127.0.0.1:1/"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("at character 5, \"20\": expected a time"), "{said}");
}
