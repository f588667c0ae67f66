//! The images of a release.

use rudy_tests::prelude::*;

use crate::containers::Bundle;
use crate::{VERSION, released};

/// The command in the field of Docker's that OCI does not have.
fn health_check(archive: &Path) -> Vec<String> {
    let folder = Folder::new();
    Output::of(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&folder)).succeeded();
    let parse = |name: &str| -> Value { serde_json::from_str(&folder.read(name)).expect("it is JSON") };
    let manifest = parse("manifest.json");
    let config = parse(manifest[0]["Config"].as_str().expect("Docker's list names the configuration"));
    let test = config["config"]["Healthcheck"]["Test"].as_array().expect("there is a health check");
    let mut words = test.iter().map(|word| word.as_str().expect("a command has words").to_owned());
    assert_eq!(words.next().as_deref(), Some("CMD"), "an image without a shell cannot run another kind");
    words.collect()
}

#[test]
fn both_runtimes_serve_the_first_page_without_root_and_with_a_root_that_cannot_be_written_to() {
    let Some(archive) = released(&format!("rudy-{VERSION}-image-x86_64.tar")) else { return };
    let health_check = health_check(&archive);
    for runtime in ["crun", "runc"] {
        let Some(mut bundle) = Bundle::unpack(&archive, "amd64") else { return };
        assert_eq!(bundle.config["process"]["user"], json!({ "uid": 65532, "gid": 65532 }));
        bundle.restrict();
        bundle.mount_empty("/tmp");
        let Some(container) = bundle.start(runtime) else { return };
        let response = container.get(8080, "/");
        assert_eq!(response.status, 200, "{runtime}");
        assert_contains!(response.text(), "/srv/www/index.html");
        let words: Vec<_> = health_check.iter().map(String::as_str).collect();
        container.run(&words).succeeded();
        container.run(&["/usr/bin/rudy", "reload"]).succeeded();
        let (stdout, stderr) = container.stop();
        assert_contains!(stdout, "\"GET / HTTP/1.1\" 200");
        assert!(stderr.ends_with("notice: stopped"), "{runtime}: {stderr}");
    }
}

#[test]
fn a_folder_and_a_configuration_replace_those_of_the_image() {
    let Some(archive) = released(&format!("rudy-{VERSION}-image.tar")) else { return };
    let Some(mut bundle) = Bundle::unpack(&archive, "amd64") else { return };
    let config = "listen = [':80', ':8443,tls']\ntls = 'internal'\n[[site]]\nroot = '/srv/www'\n";
    let mounted = Folder::with(&[("site/a.txt", "a"), ("rudy/rudy.toml", config)]);
    mounted.set_mode(".", 0o755);
    bundle.mount_folder("/srv/www", &mounted.join("site"));
    bundle.mount_folder("/etc/rudy", &mounted.join("rudy"));
    let Some(container) = bundle.start("crun") else { return };
    assert_eq!(container.get(80, "/a.txt").status_and_text(), (200, "a"));
    let page = ["/usr/bin/rudy", "get", "--fail", "--insecure", "https://127.0.0.1:8443/a.txt"];
    assert_eq!(container.run(&page).succeeded(), "a");
    container.stop();
}

/// It cannot serve there: `epoll_pwait` of qemu 7.2 fails with ETIMEDOUT.
#[test]
fn the_image_for_arm64_checks_a_configuration_on_an_emulator() {
    let Some(archive) = released(&format!("rudy-{VERSION}-image.tar")) else { return };
    let Some(emulator) = program("qemu-aarch64-static") else { return };
    let Some(bundle) = Bundle::unpack(&archive, "arm64") else { return };
    let root = bundle.root();
    let run = |arguments: &[&str]| {
        let mut rudy = Command::new(&emulator);
        Output::of(rudy.arg(root.join("usr/bin/rudy")).args(arguments)).succeeded()
    };
    assert_eq!(run(&["--version"]).trim(), format!("rudy {VERSION}"));
    let folder = Folder::with(&[("rudy.toml", "[[site]]\nroot = '.'\n")]);
    assert_contains!(run(&["check", &folder.text("rudy.toml")]), "127.0.0.1:8080  HTTP/1.1");
}
