//! `upstream` blocks: servers, and how one of them is chosen.

use super::Context;
use super::scope::named;
use crate::syntax::Directive;
use crate::toml::Value;

/// The servers of an upstream, and the keys of `proxy` beside them.
pub(super) struct Upstream {
    pub(super) servers: Vec<Server>,
    pub(super) keys: Vec<(String, Value)>,
}

pub(super) struct Server {
    pub(super) address: String,
    weight: u64,
    backup: bool,
}

impl Server {
    pub(super) fn one(address: &str) -> Self {
        Self { address: address.to_owned(), weight: 1, backup: false }
    }

    /// The value in `upstreams`.
    pub(super) fn value(&self, scheme: &str) -> Value {
        let url = if self.address.starts_with("unix:") {
            self.address.clone()
        } else {
            format!("{scheme}://{}", self.address)
        };
        if self.weight == 1 && !self.backup {
            return url.into();
        }
        let mut keys = vec![("url", url.into())];
        if self.weight != 1 {
            keys.push(("weight", self.weight.into()));
        }
        if self.backup {
            keys.push(("backup", true.into()));
        }
        Value::table(keys)
    }
}

/// Translates an `upstream` block.
pub(super) fn upstream(block: &Directive, context: &mut Context<'_>) -> Upstream {
    context.ledger.translated(block);
    let mut keys = Vec::new();
    let mut servers = Vec::new();
    for server in named(block.children(), "server") {
        servers.extend(self::server(server, &mut keys, context));
    }
    let is_choice = |directive: &&Directive| CHOICES.contains(&directive.name.as_str());
    let choice = block.children().iter().find(is_choice).and_then(|directive| {
        let choice = choice(directive);
        match choice {
            Some(_) => context.ledger.translated(directive),
            None => context
                .ledger
                .open(directive, "write `choice` in `proxy` (docs/reverse-proxy.md#load-balancing)"),
        }
        choice
    });
    // nginx takes turns; `least-busy` is the default of Rudy.
    let choice = choice.unwrap_or_else(|| "round-robin".to_owned());
    if servers.len() > 1 && choice != "least-busy" {
        keys.insert(0, ("choice".to_owned(), choice.into()));
    }
    Upstream { servers, keys }
}

/// Directives that say how a server is chosen.
const CHOICES: [&str; 5] = ["least_conn", "least_time", "random", "ip_hash", "hash"];

fn choice(directive: &Directive) -> Option<String> {
    let hash = |variable: &str| {
        let name = variable.trim_start_matches('$').trim_matches(['{', '}']);
        match name {
            "remote_addr" | "binary_remote_addr" => Some("hash:address".to_owned()),
            "request_uri" | "uri" => Some("hash:path".to_owned()),
            _ => match (name.strip_prefix("cookie_"), name.strip_prefix("http_")) {
                (Some(cookie), _) => Some(format!("hash:cookie:{cookie}")),
                (_, Some(field)) => Some(format!("hash:field:{}", super::text::field_name(field))),
                _ => None,
            },
        }
    };
    match directive.name.as_str() {
        "least_conn" | "least_time" | "random" => Some("least-busy".to_owned()),
        "ip_hash" => Some("hash:address".to_owned()),
        "hash" => hash(directive.arg(0)),
        _ => None,
    }
}

fn server(
    directive: &Directive,
    keys: &mut Vec<(String, Value)>,
    context: &mut Context<'_>,
) -> Option<Server> {
    context.ledger.translated(directive);
    let mut server = Server::one(directive.arg(0));
    for option in directive.args.iter().skip(1) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let number = value.parse::<u64>().ok();
        match (name, number) {
            ("down", _) => return None,
            ("backup", _) => server.backup = true,
            ("weight", Some(weight)) => server.weight = weight.clamp(1, 1000),
            ("max_fails", Some(failures)) if failures > 1 => {
                let ejection = Value::table([("failures", failures.min(1000).into())]);
                set(keys, "ejection", ejection);
            }
            ("max_fails", Some(0)) => {
                context.ledger.different(
                    directive,
                    "an upstream that fails gets no requests for a second: see `ejection`",
                );
            }
            ("max_conns", Some(connections)) if connections > 0 => {
                set(keys, "connections", connections.min(65535).into());
            }
            ("slow_start", _) => {
                set(keys, "slow_start", super::proxy::time(value).unwrap_or_default().into());
            }
            ("fail_timeout", _) => context.ledger.different(
                directive,
                "an upstream that fails is tried again after a second, and then less often",
            ),
            ("max_fails" | "resolve" | "max_conns", _) => {}
            _ => context.ledger.open(
                directive,
                format!("`{name}` has no translation: see docs/reverse-proxy.md#load-balancing"),
            ),
        }
    }
    if server.address.contains('$') {
        context.ledger.open(directive, "write the address of the upstream");
        return None;
    }
    Some(server)
}

fn set(keys: &mut Vec<(String, Value)>, key: &str, value: Value) {
    if !keys.iter().any(|(name, _)| name == key) {
        keys.push((key.to_owned(), value));
    }
}
