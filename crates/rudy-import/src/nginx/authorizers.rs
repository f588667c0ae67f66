//! `auth_request`: authorizers over HTTP.

use super::Context;
use super::locations::Kind;
use super::route::Place;
use super::scope::{Scope, named};
use super::text::{Part, parts, substitute};
use crate::syntax::Directive;
use crate::toml::Value;

/// The location that an `auth_request` of the server asks.
fn authorizer<'a>(path: &str, server: &Scope<'a>) -> Option<&'a Directive> {
    named(server.own(), "location").find(|location| {
        matches!(Kind::of(location), Kind::Exact(own) | Kind::Prefix { path: own, .. } if own == path)
    })
}

/// Whether a location is only asked by `auth_request`.
pub(super) fn is_authorizer(location: &Directive, server: &Scope<'_>) -> bool {
    let (Kind::Exact(path) | Kind::Prefix { path, .. }) = Kind::of(location) else { return false };
    let is_internal = named(location.children(), "internal").next().is_some();
    is_internal && asks(server.own(), &path)
}

fn asks(block: &[Directive], path: &str) -> bool {
    block.iter().any(|directive| {
        directive.name == "auth_request" && directive.arg(0) == path || asks(directive.children(), path)
    })
}

pub(super) fn forward(
    request: &Directive,
    place: &Place<'_, '_>,
    context: &mut Context<'_>,
) -> Option<Value> {
    let location = authorizer(request.arg(0), place.server)?;
    let scope = place.server.inner(location.children());
    let pass = named(location.children(), "proxy_pass").next()?;
    if !named(location.children(), "proxy_set_header").all(is_sent) {
        return None;
    }
    let mut url = substitute(pass.arg(0), &scope);
    for query in ["${is_args}${args}", "?${args}", "?${query_string}", "${request_uri}"] {
        url.truncate(url.trim_end_matches(query).len());
    }
    if url.contains('$') || !url.starts_with("http") {
        return None;
    }
    if url.split_once("://").is_some_and(|(_, rest)| !rest.contains('/')) {
        url.push_str(request.arg(0));
    }
    let (scheme, rest) = url.split_once("://")?;
    let (authority, path) = rest.split_once('/')?;
    if let Some(upstream) = context.upstreams.get(authority).copied() {
        let server = super::upstreams::upstream(upstream, context).servers.into_iter().next()?;
        url = format!("{scheme}://{}/{path}", server.address);
    }
    let mut keys = vec![("url".to_owned(), url.into()), ("copy".to_owned(), copies(place, context))];
    if let Some(login) = login(place, context) {
        keys.push(("login".to_owned(), login.into()));
    }
    Some(Value::Table(keys))
}

/// Fields of the request to an authorizer, besides those of the client, which Rudy sends by itself or has no use for.
const SENT: [&str; 12] = [
    "content-length",
    "host",
    "x-real-ip",
    "connection",
    "upgrade",
    "early-data",
    "proxy",
    "cookie",
    "authorization",
    "x-auth-request-redirect",
    "accept-encoding",
    "x-scheme",
];

/// Whether Rudy sends a field to an authorizer. One that only nginx sends may decide about the access.
fn is_sent(field: &Directive) -> bool {
    let (name, value) = (field.arg(0).to_lowercase(), field.arg(1));
    let is_of_client =
        value.strip_prefix("$http_").is_some_and(|variable| variable.replace('_', "-") == name);
    let is_removed = value.is_empty();
    SENT.contains(&name.as_str())
        || ["x-original-", "x-forwarded-"].iter().any(|start| name.starts_with(start))
        || is_of_client
        || is_removed
}

/// The variables that responses of the authorizer set, with the names of the fields.
fn copied(place: &Place<'_, '_>) -> Vec<(String, String)> {
    let pair = |set: &Directive| {
        let field = set.arg(1).strip_prefix("$upstream_http_")?;
        Some((set.arg(0).trim_start_matches('$').to_owned(), super::text::field_name(field)))
    };
    let of_authorizers = named(place.server.own(), "location")
        .flat_map(|location| named(location.children(), "auth_request_set"));
    place.scope.everywhere("auth_request_set").chain(of_authorizers).filter_map(pair).collect()
}

/// Whether the value of a field is one that the authorizer sends.
pub(super) fn is_copied(value: &str, place: &Place<'_, '_>) -> bool {
    let copied = copied(place);
    copied.iter().any(|(variable, _)| value == format!("${{{variable}}}"))
}

fn copies(place: &Place<'_, '_>, context: &mut Context<'_>) -> Value {
    let copied = copied(place);
    place.scope.everywhere("auth_request_set").for_each(|set| context.ledger.translated(set));
    let fields = place.scope.all("proxy_set_header");
    let pairs = fields.iter().filter_map(|field| {
        let value = substitute(field.arg(1), place.scope);
        let (_, from) = copied.iter().find(|(variable, _)| value == format!("${{{variable}}}"))?;
        Some((from.clone(), field.arg(0).to_owned()))
    });
    let pairs: Vec<_> = pairs.collect();
    if pairs.iter().all(|(from, to)| from.eq_ignore_ascii_case(to)) {
        return Value::List(pairs.into_iter().map(|(_, to)| to.into()).collect());
    }
    Value::Table(pairs.into_iter().map(|(from, to)| (from, to.into())).collect())
}

/// The login page: where `error_page 401` redirects to.
fn login(place: &Place<'_, '_>, context: &mut Context<'_>) -> Option<String> {
    let page = place.scope.all("error_page").into_iter().find(|page| page.arg(0) == "401")?;
    let to = page.args.last()?;
    let open = "write `login` in `forward_auth`: where browsers without a login go";
    let url = match authorizer_page(to, place.server) {
        Some((location, ret, scope)) => {
            context.ledger.all_translated(location.children());
            context.ledger.translated(location);
            ret.args.last().map(|url| substitute(url, &scope))?
        }
        None => substitute(to, place.scope),
    };
    let escaped =
        ["${target_url}", "${escaped_request_uri}"].iter().fold(url, |url, name| url.replace(name, "{url}"));
    let all = ["${scheme}://${http_host}${request_uri}", "${scheme}://${host}${request_uri}"];
    let url =
        all.iter().fold(escaped, |url, text| url.replace(text, "{url}")).replace("${request_uri}", "{uri}");
    let origin =
        ["https://${http_host}/", "https://${host}/", "${scheme}://${http_host}/", "${scheme}://${host}/"];
    let url = match origin.iter().find_map(|origin| url.strip_prefix(origin)) {
        Some(path) => format!("/{path}"),
        None => url,
    };
    let has_variable = parts(&url).iter().any(|part| matches!(part, Part::Variable(_)));
    if has_variable || !(url.starts_with("http") || url.starts_with('/')) {
        context.ledger.open(page, open);
        return None;
    }
    context.ledger.translated(page);
    Some(url)
}

fn authorizer_page<'a>(name: &str, server: &Scope<'a>) -> Option<(&'a Directive, &'a Directive, Scope<'a>)> {
    let location = named(server.own(), "location").find(|location| location.arg(0) == name)?;
    let ret = named(location.children(), "return").next()?;
    Some((location, ret, server.inner(location.children())))
}
