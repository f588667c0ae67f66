//! What responds: files, PHP, other servers.

use crate::chain::Step;
use crate::guard::Guard;
use crate::syntax::Directive;
use crate::toml::{Table, Value};

/// What is known about the content of a site.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    pub(super) root: Option<String>,
    /// A folder in it that all paths lead to.
    pub(super) subfolder: Option<String>,
    pub(super) index: Vec<String>,
    pub(super) browse: bool,
    /// The script for paths without a file, with its query.
    pub(super) front: Option<String>,
    /// Whether files come before the rules that follow.
    pub(super) files_first: bool,
    /// The address of php-fpm, if the configuration has it.
    pub(super) php: Option<String>,
    /// Whether scripts run in Apache itself, as far as it shows.
    pub(super) has_scripts: bool,
    pub(super) follow_symlinks: bool,
}

impl Content {
    /// The last handlers of a site.
    pub(super) fn steps(&self) -> Vec<Step> {
        let Some(root) = &self.root else {
            let mut table = Table::default();
            table.comment("The folder is not in the imported files.");
            table.set("respond", 404);
            return vec![Step::Handler(Guard::default(), table)];
        };
        let root = match &self.subfolder {
            Some(folder) => format!("{}/{folder}", root.trim_end_matches('/')),
            None => root.clone(),
        };
        let front = self.front.as_deref();
        let is_script =
            |text: &str| text.split('?').next().is_some_and(|path| path.rsplit('.').next() == Some("php"));
        let runs_php = self.php.is_some() || self.has_scripts || front.is_some_and(is_script);
        if !runs_php {
            return vec![self.files(&root, front.map(str::to_owned))];
        }
        let address = self.php.clone().unwrap_or_else(|| "unix:/run/php/php-fpm.sock".to_owned());
        let comment =
            (self.php.is_none()).then_some("Apache runs PHP itself; Rudy needs php-fpm: write its address.");
        let is_php_first = self.index.first().is_none_or(|index| index == "index.php");
        if front == Some("index.php") && is_php_first {
            let mut table = Table::default();
            if let Some(comment) = comment {
                table.comment(comment);
            }
            table.set("php", Value::table([("root", root.into()), ("address", address.into())]));
            return vec![Step::Handler(Guard::default(), table)];
        }
        // Without a script for all paths, or with a query for it: the scripts, then the files.
        let mut scripts = Table::default();
        if let Some(comment) = comment {
            scripts.comment(comment);
        }
        scripts.set("fastcgi", Value::table([("address", address.into()), ("root", root.as_str().into())]));
        let target =
            front.map(|front| if front.contains('?') { format!("/{front}") } else { front.to_owned() });
        vec![Step::Handler(Guard::paths(["*.php".to_owned()]), scripts), self.files(&root, target)]
    }

    fn files(&self, root: &str, target: Option<String>) -> Step {
        let mut keys: Vec<(String, Value)> = vec![("root".to_owned(), root.into())];
        if !self.index.is_empty() && self.index != ["index.html"] {
            keys.push(("index".to_owned(), Value::texts(self.index.iter().cloned())));
        }
        if self.browse {
            keys.push(("browse".to_owned(), true.into()));
        }
        if let Some(target) = target {
            keys.push(("try_files".to_owned(), Value::texts(["{path}".to_owned(), target])));
        }
        if self.follow_symlinks {
            keys.push(("follow_symlinks".to_owned(), true.into()));
        }
        let mut table = Table::default();
        table.set("files", if keys.len() == 1 { keys.remove(0).1 } else { Value::Table(keys) });
        Step::Handler(Guard::default(), table)
    }
}

/// The patterns for a path and all below it. `/a/*` is the same, but there files are looked up without `/a`.
pub(super) fn folder_patterns(path: &str) -> Vec<String> {
    let folder = path.trim_end_matches('/');
    if folder.is_empty() {
        vec!["/*".to_owned()]
    } else if !crate::regexes::is_plain(folder) {
        vec![format!("regex:^{}(/|$)", crate::regexes::escaped(folder))]
    } else if path.ends_with('/') {
        vec![format!("{folder}/**")]
    } else {
        vec![folder.to_owned(), format!("{folder}/**")]
    }
}

/// `Alias`: a folder at a path.
pub(super) fn alias(directive: &Directive) -> Option<Step> {
    let (path, folder) = (directive.arg(0).trim_end_matches('/'), directive.arg(1).trim_end_matches('/'));
    if path.is_empty() || !crate::regexes::is_plain(path) || folder.is_empty() {
        return None;
    }
    let mut table = Table::default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_file = name.contains('.') && folder.ends_with(name);
    if is_file {
        let (root, file) = folder.rsplit_once('/')?;
        let keys = [("root", Value::from(root)), ("try_files", file.into())];
        table.set("files", Value::table(keys));
        return Some(Step::Handler(Guard::paths([path.to_owned()]), table));
    }
    table.set("files", folder);
    Some(Step::Handler(Guard::paths([format!("{path}/*")]), table))
}

/// Where `ProxyPass` leads to.
#[derive(Debug, Default)]
pub(super) struct Proxying {
    pub(super) keeps_host: bool,
    pub(super) reverses: bool,
}

/// `ProxyPass path url`. An error is what to do instead.
pub(super) fn proxy_pass(
    path: &str,
    url: &str,
    proxying: &Proxying,
    balancers: &[(String, Vec<String>)],
) -> Result<Step, String> {
    let guard = if path == "/" {
        Guard::default()
    } else {
        Guard::paths([format!("{}/*", path.trim_end_matches('/'))])
    };
    let mut table = Table::default();
    let (scheme, rest) = match url.split_once('|') {
        // `unix:/run/app.sock|http://localhost/`
        Some((socket, _)) if socket.starts_with("unix:") && !url.contains("|fcgi:") => ("unix", socket),
        _ => url.split_once("://").ok_or("write the URL of the upstream")?,
    };
    let (authority, target) = match rest.find('/') {
        _ if scheme == "unix" => (rest, "/"),
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let upstreams = match scheme {
        "unix" => vec![rest.to_owned()],
        "http" | "https" => vec![format!("{scheme}://{authority}")],
        "ws" => vec![format!("http://{authority}")],
        "wss" => vec![format!("https://{authority}")],
        "h2c" => vec![format!("h2c://{authority}")],
        "uwsgi" | "scgi" => {
            table.set(scheme, authority);
            return Ok(Step::Handler(guard, table));
        }
        "balancer" => {
            let found = balancers.iter().find(|(name, _)| name == authority);
            found
                .map(|(_, members)| members.clone())
                .filter(|all| !all.is_empty())
                .ok_or("write the URLs of the balancer")?
        }
        _ => return Err(format!("Rudy does not speak {scheme} there: write `proxy` or `fastcgi`")),
    };
    let is_url =
        |url: &String| url.chars().all(|letter| letter.is_ascii_alphanumeric() || "-._:/[]".contains(letter));
    if !upstreams.iter().all(is_url) {
        return Err("write the URL of the upstream: it has a variable".to_owned());
    }
    let mut keys = vec![("upstreams".to_owned(), Value::texts(upstreams))];
    let (from, to) = (path.trim_end_matches('/'), target.trim_end_matches('/'));
    if from != to && !from.is_empty() {
        keys.push(("strip_prefix".to_owned(), true.into()));
    }
    if from != to && !to.is_empty() {
        keys.push(("add_prefix".to_owned(), to.into()));
    }
    if proxying.reverses {
        keys.push(("rewrite_location".to_owned(), true.into()));
    }
    if !proxying.keeps_host && scheme != "unix" {
        keys.push(("host".to_owned(), "upstream".into()));
    }
    table.set("proxy", if keys.len() == 1 { keys.remove(0).1 } else { Value::Table(keys) });
    Ok(Step::Handler(guard, table))
}

/// The address of php-fpm in `proxy:unix:/run/php-fpm.sock|fcgi://localhost` or `fcgi://127.0.0.1:9000/srv/www/$1`.
pub(super) fn php_address(text: &str) -> Option<String> {
    let text = text.strip_prefix("proxy:").unwrap_or(text);
    if let Some((socket, rest)) = text.split_once('|') {
        return (socket.starts_with("unix:/") && rest.starts_with("fcgi:")).then(|| socket.to_owned());
    }
    let authority = text.strip_prefix("fcgi://")?.split('/').next()?;
    let address = if authority.contains(':') { authority.to_owned() } else { format!("{authority}:9000") };
    (!address.contains(['$', '%', '{'])).then_some(address)
}
