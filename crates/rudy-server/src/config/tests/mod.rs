//! Tests of whole configurations.

mod errors;
mod guesses;
mod includes;
mod listen;
mod meaning;
mod origins;
mod other_formats;
mod other_servers;

use rudy_pipeline::HandlerConfig;

use super::*;
use crate::App;
use crate::config::HandlerTable;

/// Writes the files to an empty folder and loads the first one. Errors name the files without the folder.
fn load(files: &[(&str, &str)]) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let config = Config::load(&folder.path().join(files[0].0));
    let config =
        config.and_then(|config| App::new(&config, &rudy_pipeline::Resources::default()).map(|_| config));
    config.map_err(|errors| errors.render(false).replace(&format!("{}/", folder.path().display()), ""))
}

fn errors(text: &str) -> String {
    load(&[("rudy.toml", text)]).unwrap_err()
}
