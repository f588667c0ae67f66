//! `rudy import`: reads the files of another server, and writes `rudy.toml`.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use rudy_command::{CommandError, Exit, print, print_line, write_output};
use rudy_import::{File, Import as Imported, Source};
use rudy_server::run::check_elsewhere;
use serde::Serialize;

/// The most files that are read: more are the sign of a pattern that means others.
const FILES_MAX: usize = 10_000;

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Translate a configuration of nginx, Caddy, Apache or HAProxy into rudy.toml
///
/// Reads the main file with all that it includes, a part of it such as a file with sites, a Caddyfile, a .htaccess, a folder with such
/// files, or the output of `nginx -T`. Prints what is translated, what is different by design, and what is not translated. What closes
/// a path stays closed.
#[expect(clippy::doc_markdown, reason = "the help shows the text as it is")]
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  rudy import /etc/nginx/nginx.conf -o rudy.toml
  rudy import /etc/nginx/sites-enabled -o rudy.toml
  nginx -T | rudy import - -o rudy.toml
  rudy import /etc/caddy/Caddyfile -o rudy.toml
  rudy import /etc/apache2/sites-enabled -o rudy.toml
  rudy import --from haproxy frontend.cfg

Exit codes: 0 written, 2 not such a configuration, 3 written, but a protection is not translated."
)]
#[group(skip)]
pub(crate) struct Import {
    /// Configuration, a folder, or - for standard input
    #[arg(value_name = "FILE|DIR|-", value_hint = ValueHint::AnyPath)]
    source: PathBuf,
    /// Server of the configuration [default: by its name and content]
    #[arg(long, value_name = "SERVER", value_enum)]
    from: Option<From>,
    /// File to write, which must not exist [default: standard output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Print the configuration and the report as JSON
    #[arg(long)]
    json: bool,
}

/// A server.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum From {
    Nginx,
    Caddy,
    Apache,
    Haproxy,
}

impl From {
    fn source(self) -> Source {
        match self {
            Self::Nginx => Source::Nginx,
            Self::Caddy => Source::Caddy,
            Self::Apache => Source::Apache,
            Self::Haproxy => Source::Haproxy,
        }
    }
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Json<'a> {
    configuration: &'a str,
    #[serde(flatten)]
    report: &'a rudy_import::Report,
    missing_files: &'a [String],
}

impl Import {
    pub(crate) fn run(self) -> Exit {
        self.import().unwrap_or_else(|error| error.report())
    }

    fn import(&self) -> Result<Exit, CommandError> {
        let (mut main, folder, pattern) = self.main_file()?;
        let mut count = 0;
        let mut read = |pattern: &str| read_included(&folder, pattern, &mut count);
        let first = pattern.and_then(|pattern| read(pattern).into_iter().next());
        let source = self.server(first.as_ref().unwrap_or(&main))?;
        if let Some(pattern) = pattern {
            main.text = include(source, pattern);
        }
        let imported = rudy_import::import(source, &main, &mut read)
            .map_err(|error| CommandError::Arguments(error.to_string()))?;
        let missing = check(&imported)?;
        self.write(&imported, &missing)?;
        Ok(if imported.report.unprotected { Exit::NotMet } else { Exit::Done })
    }

    /// The main file, the folder that its includes are relative to, and for a folder the pattern of its files.
    fn main_file(&self) -> Result<(File, PathBuf, Option<&'static str>), CommandError> {
        let name = self.source.display().to_string();
        if name == "-" {
            let mut text = String::new();
            io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| cannot("read", "standard input", &error))?;
            return Ok((File { name: "standard input".to_owned(), text }, PathBuf::from("/etc/nginx"), None));
        }
        if !self.source.is_dir() {
            let folder = self.source.parent().unwrap_or(Path::new("")).to_owned();
            let text = read_file(&self.source).map_err(|error| cannot("read", &name, &error))?;
            return Ok((File { name, text }, folder, None));
        }
        let has = |name: &str| self.source.join(name).is_file();
        let main = MAIN_FILES.into_iter().find(|name| has(name)).unwrap_or("*");
        Ok((File { name, text: String::new() }, self.source.clone(), Some(main)))
    }

    /// The server that `--from` names, or that of the file.
    fn server(&self, file: &File) -> Result<Source, CommandError> {
        let named = self.from.map(From::source);
        named.or_else(|| Source::of(file)).ok_or_else(|| {
            CommandError::Arguments(format!(
                "{}: it is not clear which server it is for: write --from nginx, caddy, apache or haproxy",
                file.name
            ))
        })
    }

    fn write(&self, imported: &Imported, missing: &[String]) -> Result<(), CommandError> {
        if let Some(output) = &self.output {
            create(output, &imported.toml, 0o644)?;
            // They have hashes of passwords.
            for file in &imported.files {
                create(&output.with_file_name(&file.name), &file.text, 0o600)?;
            }
        } else if !self.json {
            write_output(&imported.toml).map_err(CommandError::Environment)?;
        }
        if self.json {
            let json =
                Json { configuration: &imported.toml, report: &imported.report, missing_files: missing };
            let text = serde_json::to_string_pretty(&json)
                .map_err(|error| CommandError::Environment(error.to_string()))?;
            let _ = print(&(text + "\n"));
            return Ok(());
        }
        print_line(imported.report.to_string().trim_end());
        if self.output.is_none() && !imported.files.is_empty() {
            print_line("\nWith -o, these files are written beside the configuration:");
            imported.files.iter().for_each(|file| print_line(&format!("  {}", file.name)));
        }
        if !missing.is_empty() {
            print_line("\nNot on this machine:");
            for problem in missing {
                print_line(&format!("  {problem}"));
            }
        }
        Ok(())
    }
}

/// The files that make a folder the configuration of one server.
const MAIN_FILES: [&str; 5] = ["nginx.conf", "Caddyfile", "apache2.conf", "httpd.conf", "haproxy.cfg"];

/// A text that includes files.
fn include(source: Source, pattern: &str) -> String {
    match source {
        Source::Nginx => format!("include {pattern};"),
        Source::Caddy => format!("import {pattern}"),
        Source::Apache => format!("IncludeOptional {pattern}"),
        Source::Haproxy => format!("# {pattern}"),
    }
}

/// Checks what will be written. Returns problems about files that this machine does not have.
fn check(imported: &Imported) -> Result<Vec<String>, CommandError> {
    let environment = |error: io::Error| cannot("check", "the result", &error);
    let folder = tempfile::tempdir().map_err(environment)?;
    let file = folder.path().join("rudy.toml");
    fs::write(&file, &imported.toml).map_err(environment)?;
    for named in &imported.files {
        fs::write(folder.path().join(&named.name), &named.text).map_err(environment)?;
    }
    match check_elsewhere(&file) {
        Ok(missing) => Ok(missing),
        Err(problems) => {
            let problems = problems.replace(&file.display().to_string(), "rudy.toml");
            print_line(&format!("{problems}The result needs these changes by hand."));
            Ok(Vec::new())
        }
    }
}

/// Writes a file, which must not exist.
fn create(path: &Path, text: &str, mode: u32) -> Result<(), CommandError> {
    let failed = |error: io::Error| cannot("write", &path.display().to_string(), &error);
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path).map_err(failed)?;
    io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)
}

fn cannot(what: &str, name: &str, error: &io::Error) -> CommandError {
    CommandError::Environment(format!("cannot {what} {name}: {error}"))
}

fn read_file(path: &Path) -> io::Result<String> {
    if fs::metadata(path)?.len() > FILE_BYTES_MAX {
        return Err(io::Error::other("it is larger than 16 MiB"));
    }
    fs::read_to_string(path)
}

/// The files that an `include` names, in the order of their names. Those that cannot be read count as missing.
///
/// A file in `sites-enabled` includes files of the folder around it: paths are relative to the folder of nginx.conf.
fn read_included(folder: &Path, pattern: &str, count: &mut usize) -> Vec<File> {
    let found = folder.ancestors().take(3).map(|folder| read_matching(&folder.join(pattern), count));
    found.into_iter().find(|files| !files.is_empty()).unwrap_or_default()
}

fn read_matching(path: &Path, count: &mut usize) -> Vec<File> {
    let mut paths = vec![PathBuf::from("/")];
    if path.is_relative() {
        paths = vec![PathBuf::new()];
    }
    for part in path.components().filter(|part| !matches!(part, std::path::Component::RootDir)) {
        let part = part.as_os_str().to_string_lossy();
        paths = paths.iter().flat_map(|path| expand(path, &part)).collect();
    }
    let file = |path: &PathBuf| {
        let text = read_file(path).ok().filter(|_| path.is_file())?;
        Some(File { name: path.display().to_string(), text })
    };
    let left = FILES_MAX.saturating_sub(*count);
    let files: Vec<_> = paths.iter().filter_map(file).take(left).collect();
    *count += files.len();
    files
}

/// The entries of a folder that match a part of a pattern.
fn expand(folder: &Path, part: &str) -> Vec<PathBuf> {
    if !part.contains('*') {
        return vec![folder.join(part)];
    }
    let Ok(entries) = fs::read_dir(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
    else {
        return Vec::new();
    };
    let Ok(pattern) = part.parse::<rudy_server::Wildcard>() else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let matches = |name: &String| !name.starts_with('.') && pattern.matches(name.as_bytes(), |_| true);
    let mut names: Vec<_> = names.filter(matches).collect();
    names.sort();
    names.iter().map(|name| folder.join(name)).collect()
}
