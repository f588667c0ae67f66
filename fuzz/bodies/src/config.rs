//! Configuration files: any text is loaded. What is valid starts and reloads, and an error says where it is.

use std::fs;
use std::sync::LazyLock;

use rudy_server::App;
use rudy_server::Resources;
use rudy_server::config::Config;
use tempfile::TempDir;

/// An empty folder, so that the files in a configuration do not exist.
static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder can be created"));

pub(crate) fn run(text: &[u8]) {
    let file = FOLDER.path().join("rudy.toml");
    fs::write(&file, text).expect("the folder is writable");
    let resources = Resources::default();
    let make = || Config::load(&file).and_then(|config| Ok((App::new(&config, &resources)?, config)));
    match make() {
        Ok((_running, config)) => {
            assert!(!config.describe().is_empty());
            let reloaded = make();
            assert!(reloaded.is_ok(), "a reload rejects what has started: {:?}", reloaded.err());
        }
        Err(errors) => {
            let rendered = errors.render(false);
            let has_place = rendered.contains("--> ");
            // A file that is no text has no lines.
            assert!(errors.count() > 0 && (has_place || std::str::from_utf8(text).is_err()), "{rendered}");
        }
    }
}
