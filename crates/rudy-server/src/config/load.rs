//! From files to a [`Config`]. What is wrong is left out and the rest looked at, so that everything is said at once.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rudy_net::listen::Address;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::authorize::{AuthorizeTable, RouteAuthorize};
use super::check::check;
use super::diagnostics::{Diagnostics, Place, Problem, Sources};
use super::fastcgi::FastcgiTable;
use super::file::{AccessLogTable, IncludedFile, LimitsTable, LogFormat, MainFile, RouteTable};
use super::files::FilesTable;
use super::include::{Included, files_to_include};
use super::schema::schema_of;
use super::values::{EngineName, ListenAddress, Size, Time};
use super::{AccessLogOptions, Config, EngineOptions, Handler, Route, Site};
use crate::access_log::{Destination, Format};
use crate::buffer::Options as BufferOptions;
use crate::files::Folders;
use crate::routing::HostPattern;

impl Config {
    /// Reads a configuration file and what it includes. The errors are all there are, those included that
    /// [`App::new`](crate::App::new) finds.
    pub fn load(path: &Path) -> Result<Self, Diagnostics> {
        let mut loader = Loader { sources: Sources::default(), problems: Vec::new(), config: Self::empty() };
        loader.main_file(path);
        let Loader { sources, mut problems, mut config } = loader;
        config.sources = Arc::new(sources);
        if problems.is_empty() {
            return Ok(config);
        }
        problems.extend(crate::compile::compile(&config, &Folders::default()).err().unwrap_or_default());
        Err(Diagnostics::new(config.sources, problems))
    }
}

/// The largest file that is read: some thousand sites. A device given by mistake has no end.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

struct Loader {
    sources: Sources,
    problems: Vec<Problem>,
    config: Config,
}

impl Loader {
    fn main_file(&mut self, path: &Path) {
        self.file(path, &schema_of::<MainFile>(), |loader, table| {
            if let Some(listen) = table.value::<Vec<ListenAddress>>("listen", &mut loader.problems) {
                loader.config.listen =
                    listen.into_iter().map(|address| table.resolve_address(address.0)).collect();
            }
            loader.config.engine = table.engine(&mut loader.problems);
            if let Some(limits) = table.value::<LimitsTable>("limits", &mut loader.problems) {
                limits.check(&table.place.key("limits"), !table.has_wrong("limits"), &mut loader.problems);
                loader.config.limits = limits.into();
            }
            loader.config.buffer = table.buffer(&mut loader.problems);
            if let Some(time) = table.value::<Time>("shutdown_timeout", &mut loader.problems) {
                loader.config.shutdown_timeout = time.0;
            }
            let log = table.value::<AccessLogTable>("access_log", &mut loader.problems);
            loader.config.access_log = log.map(|log| table.resolve_log(&log));
            loader.sites(table);
            if let Some(pattern) = table.value::<String>("include", &mut loader.problems) {
                loader.include(path, &pattern, table);
            }
        });
        if self.problems.is_empty() && self.config.sites.is_empty() {
            let problem = Problem::value(&Place::file(0), "there is no site")
                .label("expected a [[site]] here or in an included file");
            self.problems
                .push(problem.help("the smallest one has two lines: [[site]] and root = \"public\""));
        }
    }

    fn include(&mut self, path: &Path, pattern: &str, main: &Table<'_>) {
        match files_to_include(path, pattern) {
            Ok(Included { files, notices }) => {
                self.config.ignored.extend(notices);
                let schema = schema_of::<IncludedFile>();
                for file in files {
                    self.file(&file, &schema, Self::sites);
                }
            }
            Err(why) => self.problems.push(
                Problem::value(&main.place.key("include"), format!("cannot include \"{pattern}\""))
                    .label(why),
            ),
        }
    }

    /// Reads and checks one file, and hands it on to be taken in.
    fn file(&mut self, path: &Path, schema: &Value, take: impl FnOnce(&mut Self, &Table<'_>)) {
        let name = path.display().to_string();
        let text = match read_text(path) {
            Ok(text) => text,
            Err(why) => {
                let problem = Problem::value(&Place::nowhere(), format!("cannot read {name}: {why}"));
                return self.problems.push(problem);
            }
        };
        let number = self.sources.add(name, text.clone());
        let (document, errors) = DeTable::parse_recoverable(&text);
        let place = Place::file(number);
        if !errors.is_empty() {
            // What a broken file says elsewhere is not trusted: one slip in a quote changes the meaning of all that follows.
            return self.problems.extend(syntax_errors(number, &text, &errors));
        }
        let before = self.problems.len();
        if let Some(source) = self.sources.get_mut(number) {
            check(schema, &document, &place, source, &mut self.problems);
        }
        let wrong: Vec<_> =
            self.problems[before..].iter().filter_map(|problem| problem.place().cloned()).collect();
        let folder = path.parent().unwrap_or(Path::new(""));
        take(self, &Table { entries: document.get_ref(), place, wrong: &wrong, folder });
    }

    fn sites(&mut self, file: &Table<'_>) {
        for (index, site) in file.tables("site").into_iter().enumerate() {
            let Some(site) = site else { continue };
            let hosts = site.value::<Vec<HostPattern>>("hosts", &mut self.problems);
            let mut routes: Vec<Route> = Vec::new();
            for route in site.tables("route").into_iter().flatten() {
                routes.extend(self.route(&route));
            }
            routes.extend(self.everything(&site));
            if !["route", "root", "php"].iter().any(|key| site.entries.contains_key(*key)) {
                let problem = Problem::value(&site.place, "this site answers nothing");
                let label = "expected `root = \"...\"`, `php = \"...\"` or a [[site.route]]";
                self.problems.push(problem.label(label));
            }
            let mut authorize = site.value::<AuthorizeTable>("authorize", &mut self.problems).map(Box::new);
            if let Some(authorize) = &mut authorize {
                authorize.resolve(site.folder);
            }
            let hosts = hosts.unwrap_or_default();
            // A site whose hosts are wrong would be taken for the default one.
            if !site.has_wrong("hosts") {
                let place = file.place.key("site").index(index);
                self.config.sites.push(Site { hosts, routes, authorize, place });
            }
        }
    }

    /// What answers every path that no route of the site takes.
    fn everything(&mut self, site: &Table<'_>) -> Option<Route> {
        let root = site.value::<PathBuf>("root", &mut self.problems).map(|root| site.folder.join(root));
        let php = site.value::<PathBuf>("php", &mut self.problems).map(|php| site.folder.join(php));
        if root.is_some() && php.is_some() {
            let problem = Problem::key(&site.place.key("php"), "both `root` and `php` take every path");
            let problem = problem.label("a second folder").also(&site.place.key("root"), "the first");
            self.problems
                .push(problem.help("`php` alone runs the scripts of its folder and sends its other files"));
            return None;
        }
        let files = root.map(|root| (Handler::Files(FilesTable::of(root)), "root"));
        let php = php.map(|php| (Handler::Php(Box::new(FastcgiTable::php(php))), "php"));
        files.or(php).map(|(handler, key)| Route::everything(handler, &site.place.key(key)))
    }

    /// Whom a route asks who may come in.
    fn authorize(&mut self, route: &Table<'_>, asks: Option<RouteAuthorize>) -> Option<RouteAuthorize> {
        match asks {
            Some(RouteAuthorize::Nobody(true)) => {
                let problem = Problem::value(&route.place.key("authorize"), "`true` names nobody to ask");
                let label = "expected a table that says which app, or `false`";
                self.problems.push(problem.label(label));
                None
            }
            Some(RouteAuthorize::App(mut table)) => {
                table.resolve(route.folder);
                Some(RouteAuthorize::App(table))
            }
            other => other,
        }
    }

    fn route(&mut self, route: &Table<'_>) -> Option<Route> {
        let mut table: RouteTable = route.whole(&mut self.problems)?;
        let paths = table.path.as_slice().to_vec();
        let authorize = self.authorize(route, table.authorize.take());
        let allow_trace = table.allow_trace;
        let mut handlers = table.handlers(route.folder);
        if let [(first, _), (second, _), ..] = handlers.as_slice() {
            let title = format!("a route has one handler, and this one has `{first}` and `{second}`");
            let problem = Problem::key(&route.place.key(second), title).label("a second handler");
            self.problems.push(problem.also(&route.place.key(first), "the first"));
            return None;
        }
        let Some((kind, mut handler)) = handlers.pop() else {
            if route.has_wrong_inside() {
                return None;
            }
            let problem = Problem::value(&route.place, "this route has no handler");
            self.problems.push(problem.label(format!("expected {}", RouteTable::kinds())));
            return None;
        };
        if let Handler::Fastcgi(table) = &mut handler {
            table.choose_suffix(&paths);
        }
        Some(Route {
            paths,
            handler,
            authorize,
            allow_trace,
            place: route.place.clone(),
            paths_place: route.place.key("path"),
            handler_place: route.place.key(kind),
        })
    }
}

/// A table of a file, of which only what is well formed is handed out.
struct Table<'a> {
    entries: &'a DeTable<'a>,
    place: Place,
    /// What the schema's check found wrong in the file.
    wrong: &'a [Place],
    folder: &'a Path,
}

impl<'a> Table<'a> {
    fn has_wrong(&self, key: &str) -> bool {
        let place = self.place.key(key);
        self.wrong.iter().any(|wrong| wrong.is_in(&place))
    }

    fn has_wrong_inside(&self) -> bool {
        self.wrong.iter().any(|wrong| wrong.is_in(&self.place))
    }

    /// The value of a key, if it is there, without what is wrong in it.
    fn value<T: DeserializeOwned>(&self, key: &str, problems: &mut Vec<Problem>) -> Option<T> {
        self.read(self.entries.get(key)?.get_ref(), &self.place.key(key), problems)
    }

    /// The table itself, without what is wrong in it.
    fn whole<T: DeserializeOwned>(&self, problems: &mut Vec<Problem>) -> Option<T> {
        self.read(&DeValue::Table(self.entries.clone()), &self.place, problems)
    }

    /// Reads a value that the schema's check has seen. The schema is made from the type, so an error here is one that the
    /// schema cannot express, or follows from what was left out and is said already.
    fn read<T: DeserializeOwned>(
        &self,
        value: &DeValue<'_>,
        place: &Place,
        problems: &mut Vec<Problem>,
    ) -> Option<T> {
        let is_whole = !self.wrong.iter().any(|wrong| wrong.is_in(place));
        let value = if is_whole { value.clone() } else { without(value, place, self.wrong)? };
        match T::deserialize(ValueDeserializer::from(Spanned::new(0..0, value))) {
            Ok(value) => Some(value),
            Err(error) => {
                if is_whole {
                    problems.push(Problem::value(place, error.message()));
                }
                None
            }
        }
    }

    /// The tables of a list, in order, `None` for what is not a table.
    fn tables(&self, key: &str) -> Vec<Option<Table<'a>>> {
        let Some(DeValue::Array(values)) = self.entries.get(key).map(Spanned::get_ref) else {
            return Vec::new();
        };
        let place = self.place.key(key);
        let inner = |(index, value): (usize, &'a Spanned<DeValue<'a>>)| {
            let entries = value.get_ref().as_table()?;
            let place = place.index(index);
            Some(Table { entries, place, wrong: self.wrong, folder: self.folder })
        };
        values.iter().enumerate().map(inner).collect()
    }

    fn engine(&self, problems: &mut Vec<Problem>) -> EngineOptions {
        let model = self.value::<EngineName>("engine", problems).unwrap_or_default().0;
        let cores = self.value::<u16>("cores", problems).and_then(|cores| NonZeroUsize::new(cores.into()));
        let threads =
            self.value::<u32>("threads", problems).and_then(|threads| NonZeroUsize::new(threads as usize));
        EngineOptions { model, cores, threads, keep_alive: self.value("keep_alive", problems) }
    }

    fn buffer(&self, problems: &mut Vec<Problem>) -> BufferOptions {
        let memory = self.value::<Size>("buffer_memory", problems);
        let total = self.value::<Size>("buffer_total", problems);
        let dir = self.value::<PathBuf>("buffer_dir", problems);
        BufferOptions {
            memory: memory.map_or(BufferOptions::MEMORY, |size| size.0),
            total: total.map(|size| size.0),
            dir: dir.map(|dir| self.folder.join(dir)),
        }
    }

    fn resolve_log(&self, log: &AccessLogTable) -> AccessLogOptions {
        AccessLogOptions {
            destination: match Destination::new(&log.path) {
                Destination::File(path) => Destination::File(self.folder.join(path)),
                Destination::Stdout => Destination::Stdout,
            },
            format: match log.format {
                LogFormat::Combined => Format::Combined,
                LogFormat::Json => Format::Json,
            },
        }
    }

    fn resolve_address(&self, address: Address) -> Address {
        match address {
            Address::Unix { path, mode } => Address::Unix { path: self.folder.join(path), mode },
            other => other,
        }
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err("it is larger than 4 MiB, and so hardly a configuration".to_owned());
    }
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].split(|byte| *byte == b'\n').count();
        format!("line {line} is not UTF-8")
    })
}

/// A value without what is wrong in it: keys are left out one by one, lists as a whole, so that no element changes its
/// number.
fn without<'a>(value: &DeValue<'a>, place: &Place, wrong: &[Place]) -> Option<DeValue<'a>> {
    if wrong.iter().any(|wrong| wrong == place) {
        return None;
    }
    match value {
        DeValue::Table(table) => {
            let kept = table.iter().filter_map(|(key, value)| {
                let kept = without(value.get_ref(), &place.key(key.get_ref()), wrong)?;
                Some((key.clone(), Spanned::new(value.span(), kept)))
            });
            Some(DeValue::Table(kept.collect()))
        }
        DeValue::Array(array) => {
            let intact = (0..array.len()).all(|index| {
                let place = place.index(index);
                !wrong.iter().any(|wrong| wrong.is_in(&place))
            });
            intact.then(|| value.clone())
        }
        other => Some(other.clone()),
    }
}

/// One slip (a quote that is not closed) makes nonsense of the lines after it: of errors in lines that follow each other,
/// the first is the one that counts.
fn syntax_errors(source: usize, text: &str, errors: &[toml::de::Error]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut last_line = None;
    let mut errors: Vec<_> = errors.iter().map(|error| (error.span().unwrap_or_default(), error)).collect();
    errors.sort_by_key(|(span, _)| span.start);
    for (span, error) in errors {
        let line = text.bytes().take(span.start).filter(|byte| *byte == b'\n').count();
        if last_line.is_none_or(|last| line > last + 1) {
            problems.push(Problem::span(source, span, error.message()));
        }
        last_line = Some(line);
    }
    problems
}
