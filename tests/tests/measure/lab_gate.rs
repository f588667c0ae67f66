//! Tests `rudy lab compare`, `rudy lab diff` and the exit codes of `--fail-if-worse`.

use rudy_tests::prelude::*;

fn lab(folder: &Path, arguments: &[&str]) -> Output {
    Rudy::command(["lab"]).args(arguments).folder(folder).output()
}

/// A server whose requests cost this much CPU.
fn burn(cpu: &str) -> String {
    format!("{} lab burn {cpu} --listen 127.0.0.1:{{port}}", binary().display())
}

/// Compares two servers that [`burn`] starts.
fn compare(folder: &Path, cpu: [&str; 2], more: &[&str]) -> Output {
    compare_commands(folder, cpu.map(burn).each_ref().map(String::as_str), more)
}

fn compare_commands(folder: &Path, [a, b]: [&str; 2], more: &[&str]) -> Output {
    let flags = ["--url", "http://127.0.0.1:{port}/", "-c", "1", "-d", "100ms", "--out", "out"];
    lab(folder, &[&["compare", a, b], &flags[..], more].concat())
}

#[test]
fn too_few_rounds_have_no_verdict() {
    let folder = Folder::new();
    let output = compare(&folder, ["20us", "20us"], &["--rounds", "1", "--fail-if-worse", "5%"]);
    assert_contains!(output.failed_with(2), "--rounds 7");

    compare(&folder, ["20us", "20us"], &["--rounds", "1"]).with_code(0);
    assert!(folder.read("out/report.html").contains("Is B better than A?"));
    lab(&folder, &["diff", "out", "out", "--fail-if-worse", "5%"]).with_code(1);
}

#[test]
fn a_worse_server_exits_with_3_and_a_worse_result_too() {
    let folder = Folder::new();
    compare(&folder, ["20us", "900us"], &["--rounds", "7", "--fail-if-worse", "20%"]).with_code(3);

    let required =
        |old: &str, new: &str| lab(&folder, &["diff", old, new, "--require-not-worse", "400%"]).code;
    let diff = |old: &str, new: &str| lab(&folder, &["diff", old, new, "--fail-if-worse", "20%"]);
    assert_eq!(diff("out", "out").code, Some(0), "{}", diff("out", "out").stdout);
    multiply(&folder.join("out"), &folder.join("slower"), 2.0);
    assert_eq!(diff("out", "slower").code, Some(3), "{}", diff("out", "slower").stdout);
    assert_eq!(diff("slower", "out").code, Some(0), "better is not worse");
    multiply(&folder.join("out"), &folder.join("much-slower"), 50.0);
    assert_eq!((required("much-slower", "out"), required("out", "much-slower")), (Some(0), Some(3)));
    let json = lab(&folder, &["diff", "out", "slower", "--json"]).json();
    let of = |verdict: &str| {
        json["comparisons"].as_array().map(|all| all.iter().filter(|one| one["verdict"] == verdict).count())
    };
    // Beside other work, requests of 20 us are too noisy for a verdict; those of 900 us are not.
    assert!(of("worse") >= Some(1), "{json}");
}

/// A server that is ready, and responds with 503 under load: its errors cost less than the responses of the other one.
#[test]
fn a_server_that_responds_with_errors_under_load_is_not_better() {
    let folder = Folder::new();
    let limited = "listen = '127.0.0.1:PORT'\nshutdown_timeout = '1s'\n[[site]]\n[[site.route]]\npath = '/*'\nrespond = 200\n\
                   rate_limit = { rate = '10/s', by = 'all', status = 503 }\n";
    let config = folder.write("rudy.toml", limited);
    let (config, rudy) = (config.display(), binary().display().to_string());
    let start = format!("sed s/PORT/$0/ {config} > {config}.$0 && exec {rudy} serve --config {config}.$0");
    let (old, new) = (burn("900us"), format!("sh -c '{start}' {{port}}"));
    let stderr =
        compare_commands(&folder, [&old, &new], &["--rounds", "7", "--fail-if-worse", "5%"]).failed_with(1);
    assert_contains!(stderr, "--fail-if-worse cannot be decided", "requests failed");
}

/// A copy of results in which requests cost more CPU.
fn multiply(from: &Path, to: &Path, factor: f64) {
    fs::create_dir(to).expect("the folder can be created");
    let lines = from.read("results.jsonl");
    let lines = lines.lines().map(|line| {
        let mut record: Value = serde_json::from_str(line).expect("a record is JSON");
        if let Some(cpu) = record["metrics"]["cpu_us_per_request"].as_f64() {
            record["metrics"]["cpu_us_per_request"] = (cpu * factor).into();
        }
        format!("{record}\n")
    });
    to.write("results.jsonl", lines.collect::<String>());
}

#[test]
fn a_folder_without_results_is_an_invalid_argument() {
    let folder = Folder::new();
    assert_contains!(lab(&folder, &["diff", "old", "new"]).failed_with(2), "old/results.jsonl");
}
