//! Pages from templates.

use std::path::{Path, PathBuf};

use jiff::civil::Date;
use minijinja::{Environment, path_loader};
use serde::Serialize;

use crate::feeds;

/// The templates of a folder, which are read when they are first used.
#[derive(Debug)]
pub(crate) struct Templates(Environment<'static>);

impl Templates {
    /// Reads all templates once, so that a mistake is found at the start. The error is a message for the operator.
    pub(crate) fn read(folder: &Path) -> Result<Self, String> {
        let mut environment = Environment::new();
        environment.set_loader(path_loader(folder));
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.add_filter("date", |date: &str| written(date, "%-d %B %Y"));
        environment.add_filter("month", |month: &str| written(&format!("{month}-01"), "%B %Y"));
        environment.add_filter("with_origin", feeds::with_origin);
        let names = names(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for path in names {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            environment.get_template(&name).map_err(|error| format!("{}: {error:#}", path.display()))?;
        }
        Ok(Self(environment))
    }

    /// Fills a template. The error is for the log.
    pub(crate) fn render(&self, name: &str, values: impl Serialize) -> Result<String, String> {
        let template = self.0.get_template(name).map_err(|error| format!("{error:#}"))?;
        template.render(values).map_err(|error| format!("{name}: {error:#}"))
    }
}

/// A date as readers write it.
fn written(date: &str, format: &str) -> String {
    date.parse::<Date>().map_or_else(|_| date.to_owned(), |date| date.strftime(format).to_string())
}

fn names(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}
