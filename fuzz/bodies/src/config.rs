//! Configuration files: any text is loaded and described, or its errors are rendered.

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
    let loaded = Config::load(&file);
    let made = loaded.and_then(|config| App::new(&config, &Resources::default()).map(|_| config));
    match made {
        Ok(config) => assert!(!config.describe().is_empty()),
        Err(errors) => assert!(errors.count() > 0 && errors.render(false).contains("error")),
    }
}
