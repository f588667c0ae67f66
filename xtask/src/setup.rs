//! Installs the programs that the tests need. Fast and silent if all are installed.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Outcome, command, workspace};

/// Programs of the tests before a merge, and their Debian packages.
const PROGRAMS: &[(&str, &str)] = &[
    ("curl", "curl"),            // independent HTTP client
    ("nginx", "nginx"),          // gateway for apps of our FastCGI library
    ("wrk", "wrk"),              // compared with `rudy bench`
    ("node", "nodejs"),          // HTTP/2 server
    ("ab", "apache2-utils"),     // compared with `rudy bench`
    ("openssl", "openssl"),      // certificates and TLS servers
    ("cgi-fcgi", "libfcgi-bin"), // FastCGI client for the command line
    ("lighttpd", "lighttpd"),    // gateway that starts FastCGI apps
    ("apache2", "apache2"),      // gateway for FastCGI apps
    (PYTHON, "python3"),         // runs flup
    ("php-cgi", "php-cgi"),      // FastCGI app
    ("fcgiwrap", "fcgiwrap"),    // runs CGI programs such as git's
    ("git", "git"),
    ("zsh", "zsh"),                 // shell completion
    ("fish", "fish"),               // shell completion
    ("mandoc", "mandoc"),           // checks the manual pages
    ("setfacl", "acl"),             // sets access control lists
    ("certutil", "libnss3-tools"),  // databases of authorities of browsers
    ("zstd", "zstd"),               // reads rotated logs
    ("fail2ban-regex", "fail2ban"), // bans clients by the error log
];

/// Programs of the long checks only.
const NIGHTLY_PROGRAMS: &[(&str, &str)] = &[
    ("c++", "g++"),                              // builds libFuzzer
    ("h2load", "nghttp2-client"),                // compared with `rudy bench`
    ("nghttpd", "nghttp2-server"),               // HTTP/2 server
    ("h2o", "h2o"),                              // HTTP/2 server
    ("npm", "npm"),   // installs axe-core and the tests of HTTP caches, through a mirror too
    ("mvn", "maven"), // builds a project through a mirror
    ("escript", "erlang-base"), // runs the Erlang servers of the lab
    ("slowhttptest", "slowhttptest"), // slow clients
    ("valgrind", "valgrind"), // counts instructions
    ("php", "php-cli"), // installs MediaWiki
    ("uwsgi", "uwsgi-plugin-python3"), // app behind uwsgi
    ("testssl", "testssl.sh"), // scans TLS for weaknesses
    ("chromium", "chromium"), // renders the reports of the lab, and has HTTP/3
    ("firefox-esr", "firefox-esr"), // a browser with HTTP/3
    ("promtool", "prometheus"), // checks and scrapes metrics
    ("systemd-nspawn", "systemd-container"), // boots systemd with the packaged unit
    ("skopeo", "skopeo"), // selects an image
    ("umoci", "umoci"), // unpacks an image
    ("crun", "crun"), // runs an image
    ("runc", "runc"), // runs an image
    ("qemu-aarch64-static", "qemu-user-static"), // runs programs for another processor
];

/// Debian's Python, which has a `venv` package. Another one in `PATH` may lack it.
const PYTHON: &str = "/usr/bin/python3";

/// Redbot, which checks responses against RFC 9110 and RFC 9111, and the package with its checks.
const REDBOT: &[&str] = &["redbot==2.7.1", "httplint==2026.10.4"];

/// A scanner for TLS, which has Mozilla's recommendations.
const SSLYZE: &[&str] = &["sslyze==6.3.1"];

/// Applications behind a proxy and their clients: the cases of Autobahn for `WebSocket`, a server of it, a notebook with the driver
/// of a browser, a web server, and gRPC.
const APPLICATIONS: &[&str] = &[
    "kosoku==0.1.0",
    "websockets==17.4",
    "jupyterlab==4.6.6",
    "ipykernel==7.4.0",
    "playwright==1.65.2",
    "gunicorn==27.0.1",
    "grpcio==1.85.1",
];

/// An `OpenID` provider with a login page. Its library removes what it uses in the next major version.
const OIDC: &[&str] = &["oidc-provider-mock==0.3.4", "authlib==1.9.10"];

/// Implementations of HTTP/3 and QPACK: aioquic, ls-qpack, and a libcurl with ngtcp2, which Debian 12 does not have.
const HTTP3: &[&str] = &["aioquic==1.7.2", "pylsqpack==1.0.0", "curl_cffi==0.17.0"];

/// A server and a client of HTTP/3 with quic-go: the program, and its folder.
const QUIC_GO: (&str, &str) = ("quic-go", "tests/tests/peers/http3/quic_go");

/// The schemas of Kubernetes, and a program that validates manifests with them.
const KUBERNETES: &[&str] = &["kubernetes-validate==1.37.0"];

/// The schemas of the Gateway API, which is not part of Kubernetes.
const GATEWAY_API: &str = "sigs.k8s.io/gateway-api@v1.6.3";

/// A script that checks pages for accessibility.
const AXE: &str = "axe-core@4.14.1";
/// The tests of cache-tests.fyi.
const CACHE_TESTS: &str = "http-cache-tests@0.4.5";

/// FastCGI for Python, which Debian no longer packages.
const FLUP: &[&str] = &["flup==1.0.3"];

/// A server with documented responses; an ACME authority for tests, and its name server. Go builds them within seconds.
const GO_PROGRAMS: [(&str, &str); 3] = [
    ("go-httpbin", "github.com/mccutchen/go-httpbin/v2/cmd/go-httpbin@v2.20.0"),
    ("pebble", "github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1"),
    ("pebble-challtestsrv", "github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv@v2.10.1"),
];

/// Programs of Go for the long checks: the tests of HTTP/2 and of its header compression, an authorizer, and the package manager of
/// Kubernetes, which Go builds for minutes.
const LONG_GO_PROGRAMS: [(&str, &str); 3] = [
    ("h2spec", "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"),
    ("oauth2-proxy", "github.com/oauth2-proxy/oauth2-proxy/v7@v7.15.6"),
    ("helm", "helm.sh/helm/v4/cmd/helm@v4.3.1"),
];

/// A collector of traces, with the receiver of the OpenTelemetry Collector. `go install` refuses modules that replace others.
const JAEGER: (&str, &str, &str) = ("jaeger", "github.com/jaegertracing/jaeger/cmd/all-in-one", "v1.62.0");

/// A PHP application and its libraries. They are unpacked instead of installed, because the installation asks questions and
/// configures web servers.
const DOKUWIKI: &[&str] =
    &["dokuwiki", "php-phpseclib", "php-random-compat", "php-geshi", "libphp-simplepie"];

/// A PHP application with page names in its paths, including slashes. Unpacked for the same reason.
const MEDIAWIKI: &[&str] = &["mediawiki", "mediawiki-classes"];

/// PHP extensions for `MediaWiki` and their Debian packages.
const PHP_EXTENSIONS: &[(&str, &str)] =
    &[("intl", "php-intl"), ("mbstring", "php-mbstring"), ("xml", "php-xml"), ("pdo_sqlite", "php-sqlite3")];

/// Installs missing programs, for the long checks too if `is_nightly`. The error names the programs it cannot install.
pub(crate) fn run(is_nightly: bool) -> Outcome {
    packages(&missing_packages(is_nightly))?;
    python(&workspace::environment("flup"), FLUP)?;
    if is_nightly {
        python(&workspace::environment("redbot"), REDBOT)?;
        python(&workspace::environment("sslyze"), SSLYZE)?;
        python(&workspace::environment("applications"), APPLICATIONS)?;
        python(&workspace::environment("oidc"), OIDC)?;
        python(&workspace::environment("http3"), HTTP3)?;
        python(&workspace::environment("kubernetes"), KUBERNETES)?;
        gateway_schema(&workspace::environment("kubernetes").join("bin/httproute.yaml"))?;
        node(&workspace::environment("axe"), AXE)?;
        node(&workspace::environment("cache-tests"), CACHE_TESTS)?;
        unpack(DOKUWIKI, &workspace::dokuwiki(), "usr/share/dokuwiki/doku.php")?;
        go_programs(&LONG_GO_PROGRAMS)?;
        own_go_program(QUIC_GO)?;
        built_go_program(JAEGER)?;
        unpack(MEDIAWIKI, &workspace::mediawiki(), "usr/share/mediawiki/index.php")?;
        cargo_fuzz()?;
    }
    cargo_nextest()?;
    go_programs(&GO_PROGRAMS)
}

/// Installs the missing ones of these programs, each with its Debian package.
pub(crate) fn programs(programs: &[(&str, &'static str)]) -> Outcome {
    packages(&not_installed(programs))
}

fn packages(missing: &[&str]) -> Outcome {
    if missing.is_empty() {
        return Ok(());
    }
    println!("installing packages: {}", missing.join(" "));
    let Some(mut prefix) = privileged() else {
        return Err(format!(
            "these packages are missing, and their installation requires root or sudo: {0}\n\
             On Debian and Ubuntu: apt-get install {0}",
            missing.join(" ")
        ));
    };
    if command::find("apt-get").is_none() {
        return Err(format!(
            "these packages are missing, and apt-get is not available (Debian's names): {}",
            missing.join(" ")
        ));
    }
    prefix.extend(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]);
    let apt = |arguments: &[&str]| quietly(Command::new(prefix[0]).args(&prefix[1..]).args(arguments));
    apt(&["update"])?;
    let mut install = vec!["install", "--yes", "--no-install-recommends"];
    install.extend(missing);
    apt(&install)?;
    let runs_services = Path::new("/run/systemd/system").exists();
    for server in ["nginx", "lighttpd", "apache2"] {
        if missing.contains(&server) && runs_services {
            println!(
                "the package also started {server} as a service; `systemctl disable --now {server}` stops it"
            );
        }
    }
    Ok(())
}

fn missing_packages(is_nightly: bool) -> Vec<&'static str> {
    let mut missing = not_installed(PROGRAMS);
    if is_nightly {
        missing.extend(not_installed(NIGHTLY_PROGRAMS));
    }
    // An Apache module, not a program: it starts FastCGI apps.
    if !Path::new("/usr/lib/apache2/modules/mod_fcgid.so").exists() {
        missing.push("libapache2-mod-fcgid");
    }
    // On Debian, the part of `venv` that installs pip is a separate package.
    if !workspace::environment("flup").join("bin/pip").exists()
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
    for (extension, package) in if is_nightly { PHP_EXTENSIONS } else { &[] } {
        let code = format!("exit(extension_loaded('{extension}') ? 0 : 1);");
        if !command::succeeds(Command::new("php").args(["-r", &code])) {
            missing.push(package);
        }
    }
    missing
}

fn not_installed(programs: &[(&str, &'static str)]) -> Vec<&'static str> {
    programs
        .iter()
        .filter(|(program, _)| command::find(program).is_none())
        .map(|(_, package)| *package)
        .collect()
}

/// Returns the prefix for a command that needs root; `None` if there is no way.
fn privileged() -> Option<Vec<&'static str>> {
    if rustix::process::geteuid().is_root() {
        return Some(vec![]);
    }
    // Without a terminal, sudo works only if it needs no password.
    let sudo = command::find("sudo").is_some()
        && (std::io::stdin().is_terminal() || command::succeeds(Command::new("sudo").args(["-n", "true"])));
    sudo.then(|| vec!["sudo"])
}

/// Installs packages into a virtual environment. The file `installed` marks a complete installation.
pub(crate) fn python(environment: &Path, packages: &[&str]) -> Outcome {
    if environment.join("installed").exists() {
        return Ok(());
    }
    println!("installing {} into {}", packages.join(" "), environment.display());
    quietly(Command::new(PYTHON).args(["-m", "venv"]).arg(environment))?;
    quietly(Command::new(environment.join("bin/pip")).args(["install", "--quiet"]).args(packages))?;
    std::fs::write(environment.join("installed"), packages.join("\n"))
        .map_err(|error| format!("cannot write into {}: {error}", environment.display()))
}

/// Installs a package of Node into a folder. The file `installed` marks a complete installation.
fn node(folder: &Path, package: &str) -> Outcome {
    if folder.join("installed").exists() {
        return Ok(());
    }
    println!("installing {package} into {}", folder.display());
    let npm = ["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"];
    quietly(Command::new("npm").args(npm).arg(folder).arg(package))?;
    std::fs::write(folder.join("installed"), package)
        .map_err(|error| format!("cannot write into {}: {error}", folder.display()))
}

/// Installs the runner for the tests of all crates. No registry has it as a program. Without the update of itself, which brings a
/// second TLS library, it builds for a minute on two cores.
fn cargo_nextest() -> Outcome {
    if command::find("cargo-nextest").is_some() {
        return Ok(());
    }
    cargo_install("cargo-nextest", &["--no-default-features", "--features", "default-no-update"])
}

/// Installs cargo-fuzz if there is a nightly toolchain, which it requires. Builds within seconds.
fn cargo_fuzz() -> Outcome {
    let nightly = command::succeeds(Command::new("rustup").args(["run", "nightly", "rustc", "--version"]));
    if !nightly || command::find("cargo-fuzz").is_some() {
        return Ok(());
    }
    cargo_install("cargo-fuzz", &[])
}

fn go_programs(programs: &[(&str, &str)]) -> Outcome {
    let folder = workspace::go_programs();
    for (_, package) in programs.iter().filter(|(name, _)| !folder.join(name).exists()) {
        let Some(go) = command::find("go") else {
            return Err(format!(
                "Go is not installed. The tests need it to build {package}: install Go from https://go.dev/dl/"
            ));
        };
        println!("installing {package} into {}", folder.display());
        quietly(Command::new(go).args(["install", package]).env("GOBIN", &folder))?;
    }
    Ok(())
}

/// Builds a Go program of the tests, whose module names what it needs. A program that is older than its source is built again.
fn own_go_program((name, source): (&str, &str)) -> Outcome {
    let (path, source) = (workspace::go_programs().join(name), workspace::root().join(source));
    let go = command::find("go").ok_or("Go is not installed: install it from https://go.dev/dl/")?;
    // Fast and silent if it is up to date.
    quietly(Command::new(go).args(["build", "-o"]).arg(path).arg(".").current_dir(source))
}

/// Builds a Go program in a module that requires its own, unless it exists.
fn built_go_program((name, package, version): (&str, &str, &str)) -> Outcome {
    let (path, module) =
        (workspace::go_programs().join(name), workspace::go_programs().join(format!("{name}-module")));
    if path.exists() {
        return Ok(());
    }
    let go = command::find("go").ok_or("Go is not installed: install it from https://go.dev/dl/")?;
    println!("building {package} in {}", module.display());
    std::fs::create_dir_all(&module)
        .map_err(|error| format!("cannot create {}: {error}", module.display()))?;
    let in_module = |arguments: &[&str]| quietly(Command::new(&go).args(arguments).current_dir(&module));
    if !module.join("go.mod").exists() {
        in_module(&["mod", "init", name])?;
    }
    in_module(&["get", &format!("{package}@{version}")])?;
    in_module(&["build", "-o", &path.to_string_lossy(), package])
}

/// Copies the schema of an `HTTPRoute` to `path`, unless it exists.
fn gateway_schema(path: &Path) -> Outcome {
    if path.exists() {
        return Ok(());
    }
    let go = command::find("go").ok_or("Go is not installed: install it from https://go.dev/dl/")?;
    let module = command::output(Command::new(go).args(["mod", "download", "-json", GATEWAY_API]))?;
    let module: serde_json::Value = serde_json::from_str(&module)
        .map_err(|error| format!("{GATEWAY_API}: go printed no JSON: {error}"))?;
    let folder = Path::new(module["Dir"].as_str().unwrap_or_default()).join("config/crd/standard");
    let schema = folder.join("gateway.networking.k8s.io_httproutes.yaml");
    std::fs::copy(&schema, path).map_err(|error| format!("cannot copy {}: {error}", schema.display()))?;
    Ok(())
}

/// Unpacks Debian packages into a folder, unless `file` exists.
fn unpack(packages: &[&str], folder: &Path, file: &str) -> Outcome {
    if folder.join(file).exists() {
        return Ok(());
    }
    println!("unpacking {} into {}", packages.join(" "), folder.display());
    std::fs::create_dir_all(folder)
        .map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    quietly(Command::new("apt-get").args(["-q", "download"]).args(packages).current_dir(folder))?;
    for package in packages {
        let unpack = "dpkg-deb -x \"$0\"_*.deb . && rm \"$0\"_*.deb";
        quietly(Command::new("sh").args(["-c", unpack, package]).current_dir(folder))?;
    }
    Ok(())
}

/// Installs a command of cargo in a version, whose output a release depends on, and returns its folder.
pub(crate) fn cargo_command(tool: &str, version: &str) -> Outcome<PathBuf> {
    let root = workspace::environment(&format!("{tool}-{version}"));
    if !root.join("bin").join(tool).exists() {
        let path = root.to_str().ok_or_else(|| format!("{} is not UTF-8", root.display()))?;
        cargo_install(&format!("{tool}@{version}"), &["--root", path])?;
    }
    Ok(root.join("bin"))
}

fn cargo_install(tool: &str, options: &[&str]) -> Outcome {
    println!("installing {tool}");
    // Debug builds are fast enough and take half the time.
    let mut cargo = workspace::cargo();
    cargo.args(["install", "--locked", "--quiet", "--debug", tool]).args(options);
    // In a folder of its own, which no other build waits for.
    cargo.env_remove("CARGO_TARGET_DIR");
    quietly(cargo.env("CARGO_PROFILE_DEV_DEBUG", "false"))
}

/// Runs a command without its output, which would mix with that of other steps. The error contains its stderr.
fn quietly(command: &mut Command) -> Outcome {
    command::output(command).map(|_| ())
}
