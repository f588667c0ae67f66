//! The kinds of package repositories: what in them never changes, and what has links.

use std::fmt;
use std::str::FromStr;

use http::Method;
use rudy_config::Words;

use super::Resource;
use super::checksum::{self, Algorithm};

/// A kind of package repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Words)]
pub enum Preset {
    /// Maven: releases are immutable; snapshots and `maven-metadata.xml` are validated.
    Maven,
    /// npm: tarballs are immutable; `dist.tarball` is rewritten.
    Npm,
    /// A Python index (PEP 503 and PEP 691): files are immutable; links to them are rewritten.
    Pypi,
    /// A sparse index of cargo: crates are immutable; `dl` in `config.json` is rewritten.
    Crates,
    /// Debian and Ubuntu: packages and files by hash are immutable.
    Apt,
    /// Go modules: versions, and the tiles of the checksum database below `/sumdb/`, are immutable.
    Go,
}

/// What metadata is rewritten as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Format {
    /// The checksum of the content.
    Checksum(Algorithm),
    Html,
    /// JSON with links at these paths. `None` is any key, or an element of a list.
    Json(&'static [&'static [Option<&'static str>]]),
}

const NPM_LINKS: &[&[Option<&str>]] = &[
    &[Some("versions"), None, Some("dist"), Some("tarball")],
    // The document of one version.
    &[Some("dist"), Some("tarball")],
];
const PYPI_LINKS: &[&[Option<&str>]] = &[&[Some("files"), None, Some("url")]];
const CRATES_LINKS: &[&[Option<&str>]] = &[&[Some("dl")]];

/// The paths of an npm registry that respond to a POST with the known vulnerabilities of the packages in it.
const NPM_AUDITS: [&str; 2] = ["/-/npm/v1/security/advisories/bulk", "/-/npm/v1/security/audits/quick"];

/// The endings of files in a Python index. `.metadata` and `.asc` belong to one of the others.
const PYTHON_FILES: [&str; 9] =
    [".whl", ".tar.gz", ".zip", ".tar.bz2", ".egg", ".exe", ".tgz", ".metadata", ".asc"];

impl Preset {
    /// All presets, in the order of the documentation.
    pub const ALL: [Self; 6] = [Self::Maven, Self::Npm, Self::Pypi, Self::Crates, Self::Apt, Self::Go];

    /// Words by which the URL of a repository shows its kind.
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::Maven => &["maven"],
            Self::Npm => &["npm"],
            Self::Pypi => &["pypi", "simple"],
            Self::Crates => &["crates", "cargo"],
            Self::Apt => &["apt", "debian", "ubuntu"],
            Self::Go => &["go", "golang", "goproxy"],
        }
    }

    /// Returns the kind that the URL of a repository names, the last one: a path is more specific than a host.
    #[must_use]
    pub fn of_url(url: &str) -> Option<Self> {
        let words = url.rsplit(|character: char| !character.is_ascii_alphabetic());
        let of_word = |word: &str| Self::ALL.into_iter().find(|preset| preset.is_named_by(word));
        words.map(str::to_ascii_lowercase).find_map(|word| of_word(&word))
    }

    /// Whether a word is one of this kind, or begins with a long one, as `npmjs` does.
    fn is_named_by(self, word: &str) -> bool {
        self.words().iter().any(|name| word == *name || (name.len() > 2 && word.starts_with(name)))
    }

    /// Returns where a client has the URL of its repository.
    #[must_use]
    pub fn url_setting(self) -> &'static str {
        match self {
            Self::Maven => "`url` of a mirror or a repository in ~/.m2/settings.xml or pom.xml",
            Self::Npm => "`npm config get registry` prints it",
            Self::Pypi => "`pip config get global.index-url` prints it, unless it is the default of pip",
            Self::Crates => {
                "`registry` of a source in ~/.cargo/config.toml, unless it is the default of cargo"
            }
            Self::Apt => "`URIs` in a file of /etc/apt/sources.list.d",
            Self::Go => "`go env GOPROXY` prints it",
        }
    }

    /// Returns what a client needs to use a mirror with this URL.
    #[must_use]
    pub fn client_setting(self, mirror: &str) -> String {
        match self {
            Self::Maven => format!(
                "~/.m2/settings.xml: <settings><mirrors><mirror><id>mirror</id><mirrorOf>*</mirrorOf>\
                 <url>{mirror}/</url></mirror></mirrors></settings>"
            ),
            Self::Npm => format!("npm config set registry {mirror}/"),
            Self::Pypi => format!("pip config set global.index-url {mirror}/"),
            Self::Crates => format!(
                "~/.cargo/config.toml: source.crates-io.replace-with = \"mirror\" and \
                 source.mirror.registry = \"sparse+{mirror}/\""
            ),
            Self::Apt => format!("/etc/apt/sources.list.d/*.sources: URIs: {mirror}/"),
            Self::Go => format!("go env -w GOPROXY={mirror}"),
        }
    }

    /// Whether a request is one of `npm audit`, which changes nothing.
    pub(super) fn is_audit(self, method: &Method, resource: &Resource) -> bool {
        let has_audits = self == Self::Npm && resource.is_of_index;
        has_audits && *method == Method::POST && NPM_AUDITS.contains(&resource.path.as_str())
    }

    /// Whether the resource at a canonical path never changes. A wrong `false` costs a validation, a wrong `true` an outdated file.
    pub(super) fn is_immutable(self, path: &str) -> bool {
        let file = path.rsplit('/').next().unwrap_or_default();
        let ends_with = |endings: &[&str]| endings.iter().any(|ending| file.ends_with(ending));
        match self {
            _ if file.is_empty() => false,
            Self::Maven => is_maven_release(path),
            Self::Npm => path.contains("/-/") && ends_with(&[".tgz"]),
            Self::Pypi => ends_with(&PYTHON_FILES),
            Self::Crates => is_crate_download(path) || ends_with(&[".crate"]),
            Self::Apt => path.contains("/pool/") || path.contains("/by-hash/"),
            Self::Go => is_go_version(path, file),
        }
    }

    /// Returns the metadata that a resource is the checksum of, and the algorithm, if the mirror computes it.
    pub(super) fn metadata_of(self, resource: &Resource) -> Option<(Resource, Algorithm)> {
        if self == Self::Maven { checksum::metadata_of(resource) } else { None }
    }

    /// Returns the form of the metadata at a canonical path of the index, if it has links that clients follow.
    pub(super) fn format(self, path: &str, media_type: &str) -> Option<Format> {
        let is_json = media_type == "application/json" || media_type.ends_with("+json");
        match self {
            Self::Npm if is_json => Some(Format::Json(NPM_LINKS)),
            Self::Pypi if is_json => Some(Format::Json(PYPI_LINKS)),
            Self::Pypi if media_type == "text/html" || media_type.ends_with("+html") => Some(Format::Html),
            // Some hosts of files have no media type for it.
            Self::Crates if path == CARGO_CONFIG => Some(Format::Json(CRATES_LINKS)),
            _ => None,
        }
    }

    /// Whether the resource at a canonical path of the index may have links.
    pub(super) fn may_have_links(self, path: &str) -> bool {
        match self {
            Self::Npm | Self::Pypi => !self.is_immutable(path),
            Self::Crates => path == CARGO_CONFIG,
            Self::Maven | Self::Apt | Self::Go => false,
        }
    }
}

const CARGO_CONFIG: &str = "/config.json";

/// Whether a path is that of a file of a release: `GROUP/ARTIFACT/VERSION/ARTIFACT-VERSION.EXTENSION`, or with a classifier.
fn is_maven_release(path: &str) -> bool {
    let mut segments = path.rsplit('/');
    let (Some(file), Some(version), Some(artifact)) = (segments.next(), segments.next(), segments.next())
    else {
        return false;
    };
    let rest = file.strip_prefix(artifact).and_then(|rest| rest.strip_prefix('-'));
    let rest = rest.and_then(|rest| rest.strip_prefix(version));
    !version.ends_with("-SNAPSHOT") && rest.is_some_and(|rest| rest.starts_with(['.', '-']))
}

/// Whether a path is that of a file of cargo: `CRATE/VERSION/download`. The index has an entry of a crate with this name, `do/wn/download`.
fn is_crate_download(path: &str) -> bool {
    let version = path.strip_suffix("/download").and_then(|path| path.rsplit('/').next());
    version.is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
}

/// Whether a path is that of a file of a version (`v1.2.3`, not a branch or `v1`), or of a tile or a record of a checksum database.
fn is_go_version(path: &str, file: &str) -> bool {
    if path.contains("/sumdb/") {
        return path.contains("/tile/") || path.contains("/lookup/");
    }
    let version = [".info", ".mod", ".zip"].iter().find_map(|ending| file.strip_suffix(ending));
    let Some(numbers) = version.and_then(|version| version.strip_prefix('v')) else { return false };
    let numbers = numbers.split(['-', '+']).next().unwrap_or_default();
    let is_number = |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    path.contains("/@v/") && numbers.split('.').count() == 3 && numbers.split('.').all(is_number)
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Maven => "maven",
            Self::Npm => "npm",
            Self::Pypi => "pypi",
            Self::Crates => "crates",
            Self::Apt => "apt",
            Self::Go => "go",
        })
    }
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = || Self::ALL.map(|preset| preset.to_string()).join(", ");
        let found = Self::ALL.into_iter().find(|preset| preset.to_string() == text);
        found.ok_or_else(|| format!("expected one of: {}", all()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_its_kind() {
        for (url, expected) in [
            ("https://repo.example/maven2", Some(Preset::Maven)),
            ("https://registry.npmjs.example/", Some(Preset::Npm)),
            ("https://pypi.example/simple", Some(Preset::Pypi)),
            ("https://mirror.example/simple/", Some(Preset::Pypi)),
            ("https://index.crates.example", Some(Preset::Crates)),
            ("http://deb.debian.example/debian", Some(Preset::Apt)),
            ("https://proxy.golang.example", Some(Preset::Go)),
            ("https://maven.example/api/npm/all", Some(Preset::Npm)),
            ("https://GO.example", Some(Preset::Go)),
            ("https://google.example/files", None),
            ("https://debug.example", None),
        ] {
            assert_eq!(Preset::of_url(url), expected, "{url}");
        }
    }

    #[test]
    fn only_what_never_changes_is_immutable() {
        for (preset, path, expected) in [
            (Preset::Maven, "/org/a/b/1.0/b-1.0.jar", true),
            (Preset::Maven, "/org/a/b/1.0/b-1.0-sources.jar.sha1", true),
            (Preset::Maven, "/org/a/b/maven-metadata.xml", false),
            (Preset::Maven, "/org/a/b/1.0/maven-metadata.xml", false),
            (Preset::Maven, "/org/a/b/1.0-SNAPSHOT/b-1.0-SNAPSHOT.jar", false),
            (Preset::Maven, "/org/a/b/1.0/", false),
            (Preset::Maven, "/org/a/b/1.0/b-1.0", false),
            (Preset::Maven, "/org/a/b/1.0/b-1.01.jar", false),
            (Preset::Maven, "/", false),
            (Preset::Npm, "/a/-/a-1.0.0.tgz", true),
            (Preset::Npm, "/@s/a/-/a-1.0.0.tgz", true),
            (Preset::Npm, "/a", false),
            (Preset::Npm, "/-/v1/search", false),
            (Preset::Npm, "/a.tgz", false),
            (Preset::Pypi, "/a/", false),
            (Preset::Pypi, "/packages/aa/bb/a-1.0-py3-none-any.whl", true),
            (Preset::Pypi, "/packages/aa/bb/a-1.0-py3-none-any.whl.metadata", true),
            (Preset::Crates, "/config.json", false),
            (Preset::Crates, "/se/rd/serde", false),
            (Preset::Crates, "/crates/serde/1.0.0/download", true),
            (Preset::Crates, "/do/wn/download", false),
            (Preset::Apt, "/dists/stable/InRelease", false),
            (Preset::Apt, "/dists/stable/main/by-hash/SHA256/00", true),
            (Preset::Apt, "/pool/main/a/a_1.0_amd64.deb", true),
            (Preset::Apt, "/pool/", false),
            (Preset::Go, "/example.org/a/@v/v1.0.0.zip", true),
            (Preset::Go, "/example.org/a/@v/v0.0.0-20200101000000-abcdefabcdef.mod", true),
            (Preset::Go, "/example.org/a/@v/v2.0.0+incompatible.info", true),
            (Preset::Go, "/example.org/a/@v/v1.info", false),
            (Preset::Go, "/example.org/a/@v/master.info", false),
            (Preset::Go, "/example.org/a/@v/list", false),
            (Preset::Go, "/example.org/a/@latest", false),
            (Preset::Go, "/sumdb/sum.example/tile/8/0/x001/000", true),
            (Preset::Go, "/sumdb/sum.example/lookup/example.org/a@v1.0.0", true),
            (Preset::Go, "/sumdb/sum.example/latest", false),
        ] {
            assert_eq!(preset.is_immutable(path), expected, "{preset}: {path}");
        }
    }

    #[test]
    fn only_checksums_of_maven_are_computed() {
        for preset in Preset::ALL {
            let (origin, path) = (String::new(), "/a/maven-metadata.xml.sha1".to_owned());
            let resource = Resource { origin, target: path.clone(), path, is_of_index: true };
            assert_eq!(preset.metadata_of(&resource).is_some(), preset == Preset::Maven, "{preset}");
        }
    }

    #[test]
    fn a_preset_has_a_name() {
        for preset in Preset::ALL {
            assert_eq!(preset.to_string().parse(), Ok(preset));
        }
        assert_eq!(
            "x".parse::<Preset>(),
            Err("expected one of: maven, npm, pypi, crates, apt, go".to_owned())
        );
    }
}
