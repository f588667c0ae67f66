//! The crates of a release in a registry.

use rudy_tests::prelude::*;

use crate::system::release;

/// The files of a folder, and a mirror of the registry for what is not there.
fn config(port: u16, index: &str) -> String {
    format!(
        "listen = \"127.0.0.1:{port}\"\n[cache]\npath = \"cache\"\n[[site]]\n\
         [[site.route]]\npath = \"/*\"\nfiles = {{ root = \"registry\", next_route = true, serve_hidden = true }}\n\
         [[site.route]]\npath = \"/*\"\nmirror = {{ url = \"{index}\", preset = \"crates\" }}\n"
    )
}

/// Copies the crates and their index to the paths that cargo requests. `downloads` is the path above the names of crates.
fn add_crates(crates: &Path, registry: &Path, downloads: &str) {
    let version = env!("CARGO_PKG_VERSION");
    for entry in fs::read_dir(crates.join("index/ru/dy")).expect("the release has an index") {
        let entry = entry.expect("the folder can be read");
        let name = entry.file_name().into_string().expect("names of crates are ASCII");
        let copy = |from: &Path, to: &str| registry.write(to, fs::read(from).expect("the file can be read"));
        copy(&entry.path(), &format!("ru/dy/{name}"));
        let file = crates.join(format!("{name}-{version}.crate"));
        copy(&file, &format!("{downloads}/{name}/{version}/download"));
    }
}

#[test]
fn cargo_installs_the_program_from_a_registry_that_rudy_serves() {
    let (Some(release), Some(cargo)) = (release(), program("cargo")) else { return };
    let Some(index) = cargo_index() else { return };
    let (folder, state, port) = (Folder::new(), Folder::new(), free_port());
    folder.add(&[("rudy.toml", config(port, &index)), ("registry/README", String::new())]);
    let server = Server::build().config_of(folder).env("STATE_DIRECTORY", state.path()).start();
    let downloads = server.json("/config.json")["dl"].as_str().expect("it is a URL").to_owned();
    let downloads = downloads.splitn(4, '/').nth(3).expect("it has a path");
    add_crates(&release.join("crates"), &server.path().join("registry"), downloads);

    let url = format!("http://127.0.0.1:{port}");
    let home = Folder::with(&[("cargo/config.toml", cargo_source(&url))]);
    let mut install = Command::new(cargo);
    install.args(["install", "rudy", "--locked", "--debug", "--features", "resolver", "--root", "installed"]);
    install.current_dir(&home).env("HOME", home.path()).env("CARGO_HOME", home.join("cargo"));
    install.env("RUSTUP_HOME", rustup_home()).env("CARGO_PROFILE_DEV_DEBUG", "false");
    install.env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS");
    Output::of(&mut install).succeeded();
    assert_works(&home.join("installed/bin/rudy"));
}

/// Asserts that an installed program names its commit, and serves a page.
pub(crate) fn assert_works(program: &Path) {
    let version = Output::of(Command::new(program).args(["--version", "--verbose"])).succeeded();
    let commit = version.lines().find_map(|line| line.strip_prefix("commit: ")).unwrap_or_default();
    assert!(commit.len() >= 40 && commit.starts_with(|c: char| c.is_ascii_hexdigit()), "{version}");
    let server = Server::build().files(&[("index.html", b"hello")]);
    let server = server.through_shell(&format!("shift; exec '{}' \"$@\"", program.display())).start();
    assert_eq!(server.get("/").body, b"hello");
}
