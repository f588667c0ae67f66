//! The OCI image, made without Docker: for each processor one layer with the static program, on nothing else.

mod layer;
mod layout;

use std::path::Path;

use serde_json::{Value, json};

use self::layout::Layout;
use super::{facts, tar};
use crate::steps::Run;
use crate::{Outcome, command, workspace};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The name of each processor in our file names, and in images.
const ARCHITECTURES: &[(&str, &str)] = &[("x86_64", "amd64"), ("aarch64", "arm64")];

/// The maximum size of an image, compressed.
const BYTES_MAX: u64 = 20_000_000;

/// What the layout has of an image: descriptors.
struct Image {
    manifest: Value,
    config: Value,
    layer: Value,
}

/// Makes an archive for each processor, which all versions of `docker load` accept, and one of all for registries.
pub(super) fn run(_: &mut Run) -> Outcome {
    let layout = Layout::create(workspace::target().join("image"))?;
    let authorities = layer::authorities()?;
    let mut images = Vec::new();
    for (processor, architecture) in ARCHITECTURES {
        let image = image(&layout, processor, architecture, &authorities)?;
        let Image { manifest, config, layer } = &image;
        layout.archive(&format!("image-{processor}"), manifest, &[config, layer])?;
        images.push(image);
    }
    let manifests: Vec<_> = images.iter().map(|image| &image.manifest).collect();
    let index = json!({ "schemaVersion": 2, "mediaType": layout::INDEX, "manifests": manifests });
    let index = layout.add_json(layout::INDEX, &index)?;
    let others = images.iter().flat_map(|image| [&image.manifest, &image.config, &image.layer]);
    layout.archive("image", &index, &others.collect::<Vec<_>>())
}

fn image(layout: &Layout, processor: &str, architecture: &str, authorities: &Path) -> Outcome<Image> {
    let layer = layer::make(layout.folder(), processor, authorities)?;
    let digest = layout::digest(&layer)?;
    let layer = layout.add(LAYER, &tar::compress(&layer)?)?;
    let bytes = layer["size"].as_u64().unwrap_or(u64::MAX);
    if bytes > BYTES_MAX {
        return Err(format!(
            "the image for {processor} has {bytes} bytes, more than {BYTES_MAX}: make the program smaller"
        ));
    }
    println!("image for {processor}: {} kB compressed", bytes / 1000);
    let config = layout.add_json(CONFIG, &config(architecture, &digest)?)?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config,
        "layers": [layer],
        "annotations": labels()?,
    });
    let mut manifest = layout.add_json(MANIFEST, &manifest)?;
    manifest["platform"] = json!({ "architecture": architecture, "os": "linux" });
    Ok(Image { manifest, config, layer })
}

/// How runtimes start the program.
fn config(architecture: &str, layer: &str) -> Outcome<Value> {
    let user = layer::USER;
    Ok(json!({
        "created": created()?,
        "architecture": architecture,
        "os": "linux",
        "config": {
            // A number, because Kubernetes cannot decide whether a name is that of root.
            "User": format!("{user}:{user}"),
            "ExposedPorts": { "8080/tcp": {} },
            "Env": [
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "STATE_DIRECTORY=/var/lib/rudy",
                "CACHE_DIRECTORY=/var/cache/rudy",
            ],
            "Entrypoint": ["/usr/bin/rudy"],
            "Cmd": ["serve", "/etc/rudy/rudy.toml"],
            "WorkingDir": "/srv/www",
            "StopSignal": "SIGTERM",
            "Labels": labels()?,
            // Docker's own field, which others ignore. Times are in nanoseconds. The command works with every configuration.
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/rudy", "status", "--limit", "1"],
                "Interval": 30_000_000_000_u64,
                "Timeout": 15_000_000_000_u64,
                "StartPeriod": 5_000_000_000_u64,
                "Retries": 3,
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [layer] },
        "history": [{ "created": created()?, "created_by": "cargo xtask release image" }],
    }))
}

fn labels() -> Outcome<Value> {
    Ok(json!({
        "org.opencontainers.image.title": "Rudy",
        "org.opencontainers.image.description": "A web server with a laboratory",
        "org.opencontainers.image.version": facts::VERSION,
        "org.opencontainers.image.revision": facts::commit()?,
        "org.opencontainers.image.created": created()?,
        // The last one is that of the list of authorities.
        "org.opencontainers.image.licenses": "(MIT OR Apache-2.0) AND MPL-2.0",
    }))
}

fn created() -> Outcome<String> {
    let mut date = std::process::Command::new("date");
    let date = command::output(date.args(["--utc", "+%FT%TZ", "--date"]).arg(format!("@{}", facts::time()?)));
    date.map(|date| date.trim().to_owned())
}
