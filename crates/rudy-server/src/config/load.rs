//! Loads a [`Config`] from files. Invalid values are skipped and the rest is checked, so that all problems are reported at once.

use std::path::Path;
use std::sync::Arc;

use rudy_config::{Diagnostics, Files, Location, Problem};

use super::hints::TablesHints;
use super::include::{Included, files_to_include};
use super::{Config, IncludedFile, Site, TcpTable};

impl Config {
    /// Reads a configuration file and the files that it includes. The error has all problems, including those that `more` finds in what
    /// could be read.
    pub(crate) fn load_with(
        path: &Path,
        more: impl FnOnce(&Self) -> Vec<Problem>,
    ) -> Result<Self, Diagnostics> {
        let mut loader =
            Loader { files: Files::new(&TablesHints, &["site", "site.route"]), config: Self::default() };
        loader.main_file(path);
        let Loader { files: Files { sources, mut problems, invalid, .. }, mut config } = loader;
        config.sources = Arc::new(sources);
        config.choose_http3();
        if problems.is_empty() {
            return Ok(config);
        }
        let more = more(&config).into_iter();
        problems.extend(more.filter(|problem| !problem.follows_from(&invalid, &config.sources)));
        Err(Diagnostics::new(config.sources, problems))
    }
}

struct Loader {
    files: Files,
    config: Config,
}

impl Loader {
    fn main_file(&mut self, path: &Path) {
        if let Some((location, Some(mut config))) = self.files.read::<Config>(path) {
            let (sites, tcp) = (std::mem::take(&mut config.sites), std::mem::take(&mut config.tcp));
            self.config = config;
            self.add_sites(sites);
            self.add_connections(tcp);
            if let Some(pattern) = self.config.include.clone() {
                self.include(path, &pattern, &location);
            }
            match &self.config.given_addresses {
                Some(addresses) => self.config.listen.clone_from(&addresses.0),
                None => self.choose_addresses(),
            }
        }
        if self.files.problems.is_empty() && self.config.sites.is_empty() {
            let problem = Problem::value(&Location::file(0), "the configuration has no site")
                .label("expected a [[site]] or [[tcp]] here or in an included file");
            self.files
                .problems
                .push(problem.help("a minimal site has two lines: [[site]] and root = \"public\""));
        }
    }

    /// Chooses the addresses of the sites that have none of their own.
    fn choose_addresses(&mut self) {
        let Config { listen, sites, .. } = &mut self.config;
        let mut sites = sites.iter().filter(|site| site.listen.is_none()).peekable();
        if sites.peek().is_none() {
            listen.clear();
        } else if sites.any(Site::is_auto) {
            *listen = Config::public_addresses();
        }
    }

    fn include(&mut self, path: &Path, pattern: &str, main: &Location) {
        match files_to_include(path, pattern) {
            Ok(Included { files, notices }) => {
                self.config.ignored.extend(notices);
                for file in files {
                    if let Some((_, Some(file))) = self.files.read::<IncludedFile>(&file) {
                        self.add_sites(file.sites);
                        self.add_connections(file.tcp);
                    }
                }
            }
            Err(why) => {
                let problem = Problem::value(&main.key("include"), format!("cannot include \"{pattern}\""));
                self.files.problems.push(problem.label(why));
            }
        }
    }

    fn add_connections(&mut self, tables: Vec<TcpTable>) {
        let invalid = &self.files.invalid;
        // Without its invalid names or addresses, the table would be another one.
        let is_another = |table: &TcpTable| {
            ["server_names", "listen"].into_iter().any(|key| invalid.any_in(&table.location.key(key)))
        };
        let tables = tables.into_iter().filter(|table| !is_another(table));
        self.config.sites.extend(tables.map(Site::from));
    }

    fn add_sites(&mut self, sites: Vec<Site>) {
        for mut site in sites {
            let Files { problems, invalid, sources, .. } = &mut self.files;
            let is_empty = site.routes.is_empty() && site.root.is_none() && site.php.is_none();
            // An invalid or unknown key may have been meant as a route.
            let hosts = site.location.key("hosts");
            if is_empty && invalid.inside(&site.location).all(|invalid| invalid.is_in(&hosts)) {
                let problem = Problem::value(&site.location, "this site has no route");
                problems
                    .push(problem.label("expected `root = \"...\"`, `php = \"...\"` or a [[site.route]]"));
            }
            site.inherit(&self.config, sources);
            problems.extend(site.add_default_route(invalid));
            // Without its invalid hosts or addresses, the site would be another one.
            let is_another =
                ["hosts", "listen"].into_iter().any(|key| invalid.any_in(&site.location.key(key)));
            if !is_another {
                self.config.sites.push(site);
            }
        }
    }
}
