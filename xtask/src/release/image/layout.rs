//! The layout of OCI images: files with their digests as names, which refer to each other by descriptors.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::release::{facts, tar};
use crate::{Outcome, command};

pub(super) const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// A layout in a folder.
pub(super) struct Layout {
    folder: PathBuf,
}

impl Layout {
    /// Creates an empty one. Removes an earlier one.
    pub(super) fn create(folder: PathBuf) -> Outcome<Self> {
        let cannot = |error| format!("{}: {error}", folder.display());
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(cannot)?;
        }
        fs::create_dir_all(folder.join("blobs/sha256")).map_err(cannot)?;
        let layout = Self { folder };
        layout.write("oci-layout", &json!({ "imageLayoutVersion": "1.0.0" }))?;
        Ok(layout)
    }

    /// Returns its folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Moves a file into it, and returns the descriptor.
    pub(super) fn add(&self, media_type: &str, file: &Path) -> Outcome<Value> {
        let cannot = |error| format!("{}: {error}", file.display());
        let digest = digest(file)?;
        let descriptor = json!({
            "mediaType": media_type,
            "size": fs::metadata(file).map_err(cannot)?.len(),
            "digest": digest,
        });
        fs::rename(file, self.folder.join(path(&descriptor))).map_err(cannot)?;
        Ok(descriptor)
    }

    /// Adds JSON, and returns the descriptor.
    pub(super) fn add_json(&self, media_type: &str, value: &Value) -> Outcome<Value> {
        self.add(media_type, &self.write("new.json", value)?)
    }

    /// Packs an image, or an index of images, and the other blobs that it refers to.
    pub(super) fn archive(&self, kind: &str, image: &Value, others: &[&Value]) -> Outcome {
        let version = facts::VERSION;
        let mut named = image.clone();
        named["annotations"] = json!({
            "org.opencontainers.image.ref.name": version,
            // The whole name, for containerd and Podman.
            "io.containerd.image.name": format!("docker.io/library/rudy:{version}"),
        });
        let mut names = vec!["oci-layout".to_owned(), "index.json".to_owned()];
        self.write("index.json", &json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [named] }))?;
        // Docker without containerd's store reads this file instead. It cannot name an index.
        if let [config, layer] = others {
            let docker = json!([{
                "Config": path(config),
                "RepoTags": [format!("rudy:{version}"), "rudy:latest"],
                "Layers": [path(layer)],
            }]);
            self.write("manifest.json", &docker)?;
            names.push("manifest.json".to_owned());
        }
        names.extend([&image].into_iter().chain(others).map(|blob| path(blob)));
        let file = facts::folder().join(format!("rudy-{version}-{kind}.tar"));
        tar::begin(&file)?;
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        tar::pack(&file, &self.folder, "0", "u=rw,go=r", &names)
    }

    fn write(&self, name: &str, value: &Value) -> Outcome<PathBuf> {
        let path = self.folder.join(name);
        fs::write(&path, value.to_string()).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }
}

/// Returns the digest of a file, with the name of its algorithm.
pub(super) fn digest(file: &Path) -> Outcome<String> {
    let line = command::output(Command::new("sha256sum").arg(file))?;
    let digest = line.split_whitespace().next().ok_or("sha256sum printed nothing")?;
    Ok(format!("sha256:{digest}"))
}

/// Returns where a blob is in its layout.
fn path(descriptor: &Value) -> String {
    format!("blobs/{}", descriptor["digest"].as_str().unwrap_or_default().replace(':', "/"))
}
