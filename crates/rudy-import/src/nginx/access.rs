//! What closes a location: `allow`, `deny`, `auth_basic`, `satisfy`, `internal`, `limit_except`, and the effect of `auth_request`.

use super::Context;
use super::route::Place;
use super::scope::{Scope, named};
use super::text::substitute;
use crate::toml::{Table, Value};

/// Whether a block has a rule that closes it.
pub(super) fn closes(scope: &Scope<'_>) -> bool {
    const CLOSING: [&str; 5] = ["deny", "auth_basic", "auth_request", "satisfy", "internal"];
    scope.own().iter().any(|directive| {
        CLOSING.contains(&directive.name.as_str()) || super::conditions::is_rejection(directive)
    })
}

/// The rules of a location.
#[derive(Debug, Default)]
struct Rules {
    /// The addresses: whether they are allowed, and what they are.
    clients: Vec<(bool, String)>,
    basic_auth: Option<Value>,
    forward_auth: Option<Value>,
    /// A rule that Rudy cannot have.
    closed: Option<String>,
}

/// Adds the rules of a location to its routes.
pub(super) fn apply(routes: Vec<Table>, place: &Place<'_, '_>, context: &mut Context<'_>) -> Vec<Table> {
    let rules = rules(place, context);
    let any = place.scope.find("satisfy").filter(|satisfy| satisfy.arg(0) == "any");
    context.ledger.all_translated(place.scope.find("satisfy"));
    let has_login = rules.basic_auth.is_some() || rules.forward_auth.is_some();
    let is_any = any.is_some() && has_login && !rules.clients.is_empty();
    let internal = named(place.scope.own(), "internal").next();
    context.ledger.all_translated(internal);
    let mut result = Vec::new();
    for mut route in routes {
        if route.is_done {
            result.push(route);
            continue;
        }
        if internal.is_some() && route.get("rewrite").is_none() {
            route.set("internal", true);
        }
        if let Some(why) = &rules.closed {
            close(&mut route, why);
        } else if is_any {
            result.extend(clients_alone(&route, &rules, context));
            logins(&mut route, &rules);
        } else {
            addresses(&mut route, &rules.clients);
            logins(&mut route, &rules);
        }
        methods(&mut route, place, context);
        result.push(route);
    }
    result
}

/// Closes a route: what it would have permitted is not known.
fn close(route: &mut Table, why: &str) {
    for handler in ["files", "proxy", "fastcgi", "redirect", "rewrite", "status"] {
        route.remove(handler);
    }
    route.comment(format!("Closed: {why}"));
    route.set("respond", 403);
}

fn rules(place: &Place<'_, '_>, context: &mut Context<'_>) -> Rules {
    let mut rules = Rules::default();
    let scope = place.scope;
    for directive in scope.all_of(["allow", "deny"]) {
        let is_allow = directive.name == "allow";
        match client(&substitute(directive.arg(0), scope)) {
            Some(client) => {
                context.ledger.translated(directive);
                rules.clients.push((is_allow, client));
            }
            None if is_allow => {
                context.ledger.different(directive, "it is no address, so these clients stay closed out");
            }
            None => {
                context.ledger.open(directive, "it is no address, so the location is closed: write `deny`");
                rules.closed = Some(directive.summary());
            }
        }
    }
    basic(&mut rules, scope, context);
    if let Some(request) = scope.find("auth_request").filter(|request| request.arg(0) != "off") {
        if let Some(value) = super::authorizers::forward(request, place, context) {
            context.ledger.translated(request);
            rules.forward_auth = Some(value);
        } else {
            context.ledger.open(
                request,
                "its authorizer is not known, or gets fields that Rudy does not send, so the location is closed: write `forward_auth`",
            );
            rules.closed = Some(request.summary());
        }
    } else if let Some(off) = scope.find("auth_request") {
        context.ledger.translated(off);
    }
    rules
}

fn client(text: &str) -> Option<String> {
    if text == "all" {
        return Some("anyone".to_owned());
    }
    let (address, prefix) = text.split_once('/').unwrap_or((text, "0"));
    let is_network = address.parse::<std::net::IpAddr>().is_ok() && prefix.parse::<u8>().is_ok();
    is_network.then(|| text.to_owned())
}

fn basic(rules: &mut Rules, scope: &Scope<'_>, context: &mut Context<'_>) {
    let Some(basic) = scope.find("auth_basic") else { return };
    context.ledger.translated(basic);
    if basic.arg(0) == "off" {
        return;
    }
    let file = scope.find("auth_basic_user_file").map(|file| {
        context.ledger.translated(file);
        substitute(file.arg(0), scope)
    });
    let realm = substitute(basic.arg(0), scope);
    if let Some(file) = file.filter(|file| !file.contains('$')) {
        let mut keys = vec![("file", file.into())];
        if realm.is_ascii() && !realm.contains('$') {
            keys.push(("realm", realm.into()));
        }
        rules.basic_auth = Some(Value::table(keys));
    } else {
        context.ledger.open(basic, "its file is not known, so the location is closed: write `basic_auth`");
        rules.closed = Some(basic.summary());
    }
}

/// The rules for addresses, in their order. Without one that matches, nginx allows the request.
fn addresses(route: &mut Table, clients: &[(bool, String)]) {
    let end = clients.iter().position(|(_, client)| client == "anyone").unwrap_or(clients.len());
    let last = clients.get(end).is_none_or(|(is_allow, _)| *is_allow);
    let listed = &clients[..end];
    let of = |is_allow: bool| {
        Value::texts(listed.iter().filter(|(allow, _)| *allow == is_allow).map(|(_, client)| client.clone()))
    };
    match (listed, last) {
        ([], true) => {}
        ([], false) => close(route, "deny all"),
        _ if !last && listed.iter().all(|(is_allow, _)| *is_allow) => route.set("allow", of(true)),
        _ if last && listed.iter().all(|(is_allow, _)| !is_allow) => route.set("deny", of(false)),
        _ => {
            let rule = |is_allow: bool, client: &str| {
                Value::table([(if is_allow { "allow" } else { "deny" }, Value::from(client))])
            };
            let rules = listed.iter().map(|(is_allow, client)| rule(*is_allow, client));
            route.set("access", Value::List(rules.chain([rule(last, "anyone")]).collect()));
        }
    }
}

fn logins(route: &mut Table, rules: &Rules) {
    if route.get("respond").is_some() && route.get("files").is_none() && rules.closed.is_some() {
        return;
    }
    if let Some(basic) = &rules.basic_auth {
        route.set("basic_auth", basic.clone());
    }
    if let Some(forward) = &rules.forward_auth {
        route.set("forward_auth", forward.clone());
    }
}

/// `satisfy any`: a route before, without a login, for the addresses that are allowed.
fn clients_alone(route: &Table, rules: &Rules, context: &mut Context<'_>) -> Option<Table> {
    let end = rules.clients.iter().position(|(_, client)| client == "anyone").unwrap_or(rules.clients.len());
    let listed = &rules.clients[..end];
    let is_list = listed.iter().all(|(is_allow, _)| *is_allow) && !listed.is_empty();
    let can_have = route.get("when").is_none();
    if !is_list || !can_have {
        context.joined.push("a location with `satisfy any` has the login only".to_owned());
        return None;
    }
    let mut alone = route.clone();
    let clients = Value::texts(listed.iter().map(|(_, client)| client.clone()));
    alone.set("when", Value::table([("clients", clients)]));
    alone.comment("satisfy any: these clients need no login.");
    Some(alone)
}

/// `limit_except`: the methods that need no permission. All others stay closed.
fn methods(route: &mut Table, place: &Place<'_, '_>, context: &mut Context<'_>) {
    let Some(limit) = named(place.scope.own(), "limit_except").next() else { return };
    let is_closed = limit.children().iter().any(|rule| rule.name == "deny" && rule.arg(0) == "all");
    if !is_closed || limit.children().len() > 1 {
        context.ledger.open(limit, "the other methods are closed for all: write `access`");
    } else {
        context.ledger.translated(limit);
    }
    context.ledger.all_translated(limit.children());
    if route.get("respond").is_some() {
        return;
    }
    let mut methods = limit.args.clone();
    if methods.iter().any(|method| method == "GET") && !methods.iter().any(|method| method == "HEAD") {
        methods.push("HEAD".to_owned());
    }
    let others = Value::table([("methods", Value::texts(methods))]);
    let mut rules = vec![Value::table([("deny", "anyone".into()), ("not", others)])];
    for key in ["deny", "allow"] {
        rules.extend(route.remove(key).map(|clients| Value::table([(key, clients)])));
    }
    if let Some(Value::List(own)) = route.remove("access") {
        rules.extend(own);
    }
    route.set("access", Value::List(rules));
}
