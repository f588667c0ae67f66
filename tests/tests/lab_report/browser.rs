//! The page in a real browser, in widths from a phone's to a desk's, light and dark.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rudy_tests::program;
use serde_json::Value;

use crate::{lab, made, records, stdout};

/// What a page is in once it was loaded and its scripts have run. None of its time is waited for: the browser's clock goes
/// ahead to the next thing that happens.
fn document(chromium: &Path, page: &Path, arguments: &[&str]) -> String {
    let profile = tempfile::tempdir().expect("a temp folder can be made");
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--dump-dom"])
        .arg("--virtual-time-budget=20000")
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .output()
        .expect("the browser can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it is text")
}

/// What [a probe](../probe.js) sees in the page: put in a frame of this width, since windows do not get as narrow as
/// a phone. Its policy, which lets no other script in, is taken out for it.
fn probed(chromium: &Path, page: &Path, width: u32, scheme: &str) -> Value {
    const CATCH: &str = "<script>window.errors = []; addEventListener('error', (e) => errors.push(e.message || 'resource'), true);\
        console.error = (...all) => errors.push(all.join(' '));</script>";
    let text = fs::read_to_string(page).expect("there is a page");
    let policy = text.find("<meta http-equiv").expect("it has a policy");
    let (before, after) = text.split_at(policy);
    let after = &after[after.find('>').expect("it ends") + 1..];
    let text = format!("{before}{CATCH}{after}")
        .replace("</body>", &format!("<script>{}</script></body>", include_str!("probe.js")));
    let folder = page.parent().expect("it is in a folder");
    fs::write(folder.join("probed.html"), text).expect("it can be written");
    let around = folder.join("around.html");
    let frame =
        format!("<iframe src=\"probed.html\" style=\"border:0;width:{width}px;height:800px\"></iframe>");
    let listen = "onmessage = (event) => { document.getElementById('said').textContent = event.data; }";
    fs::write(
        &around,
        format!(
            "<!DOCTYPE html><html style=\"color-scheme: {scheme}\"><meta charset=\"utf-8\"><body>\
            <script id=\"said\" type=\"text/plain\"></script><script>{listen}</script>{frame}</body></html>"
        ),
    )
    .expect("it can be written");
    let dark = if scheme == "dark" { "0" } else { "1" };
    let document = document(chromium, &around, &[&format!("--blink-settings=preferredColorScheme={dark}")]);
    let start = document.find("type=\"text/plain\">").expect("it is there") + "type=\"text/plain\">".len();
    let said = document[start..].split("</script>").next().unwrap_or_default();
    serde_json::from_str(said).unwrap_or_else(|error| panic!("{error}: the probe said {said:?}"))
}

#[test]
fn the_page_is_whole_in_every_width_and_colour() {
    let Some(chromium) = program("chromium") else { return };
    let folder = made(&[("out", records::HOSTILE)]);
    assert_eq!(stdout(&lab(folder.path(), &["report", "out"])), "");
    let page = folder.path().join("out/report.html");
    let (white, black) = ("rgb(255, 255, 255)", "rgb(13, 17, 23)");
    for (width, scheme, page_colour) in
        [(360, "light", white), (360, "dark", black), (1280, "light", white), (1280, "dark", black)]
    {
        let seen = probed(&chromium, &page, width, scheme);
        assert_eq!(seen["errors"], Value::Array(vec![]), "{width} {scheme}");
        assert_eq!(seen["width"], width);
        assert_eq!(seen["scrollWidth"], width, "{width} {scheme}: {}", seen["wider"]);
        assert_eq!(seen["wider"], Value::Array(vec![]), "{width} {scheme}");
        assert!(
            seen["smallest"].as_f64() >= Some(10.9),
            "{width} {scheme}: letters of {} px",
            seen["smallest"]
        );
        assert_eq!(seen["colours"], serde_json::json!([page_colour, page_colour]), "{width} {scheme}");
        charts_are_alive(&seen);
        let modes = serde_json::json!([
            ["Colours: light", white, white],
            ["Colours: dark", black, black],
            ["Colours: system", page_colour, page_colour]
        ]);
        assert_eq!(seen["modes"], modes, "{width} {scheme}");
        assert_eq!(seen["closed"][1], 0, "on paper nothing is closed");
        assert!(seen["closed"][0].as_u64() > Some(0) && seen["closed"][2] == seen["closed"][0], "{seen}");
        // A phone has no room for a line above the table.
        let labels = if width < 640 { vec!["between", "medians", "ratio"] } else { vec![] };
        assert_eq!(seen["labels"], serde_json::json!(labels), "{width} {scheme}");
    }
}

/// Charts are there, have tips, and can be saved.
fn charts_are_alive(seen: &Value) {
    let list = |name: &str| seen[name].as_array().expect("it is a list").clone();
    assert!(list("figures").len() >= 2, "{}", seen["figures"]);
    assert_eq!(seen["charts"], list("figures").len());
    assert_eq!(
        seen["letters"],
        serde_json::json!(["12px", "13px"]),
        "nothing of the page gets into the charts"
    );
    assert!(!list("tips").is_empty());
    for tip in list("tips") {
        assert_eq!((&tip["shown"], &tip["text"]), (&Value::Bool(true), &tip["wanted"]));
    }
    assert_eq!((&seen["hidden"], &seen["escaped"]), (&Value::Bool(true), &Value::Bool(true)));
    assert_eq!((&seen["byKey"]["shown"], seen["at"].as_f64()), (&Value::Bool(true), Some(3.0)));
    assert_eq!([list("svgs").len(), list("csvs").len()], [list("figures").len(); 2]);
    assert!(list("svgs").iter().all(|svg| svg["root"] == "svg"), "{}", seen["svgs"]);
    assert!(list("svgs").iter().any(|svg| svg["titles"].as_u64() > Some(0)), "what is saved has its tips");
    for csv in list("csvs") {
        assert_eq!(csv["type"], "data:text/csv;charset=utf-8");
        let name = Path::new(csv["name"].as_str().expect("it is saved under a name"));
        assert!(name.extension().is_some_and(|end| end == "csv") && csv["lines"].as_u64() > Some(2));
    }
}

#[test]
fn the_policy_of_the_page_lets_its_script_run_and_no_other() {
    let Some(chromium) = program("chromium") else { return };
    let folder = made(&[("out", records::HOSTILE)]);
    assert_eq!(stdout(&lab(folder.path(), &["report", "out"])), "");
    let page = folder.path().join("out/report.html");
    let text = fs::read_to_string(&page).expect("there is a page");
    assert!(
        !text.contains("src=\"") && !text.contains("href=\"http") && !text.contains("@import"),
        "no network"
    );
    let with = text.replace("<main>", "<main><script>document.title = 'another ran'</script>");
    fs::write(&page, with).expect("it can be written");
    let document = document(&chromium, &page, &[]);
    assert!(
        document.contains("<html lang=\"en\" class=\"js\""),
        "the hash of page.js is another: see html/mod.rs"
    );
    assert!(!document.contains("<title>another ran</title>"));
}
