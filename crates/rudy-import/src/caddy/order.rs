//! The order in which Caddy runs directives, whatever their order in the file.

use super::matchers::Named;
use crate::syntax::Directive;

/// The order of version 2.10.
const ORDER: &[&str] = &[
    "tracing",
    "map",
    "vars",
    "fs",
    "root",
    "log_append",
    "log_skip",
    "skip_log",
    "log_name",
    "header",
    "copy_response_headers",
    "request_body",
    "redir",
    "method",
    "rewrite",
    "uri",
    "try_files",
    "basic_auth",
    "basicauth",
    "forward_auth",
    "request_header",
    "encode",
    "push",
    "intercept",
    "templates",
    "invoke",
    "handle",
    "handle_path",
    "route",
    "abort",
    "error",
    "respond",
    "metrics",
    "reverse_proxy",
    "php_fastcgi",
    "file_server",
    "acme_server",
];

/// The order with the changes of `order` in the global options.
#[derive(Debug, Clone)]
pub(super) struct Order(Vec<String>);

impl Order {
    pub(super) fn new<'a>(changes: impl Iterator<Item = &'a Directive>) -> Self {
        let mut order: Vec<String> = ORDER.iter().map(|name| (*name).to_owned()).collect();
        for change in changes {
            let name = change.arg(0).to_owned();
            order.retain(|known| *known != name);
            let other = order.iter().position(|known| *known == change.arg(2));
            let at = match (change.arg(1), other) {
                ("first", _) => 0,
                ("before", Some(at)) => at,
                ("after", Some(at)) => at + 1,
                _ => order.len(),
            };
            order.insert(at, name);
        }
        Self(order)
    }

    /// The directives of a block in their order: of several with one name, that with the longest path first, and those without a
    /// matcher last. `route` keeps the order of the file.
    pub(super) fn sorted<'a>(&self, block: &'a [Directive], named: &Named<'_>) -> Vec<&'a Directive> {
        let rank = |directive: &Directive| {
            // `handle`, `handle_path` and `route` have a position each, but blocks of one kind exclude each other.
            let name = if directive.name == "handle_path" { "handle" } else { &directive.name };
            self.0.iter().position(|known| known == name).unwrap_or(self.0.len())
        };
        let mut sorted: Vec<&Directive> = block.iter().collect();
        sorted.sort_by_key(|directive| {
            let (specific, length) = specificity(directive, named);
            let reversed = ["root", "vars"].contains(&directive.name.as_str());
            let length = if reversed { length } else { usize::MAX - length };
            (rank(directive), if reversed { !specific } else { specific }, length)
        });
        sorted
    }
}

/// Whether a directive has no matcher, and the length of the path of one.
fn specificity(directive: &Directive, named: &Named<'_>) -> (bool, usize) {
    let first = directive.arg(0);
    if first.starts_with('/') {
        return (false, first.trim_end_matches('*').len() * 2 + usize::from(!first.ends_with('*')));
    }
    let Some(definition) = named.get(first) else { return (true, 0) };
    let path = if definition.arg(0) == "path" {
        (definition.args.len() == 2).then(|| definition.arg(1))
    } else {
        let mut paths = definition.children().iter().filter(|condition| condition.name == "path");
        let path = paths.next().filter(|condition| condition.args.len() == 1);
        path.map(|condition| condition.arg(0))
    };
    (false, path.map_or(0, |path| path.trim_end_matches('*').len() * 2 + usize::from(!path.ends_with('*'))))
}
