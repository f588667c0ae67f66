//! The files of an image.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::release::binaries;
use crate::release::tar::pack;
use crate::{Outcome, command, setup, workspace};

/// The user and group of images without root, by convention.
pub(super) const USER: &str = "65532";

/// The authorities of Mozilla. Those of the machine would make the image depend on it.
const CERTIFI: &[&str] = &["certifi==2026.10.19.post1"];

/// Files of the repository, with their paths in the image.
const FILES: &[(&str, &str)] = &[
    ("packaging/image/group", "etc/group"),
    ("packaging/image/passwd", "etc/passwd"),
    ("packaging/image/rudy.toml", "etc/rudy/rudy.toml"),
    ("packaging/image/index.html", "srv/www/index.html"),
    ("LICENSE-APACHE", "usr/share/doc/rudy/LICENSE-APACHE"),
    ("LICENSE-MIT", "usr/share/doc/rudy/LICENSE-MIT"),
];

/// Writable folders, with their owner and mode. The first ones are the user's, and so is a volume that Docker creates for them. The admin
/// socket is in `/tmp`.
const FOLDERS: &[(&str, &str, &[&str])] = &[
    (USER, "0700", &["var/cache/rudy", "var/lib/rudy", "var/log/rudy"]),
    ("0", "1777", &["tmp", "var/tmp"]),
];

/// Returns the path of a file with the certificates of all public authorities.
pub(super) fn authorities() -> Outcome<PathBuf> {
    let environment = workspace::environment("certifi");
    setup::python(&environment, CERTIFI)?;
    let path = command::output(Command::new(environment.join("bin/python")).args(["-m", "certifi"]))?;
    Ok(path.trim().into())
}

/// Makes the layer for a processor in a folder.
pub(super) fn make(folder: &Path, processor: &str, authorities: &Path) -> Outcome<PathBuf> {
    let (root, layer) = (folder.join(processor), folder.join(format!("{processor}.tar")));
    copy(&binaries::program(processor), &root.join("usr/bin/rudy"))?;
    copy(authorities, &root.join("etc/ssl/certs/ca-certificates.crt"))?;
    for (source, path) in FILES {
        copy(&workspace::root().join(source), &root.join(path))?;
    }
    let folders = || FOLDERS.iter().flat_map(|(_, _, folders)| *folders).map(|folder| root.join(folder));
    for parent in folders().filter_map(|folder| folder.parent().map(Path::to_path_buf)) {
        create(&parent)?;
    }
    pack(&layer, &root, "0", "u=rwX,go=rX", &["etc", "srv", "usr", "var"])?;
    for folder in folders() {
        create(&folder)?;
    }
    for (owner, mode, folders) in FOLDERS {
        pack(&layer, &root, owner, mode, folders)?;
    }
    Ok(layer)
}

fn copy(source: &Path, path: &Path) -> Outcome {
    create(path.parent().expect("the file is in a folder"))?;
    fs::copy(source, path).map_err(|error| format!("{}: {error}", source.display()))?;
    Ok(())
}

fn create(folder: &Path) -> Outcome {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}
