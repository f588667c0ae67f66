//! The install script, as users run it, with a release that is signed with a key of the test.

use rudy_tests::prelude::*;

use crate::registry::assert_works;
use crate::system::release;

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn archive() -> String {
    format!("rudy-{VERSION}-{}-linux.tar.gz", std::env::consts::ARCH)
}

/// The script and the archive for this machine, with sums and a signature.
struct Signed {
    /// The build folder in which `cargo xtask release` finds the files.
    folder: Folder,
    public_key: String,
}

impl Signed {
    /// `None` if the test is skipped.
    fn new() -> Option<Self> {
        let (release, minisign) = (release()?, program("minisign")?);
        let folder = Folder::new();
        for name in ["install.sh", &archive()] {
            let content = fs::read(release.join(name)).expect("the release has the file");
            folder.write(&format!("release-files/{name}"), content);
        }
        let (public, secret) = (folder.join("key.pub"), folder.join("key"));
        let mut generate = Command::new(minisign);
        Output::of(generate.args(["-GW", "-p"]).arg(&public).arg("-s").arg(&secret)).succeeded();
        let mut sign = Command::new(xtask());
        sign.args(["release", "checksums"]).env("CARGO_TARGET_DIR", folder.path());
        Output::of(sign.env("RUDY_MINISIGN_KEY", secret)).succeeded();
        let public_key =
            folder.read("key.pub").lines().nth(1).expect("the key is in the second line").to_owned();
        Some(Self { folder, public_key })
    }

    fn files(&self) -> PathBuf {
        self.folder.join("release-files")
    }
}

/// A user without privileges, and with an empty home.
struct User {
    home: Folder,
}

impl User {
    fn new() -> Self {
        let home = Folder::new();
        chown(&home, Some(65534), Some(65534)).expect("root gives away folders");
        Self { home }
    }

    /// Downloads the script from `url` and runs it, with these variables.
    fn install(&self, url: &str, variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "sh", "-c"]);
        command.arg("curl -fsS \"$SCRIPT\" | sh").env_clear().env("PATH", "/usr/bin:/bin").current_dir("/");
        command.env("HOME", self.home.path()).env("SCRIPT", format!("{url}/install.sh")).env("RUDY_URL", url);
        Output::of(command.envs(variables.iter().copied()))
    }

    fn program(&self) -> PathBuf {
        self.home.join(".local/bin/rudy")
    }
}

/// Returns the release and a server with its files. `None` if the test is skipped.
fn served() -> Option<(Signed, Server)> {
    if !geteuid().is_root() {
        skip("only root can run a script as another user");
        return None;
    }
    let (Some(_), Some(_)) = (program("curl"), program("setpriv")) else { return None };
    let signed = Signed::new()?;
    let server = Server::folder(&signed.files());
    Some((signed, server))
}

#[test]
fn the_script_verifies_and_installs_the_program_for_a_user() {
    let Some((signed, server)) = served() else { return };
    let user = User::new();
    // The second time, it replaces the program.
    for _ in 0..2 {
        let stdout = user.install(&server.url(""), &[("RUDY_KEY", &signed.public_key)]).succeeded();
        let bin = user.home.join(".local/bin");
        assert_contains!(stdout, &format!("installed rudy {VERSION} in {}", bin.display()));
        assert_contains!(stdout, &format!("Add {} to PATH", bin.display()));
    }
    assert_works(&user.program());
    for name in ["man/man1/rudy.1.gz", "bash-completion/completions/rudy", "licenses/rudy/LICENSE-MIT"] {
        assert!(user.home.join(".local/share").join(name).is_file(), "{name}");
    }
}

/// Asserts that the script fails with this message, and installs nothing.
#[track_caller]
fn assert_fails(url: &str, variables: &[(&str, &str)], message: &str) {
    let user = User::new();
    assert_contains!(user.install(url, variables).failed_with(1), message);
    assert!(!user.program().exists());
}

#[test]
fn the_script_installs_nothing_that_it_cannot_verify() {
    let Some((signed, server)) = served() else { return };
    let url = server.url("");
    let other_key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
    assert_fails(&url, &[("RUDY_KEY", other_key)], "SHA256SUMS is not signed with the key in RUDY_KEY");
    signed.files().write(&archive(), "damaged");
    assert_fails(&url, &[], "does not have the sum in SHA256SUMS: nothing was installed");
    signed.files().write("SHA256SUMS", "");
    // The first server may know the sums for another second.
    let later = Server::folder(&signed.files());
    assert_fails(&later.url(""), &[], "SHA256SUMS has no line for");
    assert_fails(&url, &[("RUDY_URL", &server.url("/nowhere"))], "cannot download");
}

#[test]
fn the_script_names_what_it_does_not_support() {
    let Some((_signed, server)) = served() else { return };
    let url = server.url("");
    assert_fails(&url, &[("RUDY_PREFIX", "/proc")], "cannot write to /proc/bin: set RUDY_PREFIX");
    // Another `uname` first in PATH.
    let machine = |system: &str, processor: &str| {
        let script = format!("#!/bin/sh\n[ $1 = -s ] && echo {system} || echo {processor}\n");
        let folder = Folder::with(&[("uname", script)]);
        for path in [folder.path(), &folder.join("uname")] {
            fs::set_permissions(path, Permissions::from_mode(0o755)).expect("the file is ours");
        }
        folder
    };
    for (system, processor, message) in [
        ("Linux", "riscv64", "there is no program for the processor riscv64, only for x86_64 and aarch64"),
        ("Darwin", "arm64", "Rudy runs on Linux, not on Darwin"),
    ] {
        let folder = machine(system, processor);
        let path = format!("{folder}:/usr/bin:/bin");
        assert_fails(&url, &[("PATH", &path)], message);
    }
}

#[test]
fn the_sums_are_of_all_files_of_a_release() {
    let Some(release) = release() else { return };
    let check =
        "sha256sum --check --strict --quiet SHA256SUMS && wc -l < SHA256SUMS && find . -type f | wc -l";
    let counts = Output::of(Command::new("sh").args(["-c", check]).current_dir(&release)).succeeded();
    let counts: Vec<usize> = counts.lines().filter_map(|count| count.trim().parse().ok()).collect();
    let own = ["SHA256SUMS", "SHA256SUMS.minisig"].iter().filter(|name| release.join(name).exists()).count();
    assert_eq!(counts[0] + own, counts[1]);
}
