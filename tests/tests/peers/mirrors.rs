//! Package managers that build or install a small project through a mirror: first an empty one, and then one that reaches no
//! repository. The URLs of the repositories are those that the clients on this machine are configured with.

use rudy_tests::prelude::*;

/// The name resolution of the second mirror finds no host.
const WITHOUT_NAMES: &str = "exec unshare --user --map-root-user --mount sh -c \
    'mount --bind /dev/null /etc/resolv.conf && mount --bind /dev/null /etc/hosts && exec \"$@\"' sh \"$@\"";

/// Calls `build` with the URL of a mirror and a new folder, once with an empty mirror, and once with what it has stored, without the
/// repository. `url` is that of the repository. The mirror verifies what it can.
fn build_twice(preset: &str, url: &str, hosts: &str, build: impl Fn(&str, &Path)) {
    let (folder, port) = (Folder::new(), free_port());
    let verify = matches!(preset, "maven" | "npm");
    let text = format!(
        "listen = \"127.0.0.1:{port}\"\n[cache]\npath = \"cache\"\n[[site]]\n[[site.route]]\npath = \"/*\"\n\
         mirror = {{ url = \"{url}\", preset = \"{preset}\", verify = {verify}{hosts} }}\n"
    );
    let config = folder.write("rudy.toml", text);
    for is_offline in [false, true] {
        let mut server = Server::build().arg("--config").arg(&config);
        if is_offline {
            server = server.through_shell(WITHOUT_NAMES);
        }
        let mut server = server.env("STATE_DIRECTORY", folder.path()).start();
        assert_eq!(
            server.get(&format!("/never-requested/{is_offline}")).status == 502,
            is_offline,
            "whether the repository is reached"
        );
        let project = Folder::new();
        build(&format!("http://127.0.0.1:{port}"), project.path());
        let lines = server.take_lines();
        assert!(!lines.iter().any(|line| line.contains("not verified")), "{lines:?}");
    }
}

/// Runs a program in a folder that is its home, too.
fn run(program: &Path, arguments: &[&str], folder: &Path, variables: &[(&str, &OsStr)]) {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env("HOME", folder).envs(variables.iter().copied());
    for name in ["PIP_FIND_LINKS", "PIP_INDEX_URL", "CARGO_TARGET_DIR", "RUSTFLAGS", "GOFLAGS"] {
        command.env_remove(name);
    }
    let output = Output::of(&mut command);
    assert!(output.is_success(), "{} {arguments:?}: {}", program.display(), output.text());
}

/// Returns what a program prints, without the end of the line.
fn printed(program: &Path, arguments: &[&str]) -> String {
    Output::of(Command::new(program).args(arguments)).stdout.trim().to_owned()
}

#[test]
fn npm_installs_a_project() {
    let (true, Some(npm), Some(node)) = (long(), program("npm"), program("node")) else { return };
    build_twice("npm", &printed(&npm, &["config", "get", "registry"]), "", |mirror, project| {
        project.add(&[("package.json", r#"{"dependencies": {"is-odd": "3.0.1", "@types/ms": "2.1.0"}}"#)]);
        run(&npm, &["install", "--registry", mirror, "--cache", "cache"], project, &[]);
        run(&node, &["-e", "if (!require('is-odd')(3)) throw 1"], project, &[]);
        // With the URLs of the lock file.
        run(&npm, &["ci", "--registry", mirror, "--cache", "other"], project, &[]);
    });
}

#[test]
fn pip_installs_a_project() {
    let (true, Some(python)) = (long(), program("python3")) else { return };
    let configured = printed(&python, &["-m", "pip", "config", "get", "global.index-url"]);
    let default = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)";
    let url = if configured.is_empty() { printed(&python, &["-c", default]) } else { configured };
    // A proxy of this machine may have private addresses for the host of the files.
    let script = "import re, sys, urllib.parse, urllib.request\n\
                  page = sys.argv[1].rstrip('/') + '/requests/'\n\
                  text = urllib.request.urlopen(page).read().decode()\n\
                  print(urllib.parse.urlsplit(urllib.parse.urljoin(page, re.search('href=.(.+?)[\"\\'#]', text)[1])).hostname)";
    let host = printed(&python, &["-c", script, &url]);
    build_twice("pypi", &url, &format!(", hosts = [\"{host}\"]"), |mirror, project| {
        let options = ["--no-cache-dir", "--target", "site", "--index-url", mirror];
        let arguments = [&["-m", "pip", "install"][..], &options, &["requests==2.32.3"]].concat();
        run(&python, &arguments, project, &[("PIP_CONFIG_FILE", OsStr::new("/dev/null"))]);
        run(
            &python,
            &["-c", "import requests"],
            project,
            &[("PYTHONPATH", project.join("site").as_os_str())],
        );
    });
}

#[test]
fn cargo_builds_a_project() {
    let (true, Some(cargo)) = (long(), program("cargo")) else { return };
    let Some(url) = cargo_index() else { return };
    build_twice("crates", &url, "", |mirror, project| {
        let manifest = "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\n\
                        itoa = \"1.0.11\"\nserde = \"1.0.200\"\n[workspace]\n";
        let main = "fn main() { assert_eq!(itoa::Buffer::new().format(1), \"1\"); }\n";
        project.add(&[
            (".cargo/config.toml", &*cargo_source(mirror)),
            ("Cargo.toml", manifest),
            ("src/main.rs", main),
        ]);
        let (cargo_home, toolchains) = (project.join("cargo"), rustup_home());
        let variables = [("CARGO_HOME", cargo_home.as_os_str()), ("RUSTUP_HOME", toolchains.as_os_str())];
        run(&cargo, &["run", "--jobs", "1"], project, &variables);
    });
}

#[test]
fn go_builds_a_module_and_checks_it_with_the_checksum_database() {
    let (true, Some(go)) = (long(), program("go")) else { return };
    let proxies = printed(&go, &["env", "GOPROXY"]);
    build_twice("go", proxies.split(',').next().unwrap_or_default(), "", |mirror, project| {
        let main = "package main\nimport \"github.com/google/uuid\"\nfunc main() { uuid.New() }\n";
        project.add(&[("go.mod", "module a\ngo 1.21\n"), ("main.go", main)]);
        let (modules, cache) = (project.join("modules"), project.join("cache"));
        let variables = [
            ("GOPROXY", OsStr::new(mirror)),
            ("GOMODCACHE", modules.as_os_str()),
            ("GOCACHE", cache.as_os_str()),
            ("GOTOOLCHAIN", OsStr::new("local")),
            // So that the folder can be removed.
            ("GOFLAGS", OsStr::new("-modcacherw")),
        ];
        run(&go, &["mod", "tidy", "-modcacherw"], project, &variables);
        run(&go, &["run", "-modcacherw", "."], project, &variables);
    });
}

#[test]
fn maven_builds_a_project() {
    let (true, Some(maven), Some(python)) = (long(), program("mvn"), program("python3")) else { return };
    let url = printed(&python, &["-c", REPOSITORY_OF_MAVEN]);
    build_twice("maven", &url, "", |mirror, project| {
        let settings = format!(
            "<settings><mirrors><mirror><id>mirror</id><mirrorOf>*</mirrorOf><url>{mirror}/</url></mirror></mirrors></settings>"
        );
        let main = "public class A { public static void main(String[] a) { org.slf4j.LoggerFactory.class.getName(); } }\n";
        let files = [("settings.xml", settings.as_str()), ("pom.xml", POM), ("src/main/java/A.java", main)];
        project.add(&files);
        let repository = format!("-Dmaven.repo.local={}", project.join("repository").display());
        run(&maven, &["--batch-mode", "--settings", "settings.xml", &repository, "package"], project, &[]);
        assert!(project.join("target/a-1.jar").is_file());
    });
}

/// Prints the `url` of the settings of Maven, or of the project that all others inherit from.
const REPOSITORY_OF_MAVEN: &str = r#"
import glob, os, re, zipfile
settings = os.path.expanduser("~/.m2/settings.xml")
if os.path.exists(settings):
    text = open(settings).read()
else:
    jar = glob.glob("/usr/share/maven*/lib/maven-model-builder-*.jar")[0]
    text = zipfile.ZipFile(jar).read("org/apache/maven/model/pom-4.0.0.xml").decode()
print(re.search("<url>(.*?)</url>", text).group(1))
"#;

const POM: &str = "<project><modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>a</artifactId><version>1</version>\
    <properties><maven.compiler.source>11</maven.compiler.source><maven.compiler.target>11</maven.compiler.target>\
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>\
    <dependencies><dependency><groupId>org.slf4j</groupId><artifactId>slf4j-api</artifactId><version>2.0.13</version></dependency>\
    </dependencies></project>";

#[test]
fn apt_downloads_a_package() {
    let (true, Some(apt), Some(dpkg)) = (long(), program("apt-get"), program("dpkg-deb")) else { return };
    let Some((url, suite, key)) = source_of_apt() else { return };
    build_twice("apt", &url, "", |mirror, project| {
        let source = format!("deb [signed-by={key}] {mirror}/ {suite} main\n");
        project.add(&[("sources.list", &*source), ("lists/partial/x", ""), ("archives/partial/x", "")]);
        let path = |name: &str| project.join(name).display().to_string();
        let options = [
            format!("Dir::Etc::sourcelist={}", path("sources.list")),
            "Dir::Etc::sourceparts=-".to_owned(),
            format!("Dir::State::lists={}", path("lists")),
            format!("Dir::Cache={}", path("")),
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Languages=none".to_owned(),
        ];
        let options: Vec<_> = options.iter().flat_map(|option| ["-o", option]).collect();
        run(&apt, &[&options[..], &["update", "--error-on=any"]].concat(), project, &[]);
        run(&apt, &[&options[..], &["download", "hello"]].concat(), project, &[]);
        let package = fs::read_dir(project).expect("it is a folder").filter_map(Result::ok);
        let package =
            package.map(|entry| entry.file_name()).find(|name| name.to_string_lossy().ends_with(".deb"));
        let package = package.expect("it was downloaded").into_string().expect("it is ASCII");
        run(&dpkg, &["-x", &package, "root"], project, &[]);
        assert!(project.join("root/usr/bin/hello").is_file());
    });
}

/// Returns the URL, the suite and the key of the first source of Debian on this machine.
fn source_of_apt() -> Option<(String, String, String)> {
    let text = fs::read_to_string("/etc/apt/sources.list.d/debian.sources").ok()?;
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next().map(str::to_owned)
    };
    Some((value("URIs:")?, value("Suites:")?, value("Signed-By:")?))
}
