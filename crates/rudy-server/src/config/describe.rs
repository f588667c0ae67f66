//! The effective configuration as text, for `rudy check`.

use rudy_net::engine::{Model, THREADS_MAX};
use rudy_pipeline::HandlerConfig;
use rudy_pipeline::client_address::{AddressField, Options as ClientAddress};
use rudy_service::listen_address::Address;
use rudy_units::visible;
use rudy_watch::access_log::{Conditions, Format, Masking};
use rudy_watch::traces::TracingTable;

use super::limits::LimitsTable;
use super::{AccessLogOptions, Config, EngineOptions, Site};

impl Config {
    /// Describes the listeners, the routes in order, the limits that differ from their defaults, and the notices.
    #[must_use]
    pub fn describe(&self) -> String {
        let one_column = |lines: Vec<String>| lines.into_iter().map(|line| vec![line]).collect();
        let listen = |address: &Address| {
            let unused = self.sites_at(address).next().is_none().then(|| "serves no site".to_owned());
            [address.to_string(), self.protocols(address)].into_iter().chain(unused).collect()
        };
        let mut sections = vec![section("Listens on", self.addresses().iter().map(listen).collect())];
        sections.extend(self.sites.iter().map(|site| section(&title_of(site), self.routes_of(site))));
        let [for_all, switched_off] = self.settings_for_all();
        sections.push(section("Settings for all sites", for_all));
        sections.push(section("Settings for all sites that are switched off", switched_off));
        sections.push(section("Settings from included files", self.included_settings()));
        sections.push(section("Upstreams", self.upstreams()));
        sections.push(section("Limits that differ from their defaults", limits_that_differ(&self.limits)));
        sections.push(section("Running", self.running()));
        let notices = [self.notices(), self.unresolved_names()].concat();
        sections.push(section("Notices", one_column(notices)));
        sections.push(section("Checked only at start-up", one_column(self.unknown_before_start())));
        let text = sections.into_iter().flatten().collect::<Vec<_>>().join("\n");
        self.sources.placeholders.mask(&text).into_owned()
    }

    fn running(&self) -> Vec<Vec<String>> {
        let EngineOptions { model, cores, threads, keep_alive: _ } = self.engine;
        let threads = match model {
            Model::Serial => "1".to_owned(),
            Model::Pool(threads) => threads.to_string(),
            Model::Thread => format!("one per connection, at most {}", threads.unwrap_or(THREADS_MAX)),
            Model::Task | Model::Mailbox | Model::PerCore => {
                cores.map_or("one per core".to_owned(), |cores| cores.to_string())
            }
        };
        let keep_alive = if self.engine.keeps_alive() { "on" } else { "off" };
        let of_site = |site: &Site| {
            let log = site.access_log.as_ref()?;
            Some(vec![String::new(), format!("{}: {}", title_of(site), described_log(log.on()))])
        };
        let rows = [
            ("engine", model.to_string()),
            ("threads", threads),
            ("keep-alive", keep_alive.to_owned()),
            ("access log", described_log(self.access_log())),
        ];
        let more = [
            ("certificates", self.ordered_certificates()),
            ("tracing", self.tracing.as_ref().map(described_tracing).unwrap_or_default()),
            ("trusted proxies", trusted_proxies(&self.client_address)),
            ("shutdown timeout", self.shutdown_timeout.to_string()),
        ];
        let row = |(name, value): (&str, String)| {
            Some(vec![name.to_owned(), value]).filter(|row| !row[1].is_empty())
        };
        let logs = self.sites.iter().filter_map(of_site);
        rows.into_iter().filter_map(row).chain(logs).chain(more.into_iter().filter_map(row)).collect()
    }
}

impl Config {
    /// Whether files in the state folder are needed: keys and certificates of sites, or a key of a handler.
    pub(crate) fn keeps_state(&self) -> bool {
        let of_site =
            |site: &Site| site.tls.is_some() || site.routes.iter().any(|route| route.handler.keeps_state());
        self.sites.iter().any(of_site)
    }

    /// Whether HTTP/2 is offered over TLS.
    pub(crate) fn offers_http2(&self) -> bool {
        self.http2 && !self.engine.model.has_thread_per_connection()
    }

    /// The protocols of connections to an address.
    fn protocols(&self, address: &Address) -> String {
        let (connections, sites): (Vec<_>, Vec<_>) =
            self.sites_at(address).partition(|site| site.connections.is_some());
        let passed = if address.tls { "TLS by server name" } else { "TCP" };
        if !connections.is_empty() && sites.is_empty() {
            return passed.to_owned();
        }
        let others = if connections.is_empty() { String::new() } else { format!(", {passed}") };
        let http2 = if address.tls && self.offers_http2() || address.h2c { ", HTTP/2" } else { "" };
        let port = address.endpoint.port().filter(|_| address.http3);
        let http3 = match port {
            None => String::new(),
            // The kernel chooses it.
            Some(0) => ", HTTP/3 (udp)".to_owned(),
            Some(port) => format!(", HTTP/3 (udp {port})"),
        };
        format!("HTTP/1.1{http2}{http3}{others}")
    }

    fn routes_of(&self, site: &Site) -> Vec<Vec<String>> {
        if let Some(connections) = &site.connections {
            let tls = match (&site.tls, site.addresses().unwrap_or_default()) {
                (Some(_), _) => "ends TLS",
                (None, [address, ..]) if address.tls => "passes TLS on",
                _ => "",
            };
            return vec![vec!["tcp".to_owned(), connections.proxy.proxy().describe(), tls.to_owned()]];
        }
        let of_all = &self.defaults.steps.admission;
        let row = |(index, route): (usize, &super::Route)| {
            let paths: Vec<_> = route.paths.iter().map(ToString::to_string).collect();
            let apps = route.steps.admission.authorizers(&site.steps.admission, of_all);
            let authorized = apps.map(|app| format!("; authorized by {}", app.describe()));
            let detail = authorized.fold(route.handler.describe(), |detail, more| detail + &more);
            vec![(index + 1).to_string(), paths.join(" "), route.handler.key().to_owned(), detail]
        };
        site.routes.iter().enumerate().map(row).collect()
    }

    /// Empty if no site has `tls = "auto"`.
    fn ordered_certificates(&self) -> String {
        let names = self.auto_names();
        if names.is_empty() {
            return String::new();
        }
        format!("for {}, from {}", names.join(", "), self.acme.directory())
    }
}

/// Empty if there are none.
fn trusted_proxies(options: &ClientAddress) -> String {
    let proxies: Vec<_> = options.trusted_proxies.iter().map(ToString::to_string).collect();
    let field = match &options.source {
        _ if proxies.is_empty() => return String::new(),
        AddressField::XForwardedFor => "X-Forwarded-For",
        AddressField::Forwarded => "Forwarded",
        AddressField::Named(name) => name.as_str(),
    };
    let host = if options.trust_host { ", with host" } else { "" };
    format!("{}, client address from {field}{host}", proxies.join(", "))
}

fn described_log(log: Option<&AccessLogOptions>) -> String {
    let Some(AccessLogOptions { destination, format, conditions, masking, rotation: _ }) = log else {
        return "none".to_owned();
    };
    let format = match format {
        Format::Json => "JSON".to_owned(),
        Format::Line(_) => format.to_string(),
    };
    let some = if *conditions == Conditions::default() { "" } else { " for some requests" };
    let masked = if *masking == Masking::default() { "" } else { ", masked" };
    format!("{format} lines to {destination}{some}{masked}")
}

fn described_tracing(table: &TracingTable) -> String {
    let of_clients = if table.trust_clients { ", and what clients record" } else { "" };
    format!("{} of requests to {}{of_clients}", table.sample, table.endpoint)
}

fn title_of(site: &Site) -> String {
    let hosts: Vec<_> = site.hosts.iter().map(ToString::to_string).collect();
    let name = match (&site.connections, hosts.as_slice()) {
        (None, []) => "Default site".to_owned(),
        (None, hosts) => format!("Site {}", hosts.join(", ")),
        (Some(_), []) => "Connections".to_owned(),
        (Some(_), hosts) => format!("Connections to {}", hosts.join(", ")),
    };
    let Some(listen) = site.addresses() else { return name };
    let addresses: Vec<_> = listen.iter().map(ToString::to_string).collect();
    format!("{name} on {}", addresses.join(", "))
}

fn limits_that_differ(limits: &rudy_service::Limits) -> Vec<Vec<String>> {
    let usual = LimitsTable::written(&rudy_service::Limits::default());
    let pairs = LimitsTable::written(limits).into_iter().zip(usual);
    let shown = |limit: Option<String>| {
        limit.map_or_else(|| "none".to_owned(), |limit| limit.trim_matches('"').to_owned())
    };
    pairs
        .filter(|(set, usual)| set != usual)
        .map(|((key, set), (_, usual))| {
            vec![key.to_owned(), shown(set), format!("(default {})", shown(usual))]
        })
        .collect()
}

/// A title with rows in columns, or `None` without rows. Control characters are escaped, because they could control the terminal.
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
