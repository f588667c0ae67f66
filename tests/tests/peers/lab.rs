//! Built-in plans of the lab that compare Rudy with other programs.

use rudy_tests::prelude::*;

/// Runs the given variants and workloads of a plan once, and returns the records of the runs.
fn runs(plan: &str, only: &[&str]) -> Vec<Value> {
    let folder = Folder::new();
    let output = Rudy::command(["lab", "run", plan, "--quick", "--rounds", "1", "--out", "out"])
        .args(only.iter().flat_map(|name| ["--only", name]))
        .folder(folder.path())
        .output();
    let stderr = &output.stderr;
    assert!(output.is_success(), "{stderr}");
    let text = folder.read("out/results.jsonl");
    let records =
        text.lines().map(|line| serde_json::from_str::<Value>(line).expect("each line is a record"));
    let runs: Vec<_> = records.filter(|record| record["record"] == "run").collect();
    for run in &runs {
        assert_eq!(run["outcome"]["kind"], "measured", "{run}");
    }
    runs
}

fn metric(run: &Value, name: &str) -> f64 {
    run["metrics"][name].as_f64().unwrap_or_else(|| panic!("no metric {name}: {run}"))
}

#[test]
fn the_output_of_generators_is_parsed() {
    needs!(long());
    let programs = ["wrk", "h2load", "ab"];
    if programs.iter().any(|name| program(name).is_none()) {
        return;
    }
    let runs = runs("generators", &["wrk", "h2load", "ab", "steady"]);
    assert_eq!(runs.len(), 3);
    for run in runs {
        assert!(metric(&run, "requests_per_s") > 0.0 && metric(&run, "max_ns") > 0.0, "{run}");
        assert!(metric(&run, "cpu_us_per_request") > 0.0, "{run}");
        assert_eq!(run["metrics"]["errors"], 0.0, "{run}");
    }
}

#[test]
fn each_server_of_the_plan_peers_sends_the_expected_responses() {
    needs!(long());
    let runs = runs("peers", &[]);
    for workload in ["HTTP/2 1 KiB", "compressed 20 KiB", "cached 1 KiB", "uploaded 64 KiB"] {
        assert!(runs.iter().any(|run| run["workload"] == workload), "{workload}");
    }
}

#[test]
fn erlang_sends_as_many_messages_as_rudy() {
    if program("escript").is_none() {
        return;
    }
    let runs = runs("schedulers", &["erlang-2", "rudy-2", "100"]);
    // Rudy is measured twice, against itself.
    assert_eq!(runs.len(), 3);
    for run in runs {
        assert_eq!(run["metrics"]["messages"], f64::from(2 * 100 * 99), "{run}");
        assert!(metric(&run, "time_s") > 0.0, "{run}");
    }
}

#[test]
fn one_app_process_responds_behind_each_web_server() {
    needs!(long());
    let programs = ["lighttpd", "nginx", "apache2"];
    if programs.iter().any(|name| program(name).is_none()) {
        return;
    }
    assert!(fastcgi_info().is_file(), "it is beside `rudy`, where the plan looks for it");
    let variants =
        ["rudy-tasks", "lighttpd-threads", "nginx-tasks", "apache-proxy-fcgi-threads", "apache-fcgid-tasks"];
    let runs = runs("fastcgi-nines", &[&variants[..], &["1000 fetches"]].concat());
    assert_eq!(runs.len(), variants.len());
    for run in runs {
        assert_eq!(run["metrics"]["starts"], 1.0, "{run}");
        // mod_fcgid sends one request at a time to its process, so some may wait very long.
        if run["variant"] != "apache-fcgid-tasks" {
            assert_eq!(run["metrics"]["errors"], 0.0, "{run}");
            assert!(metric(&run, "nines") > 2.0, "{run}");
        }
    }
}

#[test]
fn both_versions_of_http_serve_a_file() {
    if !long() || program("nginx").is_none() {
        return;
    }
    for run in runs("http2", &[]) {
        assert_eq!(run["metrics"]["errors"], 0.0, "{run}");
    }
}

#[test]
fn the_spinning_acceptor_of_a_jetty_is_found_and_a_healthy_one_is_not_accused() {
    if !long() || ["java", "javac", "jcmd", "mvn"].iter().any(|name| program(name).is_none()) {
        return;
    }
    let runs = runs("hot-threads", &[]);
    let of = |variant: &str| runs.iter().find(|run| run["variant"] == variant).expect("both have run");
    let (spinning, healthy) = (of("spinning"), of("healthy"));
    // A spinning thread runs or waits for a core. Even on a busy machine, no other thread of a healthy Jetty does that all the time.
    assert!(metric(spinning, "hottest_cpu_and_ready_percent") > 80.0, "{spinning}");
    assert!(metric(healthy, "hottest_cpu_and_ready_percent") < 50.0, "{healthy}");
    assert!(metric(spinning, "hottest_same_top_frame_percent") >= 70.0, "{spinning}");
    assert!(
        metric(spinning, "management_cpu_percent") > metric(spinning, "program_cpu_percent"),
        "{spinning}"
    );
    assert!(metric(spinning, "threads") > 3000.0 && metric(spinning, "dumps") >= 9.0, "{spinning}");
}
