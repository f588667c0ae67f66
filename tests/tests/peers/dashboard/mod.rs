//! The dashboard in Chromium, under load, on a phone and on a desktop, checked by axe-core.

use rudy_tests::prelude::*;
use rudy_tests::{application, axe};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/dashboard/page.py");

/// The pictures go to this folder if the variable is set, for the documentation.
const PICTURES: &str = "RUDY_TEST_PICTURES";

#[test]
fn the_page_is_accessible_and_fits_under_load() {
    let (Some(python), Some(axe)) = (application("python"), axe()) else { return };
    let Some(chromium) = program("chromium") else { return };
    // It responds to no request, so that some are active.
    let upstream = Upstream::start(|peer| {
        peer.request();
        peer.wait_for_end();
    });
    let server = Server::config(&format!(
        "listen = \"127.0.0.1:0\"\n[[site]]\n[[site.route]]\npath = \"/dashboard\"\ndashboard = {{ interval = \"100ms\" }}\n\
         [[site.route]]\npath = \"/slow/*\"\nproxy = \"{upstream}\"\n[[site.route]]\npath = \"/*\"\nrespond = {{ body = \"x\" }}\n"
    ));
    let _waiting: Vec<_> = (0..40)
        .map(|number| {
            let mut connection = server.connect();
            let target = format!("/slow/a-rather-long-path-of-a-report/{number}");
            connection.send(format!("GET {target} HTTP/1.1\r\nHost: app.example.org\r\n\r\n").as_bytes());
            connection
        })
        .collect();
    let folder = Folder::new();
    let pictures = std::env::var_os(PICTURES).map_or_else(|| folder.path().to_owned(), Into::into);
    let (is_done, mut connection, url) = (AtomicBool::new(false), server.connect(), server.url("/dashboard"));
    let is_done = &is_done;
    let output = thread::scope(|scope| {
        scope.spawn(move || {
            while !is_done.load(Ordering::Relaxed) {
                connection.get("/page", &["Host: www.example.org"]);
            }
        });
        let mut command = Command::new(python);
        command.arg(SCRIPT).arg(chromium).arg(url).arg(axe).arg(pictures);
        let output = command.output();
        is_done.store(true, Ordering::Relaxed);
        output.expect("python can be started")
    });
    let stderr = String::from_utf8_lossy(&output.stderr);
    let found: Vec<Value> =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    assert_eq!(found.len(), 4, "{stderr}");
    for look in found {
        let [errors, violations] = ["errors", "violations"].map(|key| look[key].as_array().expect("a list"));
        assert!(errors.is_empty() && violations.is_empty() && look["overflow"] == 0, "{look:#}");
        assert_eq!((&look["paused"], &look["focused"]), (&"Paused".into(), &"active".into()), "{look:#}");
    }
}
