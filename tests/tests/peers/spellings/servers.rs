//! Four servers with equivalent configurations for the test site, in front of one php-fpm.

use rudy_tests::prelude::*;
use rudy_tests::spellings::{HOST, site};

use crate::fastcgi::apps::{App, Program};
use crate::fastcgi_app::web_server::{WebServer, write};

/// The timeout for the rest of a request: spellings with missing bytes end by it.
const WAIT_SECONDS: u32 = 2;

/// The connections of Rudy to php-fpm. Each idle one occupies a child, and the other servers need some too.
const CONNECTIONS: u32 = 4;

/// The servers and the test site.
pub(super) struct Servers {
    pub(super) rudy: Server,
    nginx: WebServer,
    lighttpd: WebServer,
    apache: WebServer,
    /// Held as long as the servers.
    _app: App,
    _folder: Folder,
}

impl Servers {
    /// Starts the servers. Returns `None` and skips the test if a program is missing.
    pub(super) fn start() -> Option<Self> {
        let folder = Folder::new();
        folder.set_mode(".", 0o755);
        site::write(folder.path()).expect("a temp folder can be written");
        let app = App::start(Program::PhpFpm { children: 2 * CONNECTIONS })?;
        let socket = app.socket();
        Some(Self {
            rudy: rudy(folder.path(), &socket),
            nginx: nginx(folder.path(), &socket)?,
            lighttpd: lighttpd(folder.path(), &socket)?,
            apache: apache(folder.path(), &socket)?,
            _app: app,
            _folder: folder,
        })
    }

    /// Returns names and addresses, Rudy first.
    pub(super) fn addresses(&self) -> [(&'static str, SocketAddr); 4] {
        [
            ("Rudy", self.rudy.address()),
            ("nginx", self.nginx.address()),
            ("lighttpd", self.lighttpd.address()),
            ("Apache", self.apache.address()),
        ]
    }
}

fn rudy(folder: &Path, socket: &Path) -> Server {
    let (folder, socket) = (folder.display(), socket.display());
    Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n\
         limits = {{ head_timeout = \"{WAIT_SECONDS}s\", first_request_timeout = \"{WAIT_SECONDS}s\", \
         idle_timeout = \"{WAIT_SECONDS}s\", rate_grace = \"{WAIT_SECONDS}s\" }}\n\
         [[site]]\nhosts = [\"{HOST}\"]\n\
         [[site.route]]\npath = \"/secret/*\"\nrespond = {{ status = 403 }}\n\
         [[site.route]]\npath = \"/*\"\n\
         php = {{ root = \"{folder}/site\", address = \"unix:{socket}\", connections = {CONNECTIONS} }}\n\
         [[site]]\nroot = \"{folder}/other\"\n"
    ))
}

fn nginx(folder: &Path, socket: &Path) -> Option<WebServer> {
    let (site, socket) = (folder.display(), socket.display());
    WebServer::nginx_with(|address| {
        format!(
            r"include /etc/nginx/mime.types;
            client_header_timeout {WAIT_SECONDS}; client_body_timeout {WAIT_SECONDS}; keepalive_timeout {WAIT_SECONDS};
            server {{ listen {address} default_server; root {site}/other; }}
            server {{
                listen {address}; server_name {HOST}; root {site}/site;
                location = /secret {{ return 403; }}
                location ^~ /secret/ {{ return 403; }}
                location ~ ^.+\.php(/|$) {{
                    fastcgi_split_path_info ^(.+?\.php)(/.*)$;
                    if (!-f $document_root$fastcgi_script_name) {{ return 404; }}
                    include /etc/nginx/fastcgi_params;
                    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
                    fastcgi_param PATH_INFO $fastcgi_path_info;
                    fastcgi_pass unix:{socket};
                }}
            }}"
        )
    })
}

fn lighttpd(folder: &Path, socket: &Path) -> Option<WebServer> {
    let lighttpd = program("lighttpd")?;
    let (site, socket) = (folder.display(), socket.display());
    Some(WebServer::start(|here, address| {
        let configuration = format!(
            r#"server.modules = ("mod_access", "mod_fastcgi")
            server.bind = "{}"
            server.port = {}
            server.errorlog = "{}/error.log"
            server.document-root = "{site}/other"
            server.max-read-idle = {WAIT_SECONDS}
            server.max-keep-alive-idle = {WAIT_SECONDS}
            index-file.names = ("index.html")
            static-file.exclude-extensions = (".php")
            mimetype.assign = ("" => "text/plain")
            $HTTP["host"] =~ "^{HOST}(:[0-9]*)?$" {{
                server.document-root = "{site}/site"
                $HTTP["url"] =~ "^/secret(/|$)" {{ url.access-deny = ("") }}
                fastcgi.server = (".php" => ((
                    "socket" => "{socket}", "check-local" => "enable", "broken-scriptfilename" => "enable"
                )))
            }}
            "#,
            address.ip(),
            address.port(),
            here.display(),
        );
        let mut command = Command::new(&lighttpd);
        command.arg("-D").arg("-f").arg(write(here, &configuration));
        command
    }))
}

fn apache(folder: &Path, socket: &Path) -> Option<WebServer> {
    let modules = ["authz_host", "dir", "mime", "proxy", "proxy_fcgi", "reqtimeout", "rewrite"];
    let (site, socket) = (folder.display().to_string(), socket.display().to_string());
    WebServer::apache(&modules, |here| {
        let types = here.join("mime.types");
        fs::write(types, "text/plain txt\n").expect("a temp folder can be written");
        format!(
            r#"TypesConfig mime.types
            LogLevel crit
            Timeout {WAIT_SECONDS}
            KeepAliveTimeout {WAIT_SECONDS}
            RequestReadTimeout header={WAIT_SECONDS} body={WAIT_SECONDS}
            <Directory {site}>
                Require all granted
                DirectoryIndex index.html
            </Directory>
            <VirtualHost *>
                ServerName default.invalid
                DocumentRoot {site}/other
            </VirtualHost>
            <VirtualHost *>
                ServerName {HOST}
                DocumentRoot {site}/site
                AllowEncodedSlashes NoDecode
                <Location /secret>
                    Require all denied
                </Location>
                <FilesMatch "\.php$">
                    <If "-f %{{SCRIPT_FILENAME}}">
                        SetHandler "proxy:unix:{socket}|fcgi://localhost"
                    </If>
                </FilesMatch>
            </VirtualHost>"#
        )
    })
}
