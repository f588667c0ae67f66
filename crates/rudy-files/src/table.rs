//! The table of the `files` handler.

use std::path::{Path, PathBuf};

use rudy_config::{FilePath, Problem, Table};
use rudy_pipeline::{BuildContext, Handler, HandlerConfig};

use super::Files;
use super::browse::ListingTemplate;
use super::options::{FilesError, FilesOptions};
use super::try_files::TriedFile;

/// Serves files from a folder: a table, or the folder alone.
#[derive(Debug, Clone, Table)]
#[setting(short(root), what = "a folder (\"public\") or a table", example = { root = "/srv/www", browse = true })]
pub struct FilesTable {
    /// Folder to serve, relative to the configuration file. In a route such as `/docs/*`, Rudy looks up the part that
    /// `*` matches; in other routes, the whole path.
    #[setting(example = "public")]
    pub root: FilePath,
    /// How to serve the folder.
    #[setting(part)]
    pub options: FilesOptions,
}

impl FilesTable {
    /// Returns the table of a folder with default options.
    #[must_use]
    pub fn of(root: impl Into<PathBuf>) -> Self {
        Self { root: FilePath(root.into()), options: FilesOptions::default() }
    }
}

impl HandlerConfig for FilesTable {
    /// Returns the folder, and the options that decide which of its files are sent.
    fn describe(&self) -> String {
        let options = &self.options;
        let switches = [
            (options.browse.is_on(), "listed"),
            (options.serve_hidden, "hidden files too"),
            (options.follow_symlinks, "links followed"),
        ];
        let mut details = vec![self.root.display().to_string()];
        details.extend(switches.iter().filter(|(on, _)| *on).map(|(_, name)| (*name).to_owned()));
        if !options.try_files.is_empty() {
            details.push(format!(
                "tries {}",
                options.try_files.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
            ));
        }
        details.extend(options.next_route.then(|| "else the next route".to_owned()));
        details.extend(options.fallback.iter().map(|page| format!("else {page}")));
        details.join(", ")
    }

    fn paths_read(&self) -> Vec<PathBuf> {
        let template = self.options.browse.template().map(Path::to_owned);
        [self.root.0.clone()].into_iter().chain(template).collect()
    }

    /// Opens the folder. Checks it even if the options are invalid, so that all errors are reported at once.
    fn build(&self, route: &BuildContext<'_>) -> Result<Box<dyn Handler>, Vec<Problem>> {
        let options = FilesOptions { on_php_site: route.on_php_site, ..self.options.clone() };
        let mut options = options.of_route(route);
        let mut invalid = options.problems();
        invalid.extend(options.read_template().err());
        let mut problems: Vec<_> = invalid.iter().map(|error| error.problem(route.location)).collect();
        problems.extend(options.invalid_queries(route));
        let options = if invalid.is_empty() { options } else { FilesOptions::default() };
        match Files::open(&self.root, options, &route.resources.of()) {
            Ok(files) if problems.is_empty() => return Ok(Box::new(files)),
            Ok(_) => {}
            Err(error) => problems.push(error.problem(route.location)),
        }
        Err(problems)
    }
}

impl FilesOptions {
    /// Reports placeholders in the queries of `try_files` that the route does not define.
    fn invalid_queries(&self, route: &BuildContext<'_>) -> Vec<Problem> {
        let queries = self.try_files.iter().filter_map(TriedFile::query);
        let faults = queries.filter_map(|query| query.check_part_of_target(route.scope()).err());
        let location = route.location.key("try_files");
        faults.map(|(title, expected)| Problem::value(&location, title).label(expected)).collect()
    }

    /// Reads the template of listings.
    pub(super) fn read_template(&mut self) -> Result<(), FilesError> {
        if let Some(file) = self.browse.template() {
            let read = ListingTemplate::read(file);
            self.listing = Some(read.map_err(|why| FilesError::Template(file.to_owned(), why))?);
        }
        Ok(())
    }
}
