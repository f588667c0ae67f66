//! The configuration in effect as a text for people: what `rudy check` prints.

use rudy_net::engine::{Model, THREADS_MAX};
use serde_json::Value;

use super::diagnostics::visible;
use super::file::{Audience, LimitsTable};
use super::values::Time;
use super::{
    AccessLogOptions, AppTable, BroadcastTable, Config, EngineOptions, FastcgiTable, FilesTable, Handler,
    ProcessesTable, RouteAuthorize, Site, StreamFormat, StreamTable, TailTable,
};
use crate::access_log::Format;

impl Config {
    /// Who listens, which route goes where and in which order, which limits differ from their defaults, and what was
    /// left out.
    #[must_use]
    pub fn describe(&self) -> String {
        let one_column = |lines: Vec<String>| lines.into_iter().map(|line| vec![line]).collect();
        let listen = self.listen.iter().map(ToString::to_string).collect();
        let mut sections = vec![section("Listens on", one_column(listen))];
        sections.extend(self.sites.iter().map(|site| section(&title_of(site), routes_of(site))));
        sections.push(section("Limits that are not the default", limits_that_differ(&self.limits)));
        sections.push(section("Running", self.running()));
        sections.push(section("Notices", one_column(self.notices())));
        sections.push(section("Known only at the start", one_column(self.unknown_before_start())));
        sections.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    fn running(&self) -> Vec<Vec<String>> {
        let EngineOptions { model, cores, threads, keep_alive: _ } = self.engine;
        let threads = match model {
            Model::Serial => "1".to_owned(),
            Model::Pool(threads) => threads.to_string(),
            Model::Thread => format!("one for each connection, {} at most", threads.unwrap_or(THREADS_MAX)),
            Model::Task | Model::Mailbox | Model::PerCore => {
                cores.map_or("one for each core".to_owned(), |cores| cores.to_string())
            }
        };
        let keep_alive = if self.engine.keeps_alive() { "on" } else { "off" };
        let log = match &self.access_log {
            None => "none".to_owned(),
            Some(AccessLogOptions { destination, format }) => {
                let format = match format {
                    Format::Combined => "combined",
                    Format::Json => "JSON",
                };
                format!("{format} lines to {destination}")
            }
        };
        [
            ("engine", model.to_string()),
            ("threads", threads),
            ("keep-alive", keep_alive.to_owned()),
            ("access log", log),
            ("shutdown timeout", Time(self.shutdown_timeout).to_string()),
        ]
        .into_iter()
        .map(|(name, value)| vec![name.to_owned(), value])
        .collect()
    }
}

fn title_of(site: &Site) -> String {
    if site.hosts.is_empty() {
        return "Site for every other host".to_owned();
    }
    let hosts: Vec<_> = site.hosts.iter().map(ToString::to_string).collect();
    format!("Site {}", hosts.join(", "))
}

fn routes_of(site: &Site) -> Vec<Vec<String>> {
    let row = |(index, route): (usize, &super::Route)| {
        let paths: Vec<_> = route.paths.iter().map(ToString::to_string).collect();
        let (kind, detail) = what_answers(&route.handler);
        let asked = who_is_asked(site, route).map(|app| format!("; {} says for whom", addresses(app)));
        let detail = detail + &asked.unwrap_or_default();
        vec![(index + 1).to_string(), paths.join(" "), kind.to_owned(), detail]
    };
    site.routes.iter().enumerate().map(row).collect()
}

fn who_is_asked<'a>(site: &'a Site, route: &'a super::Route) -> Option<&'a AppTable> {
    match (&route.authorize, &site.authorize) {
        (Some(RouteAuthorize::App(table)), _) | (None, Some(table)) => Some(&table.app),
        (Some(RouteAuthorize::Nobody(_)), _) | (None, None) => None,
    }
}

fn what_answers(handler: &Handler) -> (&'static str, String) {
    match handler {
        Handler::Files(files) => ("files", files_detail(files)),
        Handler::Redirect(redirect) => ("redirect", format!("{} to {}", redirect.status, redirect.to)),
        Handler::Respond(respond) => {
            let body = match (&respond.body, &respond.body_file) {
                (_, Some(file)) => format!(" with {}", file.display()),
                (Some(text), None) => format!(" with {} bytes of text", text.len()),
                (None, None) => String::new(),
            };
            ("respond", format!("{}{body}", respond.status))
        }
        Handler::Status(status) => ("status", for_whom(status.allow).to_owned()),
        Handler::Stream(stream) => ("stream", stream_detail(stream)),
        Handler::Broadcast(broadcast) => ("broadcast", broadcast_detail(broadcast)),
        Handler::Tail(tail) => ("tail", tail_detail(tail)),
        Handler::Delay(delay) => ("delay", format!("{} after {}", delay.status, delay.time)),
        Handler::Info(info) => ("info", for_whom(info.allow).to_owned()),
        Handler::Fastcgi(fastcgi) => ("fastcgi", fastcgi_detail(fastcgi)),
        Handler::Php(php) => ("php", php_detail(php)),
    }
}

fn for_whom(audience: Audience) -> &'static str {
    match audience {
        Audience::Loopback => "for this machine only",
        Audience::Anyone => "for anyone",
    }
}

fn broadcast_detail(broadcast: &BroadcastTable) -> String {
    let publishers = match broadcast.publish {
        Audience::Loopback => "this machine",
        Audience::Anyone => "anyone",
    };
    format!("{}, published by {publishers}", for_whom(broadcast.allow))
}

fn tail_detail(tail: &TailTable) -> String {
    let files: Vec<_> = tail.files.as_slice().iter().map(|file| file.display().to_string()).collect();
    format!("{} as {}, {}", files.join(" "), written_as(tail.format), for_whom(tail.allow))
}

fn written_as(format: StreamFormat) -> &'static str {
    match format {
        StreamFormat::Plain => "lines of text",
        StreamFormat::Sse => "Server-Sent Events",
    }
}

fn stream_detail(stream: &StreamTable) -> String {
    let what = written_as(stream.format);
    match stream.count {
        Some(count) => format!("{count} {what}, {} apart", stream.interval),
        None => format!("{what}, {} apart, for ever", stream.interval),
    }
}

fn fastcgi_detail(fastcgi: &FastcgiTable) -> String {
    let root = fastcgi.root.as_ref().map(|root| format!(", scripts of {}", root.display()));
    format!("{}{}", addresses(&fastcgi.app), root.unwrap_or_default())
}

fn php_detail(php: &FastcgiTable) -> String {
    let root = php.root.as_ref().map(|root| root.display().to_string());
    let links = if php.follow_symlinks { ", links followed" } else { "" };
    format!("{}{links}, run by {}", root.unwrap_or_default(), addresses(&php.app))
}

fn addresses(app: &AppTable) -> String {
    if let Some(command) = &app.command {
        let ProcessesTable { min, max, .. } = app.processes;
        let count = if min == max { max.to_string() } else { format!("{min} to {max}") };
        return format!("{count} of {}", command.join(" "));
    }
    let addresses: Vec<_> = app.addresses().iter().map(ToString::to_string).collect();
    addresses.join(" ")
}

/// The folder, and what decides which of its files answer.
fn files_detail(files: &FilesTable) -> String {
    let switches = [
        (files.browse, "listed"),
        (files.serve_hidden, "hidden files too"),
        (files.follow_symlinks, "links followed"),
    ];
    let mut details = vec![files.root.display().to_string()];
    details.extend(switches.iter().filter(|(on, _)| *on).map(|(_, name)| (*name).to_owned()));
    if !files.try_files.is_empty() {
        details.push(format!("tries {}", files.try_files.join(" ")));
    }
    details.extend(files.fallback.iter().map(|page| format!("else {page}")));
    details.join(", ")
}

fn limits_that_differ(limits: &rudy_net::Limits) -> Vec<Vec<String>> {
    let (Ok(Value::Object(set)), Ok(Value::Object(default))) =
        (serde_json::to_value(LimitsTable::from(limits)), serde_json::to_value(LimitsTable::default()))
    else {
        return Vec::new();
    };
    let shown = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    };
    set.iter()
        .filter(|(key, value)| default.get(*key) != Some(value))
        .map(|(key, value)| {
            let usual = default.get(key).map(shown).unwrap_or_default();
            vec![key.clone(), shown(value), format!("(default {usual})")]
        })
        .collect()
}

/// A title and rows in columns beneath it; nothing where there are no rows. What stands in a file is shown without its
/// control characters, which a terminal would obey.
fn section(title: &str, rows: Vec<Vec<String>>) -> Option<String> {
    let rows: Vec<Vec<_>> =
        rows.into_iter().map(|row| row.iter().map(|cell| visible(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max()?;
    let cells_of = |column: usize| rows.iter().filter_map(move |row| row.get(column));
    let width = |column| cells_of(column).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        format!("  {}\n", cells.join("  ").trim_end())
    };
    Some(format!("{title}\n{}", rows.iter().map(line).collect::<String>()))
}
