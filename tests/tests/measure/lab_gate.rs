//! Tests `rudy lab compare`, `rudy lab diff` and the exit codes of `--fail-if-worse`.

use rudy_tests::prelude::*;

fn lab(folder: &Path, arguments: &[&str]) -> Output {
    Rudy::command(["lab"]).args(arguments).folder(folder).output()
}

/// A server whose requests cost this much CPU.
fn burn(cpu: &str) -> String {
    format!("{} lab burn {cpu} --listen 127.0.0.1:{{port}}", binary().display())
}

/// Compares two servers.
fn compare(folder: &Path, [a, b]: [&str; 2], more: &[&str]) -> Output {
    let flags = ["--url", "http://127.0.0.1:{port}/", "-c", "1", "-d", "100ms", "--out", "out"];
    let (a, b) = (burn(a), burn(b));
    lab(folder, &[&["compare", a.as_str(), b.as_str()], &flags[..], more].concat())
}

#[test]
fn too_few_rounds_have_no_verdict() {
    let folder = Folder::new();
    let output =
        compare(folder.path(), ["20us", "20us"], &["--rounds", "1", "--fail-if-worse", "5%"]).with_code(2);
    assert!(output.stderr.contains("--rounds 7"), "{}", output.stderr);

    compare(folder.path(), ["20us", "20us"], &["--rounds", "1"]).with_code(0);
    let page = folder.read("out/report.html");
    assert!(page.contains("Is B better than A?"));
    lab(folder.path(), &["diff", "out", "out", "--fail-if-worse", "5%"]).with_code(1);
}

#[test]
fn a_worse_server_exits_with_3_and_a_worse_result_too() {
    let folder = Folder::new();
    compare(folder.path(), ["20us", "900us"], &["--rounds", "7", "--fail-if-worse", "20%"]).with_code(3);

    let diff = |old: &str, new: &str| lab(folder.path(), &["diff", old, new, "--fail-if-worse", "20%"]);
    assert_eq!(diff("out", "out").code, Some(0), "{}", diff("out", "out").stdout);
    multiply(&folder.join("out"), &folder.join("slower"), 2.0);
    assert_eq!(diff("out", "slower").code, Some(3), "{}", diff("out", "slower").stdout);
    assert_eq!(diff("slower", "out").code, Some(0), "better is not worse");
    let json = lab(folder.path(), &["diff", "out", "slower", "--json"]);
    let json = json.json();
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
    let config = folder.join("rudy.toml");
    let limited = "listen = '127.0.0.1:PORT'\nshutdown_timeout = '1s'\n[[site]]\n[[site.route]]\npath = '/*'\nrespond = 200\n\
                   rate_limit = { rate = '10/s', by = 'all', status = 503 }\n";
    fs::write(&config, limited).expect("the file can be written");
    let (config, rudy) = (config.display(), binary().display().to_string());
    let start = format!("sed s/PORT/$0/ {config} > {config}.$0 && exec {rudy} serve --config {config}.$0");
    let (old, new) = (burn("900us"), format!("sh -c '{start}' {{port}}"));
    let flags =
        ["--url", "http://127.0.0.1:{port}/", "-c", "1", "-d", "100ms", "--rounds", "7", "--out", "out"];
    let flags = [&flags[..], &["--fail-if-worse", "5%"]].concat();
    let stderr =
        lab(folder.path(), &[&["compare", old.as_str(), new.as_str()], &flags[..]].concat()).failed_with(1);
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
    let output = lab(folder.path(), &["diff", "old", "new"]).with_code(2);
    assert!(output.stderr.contains("old/results.jsonl"), "{}", output.stderr);
}
