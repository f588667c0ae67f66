//! Tests the report in a real browser, at the widths of a phone and a desktop, in light and dark mode.

use rudy_tests::prelude::*;

use crate::lab_report::{create_experiments, lab, records};

/// Returns the DOM of a page after its scripts have run. The virtual time of the browser advances to the next event without waiting.
fn document(chromium: &Path, page: &Path, arguments: &[&str]) -> String {
    let profile = Folder::new();
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--dump-dom"])
        .arg("--virtual-time-budget=20000")
        .arg(format!("--user-data-dir={profile}"))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .output()
        .expect("the browser can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the bytes are UTF-8")
}

/// Returns the observations of [a probe](../probe.js) in the page. The page is in a frame, because windows cannot be as narrow as a
/// phone. Its content security policy, which allows no other script, is removed.
fn probed(chromium: &Path, page: &Path, width: u32, scheme: &str) -> Value {
    const CATCH: &str = "<script>window.errors = []; addEventListener('error', (e) => errors.push(e.message || 'resource'), true);\
        console.error = (...all) => errors.push(all.join(' '));</script>";
    let text = fs::read_to_string(page).expect("there is a page");
    let policy = text.find("<meta http-equiv").expect("the page has a policy");
    let (before, after) = text.split_at(policy);
    let after = &after[after.find('>').expect("the tag ends") + 1..];
    let text = format!("{before}{CATCH}{after}")
        .replace("</body>", &format!("<script>{}</script></body>", include_str!("probe.js")));
    let folder = page.parent().expect("the page is in a folder");
    folder.write("probed.html", text);
    let around = folder.join("around.html");
    let frame =
        format!("<iframe src=\"probed.html\" style=\"border:0;width:{width}px;height:800px\"></iframe>");
    let listen = "onmessage = (event) => { document.getElementById('result').textContent = event.data; }";
    fs::write(
        &around,
        format!(
            "<!DOCTYPE html><html style=\"color-scheme: {scheme}\"><meta charset=\"utf-8\"><body>\
            <script id=\"result\" type=\"text/plain\"></script><script>{listen}</script>{frame}</body></html>"
        ),
    )
    .expect("the file can be written");
    let dark = if scheme == "dark" { "0" } else { "1" };
    let document = document(chromium, &around, &[&format!("--blink-settings=preferredColorScheme={dark}")]);
    let start =
        document.find("type=\"text/plain\">").expect("the page has the text") + "type=\"text/plain\">".len();
    let result = document[start..].split("</script>").next().unwrap_or_default();
    serde_json::from_str(result).unwrap_or_else(|error| panic!("{error}: the probe returned {result:?}"))
}

#[test]
fn the_page_works_at_every_width_and_in_every_colour_mode() {
    let Some(chromium) = program("chromium") else { return };
    let folder = create_experiments(&[("out", records::HOSTILE)]);
    assert_eq!(lab(&folder, &["report", "out"]).succeeded(), "");
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
        assert_eq!(seen["cut"], Value::Array(vec![]), "{width} {scheme}: the whole chart is visible");
        assert!(
            seen["smallest"].as_f64() >= Some(10.9),
            "{width} {scheme}: a font size of {} px",
            seen["smallest"]
        );
        assert_eq!(seen["colours"], serde_json::json!([page_colour, page_colour]), "{width} {scheme}");
        charts_work(&seen);
        let modes = serde_json::json!([
            ["Colours: light", white, white],
            ["Colours: dark", black, black],
            ["Colours: system", page_colour, page_colour]
        ]);
        assert_eq!(seen["modes"], modes, "{width} {scheme}");
        assert_eq!(seen["closed"][1], 0, "all details are open in print");
        assert!(seen["closed"][0].as_u64() > Some(0) && seen["closed"][2] == seen["closed"][0], "{seen}");
        // On a phone, the labels are in the cells.
        let labels = if width < 640 { vec!["CI", "medians", "ratio"] } else { vec![] };
        assert_eq!(seen["labels"], serde_json::json!(labels), "{width} {scheme}");
    }
}

/// Asserts that charts exist, have tooltips, and can be saved.
fn charts_work(seen: &Value) {
    let list = |name: &str| seen[name].as_array().expect("the value is a list").clone();
    assert!(list("figures").len() >= 2, "{}", seen["figures"]);
    assert_eq!(seen["charts"], list("figures").len());
    assert_eq!(
        seen["letters"],
        serde_json::json!(["12px", "13px"]),
        "the style of the page does not affect the charts"
    );
    assert!(!list("tips").is_empty());
    for tip in list("tips") {
        assert_eq!((&tip["shown"], &tip["text"]), (&Value::Bool(true), &tip["wanted"]));
    }
    assert_eq!((&seen["hidden"], &seen["escaped"]), (&Value::Bool(true), &Value::Bool(true)));
    assert_eq!((&seen["byKey"]["shown"], seen["at"].as_f64()), (&Value::Bool(true), Some(3.0)));
    assert_eq!(list("svgs").len(), list("figures").len());
    assert!(list("svgs").iter().all(|svg| svg["root"] == "svg"), "{}", seen["svgs"]);
    assert!(list("svgs").iter().any(|svg| svg["titles"].as_u64() > Some(0)), "saved charts have tooltips");
}

#[test]
fn the_content_security_policy_allows_only_the_script_of_the_page() {
    let Some(chromium) = program("chromium") else { return };
    let folder = create_experiments(&[("out", records::HOSTILE)]);
    assert_eq!(lab(&folder, &["report", "out"]).succeeded(), "");
    let page = folder.path().join("out/report.html");
    let text = fs::read_to_string(&page).expect("there is a page");
    assert!(
        !text.contains("src=\"") && !text.contains("href=\"http") && !text.contains("@import"),
        "no network"
    );
    let with = text.replace("<main>", "<main><script>document.title = 'another ran'</script>");
    fs::write(&page, with).expect("the file can be written");
    let document = document(&chromium, &page, &[]);
    assert!(
        document.contains("<html lang=\"en\" class=\"js\""),
        "the hash of page.js has changed: see html/mod.rs"
    );
    assert!(!document.contains("<title>another ran</title>"));
}
