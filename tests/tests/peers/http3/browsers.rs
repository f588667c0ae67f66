//! HTTP/3 in browsers: at once, and after the field `Alt-Svc` of a response over TCP.

use rudy_tests::prelude::*;

use super::{Site, script};

impl Site {
    /// Adds a page that sends requests until the browser ends.
    fn with_page(self) -> Self {
        let page = fs::read(script("page.html")).expect("it is in the repository");
        self.server.path().write("www/index.html", page);
        self
    }

    /// Runs a browser until it has sent a request over HTTP/3. Returns the access log until then.
    fn visit(&self, mut browser: Command) -> String {
        let url = format!("https://localhost:{}/", self.port());
        let browser = browser.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let _browser = Running::start(browser);
        self.server.path().wait_until("access.log", |log| log.contains("/hello HTTP/3.0\" 200"))
    }
}

/// Chromium with a new profile. It does not ask the system for trusted certificates, so the key of the server is named.
fn chromium(site: &Site, profile: &Path, arguments: &[&str]) -> Option<Command> {
    let openssl = "openssl x509 -in \"$0\" -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64";
    let mut command = Command::new("sh");
    let key = Output::of(command.args(["-c", openssl, &site.certificates.path("server")])).succeeded();
    let mut command = Command::new(program("chromium")?);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
    // Over QUIC, it does not try the next address of a host.
    command.arg("--host-resolver-rules=MAP localhost 127.0.0.1");
    command.arg(format!("--user-data-dir={}", profile.display()));
    command.arg(format!("--ignore-certificate-errors-spki-list={}", key.trim())).args(arguments);
    Some(command)
}

#[test]
fn chromium_begins_with_http3() {
    needs!(long());
    let (Some(site), profile) = (Site::start().map(Site::with_page), Folder::new()) else { return };
    let force = format!("--origin-to-force-quic-on=localhost:{}", site.port());
    let Some(browser) = chromium(&site, profile.path(), &[&force]) else { return };
    let log = site.visit(browser);
    assert!(log.lines().all(|line| line.contains(" HTTP/3.0\" ")), "{log}");
}

#[test]
fn chromium_follows_alt_svc() {
    needs!(long());
    let (Some(site), profile) = (Site::start().map(Site::with_page), Folder::new()) else { return };
    // Over QUIC, it requires a public authority, unless any port of the host is named.
    let allow = "--origin-to-force-quic-on=localhost:1";
    let Some(browser) = chromium(&site, profile.path(), &[allow]) else { return };
    let log = site.visit(browser);
    assert!(log.lines().next().is_some_and(|line| line.contains(" HTTP/2.0\" ")), "{log}");
}

/// Firefox with a new profile that trusts the authority of the server.
fn firefox(site: &Site, profile: &Folder, preferences: &str) -> Option<Command> {
    let (firefox, certutil) = (program("firefox-esr")?, program("certutil")?);
    let database = format!("sql:{}", profile.path().display());
    let certutil = |arguments: &[&str]| {
        Output::of(Command::new(&certutil).args(arguments).args(["-d", &database])).succeeded()
    };
    certutil(&["-N", "--empty-password"]);
    certutil(&["-A", "-n", "authority", "-t", "C,,", "-i", &site.authority()]);
    // Firefox does without HTTP/3 if the system has own authorities.
    let common = "user_pref('network.http.http3.disable_when_third_party_roots_found', false);\n\
                  user_pref('browser.shell.checkDefaultBrowser', false);\n\
                  user_pref('datareporting.policy.dataSubmissionEnabled', false);\n";
    profile.write("user.js", format!("{common}{preferences}").replace('\'', "\""));
    let mut command = Command::new(firefox);
    command.args(["--headless", "--no-remote", "--profile"]).arg(profile.path()).env("HOME", profile.path());
    Some(command)
}

#[test]
fn firefox_begins_with_http3() {
    needs!(long());
    let (Some(site), profile) = (Site::start().map(Site::with_page), Folder::new()) else { return };
    let mapping = format!(
        "user_pref('network.http.http3.alt-svc-mapping-for-testing', 'localhost;h3=:{}');\n",
        site.port()
    );
    let Some(browser) = firefox(&site, &profile, &mapping) else { return };
    site.visit(browser);
}

#[test]
fn firefox_follows_alt_svc() {
    needs!(long());
    let (Some(site), profile) = (Site::start().map(Site::with_page), Folder::new()) else { return };
    let Some(browser) = firefox(&site, &profile, "") else { return };
    let log = site.visit(browser);
    assert!(log.lines().next().is_some_and(|line| line.contains(" HTTP/2.0\" ")), "{log}");
}
