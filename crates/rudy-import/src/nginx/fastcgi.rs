//! `fastcgi_pass`.

use super::Context;
use super::locations::Kind;
use super::messages;
use super::route::{Place, unavailable};
use super::text::{Part, Use, parts, substitute, translate};
use super::upstreams::upstream;
use crate::toml::{Table, Value};

/// Variables that Rudy sets itself.
const STANDARD: &str = "SCRIPT_FILENAME SCRIPT_NAME PATH_INFO PATH_TRANSLATED QUERY_STRING REQUEST_METHOD CONTENT_TYPE \
    CONTENT_LENGTH REQUEST_URI DOCUMENT_URI DOCUMENT_ROOT SERVER_PROTOCOL REQUEST_SCHEME GATEWAY_INTERFACE SERVER_SOFTWARE \
    REMOTE_ADDR REMOTE_PORT REMOTE_USER SERVER_ADDR SERVER_PORT SERVER_NAME REDIRECT_STATUS HTTPS HTTP_HOST HTTP_PROXY";

/// The route of a location with `fastcgi_pass`.
pub(super) fn route(
    pass: &crate::syntax::Directive,
    place: &Place<'_, '_>,
    context: &mut Context<'_>,
) -> Table {
    let scope = place.scope;
    context.ledger.translated(pass);
    let address = substitute(pass.arg(0), scope);
    let addresses: Vec<String> = match context.upstreams.get(address.as_str()).copied() {
        Some(block) => upstream(block, context).servers.into_iter().map(|server| server.address).collect(),
        None => vec![address],
    };
    if addresses.is_empty() || addresses.iter().any(|address| address.contains('$')) {
        context.ledger.open(pass, "write the address of the application");
        return unavailable(place, &format!("{}: its address is not known.", pass.summary()));
    }
    let mut route = place.matched.route();
    let mut keys = vec![("address".to_owned(), Value::texts(addresses.into_iter().map(with_port)))];
    script(&mut keys, place, context);
    parameters(&mut keys, &mut route, place, context);
    for (name, key) in
        [("fastcgi_connect_timeout", "connect_timeout"), ("fastcgi_read_timeout", "response_timeout")]
    {
        let Some(directive) = scope.find(name) else { continue };
        if let Some(time) = super::proxy::timeout(directive.arg(0)) {
            context.ledger.translated(directive);
            keys.push((key.to_owned(), time.into()));
        } else {
            context.ledger.open(directive, "write the time");
        }
    }
    if let Some((file, size)) = scope
        .find("fastcgi_max_temp_file_size")
        .and_then(|file| Some((file, super::proxy::size(file.arg(0))?)))
    {
        context.ledger.translated(file);
        keys.push(("response_buffer".to_owned(), size.into()));
    }
    if let Some(buffering) = scope.find("fastcgi_request_buffering") {
        context.ledger.translated(buffering);
        if buffering.arg(0) == "off" {
            keys.push(("request_buffering".to_owned(), false.into()));
        }
    }
    route.set("fastcgi", Value::Table(keys));
    messages::hidden_fields(&mut route, "fastcgi_hide_header", scope, context);
    super::caching::apply(&mut route, "fastcgi", scope, context);
    route
}

fn with_port(address: String) -> String {
    let is_unix = address.starts_with("unix:");
    if is_unix || address.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok()) {
        address
    } else {
        format!("{address}:9000")
    }
}

/// The folder of the scripts. A location for scripts runs only those that exist, as `try_files $uri =404` does.
fn script(keys: &mut Vec<(String, Value)>, place: &Place<'_, '_>, context: &mut Context<'_>) {
    let scope = place.scope;
    let root = scope.find("root").map(|root| {
        context.ledger.translated(root);
        substitute(root.arg(0), scope)
    });
    let filename = scope.all("fastcgi_param").into_iter().find(|param| param.arg(0) == "SCRIPT_FILENAME");
    let filename = filename.map(|param| substitute(param.arg(1), scope));
    let is_php = match &place.kind {
        Kind::Regex { expression, .. } => expression.contains("php"),
        Kind::Exact(path) => path.rsplit('.').next() == Some("php"),
        _ => false,
    };
    let fixed = filename.as_deref().and_then(|file| {
        let is_fixed = !parts(&file.replace("${document_root}", ""))
            .iter()
            .any(|part| matches!(part, Part::Variable(_)));
        is_fixed.then(|| file.replace("${document_root}", root.as_deref().unwrap_or_default()))
    });
    if let Some(file) = fixed.filter(|file| file.starts_with('/')) {
        keys.push(("params".to_owned(), Value::table([("SCRIPT_FILENAME", file.into())])));
        return;
    }
    let named = filename.as_deref().and_then(|file| file.strip_suffix("${fastcgi_script_name}"));
    let folder = named.filter(|folder| !folder.contains('$') && folder.starts_with('/'));
    let root = folder.map(|folder| folder.trim_end_matches('/').to_owned()).or(root);
    if let Some(root) = root.filter(|root| !root.contains('$')) {
        keys.push(("root".to_owned(), root.into()));
        if is_php {
            keys.push(("script_suffix".to_owned(), ".php".into()));
        }
    }
    if let Some(tried) = scope.own().iter().find(|directive| directive.name == "try_files") {
        context.ledger.translated(tried);
    }
}

/// A variable that is a header field of the request.
fn field_of(
    param: &crate::syntax::Directive,
    variable: &str,
    value: &str,
    route: &mut Table,
    place: &Place<'_, '_>,
    context: &mut Context<'_>,
) {
    let name = super::text::field_name(&variable.to_lowercase());
    if ["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"].contains(&name.as_str()) {
        context.ledger.different(param, "Rudy sets the fields about the client");
        return;
    }
    match translate(value, Use::Field, place.scope, context) {
        Ok(value) => {
            context.ledger.translated(param);
            let mut fields = match route.remove("request_headers") {
                Some(Value::Table(fields)) => fields,
                _ => Vec::new(),
            };
            fields.push((name, value.into()));
            route.set("request_headers", Value::Table(fields));
        }
        Err(why) => context.ledger.open(param, format!("{why}: write the field into `request_headers`")),
    }
}

/// Variables besides those that Rudy sets.
fn parameters(
    keys: &mut Vec<(String, Value)>,
    route: &mut Table,
    place: &Place<'_, '_>,
    context: &mut Context<'_>,
) {
    let is_standard = |name: &str| STANDARD.split(' ').any(|standard| standard == name);
    let mut own: Vec<(String, Value)> = Vec::new();
    for param in place.scope.all("fastcgi_param") {
        let (name, value) = (param.arg(0), substitute(param.arg(1), place.scope));
        if is_standard(name) {
            context.ledger.different(param, "the variables of CGI are set without it");
        } else if let Some(field) = name.strip_prefix("HTTP_") {
            field_of(param, field, &value, route, place, context);
        } else if value.contains('$') {
            context.ledger.open(param, "write it into `params`, without variables");
        } else {
            context.ledger.translated(param);
            own.retain(|(known, _)| known != name);
            own.push((name.to_owned(), value.into()));
        }
    }
    if own.is_empty() {
        return;
    }
    match keys.iter_mut().find(|(key, _)| key == "params") {
        Some((_, Value::Table(params))) => params.extend(own),
        _ => keys.push(("params".to_owned(), Value::Table(own))),
    }
}
