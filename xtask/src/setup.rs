//! Installs what the tests need. Quick and silent where all of it is there already.

use std::io::IsTerminal;
use std::path::Path;
use std::process::Command;

use crate::{Outcome, command, workspace};

/// Programs, and the Debian package that brings each.
const PROGRAMS: &[(&str, &str)] = &[
    ("c++", "g++"),                   // builds libFuzzer
    ("curl", "curl"),                 // the real client of the file tests
    ("nginx", "nginx"),               // a web server before the apps that our library makes
    ("wrk", "wrk"),                   // what `rudy bench` is held against
    ("h2load", "nghttp2-client"),     // stands beside it in the lab
    ("ab", "apache2-utils"),          // as well
    ("escript", "erlang-base"),       // runs the lab's peers in Erlang
    ("slowhttptest", "slowhttptest"), // the slow clients of the tests
    ("openssl", "openssl"),           // makes certificates, and serves TLS, in the tests of the client
    ("cgi-fcgi", "libfcgi-bin"),      // asks FastCGI apps from the command line
    ("lighttpd", "lighttpd"),         // starts FastCGI apps, and asks them
    ("apache2", "apache2"),           // asks FastCGI apps
    (PYTHON, "python3"),              // runs redbot and flup
    ("php-cgi", "php-cgi"),           // an app behind the gateway
    ("php", "php-cli"),               // installs MediaWiki
    ("fcgiwrap", "fcgiwrap"),         // runs CGI programs behind it, git's among them
    ("git", "git"),
    ("zsh", "zsh"),           // completes commands, as bash does
    ("fish", "fish"),         // as well
    ("mandoc", "mandoc"),     // reads the manual pages
    ("setfacl", "acl"),       // gives a folder an access control list
    ("chromium", "chromium"), // shows the reports of the lab
];

/// The system's own, for which Debian packages `venv`: one that stands earlier in `PATH` may be anything.
const PYTHON: &str = "/usr/bin/python3";

/// What reads our answers with the eyes of RFC 9110 and RFC 9111; its checks are a package of their own.
const REDBOT: &[&str] = &["redbot==2.7.1", "httplint==2026.10.4"];

/// FastCGI for Python, which Debian no longer has.
const FLUP: &[&str] = &["flup==1.0.3"];

/// A server whose documentation says how it answers. Go 1.22 or later builds it, in seconds.
const GO_HTTPBIN: &str = "github.com/mccutchen/go-httpbin/v2/cmd/go-httpbin@v2.20.0";

/// A PHP application, with the libraries that it names. They are unpacked and not installed, because installed it asks
/// questions and sets up web servers.
const DOKUWIKI: &[&str] =
    &["dokuwiki", "php-phpseclib", "php-random-compat", "php-geshi", "libphp-simplepie"];

/// A PHP application whose paths are names of pages, slashes included. Unpacked for the same reason.
const MEDIAWIKI: &[&str] = &["mediawiki", "mediawiki-classes"];

/// Extensions of PHP that `MediaWiki` loads, and the Debian package that brings each.
const PHP_EXTENSIONS: &[(&str, &str)] =
    &[("intl", "php-intl"), ("mbstring", "php-mbstring"), ("xml", "php-xml"), ("pdo_sqlite", "php-sqlite3")];

/// Installs what is missing, with `peers` also what only the long checks need; fails with the names of what it may not install.
pub(crate) fn run(peers: bool) -> Outcome {
    packages()?;
    python(&workspace::flup_environment(), FLUP)?;
    if peers {
        python(&workspace::redbot_environment(), REDBOT)?;
        unpack(DOKUWIKI, &workspace::dokuwiki(), "usr/share/dokuwiki/doku.php")?;
        unpack(MEDIAWIKI, &workspace::mediawiki(), "usr/share/mediawiki/index.php")?;
    }
    cargo_deny()?;
    cargo_nextest()?;
    cargo_fuzz()?;
    go_httpbin()
}

fn packages() -> Outcome {
    let missing = missing_packages();
    if missing.is_empty() {
        return Ok(());
    }
    println!("missing: {}", missing.join(" "));
    let Some(mut prefix) = privileged() else {
        return Err(format!(
            "these packages are missing, and installing them needs root or sudo: {0}\n\
             On Debian and Ubuntu: apt-get install {0}",
            missing.join(" ")
        ));
    };
    if command::find("apt-get").is_none() {
        return Err(format!(
            "these programs are missing and there is no apt-get to install them with (the names are Debian's): {}",
            missing.join(" ")
        ));
    }
    prefix.extend(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]);
    let apt = |arguments: &[&str]| command::run(Command::new(prefix[0]).args(&prefix[1..]).args(arguments));
    apt(&["update"])?;
    let mut install = vec!["install", "--yes", "--no-install-recommends"];
    install.extend(&missing);
    apt(&install)?;
    let runs_services = Path::new("/run/systemd/system").exists();
    for server in ["nginx", "lighttpd", "apache2"] {
        if missing.contains(&server) && runs_services {
            println!(
                "{server} now also runs as a service of its own; `systemctl disable --now {server}` ends that"
            );
        }
    }
    Ok(())
}

fn missing_packages() -> Vec<&'static str> {
    let mut missing: Vec<_> = PROGRAMS
        .iter()
        .filter(|(program, _)| command::find(program).is_none())
        .map(|(_, package)| *package)
        .collect();
    // A module that no program stands for: it starts FastCGI apps.
    if !Path::new("/usr/lib/apache2/modules/mod_fcgid.so").exists() {
        missing.push("libapache2-mod-fcgid");
    }
    // Debian keeps the part of `venv` that brings pip in a package of its own.
    if !workspace::flup_environment().join("bin/pip").exists()
        && !command::succeeds(Command::new(PYTHON).args(["-c", "import ensurepip"]))
    {
        missing.push("python3-venv");
    }
    if command::php_fpm().is_none() {
        missing.push("php-fpm");
    }
    if !command::succeeds(Command::new("perl").args(["-MFCGI", "-e1"])) {
        missing.push("libfcgi-perl");
    }
    for (extension, package) in PHP_EXTENSIONS {
        let code = format!("exit(extension_loaded('{extension}') ? 0 : 1);");
        if !command::succeeds(Command::new("php").args(["-r", &code])) {
            missing.push(package);
        }
    }
    missing
}

/// What to put before a command that needs root; `None` where there is no way.
fn privileged() -> Option<Vec<&'static str>> {
    if rustix::process::geteuid().is_root() {
        return Some(vec![]);
    }
    // Without a terminal nobody can type a password: then only a sudo that asks for none will do.
    let sudo = command::find("sudo").is_some()
        && (std::io::stdin().is_terminal() || command::succeeds(Command::new("sudo").args(["-n", "true"])));
    sudo.then(|| vec!["sudo"])
}

/// Installs packages into an environment of their own, which is there as a whole or not at all.
fn python(environment: &Path, packages: &[&str]) -> Outcome {
    if environment.join("installed").exists() {
        return Ok(());
    }
    println!("installing {} into {}", packages.join(" "), environment.display());
    command::run(Command::new(PYTHON).args(["-m", "venv"]).arg(environment))?;
    command::run(Command::new(environment.join("bin/pip")).args(["install", "--quiet"]).args(packages))?;
    std::fs::write(environment.join("installed"), packages.join("\n"))
        .map_err(|error| format!("cannot write into {}: {error}", environment.display()))
}

/// Checks licences, sources and banned crates; two minutes of building on two cores.
fn cargo_deny() -> Outcome {
    if command::find("cargo-deny").is_some() {
        return Ok(());
    }
    cargo_install("cargo-deny")
}

/// Runs the tests of all crates side by side; two minutes of building on two cores.
fn cargo_nextest() -> Outcome {
    if command::find("cargo-nextest").is_some() {
        return Ok(());
    }
    cargo_install("cargo-nextest")
}

/// Only where there is a nightly toolchain, without which it cannot run; some seconds of building.
fn cargo_fuzz() -> Outcome {
    let nightly = command::succeeds(Command::new("rustup").args(["run", "nightly", "rustc", "--version"]));
    if !nightly || command::find("cargo-fuzz").is_some() {
        return Ok(());
    }
    cargo_install("cargo-fuzz")
}

fn go_httpbin() -> Outcome {
    let folder = workspace::go_programs();
    if folder.join("go-httpbin").exists() {
        return Ok(());
    }
    let Some(go) = command::find("go") else {
        return Err(
            "Go is not installed, which builds go-httpbin for the tests of the generator: 1.22 or later, \
                    from https://go.dev/dl/"
                .into(),
        );
    };
    println!("installing {GO_HTTPBIN} into {}", folder.display());
    command::run(Command::new(go).args(["install", GO_HTTPBIN]).env("GOBIN", folder))
}

/// Unpacks Debian packages into a folder; `file` is there when they are.
fn unpack(packages: &[&str], folder: &Path, file: &str) -> Outcome {
    if folder.join(file).exists() {
        return Ok(());
    }
    println!("unpacking {} into {}", packages.join(" "), folder.display());
    std::fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    command::run(Command::new("apt-get").args(["-q", "download"]).args(packages).current_dir(folder))?;
    for package in packages {
        let unpack = "dpkg-deb -x \"$0\"_*.deb . && rm \"$0\"_*.deb";
        command::run(Command::new("sh").args(["-c", unpack, package]).current_dir(folder))?;
    }
    Ok(())
}

fn cargo_install(tool: &str) -> Outcome {
    println!("installing {tool}");
    // Unoptimised they are fast enough, and built in half the time.
    let mut cargo = workspace::cargo();
    cargo.args(["install", "--locked", "--quiet", "--debug", tool]).env("CARGO_PROFILE_DEV_DEBUG", "false");
    command::run(&mut cargo)
}
