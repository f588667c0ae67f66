//! Tests the files that `rudy lab report` writes, and its HTML report in a browser.

mod browser;
mod records;

use rudy_tests::prelude::*;

fn lab(folder: &Path, arguments: &[&str]) -> Output {
    Rudy::command(["lab"]).args(arguments).folder(folder).output()
}

/// Creates a folder with an experiment in each subfolder.
fn create_experiments(plans: &[(&str, &str)]) -> Folder {
    let folder = Folder::new();
    for (name, plan) in plans {
        records::write(&folder.join(name), plan);
    }
    folder
}

#[test]
fn the_report_is_in_the_folder_of_its_records_and_charts_are_in_the_given_one() {
    let folder = create_experiments(&[("out", records::PLAIN)]);
    let output = lab(&folder, &["report", "out", "--charts", "pictures"]).with_code(0);
    assert_eq!(output.stdout, "");
    assert_contains!(output.stderr, "the report is in out/report.html");
    assert!(folder.join("out/report.html").exists());
    let names: Vec<_> = fs::read_dir(folder.join("pictures"))
        .expect("the folder was created")
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    assert!(!names.is_empty());
    for name in &names {
        assert!(name.extension().is_some_and(|extension| extension == "svg"), "{names:?}");
        assert!(fs::read_to_string(name).expect("the file can be read").starts_with("<svg "));
    }
}

#[test]
fn several_folders_become_one_report_with_one_correction() {
    let folder = create_experiments(&[("monday", records::PLAIN), ("tuesday", records::PLAIN)]);
    assert_eq!(lab(&folder, &["report", "monday", "tuesday"]).succeeded(), "");
    assert_contains!(folder.read("report.html"), "plain (monday)", "plain (tuesday)");
    let report = lab(&folder, &["report", "monday", "tuesday", "--format", "json"]).with_code(0).json();
    assert_eq!(report["comparisons_evaluated"], 2);
    let finding = &report["experiments"][1]["findings"][0];
    // The other variant failed in the fourth round.
    assert_eq!((finding["rounds"].as_u64(), finding["verdict"].as_str()), (Some(6), Some("inconclusive")));
    assert_eq!(finding["rounds_needed"], 7);
}

#[test]
fn markdown_goes_to_standard_output_or_a_file() {
    let folder = create_experiments(&[("out", records::PLAIN)]);
    let markdown = lab(&folder, &["report", "out", "--format", "markdown"]).succeeded();
    assert!(markdown.starts_with(
        "# plain\n\nWhich?\n\n**new is better than old in CPU per request (0.50 times) in workload 1k."
    ));
    let to_file = ["report", "out", "--format", "markdown", "--out", "report.md"];
    assert_eq!(lab(&folder, &to_file).succeeded(), "");
    assert_eq!(folder.read("report.md"), markdown);
}

#[test]
fn unreadable_and_unwritable_files_are_reported() {
    let folder = create_experiments(&[("out", records::PLAIN)]);
    for (arguments, exit, expected) in [
        (&["report", "nowhere"][..], 2, "cannot read nowhere/results.jsonl"),
        (&["report", "out", "nowhere"], 2, "cannot read nowhere/results.jsonl"),
        (&["report", "out", "--out", "no/such/file"], 1, "cannot write no/such/file"),
        (&["report", "out", "--charts", "out/results.jsonl/x"], 1, "cannot make out/results.jsonl/x"),
        (&["report", "out", "--format", "pdf"], 2, "pdf"),
        (&["report"], 2, "<DIR>..."),
    ] {
        assert_contains!(lab(folder.path(), arguments).failed_with(exit), expected);
    }
}

#[test]
fn a_run_writes_its_report_and_prints_its_findings() {
    let folder = Folder::new();
    let variant = |name: &str| {
        format!(
            "[[variant]]\nname = \"{name}\"\nready = {{ http = \"/a.html\" }}\n\
             command = [\"{{rudy}}\", \"serve\", \"{{folder}}\", \"--listen\", \"127.0.0.1:{{port}}\"]\n"
        )
    };
    let plan = format!(
        "rounds = 1\n[[file]]\npath = \"a.html\"\nsize = 1000\n{}{}\
         [[workload]]\nname = \"burst\"\nkind = \"burst\"\npath = \"/a.html\"\nrequests = 5\n\
         [[compare]]\nvariant = \"one\"\nwith = \"two\"\nmetrics = [\"time_s\"]\n",
        variant("one"),
        variant("two")
    );
    folder.write("plan.toml", plan);
    let output = lab(&folder, &["run", "plan.toml", "--out", "out"]).with_code(0);
    let text = output.stdout;
    assert_contains!(text, "one / two", "no verdict: 1 round");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert_contains!(output.stderr, "the report is in out/report.html");
    assert!(folder.join("out/report.html").exists());
}
