//! Tests distributed loads and `rudy bench merge`.

use rudy_tests::prelude::*;

fn bench(arguments: &[&str]) -> Rudy {
    Rudy::command(["bench"]).args(arguments)
}

fn output(arguments: &[&str]) -> Output {
    bench(arguments).output()
}

fn start(share: &str, file: &str, url: &str) -> Child {
    let load =
        ["-n", "301", "-c", "5", "-t", "1", "--start-at", "+2s", "--split", share, "--json", file, url];
    bench(&load).spawn()
}

#[test]
fn shares_add_up_to_one_load_and_their_reports_merge() {
    let server = Server::files(&[("index.html", b"hello")]);
    let folder = Folder::new();
    let shares = ["0/3", "1/3", "2/3"];
    let paths = shares.map(|share| folder.text(&share[..1]));
    let paths = paths.each_ref().map(String::as_str);
    let url = server.url("/");
    let running = [0, 1, 2].map(|index| start(shares[index], paths[index], &url));
    for mut child in running {
        assert!(child.wait().expect("the process exits").success());
    }
    // `--force`, because other processes on this machine can saturate a share.
    let whole = output(&["merge", "--force", "--json", "-", paths[0], paths[1], paths[2]]).json();
    assert_members!(whole, "requests": 301, "succeeded": 301);
    assert_members!(whole["config"], "connections": 5, "requests": 301);

    let missing = output(&["merge", paths[0], paths[2]]);
    assert_eq!((missing.code, missing.stdout.len()), (Some(1), 0));
    folder.write("other", folder.read("1").replace("\"connections\": 2", "\"connections\": 9"));
    let other = output(&["merge", paths[0], &folder.text("other"), paths[2]]);
    assert_contains!(other.failed_with(1), "were not merged");
}

#[test]
fn an_invalid_report_is_rejected_by_name() {
    let folder = Folder::with(&[("report", "no JSON")]);
    let file = folder.text("report");
    let stderr = output(&["merge", &file]).failed_with(1);
    assert!(stderr.starts_with(&format!("error: {file}: not a report")), "{stderr}");
}

#[test]
fn a_start_time_in_the_past_is_rejected() {
    let server = Server::files(&[("index.html", b"hello")]);
    let late = output(&["-n", "10", "-c", "1", "--start-at", "2020-01-01T00:00:00Z", &server.url("/")]);
    assert_eq!((late.code, late.stdout.len()), (Some(1), 0));
    assert!(late.stderr.contains("the other shares have started"));
}

/// The file in `docs/` must be a load that this version runs, with its index in the environment.
#[test]
fn the_kubernetes_job_runs_a_share_of_its_load() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/kubernetes/bench.yaml");
    let job = fs::read_to_string(path).expect("the file exists");
    let server = Server::files(&[("index.html", b"hello")]);
    let replaced = |argument: &str| match argument {
        "1m" => "100".to_owned(),
        "2048" => "16".to_owned(),
        "60" => "200ms".to_owned(),
        "http://web.default.svc/" => server.url("/"),
        "2026-11-21T10:00:00Z" => "+0s".to_owned(),
        other => other.replace("$(JOB_COMPLETION_INDEX)", "3"),
    };
    let lines = job.lines().filter_map(|line| line.strip_prefix("            - \""));
    let arguments: Vec<_> = lines.filter_map(|line| line.split('"').next()).map(replaced).collect();
    assert_eq!(arguments.first().map(String::as_str), Some("bench"));
    let arguments: Vec<_> = arguments.iter().skip(1).map(String::as_str).collect();
    let config = &output(&arguments).with_code(0).json()["config"];
    assert_eq!((&config["share"]["index"], &config["connections"]), (&3.into(), &2.into()));
}
