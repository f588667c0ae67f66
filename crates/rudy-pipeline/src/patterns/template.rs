//! Texts with placeholders for parts of a request: the targets of redirects and rewrites, and the values of header fields.

use std::fmt;
use std::time::SystemTime;

use http::{HeaderName, HeaderValue, header};
use rudy_message::semantics::path::RequestPath;
use rudy_message::semantics::percent::{encode_component, encode_query};
use rudy_runtime::clock;
use rudy_service::{Client, Request};

use super::{Maps, PathPattern};
use crate::hosts::{HostPattern, Listeners, without_port};
use crate::parts::{cookies, parameters};

/// A text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Template(Vec<Piece>);

/// A piece of the text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Piece {
    /// A text without placeholders.
    Literal(String),
    /// The path of the request, encoded.
    Path,
    /// The part of the path that `*` matches, encoded.
    Rest,
    /// The query with its question mark, or with `&` where the text has a query already; or nothing.
    Query,
    /// The host without its port.
    Host,
    /// A group of the regular expression for the hosts of the site.
    HostGroup(String),
    /// A group of the regular expression of the route, encoded.
    Group(String),
    /// The method of the request.
    Method,
    /// `http` or `https`.
    Scheme,
    /// The address of the client.
    Client,
    /// The time in seconds since 1970, with milliseconds.
    UnixTime,
    /// A header field of the request.
    Field(HeaderName),
    /// The first cookie of the request with this name.
    Cookie(String),
    /// The first parameter of the query with this name, decoded.
    Parameter(String),
    /// The text that a map has for the request.
    Map(String),
}

/// The placeholders of a target, for messages.
pub const TARGET_PLACEHOLDERS: &str = "expected {path}, {rest}, {query} (with its question mark or `&`), {query.NAME}, {host}, {host.1}, {map.NAME}, or a group such as {1} of a path like \"regex:^/user/([0-9]+)$\"";

/// Why a text is not a template: a title, and what was expected.
pub type Invalid = (String, String);

/// The request that placeholders stand for.
pub struct Subject<'a> {
    /// The request.
    pub request: &'a Request<'a>,
    /// Its canonical path.
    pub path: &'a RequestPath<'a>,
    /// The pattern of the route.
    pub pattern: &'a PathPattern,
    /// Who has sent it.
    pub client: &'a Client<'a>,
    /// The maps of the configuration.
    pub maps: &'a Maps,
    /// The hosts of the sites.
    pub listeners: &'a Listeners,
}

/// What defines the placeholders of a text.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The paths of the route.
    pub paths: &'a [PathPattern],
    /// The hosts of the site.
    pub hosts: &'a [HostPattern],
    /// The maps of the configuration.
    pub maps: &'a Maps,
}

/// Where a text is filled in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the value of a field.
    Value,
    /// In the path of a target.
    Path,
    /// In the query of a target, or after a question mark in a value.
    Query,
    /// In the host of a target.
    Host,
}

/// A part of a text with placeholders.
pub enum Part<'a> {
    /// A text without placeholders.
    Literal(String),
    /// The name between the braces.
    Placeholder(&'a str),
}

/// Splits a text at its placeholders. A brace that does not begin one is a brace, as in JSON.
#[must_use]
pub fn split(text: &str) -> Vec<Part<'_>> {
    let (mut parts, mut literal, mut rest) = (Vec::new(), String::new(), text);
    while let Some((before, after)) = rest.split_once('{') {
        literal.push_str(before);
        let end = after.find(|letter: char| !letter.is_ascii_alphanumeric() && !"._-".contains(letter));
        let Some(end) = end.filter(|end| *end > 0 && after[*end..].starts_with('}')) else {
            literal.push('{');
            rest = after;
            continue;
        };
        if !literal.is_empty() {
            parts.push(Part::Literal(std::mem::take(&mut literal)));
        }
        parts.push(Part::Placeholder(&after[..end]));
        rest = &after[end + 1..];
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        parts.push(Part::Literal(literal));
    }
    parts
}

impl Template {
    /// Reads a text.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let pieces = split(text).into_iter().map(|part| match part {
            Part::Literal(literal) => Ok(Piece::Literal(literal)),
            Part::Placeholder(name) => Piece::parse(name),
        });
        pieces.collect::<Result<_, _>>().map(Self)
    }

    /// Returns a text without placeholders.
    #[must_use]
    pub fn literal(text: &str) -> Self {
        Self(vec![Piece::Literal(text.to_owned())])
    }

    /// Returns the pieces.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.0
    }

    /// Returns the text if it has no placeholders.
    #[must_use]
    pub fn as_fixed(&self) -> Option<&str> {
        match &self.0[..] {
            [] => Some(""),
            [Piece::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Checks that the scope defines the placeholders.
    pub fn check(&self, Scope { paths, hosts, maps }: Scope<'_>) -> Result<(), Invalid> {
        for piece in &self.0 {
            match piece {
                Piece::Rest if !paths.iter().all(PathPattern::is_prefix) => {
                    let title = "{rest} requires a route whose path ends in `/*`".to_owned();
                    return Err((title, "expected a route such as \"/old/*\"".to_owned()));
                }
                Piece::Group(name) if !paths.iter().all(|path| path.has_group(name)) => {
                    let title = format!("{{{name}}} is no placeholder, and no group of the route's path");
                    return Err((title, TARGET_PLACEHOLDERS.to_owned()));
                }
                Piece::HostGroup(name)
                    if hosts.is_empty() || !hosts.iter().all(|host| host.has_group(name)) =>
                {
                    let title = format!("{{host.{name}}} is no group of all hosts of the site");
                    let expected = "expected hosts such as \"regex:^([a-z]+)[.]example[.]org$\"";
                    return Err((title, expected.to_owned()));
                }
                Piece::Map(name) if !maps.contains(name) => {
                    let title = format!("there is no map `{name}`");
                    return Err((
                        title,
                        format!("expected a table [maps.{name}] at the top of the main file"),
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Fills in the placeholders of a target, which has none for header fields.
    ///
    /// # Errors
    ///
    /// As [`Self::fill_value`], or if a part of the request cannot be where it would be in the target.
    pub fn fill(&self, subject: &Subject<'_>) -> Result<String, String> {
        let target = self.fill_in(subject, Place::Path)?;
        let target = String::from_utf8_lossy(&target);
        // After an empty part, two slashes would start a host that the client chooses.
        let path = target.trim_start_matches('/');
        let slashes = target.len() - path.len();
        Ok(target[slashes.saturating_sub(1)..].to_owned())
    }

    /// Fills in the placeholders of the value of a field, which is bytes. Fails, with an explanation for the client, if the request has
    /// no valid host.
    pub fn fill_value(&self, subject: &Subject<'_>) -> Result<Vec<u8>, String> {
        self.fill_in(subject, Place::Value)
    }

    fn fill_in(&self, subject: &Subject<'_>, start: Place) -> Result<Vec<u8>, String> {
        let (mut text, mut place) = (Vec::new(), start);
        for piece in &self.0 {
            let is_first = text.is_empty();
            if place == Place::Host && matches!(piece, Piece::Path | Piece::Query) {
                place = Place::Path;
            }
            piece.fill(subject, place, &mut text)?;
            if let Piece::Literal(literal) = piece {
                place = place.after(literal, is_first);
            }
        }
        Ok(text)
    }
}

impl Place {
    /// Returns the place after a text. `is_first` is whether nothing is before it.
    fn after(self, text: &str, is_first: bool) -> Self {
        let authority = if is_first { text.split_once("://").map(|(_, after)| after) } else { None };
        match self {
            _ if text.contains('?') => Self::Query,
            Self::Path if authority.is_some_and(|after| !after.contains('/')) => Self::Host,
            Self::Host if text.contains('/') => Self::Path,
            _ => self,
        }
    }

    /// Returns a part of the path, which is encoded, as it is here.
    fn of_path(self, part: &str) -> Result<String, String> {
        match self {
            Self::Value | Self::Path => Ok(part.to_owned()),
            // A part of the path must not become another parameter, as in nginx.
            Self::Query => Ok(encode_in_query(part)),
            Self::Host => label(part),
        }
    }

    /// Returns a parameter, which is decoded, as it is here.
    fn of_parameter(self, value: Vec<u8>) -> Result<Vec<u8>, String> {
        match self {
            Self::Value => Ok(value),
            // A path would lead upwards.
            Self::Path if matches!(&value[..], b"." | b"..") => {
                Err("A parameter cannot be a part of the path.".to_owned())
            }
            Self::Path | Self::Query => Ok(encode_component(&value).into_bytes()),
            Self::Host => label(&String::from_utf8_lossy(&value)).map(String::into_bytes),
        }
    }
}

/// Returns a text if it can be the beginning of a host name, so that what follows is the end of one.
fn label(text: &str) -> Result<String, String> {
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    if text.split('.').all(is_label) {
        return Ok(text.to_owned());
    }
    Err("A part of the request cannot be a part of a host name.".to_owned())
}

/// Returns whether a name in braces is a placeholder of every route, or no placeholder, so that a group cannot have it.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    !matches!(Piece::parse(name), Ok(Piece::Group(_)))
}

impl Piece {
    fn parse(name: &str) -> Result<Self, Invalid> {
        Ok(match name {
            "path" => Self::Path,
            "rest" => Self::Rest,
            "query" => Self::Query,
            "host" => Self::Host,
            "method" => Self::Method,
            "scheme" => Self::Scheme,
            "client" => Self::Client,
            "unix_time" => Self::UnixTime,
            _ => match name.split_once('.') {
                Some(("header", field)) => Self::Field(
                    HeaderName::try_from(field)
                        .map_err(|_| (format!("\"{field}\" is not a field name"), String::new()))?,
                ),
                Some(("cookie", name)) => Self::Cookie(name.to_owned()),
                Some(("query", name)) => Self::Parameter(name.to_owned()),
                Some(("host", name)) => Self::HostGroup(name.to_owned()),
                Some(("map", name)) => Self::Map(name.to_owned()),
                _ if name.contains(['.', '-']) => {
                    return Err((format!("unknown placeholder {{{name}}}"), TARGET_PLACEHOLDERS.to_owned()));
                }
                _ => Self::Group(name.to_owned()),
            },
        })
    }

    /// Appends the value.
    fn fill(&self, subject: &Subject<'_>, place: Place, text: &mut Vec<u8>) -> Result<(), String> {
        let Subject { request, path, pattern, client, maps, listeners } = subject;
        let mut push = |part: &str| text.extend_from_slice(part.as_bytes());
        match self {
            Self::Literal(literal) => push(literal),
            Self::Path => push(&place.of_path(&path.encoded_from(0))?),
            Self::Rest => {
                let rest = path.encoded_from(pattern.mount());
                push(&place.of_path(rest.strip_prefix('/').unwrap_or(&rest))?);
            }
            Self::Query => {
                if let Some(query) = request.uri().query() {
                    push(if place == Place::Query { "&" } else { "?" });
                    push(&encode_query(query));
                }
            }
            Self::Host => push(valid_host(request)?),
            Self::HostGroup(name) => {
                push(&place.of_path(&listeners.host_group(request, client, name).unwrap_or_default())?);
            }
            Self::Group(name) => {
                let group = pattern.group(path, name).unwrap_or_default();
                // A folder has one slash.
                let is_in_folder = text.is_empty() || text.ends_with(b"/");
                let group = if is_in_folder { group.trim_start_matches('/') } else { &group };
                text.extend_from_slice(place.of_path(group)?.as_bytes());
            }
            Self::Method => push(request.method().as_str()),
            Self::Scheme => push(client.scheme().as_str()),
            Self::Client => match client.address().ip() {
                Some(address) => push(&address.to_string()),
                None => push("unix"),
            },
            Self::UnixTime => {
                let since = clock::utc().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                push(&format!("{}.{:03}", since.as_secs(), since.subsec_millis()));
            }
            Self::Field(name) => {
                let lines: Vec<_> =
                    request.headers().get_all(name).iter().map(HeaderValue::as_bytes).collect();
                let separator: &[u8] = if *name == header::COOKIE { b"; " } else { b", " };
                text.extend_from_slice(&lines.join(separator));
            }
            Self::Cookie(name) => text.extend_from_slice(cookies(request, name).next().unwrap_or_default()),
            Self::Parameter(name) => {
                let value = parameters(request, name).next().unwrap_or_default();
                text.extend_from_slice(&place.of_parameter(value)?);
            }
            Self::Map(name) => {
                let mapped = maps.text(name, subject)?;
                push(&if place == Place::Query { encode_in_query(mapped) } else { mapped.to_owned() });
            }
        }
        Ok(())
    }
}

/// Encodes what separates parameters, and the plus sign, which is a space in a query.
fn encode_in_query(part: &str) -> String {
    part.replace('&', "%26").replace(';', "%3B").replace('+', "%2B")
}

/// Returns the host of the request if all its characters are valid.
fn valid_host<'r>(request: &'r Request<'_>) -> Result<&'r str, String> {
    let host = without_port(request.host());
    let letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(byte);
    match std::str::from_utf8(host) {
        Ok(host) if !host.is_empty() && host.as_bytes().iter().all(letter) => Ok(host),
        _ => Err("The Host header is missing or invalid.".to_owned()),
    }
}

impl fmt::Display for Template {
    /// As it was written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| match piece {
            Piece::Literal(text) => f.write_str(text),
            Piece::Path => f.write_str("{path}"),
            Piece::Rest => f.write_str("{rest}"),
            Piece::Query => f.write_str("{query}"),
            Piece::Host => f.write_str("{host}"),
            Piece::HostGroup(name) => write!(f, "{{host.{name}}}"),
            Piece::Group(name) => write!(f, "{{{name}}}"),
            Piece::Method => f.write_str("{method}"),
            Piece::Scheme => f.write_str("{scheme}"),
            Piece::Client => f.write_str("{client}"),
            Piece::UnixTime => f.write_str("{unix_time}"),
            Piece::Field(name) => write!(f, "{{header.{name}}}"),
            Piece::Cookie(name) => write!(f, "{{cookie.{name}}}"),
            Piece::Parameter(name) => write!(f, "{{query.{name}}}"),
            Piece::Map(name) => write!(f, "{{map.{name}}}"),
        })
    }
}
