//! Configurations of the server, valid and broken.

use std::path::Path;

/// What a configuration of the world decides.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The connections of the proxy to each application; requests beyond them wait.
    connections: u32,
    requests_per_connection: u32,
    idle_timeout_s: u32,
    /// Whether the applications behind HTTP/1.1 are those of a name.
    has_name: bool,
    buffers_requests: bool,
    has_second_listener: bool,
    head_comes_from: u32,
    cache_size: &'static str,
    cache_memory: &'static str,
    /// Whether the server asks the applications over FastCGI how many connections they serve.
    asks_applications: bool,
    /// Whether the server has TLS, with a certificate of the authority.
    has_tls: bool,
}

/// The site with TLS.
const SITE_WITH_TLS: &str = r#"[[site]]
hosts = "site.test"
tls = "auto"
redirect_to_https = false
"#;

/// From this number on, connections to an application are not few.
const FEW: u32 = 4;

impl Settings {
    pub(crate) fn random(random: &mut fastrand::Rng, has_tls: bool) -> Self {
        Self {
            connections: if random.bool() { random.u32(1..FEW) } else { 100 },
            requests_per_connection: random.u32(3..50),
            idle_timeout_s: random.u32(1..60),
            has_name: random.bool(),
            buffers_requests: random.bool(),
            has_second_listener: random.bool(),
            head_comes_from: random.u32(..1000),
            cache_size: if random.bool() { "300K" } else { "1G" },
            cache_memory: if random.bool() { "0B" } else { "64M" },
            asks_applications: random.bool(),
            has_tls,
        }
    }

    /// Whether slow clients can occupy all connections to an application.
    pub(crate) fn has_few_connections(&self) -> bool {
        self.connections < FEW
    }

    /// Returns the text of the file.
    pub(crate) fn text(&self, folder: &Path) -> String {
        let Self { connections, requests_per_connection, idle_timeout_s, buffers_requests, .. } = self;
        let Self { asks_applications, cache_size, cache_memory, .. } = self;
        let second = if self.has_second_listener { ", \"10.0.0.1:81\"" } else { "" };
        let (third, site) =
            if self.has_tls { (", \"10.0.0.1:443,tls\"", SITE_WITH_TLS) } else { ("", "[[site]]") };
        format!(
            r#"cores = 1
listen = ["10.0.0.1:80,h2c"{second}{third}]
error_log = "{folder}/error.log"
response_headers = {{ X-Settings = "{version}" }}

[acme]
directory = "https://authority.test/directory"
authority = "{folder}/authority.pem"
challenges = "http-01"

[limits]
requests_per_connection = {requests_per_connection}
idle_timeout = "{idle_timeout_s}s"

{site}

[[site.route]]
path = "/origin/*"
[site.route.proxy]
upstreams = [{upstreams}]
{trusted}
connections = {connections}
request_buffering = "{buffering}"
response_timeout = "10s"

[[site.route]]
path = "/files/*"
files = {{ root = "{folder}/files" }}
# It has the number of an inode, and its length in HTTP/2 would depend on that.
response_headers = {{ ETag = false }}

[[site.route]]
path = "/cached/*"
cache = true
[site.route.proxy]
upstreams = "http://10.0.1.7:80"
response_timeout = "10s"

[[site.route]]
path = "/http2/*"
[site.route.proxy]
upstreams = ["h2c://10.0.1.3:80", "h2c://10.0.1.4:80"]
connections = {connections}
request_buffering = "{buffering}"
response_timeout = "10s"

[[site.route]]
path = "/fastcgi/*"
[site.route.fastcgi]
address = ["10.0.1.5:9000", "10.0.1.6:9000"]
response_timeout = "10s"
request_buffering = {buffers_requests}
{fastcgi_connections}

[cache]
path = "{folder}/cache"
size = "{cache_size}"
memory = "{cache_memory}"
"#,
            folder = folder.display(),
            version = self.head_comes_from,
            upstreams = match (self.has_name, self.has_tls) {
                (true, true) => r#""https://origin.test:443""#,
                (true, false) => r#""http://origin.test:80""#,
                (false, _) => r#""http://10.0.1.1:80", "http://10.0.1.2:80""#,
            },
            trusted = if self.has_name && self.has_tls {
                format!("trusted_certificates = \"{}/authority.pem\"", folder.display())
            } else {
                String::new()
            },
            fastcgi_connections =
                if *asks_applications { String::new() } else { format!("connections = {connections}") },
            buffering = if self.buffers_requests { "full" } else { "off" },
        )
    }

    /// Returns a text that is no configuration, and almost these settings.
    pub(crate) fn broken(&self, random: &mut fastrand::Rng, folder: &Path) -> String {
        let text = self.text(folder);
        match random.u32(..3) {
            0 => text.replace("cores = 1", "cores = \"many\""),
            1 => text.replace("[[site.route]]", "[[site.rote]]"),
            _ => text[..text.len() / 2].to_owned() + "\n= \"",
        }
    }
}
