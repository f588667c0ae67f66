//! Logins in Chromium through oauth2-proxy, with the configuration and the command of `docs/access.md`.

use rudy_tests::prelude::*;
use rudy_tests::{application, oidc_provider};

const GUIDE: &str = include_str!("../../../../docs/access.md");

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/logins/page.py");

/// Returns the first example of a section in a language.
fn example(section: &str, language: &str) -> &'static str {
    let section = GUIDE.split(&format!("### {section}\n")).nth(1);
    let example = section.and_then(|text| text.split(&format!("```{language}\n")).nth(1));
    example.and_then(|rest| rest.split("```").next()).expect("the section has an example in this language")
}

/// Starts oauth2-proxy as the documentation shows it, with this provider.
fn oauth2_proxy(program: &Path, port: &ReservedPort, provider: &ReservedPort, secrets: &Folder) -> Running {
    secrets.write("client", "secret");
    secrets.write("cookie", "0123456789abcdef0123456789abcdef");
    let text = example("oauth2-proxy", "sh")
        .replace("127.0.0.1:4180", &port.address().to_string())
        .replace("https://id.example.org", &format!("http://{}", provider.address()))
        .replace("/etc/oauth2-proxy", &secrets.to_string());
    let flags = text.split_whitespace().filter(|word| word.starts_with("--"));
    Running::listening(Command::new(program).args(flags), port)
}

#[test]
fn a_user_of_an_openid_provider_logs_in_and_out_in_a_browser() {
    let (Some(python), Some(chromium)) = (application("python"), program("chromium")) else { return };
    let (Some(provider), Some(proxy)) = (oidc_provider(), go_program("oauth2-proxy")) else { return };
    let [of_provider, of_proxy, of_application] = [(); 3].map(|()| ReservedPort::new());
    let mut command = Command::new(provider);
    command.arg("--port").arg(of_provider.address().port().to_string());
    let _provider = Running::listening(&mut command, &of_provider);
    let secrets = Folder::new();
    let _proxy = oauth2_proxy(&proxy, &of_proxy, &of_provider, &secrets);
    let config = example("oauth2-proxy", "toml")
        .replace("[\":443,tls\", \":80\"]", "\"127.0.0.1:0,tls\"")
        .replace("tls = \"auto\"", "tls = \"self-signed\"")
        .replace("127.0.0.1:4180", &of_proxy.address().to_string())
        .replace("127.0.0.1:3000", &of_application.address().to_string());
    let server = Server::config(&config);
    let mut command = Command::new(python);
    command.arg(SCRIPT).arg(chromium);
    command.args([server.address(), of_application.address()].map(|address| address.port().to_string()));
    let output = command.output().expect("python can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
