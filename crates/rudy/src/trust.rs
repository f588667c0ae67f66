//! `rudy certificates trust` and `untrust`: installs the local authority for the programs of this machine.
//!
//! There are two kinds of stores: that of the system (OpenSSL, curl, Go, Python), which needs root, and the databases of browsers (NSS:
//! Chromium and Firefox), one per user and profile.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rudy_server::run::Exit;
use rudy_site_tls::authority_file;
use rudy_system::state_dir::state_dir;
use rudy_tls::{authority_certificate, sha256};
use rudy_units::Visible;

/// What to do with the local authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Install it.
    Trust,
    /// Remove it.
    Untrust,
}

/// The options of `rudy certificates trust` and `untrust`.
#[derive(Debug, Clone)]
pub(crate) struct TrustOptions {
    /// What to do.
    pub(crate) change: Change,
    /// The file with the authority's certificate; the default is that of this user.
    pub(crate) authority: Option<PathBuf>,
}

/// Where systems keep additional authorities, and the program that applies a change (Debian and SUSE, Fedora, Arch).
const SYSTEM: [(&str, &str, &[&str]); 3] = [
    ("/usr/local/share/ca-certificates", "update-ca-certificates", &[]),
    ("/etc/pki/ca-trust/source/anchors", "update-ca-trust", &["extract"]),
    ("/etc/ca-certificates/trust-source/anchors", "update-ca-trust", &["extract"]),
];

/// Installs or removes the local authority.
pub(crate) fn trust(options: &TrustOptions) -> Exit {
    let (mut stdout, mut stderr) = (Visible(io::stdout().lock()), Visible(io::stderr().lock()));
    let file = options.authority.clone().or_else(|| state_dir().map(|folder| authority_file(&folder)));
    let Some(file) = file else {
        let _ =
            writeln!(stderr, "error: there is no state folder; name the certificate with --authority FILE");
        return Exit::CannotRun;
    };
    let pem = match read(options.change, &file) {
        Ok(pem) => pem,
        Err(why) => {
            let _ = writeln!(stderr, "error: {}: {why}", file.display());
            return Exit::CannotRun;
        }
    };
    let name = store_name(&pem);
    let mut is_done = true;
    for result in std::iter::once(system(options.change, &file, &pem, &name)).chain(browsers(
        options.change,
        &file,
        &name,
    )) {
        // If writing fails, the exit code still reports the result.
        let _ = match result {
            Ok(line) => writeln!(stdout, "{line}"),
            Err(line) => {
                is_done = false;
                writeln!(stderr, "error: {line}")
            }
        };
    }
    if is_done { Exit::Done } else { Exit::CannotRun }
}

/// Returns the certificate in the file.
fn read(change: Change, file: &Path) -> Result<String, String> {
    let bytes = fs::read(file).map_err(|error| match change {
        Change::Trust => format!(
            "{error}; `rudy serve --tls internal` makes the authority, or name its certificate with --authority FILE"
        ),
        Change::Untrust => format!(
            "{error}; without the certificate, remove each `{STORE_NAME}*` in {} and in the browsers' settings",
            SYSTEM.map(|(folder, ..)| folder).join(" or ")
        ),
    })?;
    authority_certificate(&bytes)
}

/// The start of the name in the stores.
const STORE_NAME: &str = "rudy-local-authority-";

/// The name in the stores: authorities of several machines and users may be in one store.
fn store_name(pem: &str) -> String {
    let hash = sha256(pem.as_bytes()).first_chunk().map_or(0, |start| u32::from_be_bytes(*start));
    format!("{STORE_NAME}{hash:08x}")
}

/// Changes the store of the system.
fn system(change: Change, file: &Path, pem: &str, name: &str) -> Result<String, String> {
    let Some((folder, program, arguments)) =
        SYSTEM.into_iter().find(|(folder, ..)| Path::new(folder).is_dir())
    else {
        let folders = SYSTEM.map(|(folder, ..)| folder).join(", ");
        return Err(format!("system: no store found ({folders})"));
    };
    let path = Path::new(folder).join(format!("{name}.crt"));
    let command = match change {
        Change::Trust => "trust",
        Change::Untrust => "untrust",
    };
    let explain = |error: io::Error| match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "system: needs root: `sudo rudy certificates {command} --authority {}`",
            fs::canonicalize(file).unwrap_or_else(|_| file.to_owned()).display()
        ),
        _ => format!("system: cannot change {}: {error}", path.display()),
    };
    match change {
        Change::Trust => install(&path, pem).map_err(explain)?,
        Change::Untrust if !path.exists() => return Ok("system: is not installed".to_owned()),
        Change::Untrust => fs::remove_file(&path).map_err(explain)?,
    }
    run(program, arguments).map_err(|why| format!("system: {why}"))?;
    Ok(match change {
        Change::Trust => format!("system: installed as {}", path.display()),
        Change::Untrust => format!("system: removed {}", path.display()),
    })
}

/// Writes a file that all users can read, whatever the mode of the original and the `umask`.
fn install(path: &Path, pem: &str) -> io::Result<()> {
    fs::write(path, pem)?;
    fs::set_permissions(path, PermissionsExt::from_mode(0o644))
}

/// Changes the databases of the browsers of this user.
fn browsers(change: Change, file: &Path, name: &str) -> Vec<Result<String, String>> {
    let databases = databases();
    databases.into_iter().map(|folder| database(change, &folder, file, name)).collect()
}

/// Changes a database of NSS.
fn database(change: Change, folder: &Path, file: &Path, name: &str) -> Result<String, String> {
    let (database, file) = (format!("sql:{}", folder.display()), file.display().to_string());
    let common = ["-d", &database, "-n", name];
    let arguments: &[&str] = match change {
        Change::Trust => &["-A", "-t", "C,,", "-i", &file],
        Change::Untrust => &["-D"],
    };
    let failed = |why| format!("{}: {why}", folder.display());
    if change == Change::Untrust
        && run("certutil", &[&["-L"], &common[..]].concat()).is_err_and(|why| !why.contains("not installed"))
    {
        return Ok(format!("{}: is not installed", folder.display()));
    }
    run("certutil", &[arguments, &common].concat()).map_err(failed)?;
    Ok(match change {
        Change::Trust => format!("{}: installed; restart the browser", folder.display()),
        Change::Untrust => format!("{}: removed; restart the browser", folder.display()),
    })
}

/// The databases of Chromium (one per user) and Firefox (one per profile), also of their packages.
fn databases() -> Vec<PathBuf> {
    let Some(home) = env::var_os("HOME").map(PathBuf::from) else { return Vec::new() };
    let chromium = [".pki/nssdb", "snap/chromium/current/.pki/nssdb"].map(|folder| home.join(folder));
    let profiles = [".mozilla/firefox", "snap/firefox/common/.mozilla/firefox", ".config/mozilla/firefox"];
    let profiles = profiles.into_iter().filter_map(|folder| fs::read_dir(home.join(folder)).ok());
    let profiles = profiles.flat_map(|entries| entries.flatten().map(|entry| entry.path()));
    chromium.into_iter().chain(profiles).filter(|folder| folder.join("cert9.db").is_file()).collect()
}

/// Runs a program that must succeed.
fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if program == "certutil" => {
            "`certutil` is not installed; it is in the package libnss3-tools (Debian) or nss-tools (Fedora)"
                .to_owned()
        }
        io::ErrorKind::NotFound => format!("`{program}` is not installed"),
        _ => format!("cannot run `{program}`: {error}"),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{program}` failed ({}): {}", output.status, stderr.trim()))
}
